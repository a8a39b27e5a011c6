"""The exported models, cut to two layers, against each other on ORT's CPU provider; the exporter; generation."""

import export
import genai_config
import numpy as np
import onnx
import pytest
import weight_file
from checkpoint import EMBEDDING
from forms import DECODE_PAST, FORM_NAMES, PREFILL_TOKENS, Sizes
from generate import Pair
from tiny_models import LAYERS, as_past, padded

both_operators = pytest.mark.parametrize("operators", export.OPERATORS)


def assert_close(found, expected, tolerance=1e-3):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def distance(found, expected):
    """Relative distance of two arrays, in the Euclidean norm."""
    found, expected = found.astype(np.float32), expected.astype(np.float32)
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@both_operators
def test_prefill_forms_agree(models, ids, operators):
    used = len(ids)
    whole = models.run_dynamic("f32", operators, [ids])
    static = models.run_prefill("f32", operators, ids)
    window = models.run_window("f32", operators, "window_prefill", padded(ids), last=PREFILL_TOKENS - 1)
    for outputs in (static, window):
        assert_close(outputs["logits"][:, :used], whole["logits"])
        for layer in range(LAYERS):
            for name in (f"present.{layer}.key", f"present.{layer}.value"):
                assert_close(outputs[name][:, :, :used], whole[name])


@both_operators
def test_dynamic_decode_continues_the_prefill(models, ids, operators):
    whole = models.run_dynamic("f32", operators, [ids])
    first = models.run_dynamic("f32", operators, [ids[:-1]])
    last = models.run_dynamic("f32", operators, [ids[-1:]], past=first)
    assert_close(last["logits"], whole["logits"][:, -1:])
    assert_close(last["present.1.value"], whole["present.1.value"])


@both_operators
def test_window_decode_continues_the_prefill(models, ids, operators):
    whole = models.run_dynamic("f32", operators, [ids])
    first = models.run_window("f32", operators, "window_prefill", padded(ids[:-1]), last=PREFILL_TOKENS - 1)
    used = len(ids) - 1
    last = models.run_window("f32", operators, "window_decode", [ids[-1:]], last=used, past=first)
    assert_close(last["logits"], whole["logits"][:, -1:])
    assert_close(last["present.1.value"][:, :, : used + 1], whole["present.1.value"])


@both_operators
def test_static_decode_continues_the_prefill(models, ids, operators):
    whole = models.run_dynamic("f32", operators, [ids])
    used = len(ids) - 1
    past = {}
    for name, rows in as_past(models.run_prefill("f32", operators, ids[:-1])).items():
        past[name] = np.zeros((1, 3, DECODE_PAST, 64), np.float32)
        past[name][:, :, :used] = rows[:, :, :used]
    mask = np.zeros((1, DECODE_PAST + 1), np.int64)
    mask[0, :used] = mask[0, DECODE_PAST] = 1
    feeds = {"input_ids": np.array([ids[-1:]]), "attention_mask": mask, "position_ids": np.array([[used]])}
    last = models.run("f32", operators, "decode", feeds | past)
    assert_close(last["logits"], whole["logits"][:, -1:])
    new_row = DECODE_PAST if operators == "plain" else used
    assert_close(last["present.1.value"][:, :, new_row], whole["present.1.value"][:, :, used])


@both_operators
def test_second_window_sees_the_first(models, ids, operators):
    long = (ids * 10)[:153]
    whole = models.run_dynamic("f32", operators, [long])["logits"]
    first = models.run_window("f32", operators, "window_prefill", [long[:128]], last=127)
    second = models.run_window("f32", operators, "window_prefill", padded(long[128:]), last=255, past=first)
    assert_close(second["logits"][:, : 153 - 128], whole[:, 128:])


@both_operators
def test_texts_of_a_batch_are_independent(models, ids, operators):
    other = ids[::-1]
    both = models.run_dynamic("f32", operators, [ids, other])["logits"]
    for row, alone in enumerate((ids, other)):
        assert_close(both[row], models.run_dynamic("f32", operators, [alone])["logits"][0])


@pytest.mark.parametrize(("weights", "tolerance"), [("f32", 1e-3), ("int4", 2e-3)])
def test_contrib_operators_compute_what_plain_ones_do(models, ids, weights, tolerance):
    plain, contrib = (models.run_dynamic(weights, operators, [ids]) for operators in ("plain", "contrib"))
    assert_close(contrib["logits"], plain["logits"], tolerance)
    assert_close(contrib["present.1.key"], plain["present.1.key"], tolerance)


@both_operators
def test_f16_stays_close_to_f32(models, ids, operators):
    full = models.run_dynamic("f32", operators, [ids])
    half = models.run_dynamic("f16", operators, [ids])
    assert half["logits"].dtype == half["present.0.key"].dtype == np.float16
    assert distance(half["logits"], full["logits"]) < 2e-2
    assert distance(half["present.1.value"], full["present.1.value"]) < 2e-2


@both_operators
@pytest.mark.parametrize("weights", export.WEIGHTS)
def test_models_share_one_aligned_file(models, checkpoint, weights, operators):
    folder = models.folder(weights, operators)
    places = {}
    for form in FORM_NAMES:
        if operators == "plain":
            onnx.checker.check_model(folder / f"{form}.onnx")
        for initializer in onnx.load(folder / f"{form}.onnx", load_external_data=False).graph.initializer:
            if initializer.data_location == onnx.TensorProto.EXTERNAL:
                place = {entry.key: entry.value for entry in initializer.external_data}
                assert places.setdefault(initializer.name, place) == place
            else:
                assert len(initializer.raw_data) < 1024
    assert {place["location"] for place in places.values()} == {weight_file.FILE_NAME}
    assert all(int(place["offset"]) % 4096 == 0 for place in places.values())

    table = checkpoint.settings.vocabulary * checkpoint.settings.hidden * (2 if weights == "f16" else 4)
    assert [name for name, place in places.items() if int(place["length"]) == table] == [EMBEDDING]


def test_export_is_redone_only_when_needed(tmp_path, checkpoint):
    def changes(forms=("prefill", "decode")):
        return export.export(tmp_path, export.Options("int4", "plain", forms, layers=1), checkpoint)

    assert changes()
    assert not changes()
    (tmp_path / export.MANIFEST).unlink()  # as an interrupted export leaves it
    assert changes()
    with open(tmp_path / weight_file.FILE_NAME, "ab") as file:
        file.write(b"x")
    assert changes()
    assert changes(forms=("prefill",))
    assert not (tmp_path / "decode.onnx").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": 31},
        {"layers": 0},
        {"sizes": Sizes(window=500)},
        {"sizes": Sizes(decode_past=0)},
        {"sizes": Sizes(decode_past=9000)},
    ],
)
def test_impossible_options_are_refused(tmp_path, checkpoint, wrong):
    with pytest.raises(ValueError):
        export.export(tmp_path, export.Options("f32", "plain", **wrong), checkpoint)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [("f64", "plain"), ("f32", "simple"), ("f32", "plain", ("prefil",))])
def test_unknown_words_are_refused(wrong):
    with pytest.raises(ValueError, match="is none of"):
        export.Options(*wrong)


def test_accuracy_level_needs_its_operator(tmp_path):
    with pytest.raises(SystemExit):
        export.main([str(tmp_path), "--weights", "f32", "--operators", "contrib", "--accuracy-level", "1"])


def test_genai_folder_holds_links(models, tmp_path):
    folder = models.folder("int4", "contrib")
    target = genai_config.use(folder, genai_config.DYNAMIC, tmp_path / "genai")
    assert (target / weight_file.FILE_NAME).samefile(folder / weight_file.FILE_NAME)
    assert (target / "genai_config.json").read_text() == (folder / "genai_config.dynamic.json").read_text()
    assert {path.name for path in target.glob("*.onnx")} == {"dynamic_last.onnx"}
    genai_config.use(folder, genai_config.WINDOW, target)
    assert (target / "window_decode.onnx").samefile(folder / "window_decode.onnx")
    with pytest.raises(ValueError):
        genai_config.use(folder, genai_config.WINDOW, folder)


@both_operators
@pytest.mark.parametrize(("weights", "tolerance"), [("f32", 1e-3), ("f16", 0.1)])
def test_pair_generates_what_the_whole_text_predicts(models, ids, weights, operators, tolerance):
    pair = Pair(*models.pair(weights, operators))
    for prompt in (ids, ids[:5]):  # the second text must not see the first
        found = list(pair.generate(prompt, 6))
        assert len(found) == 6
        logits = models.run_dynamic(weights, operators, [[*prompt, *found]])["logits"][0]
        for step, token in enumerate(found, start=len(prompt) - 1):
            assert logits[step, token] > logits[step].max() - tolerance
    assert list(pair.generate(ids[:5], 6, stop=[found[2]])) == found[: found.index(found[2]) + 1]


def test_pair_fills_its_past(models, ids):
    pair = Pair(*models.pair("f32", "plain"))
    assert len(list(pair.generate((ids * 10)[:128], 128))) == 128


@pytest.mark.parametrize(("prompt", "new_tokens"), [(0, 1), (129, 1), (128, 129), (10, 247), (10, 0)])
def test_pair_refuses_what_has_no_room(models, prompt, new_tokens):
    with pytest.raises(ValueError):
        Pair(*models.pair("f32", "plain")).generate([5] * prompt, new_tokens)


def test_pair_refuses_dynamic_sessions(models):
    prefill, decode = (models.session("f32", "plain", form) for form in ("dynamic", "decode"))
    with pytest.raises(ValueError, match="static shape"):
        Pair(prefill, decode)
