"""Compiled models: EPContext nodes over one bundle of weights and programs."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors
from compiled_models import GROUP, LAST, SUFFIX, assert_computes, compile_model, contexts, names
from llm import feeds as llm_feeds
from models import Model, chain, interrupted, matrix, product
from onnxruntime_ep_tandem import bundles
from processes import in_process
from sessions import DATA_FOLDER, assert_same_outputs, cpu_session, run, tandem_session

SIZE = 96
GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_group_is_as_many_models_and_one_bundle(compiled, report):
    folder, paths, feed, expected = compiled
    assert names(folder) == ["one.onnx", f"one{SUFFIX}", "two.onnx"]
    assert_computes(paths, feed, expected, report_file=report.file)
    for path in paths:
        [context] = contexts(path)
        assert context["source"] == b"TandemExecutionProvider"
        assert context["ep_cache_context"] == f"one{SUFFIX}".encode()
        assert (context["main_context"], context["embed_mode"]) == (1, 0)


def test_weights_are_used_in_place_and_shared(compiled, alone):
    _, paths, _, _ = compiled
    sessions = [tandem_session(path, report_file=alone.file) for path in paths]
    assert alone.process["weight_bytes_in_private_memory"] == 0
    assert alone.forms("w") == {"packed"}
    assert alone.process["forms"]["packed"]["count"] == 2
    del sessions


def test_a_session_of_the_source_shares_with_one_of_the_bundle(compiled, pair, alone):
    loaded = tandem_session(compiled[1][0], report_file=alone.file)
    source = tandem_session(pair[0][0], report_file=alone.file)
    assert alone.process["forms"]["packed"]["count"] == 1
    del loaded, source


def test_it_needs_nothing_but_itself(compiled, pair, tmp_path, monkeypatch):
    folder, paths, feed, expected = compiled
    shutil.rmtree(pair[0][0].parent)
    moved = tmp_path / "anders wo ünï"
    folder.rename(moved)
    monkeypatch.chdir("/")
    assert_computes([moved / path.name for path in paths], feed, expected)
    empty = tmp_path / "empty"
    empty.mkdir()
    # ONNX Runtime then says that the model lies in that folder.
    for path, outputs in zip(paths, expected, strict=True):
        entries = {DATA_FOLDER: empty, "ep.context_file_path": moved / path.name}
        assert_same_outputs(run(tandem_session(moved / path.name, entries=entries), **feed), outputs)


def test_from_memory_it_is_found_beside_the_path_that_is_said(compiled):
    folder, paths, feed, expected = compiled
    for entries in ({"ep.context_file_path": paths[0]}, {DATA_FOLDER: folder}):
        session = tandem_session(paths[0].read_bytes(), entries=entries)
        assert_same_outputs(run(session, **feed), expected[0])
    with pytest.raises(Exception, match=r"no bundle 'one_.*ep.context_file_path tells where"):
        tandem_session(paths[0].read_bytes())


def test_hugging_face_links_work_and_others_do_not(compiled, tmp_path):
    folder, paths, feed, expected = compiled
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for name in names(folder):
        (snapshot / name).symlink_to(folder / name)
    assert_computes([snapshot / path.name for path in paths], feed, expected)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    shutil.copy(paths[0], foreign)
    (foreign / f"one{SUFFIX}").symlink_to(folder / f"one{SUFFIX}")
    with pytest.raises(Exception, match="outside the model's folder"):
        tandem_session(foreign / "one.onnx")


def test_embedded_is_one_file(pair, tmp_path):
    paths, feed = pair
    expected = run(cpu_session(paths[1]), **feed)
    folder = tmp_path / "embedded"
    folder.mkdir()
    path = compile_model(paths[1], folder / "two.onnx", {"ep.context_embed_mode": "1"})
    assert names(folder) == ["two.onnx"]
    for source in (path, path.read_bytes()):
        assert_same_outputs(run(tandem_session(source), **feed), expected)
    with pytest.raises(Exception, match=r"embed_mode 1.*excludes ep.share_ep_contexts"):
        compile_model(paths[0], folder / "one.onnx", {**GROUP, "ep.context_embed_mode": "1"})


@pytest.mark.parametrize("embed_mode", ["0", "1"])
def test_partitions_between_nodes_of_the_cpu_provider(tmp_path, rng, embed_mode, report):
    model = interrupted(rng, SIZE)
    feed = {"x": matrix(rng, 2, SIZE)}
    entries = {"ep.context_embed_mode": embed_mode, "ep.context_node_name_prefix": "stage_"}
    path = compile_model(model, tmp_path / "mixed.onnx", entries)
    found = contexts(path)
    assert len(found) == 2
    assert all(context["partition_name"].startswith(b"stage_") for context in found)
    session = tandem_session(path, whole=False, report_file=report.file)
    assert_same_outputs(run(session, **feed), run(cpu_session(model), **feed), 1e-4)
    assert report.last["nodes"]["claimed"] == 2
    assert report.declined() == {"Cast": "it was left when the model was compiled"}


@pytest.mark.parametrize("weights", ["f32", "f16", "int4"])
@pytest.mark.parametrize("operators", ["plain", "contrib"])
def test_a_language_model(exports, tmp_path, rng, weights, operators):
    for form in ("window_prefill", "window_decode", "dynamic"):
        source = exports.model(weights, operators, form)
        path = compile_model(source, tmp_path / f"{form}.onnx", GROUP)
        session, reference = tandem_session(path, whole=False), tandem_session(source, whole=False)
        given = llm_feeds(reference, form, rng)
        assert_same_outputs(run(session, **given), run(reference, **given), 0)
    compile_model(exports.model(weights, operators, "prefill"), tmp_path / "prefill.onnx", LAST)
    assert len(names(tmp_path)) == 5


def test_one_name_for_different_weights_in_a_group(tmp_path, rng):
    models = [product(matrix(rng, SIZE, SIZE), name="w") for _ in range(2)]
    paths = [compile_model(model.bytes(), tmp_path / f"{i}.onnx", GROUP) for i, model in enumerate(models)]
    compile_model(models[0], tmp_path / "last.onnx", LAST)
    feed = {"x": matrix(rng, 2, SIZE)}
    sessions = [tandem_session(path) for path in paths]
    for session, model in zip(sessions, models, strict=True):
        assert_same_outputs(run(session, **feed), run(cpu_session(model), **feed))


def test_one_weight_in_files_inline_and_in_memory_is_one(tmp_path, rng):
    weight = matrix(rng, SIZE, SIZE)
    paths = [product(weight, name=name).save(tmp_path / name / "source.onnx") for name in "ab"]
    (tmp_path / "out").mkdir()
    for i, source in enumerate([*paths, chain(weight).bytes()]):
        compile_model(source, tmp_path / "out" / f"{i}.onnx", bundle_file="all.safetensors")
    found = bundles.inspect(tmp_path / "out" / "all.safetensors")
    assert len(found["programs"]) == 3
    assert [len(entry["programs"]) for entry in found["weights"]] == [3]


def test_embedded_models_live_side_by_side(tmp_path, rng):
    models = [product(matrix(rng, SIZE, SIZE)) for _ in range(2)]
    embedded = [
        compile_model(model, tmp_path / f"{i}.onnx", {"ep.context_embed_mode": "1"}).read_bytes()
        for i, model in enumerate(models)
    ]
    feed = {"x": matrix(rng, 2, SIZE)}
    sessions = [tandem_session(model) for model in embedded]
    for session, model in zip(sessions, models, strict=True):
        assert_same_outputs(run(session, **feed), run(cpu_session(model), **feed))


def make_golden():
    """Made tests/golden with format 1.0, once; later versions must go on reading it."""
    weight = (np.arange(32 * 48, dtype=np.float32).reshape(32, 48) % 17 - 8) / 16
    model = product(weight)
    GOLDEN.mkdir(exist_ok=True)
    path = compile_model(model, GOLDEN / "format-1.0.onnx")
    proto = onnx.load(path)
    proto.ir_version = 10
    onnx.save(proto, path)
    return model


def test_the_golden_bundle_is_read(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "golden")  # with new times: everything is verified
    weight = (np.arange(32 * 48, dtype=np.float32).reshape(32, 48) % 17 - 8) / 16
    x = np.arange(64, dtype=np.float32).reshape(2, 32) / 8
    session = tandem_session(tmp_path / "golden" / "format-1.0.onnx", verify="full")
    assert_same_outputs(run(session, x=x), {"y": x @ weight})


def test_two_groups_at_a_time(pair, tmp_path):
    paths, _ = pair
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    for path, entries in zip(paths, (GROUP, LAST), strict=True):
        for folder in folders:
            compile_model(path, folder / path.name, entries)
    for folder in folders:
        assert names(folder) == ["one.onnx", f"one{SUFFIX}", "two.onnx"]
    compile_model(paths[1], folders[0] / "three.onnx", GROUP)
    assert f"three{SUFFIX}" in names(folders[0]), "the first group has ended"
    compile_model(paths[1], folders[0] / "four.onnx", LAST)


def compile_into(source, target, bundle):
    compile_model(source, target, bundle_file=bundle)


def test_processes_write_to_one_bundle(tmp_path, rng):
    sources = [product(matrix(rng, SIZE, SIZE)).save(tmp_path / f"{i}" / "source.onnx") for i in range(3)]
    target = tmp_path / "target"
    target.mkdir()
    threads = []
    for i, source in enumerate(sources):
        arguments = (compile_into, source, target / f"{i}.onnx", "all.safetensors")
        keywords = {"folder": source.parent}
        threads.append(threading.Thread(target=in_process, args=arguments, kwargs=keywords))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(target) == ["0.onnx", "1.onnx", "2.onnx", "all.safetensors"]
    feed = {"x": matrix(rng, 2, SIZE)}
    for i, source in enumerate(sources):
        expected = run(cpu_session(source), **feed)
        assert_same_outputs(run(tandem_session(target / f"{i}.onnx"), **feed), expected)


def test_a_session_that_ends_a_group_may_come_first(pair, tmp_path):
    paths, _ = pair
    compile_model(paths[0], tmp_path / "one.onnx", LAST)
    compile_model(paths[1], tmp_path / "two.onnx", LAST)
    assert {f"one{SUFFIX}", f"two{SUFFIX}"} <= set(names(tmp_path))


def test_weights_of_the_cpu_provider_stay_with_the_model(tmp_path, rng):
    """ONNX Runtime writes them: into the model, or into the file that is named."""
    model = Model()
    weight = matrix(rng, SIZE, SIZE)
    own = model.add("MatMul", model.input("x", ["batch", SIZE]), model.weight(weight))
    double = model.add("Cast", own, to=onnx.TensorProto.DOUBLE)
    left = model.add("MatMul", double, model.weight(matrix(rng, SIZE, SIZE).astype(np.float64)))
    model.output(model.add("Cast", left, to=onnx.TensorProto.FLOAT, name="y"))
    feed = {"x": matrix(rng, 2, SIZE)}
    expected = run(cpu_session(model), **feed)
    for name, entries in (
        ("inline", {}),
        ("external", {"ep.context_model_external_initializers_file_name": "left.data"}),
    ):
        (tmp_path / name).mkdir()
        path = compile_model(model, tmp_path / name / "model.onnx", entries)
        assert_same_outputs(run(tandem_session(path, whole=False), **feed), expected)
    assert "left.data" in names(tmp_path / "external")
    sizes = [(tmp_path / name / "model.onnx").stat().st_size for name in ("inline", "external")]
    assert sizes[0] > sizes[1] + SIZE * SIZE * 8 - 1000


def test_safetensors_reads_it(compiled):
    folder, _, _, _ = compiled
    with safetensors.safe_open(folder / f"one{SUFFIX}", framework="numpy") as bundle:
        kinds = {name.split("/")[0] for name in bundle.keys()}  # noqa: SIM118
        assert {"program", "topology", "packed"} <= kinds
        assert bundle.metadata()["tandem.format"] == "1.0"
        [topology] = [name for name in bundle.keys() if name.startswith("topology/")][:1]  # noqa: SIM118
        onnx.load_from_string(bundle.get_tensor(topology).tobytes())


def load_and_run(path, feed_file, result):
    """For a process with another ONNX Runtime; returns its version."""
    with np.load(feed_file) as feed:
        np.savez(result, **run(tandem_session(Path(path)), **feed))
    return onnxruntime.__version__


def test_another_onnxruntime_loads_it(compiled, tmp_path):
    """What this version wrote, with the other one of the two that are tested."""
    oldest = Path(__file__).parents[2] / "build" / "oldest-onnxruntime"
    is_oldest = str(oldest) in onnxruntime.__file__
    if not oldest.exists():
        pytest.skip("there is one ONNX Runtime only")
    search = [str(Path(__file__).parent), *([] if is_oldest else [str(oldest)])]
    _, paths, feed, expected = compiled
    model = onnx.load(paths[0])
    model.ir_version = 10  # ONNX Runtime writes its own newest
    onnx.save(model, paths[0])
    np.savez(tmp_path / "feed.npz", **feed)
    code = "import sys; sys.path[:0] = sys.argv[4:]; import test_bundles as t; print(t.load_and_run(*sys.argv[1:4]))"
    arguments = [paths[0], tmp_path / "feed.npz", tmp_path / "result.npz", *search]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2] / "examples" / "smollm2")
    command = [sys.executable, "-c", code, *map(str, arguments)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() != onnxruntime.__version__
    with np.load(tmp_path / "result.npz") as result:
        assert_same_outputs(dict(result), expected[0])
