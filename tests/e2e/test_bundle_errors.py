"""What is wrong with a compiled model or its bundle is an error that names it."""

import os
import shutil

import onnx
import pytest
from compiled_models import SUFFIX, assert_computes, compile_model, damage, packed_tensor
from models import matrix, product
from sessions import ORT_VERSION, tandem_session

SIZE = 96


@pytest.mark.parametrize("name", ["../one_TandemExecutionProvider.safetensors", "/etc/passwd", ""])
def test_a_name_that_leaves_the_folder_is_refused(compiled, name):
    _, paths, _, _ = compiled
    model = onnx.load(paths[0])
    [attribute] = [a for a in model.graph.node[0].attribute if a.name == "ep_cache_context"]
    attribute.s = name.encode()
    onnx.save(model, paths[0])
    with pytest.raises(Exception, match="EPContext '"):
        tandem_session(paths[0])


def test_a_bundle_that_is_no_file_is_refused(compiled):
    folder, paths, _, _ = compiled
    bundle = folder / f"one{SUFFIX}"
    bundle.unlink()
    os.mkfifo(bundle)
    with pytest.raises(Exception, match="not a regular file"):
        tandem_session(paths[0])
    bundle.unlink()
    bundle.mkdir()
    with pytest.raises(Exception, match="not a regular file"):
        tandem_session(paths[0])


def test_a_bundle_of_other_models_is_an_error(compiled, tmp_path, rng):
    folder, paths, _, _ = compiled
    other = tmp_path / "other"
    other.mkdir()
    compile_model(product(matrix(rng, SIZE, SIZE)), other / "one.onnx")
    shutil.copy(other / f"one{SUFFIX}", folder)
    with pytest.raises(Exception, match=r"has no 'program/[0-9a-f]{32}'.*made for other models"):
        tandem_session(paths[0])


def test_a_missing_bundle_is_an_error(compiled):
    folder, paths, _, _ = compiled
    (folder / f"one{SUFFIX}").unlink()
    with pytest.raises(Exception, match="no bundle 'one_") as error:
        tandem_session(paths[0])
    assert str(folder) in str(error.value)


def test_damage_is_found(compiled):
    folder, paths, feed, expected = compiled
    bundle = folder / f"one{SUFFIX}"
    weight, time = packed_tensor(bundle), bundle.stat().st_mtime_ns
    damage(bundle, weight)
    with pytest.raises(Exception, match=r"tensor 'packed/.* is damaged"):
        tandem_session(paths[0])
    os.utime(bundle, ns=(time, time))
    with pytest.raises(Exception, match=r"tensor 'packed/.* is damaged"):
        tandem_session(paths[0], verify="full")
    tandem_session(paths[0], verify="off")
    damage(bundle, weight)
    assert_computes(paths, feed, expected, verify="full")
    damage(bundle, 100)
    with pytest.raises(Exception, match="header"):
        tandem_session(paths[0], verify="off")


def test_a_truncated_bundle_is_an_error(compiled):
    folder, paths, _, _ = compiled
    bundle = folder / f"one{SUFFIX}"
    bundle.write_bytes(bundle.read_bytes()[:-4096])
    with pytest.raises(Exception, match="truncated"):
        tandem_session(paths[0])


def test_a_compiled_model_is_not_compiled_again(compiled, tmp_path):
    with pytest.raises(Exception, match="compiled already"):
        compile_model(compiled[1][0], tmp_path / "again.onnx")


def test_a_model_from_memory_needs_a_path(rng):
    with pytest.raises(Exception, match=r"ep.?context_(file_)?path"):
        tandem_session(product(matrix(rng, SIZE, SIZE)), entries={"ep.context_enable": "1"})


def test_flags_are_0_or_1(rng):
    with pytest.raises(Exception, match=r"ep.share_ep_contexts: found 'yes', expected 0 or 1"):
        tandem_session(product(matrix(rng, SIZE, SIZE)), entries={"ep.share_ep_contexts": "yes"})


def test_a_bundle_file_is_a_name(rng):
    with pytest.raises(Exception, match="option 'bundle_file': found 'a/b', expected a name without a folder"):
        tandem_session(product(matrix(rng, SIZE, SIZE)), bundle_file="a/b")


def test_a_folder_that_cannot_be_written_is_an_error(pair, tmp_path):
    with pytest.raises(Exception, match="nowhere"):
        compile_model(pair[0][0], tmp_path / "nowhere" / "one.onnx")


def test_an_incompatible_model_is_refused_everywhere(compiled):
    """By its bundle in every session; ONNX Runtime itself asks only where it compiles or with its C API."""
    folder, paths, _, _ = compiled
    bundle = folder / f"one{SUFFIX}"
    bundle.write_bytes(bundle.read_bytes().replace(b'"tandem.format":"1.0"', b'"tandem.format":"9.0"'))
    with pytest.raises(Exception, match=r"found format '9.0', expected 1.x"):
        tandem_session(paths[0])
    metadata = {entry.key: entry.value for entry in onnx.load(paths[0]).metadata_props}
    if ORT_VERSION >= (1, 24):
        assert metadata["ep_compatibility_info.TandemExecutionProvider"] == "tandem.format=1.0;device=CPU"
