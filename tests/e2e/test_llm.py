"""SmolLM2, cut to a few layers, computes on Tandem what it computes on ONNX Runtime's CPU provider."""

import numpy as np
import pytest
from forms import FORM_NAMES
from generate import ELEMENT_TYPES, Pair
from llm import PROMPT, empty_window, feeds, used_rows, window_feeds
from sessions import assert_close, cpu_session, run, run_bound, tandem_session

TOLERANCES = {"f32": 1e-5, "f16": 2e-3, "int4": 1e-5}  # of the largest number
STATIC_PAIR = ("prefill", "decode")

every_weight_type = pytest.mark.parametrize("weights", TOLERANCES)
both_operators = pytest.mark.parametrize("operators", ["plain", "contrib"])


@pytest.fixture
def open_session(exports, report):
    """Opens a session of a form that keeps the test's report."""

    def open_(weights, operators, form, layers=2, **options):
        path = exports.model(weights, operators, form, layers)
        return tandem_session(path, whole=False, report_file=report.file, **options)

    return open_


def assert_same_rows(found, expected, form, tolerance):
    """Logits and cache of the rows that hold tokens; the others may hold anything."""
    count = used_rows(form)
    assert_close(found["logits"][:, :count], expected["logits"][:, :count], tolerance)
    assert found.keys() == expected.keys()
    for name in expected.keys() - {"logits"}:
        assert_close(found[name][:, :, :count], expected[name][:, :, :count], tolerance)


@pytest.mark.parametrize("form", FORM_NAMES)
@both_operators
@every_weight_type
def test_each_form_computes_what_the_cpu_provider_computes(exports, open_session, rng, weights, operators, form):
    reference = cpu_session(exports.model(weights, operators, form))
    given = feeds(reference, form, rng)
    expected = run(reference, **given)
    del reference
    assert_same_rows(run(open_session(weights, operators, form), **given), expected, form, TOLERANCES[weights])


@pytest.mark.parametrize("form", FORM_NAMES)
@both_operators
@every_weight_type
def test_whole_forms_are_tandems(exports, weights, operators, form):
    """But for GroupQueryAttention without a past, or with one of fixed length that grows."""
    whole = (operators, form) not in {("contrib", "prefill"), ("contrib", "decode")}
    tandem_session(exports.model(weights, operators, form), whole=whole)


def test_texts_of_a_batch(exports, open_session, rng):
    reference = cpu_session(exports.model("f32", "plain", "dynamic"))
    given = feeds(reference, "dynamic", rng)
    both = {name: np.concatenate([values, values[:, ::-1]]) for name, values in given.items() if name != "position_ids"}
    both["position_ids"] = np.repeat(given["position_ids"], 2, axis=0)
    assert_same_rows(run(open_session("f32", "plain", "dynamic"), **both), run(reference, **both), "dynamic", 1e-5)


def test_steps_of_growing_length(exports, open_session):
    """The dynamic form, token by token, from an empty past on."""
    session, reference = (
        open_session("f32", "contrib", "dynamic"),
        cpu_session(exports.model("f32", "contrib", "dynamic")),
    )
    past = {name: np.zeros((1, 3, 0, 64), np.float32) for name in past_names(session)}
    reference_past = past
    for step, token in enumerate(PROMPT[:6], start=1):
        given = {"input_ids": np.array([[token]]), "attention_mask": np.ones((1, step), np.int64)}
        found, expected = run(session, **given, **past), run(reference, **given, **reference_past)
        assert_close(found["logits"], expected["logits"], 1e-5)
        past, reference_past = as_past(found), as_past(expected)


def past_names(session):
    return [argument.name for argument in session.get_inputs() if argument.name.startswith("past_key_values.")]


def as_past(outputs):
    return {name.replace("present", "past_key_values"): rows for name, rows in outputs.items() if name != "logits"}


@pytest.mark.parametrize("form", ["prefill", "decode", "dynamic"])
@pytest.mark.parametrize("weights", ["f32", "int4"])
def test_layers_are_compiled_once(open_session, report, weights, form):
    open_session(weights, "plain", form, layers=6)
    [program] = report.last["programs"]
    assert program["functions"] <= 4  # what is before the layers, on the host and not, a layer, and what is behind
    assert program["calls"] >= 7
    open_session(weights, "plain", form, layers=6, fold="off")
    [program] = report.last["programs"]
    assert program["functions"] == program["calls"] <= 2


@pytest.mark.parametrize(
    "form",
    [
        "prefill",
        "decode",
        "dynamic",
    ],
)
def test_folded_layers_compute_the_same(open_session, rng, form):
    session = open_session("f32", "plain", form, layers=6)
    given = feeds(session, form, rng)
    expected = run(open_session("f32", "plain", form, layers=6, fold="off"), **given)
    assert_same_rows(run(session, **given), expected, form, 1e-5)


@both_operators
@every_weight_type
def test_prefill_and_decode_share_every_weight(open_session, alone, weights, operators):
    first = [open_session(weights, operators, form) for form in STATIC_PAIR]
    assert_shared_by(alone, len(first))
    before = alone.process
    third = open_session(weights, operators, "dynamic")
    assert_shared_by(alone, len(first) + 1)
    assert alone.process["weight_bytes_in_private_memory"] == before["weight_bytes_in_private_memory"]
    assert alone.process["forms"]["packed"] == before["forms"]["packed"]
    del third


def assert_shared_by(report, count):
    assert report.process["sessions"] == count
    for session in report.sessions:
        packed = [weight for weight in session["weights"] if weight["form"] == "packed"]
        assert {weight["sessions"] for weight in packed} == {count}
        assert session["unshared_bytes"] == 0


@both_operators
def test_generation_of_the_same_tokens(exports, open_session, operators):
    sessions = [open_session("f32", operators, form) for form in STATIC_PAIR]
    references = [cpu_session(exports.model("f32", operators, form)) for form in STATIC_PAIR]
    for prompt in (PROMPT, PROMPT[:5]):
        assert list(Pair(*sessions).generate(prompt, 12)) == list(Pair(*references).generate(prompt, 12))


@both_operators
@every_weight_type
def test_cache_of_a_window_is_changed_in_place(open_session, weights, operators):
    """Steps whose past and present are one buffer compute what those with two compute."""
    session = open_session(weights, operators, "window_decode")
    apart, in_place = empty_window(session), empty_window(session)
    for position, token in enumerate(PROMPT[:5]):
        given = window_feeds([[token]], last=position)
        expected = run(session, **given, **apart)
        apart = as_past(expected)
        logits = run_in_place(session, given, in_place)
        np.testing.assert_array_equal(logits, expected["logits"])
        for name, rows in apart.items():
            np.testing.assert_array_equal(in_place[name][:, :, : position + 1], rows[:, :, : position + 1])


def run_in_place(session, given, cache):
    """Runs with `cache` as past and present; returns the logits."""
    [logits] = [argument for argument in session.get_outputs() if argument.name == "logits"]
    outputs = {name.replace("past_key_values", "present"): array for name, array in cache.items()}
    outputs["logits"] = np.zeros(logits.shape, ELEMENT_TYPES[logits.type])
    run_bound(session, given | cache, outputs)
    return outputs["logits"]


def test_optimized_by_onnxruntime(exports, rng):
    """Its optimizer folds constants, among them the transposed embedding table."""
    path = exports.model("f32", "plain", "decode")
    reference = cpu_session(path)
    given = feeds(reference, "decode", rng)
    session = tandem_session(path, whole=False, optimized=True)
    assert_same_rows(run(session, **given), run(reference, **given), "decode", 1e-5)
