"""Weights are found wherever a model keeps them."""

import os
import shutil

import numpy as np
import pytest
from models import DATA_FILE, Model, chain, lookup, matrix, product
from onnx import numpy_helper
from sessions import DATA_FOLDER, ORT_VERSION, assert_close, assert_same_outputs, cpu_session, run, tandem_session

INPUTS, OUTPUTS = 64, 48


@pytest.fixture
def weights(rng):
    return matrix(rng, INPUTS, OUTPUTS)


@pytest.fixture
def x(rng):
    return matrix(rng, 3, INPUTS)


def assert_multiplies(session, x, weights):
    assert_close(run(session, x=x)["y"], x @ weights)


def test_weights_in_one_file(tmp_path, rng, x):
    model = chain(matrix(rng, INPUTS, 70), matrix(rng, 70, 50))
    path = model.save(tmp_path / "model.onnx")
    assert_same_outputs(run(tandem_session(path), x=x), run(cpu_session(model), x=x))


def test_weights_in_two_files(tmp_path, rng, x):
    model = chain(matrix(rng, INPUTS, 70), matrix(rng, 70, 50))
    path = model.save(tmp_path / "model.onnx", {"w0": ("first.data", 0), "w1": ("parts/second.data", 128)})
    assert_same_outputs(run(tandem_session(path), x=x), run(cpu_session(model), x=x))


@pytest.mark.parametrize("offset", [1, 2, 3, 4, 64, 4096, 4097, 1 << 20])
def test_weights_at_any_offset(tmp_path, report, rng, offset):
    weights, table = matrix(rng, INPUTS, OUTPUTS), matrix(rng, 300, INPUTS)  # more than a few pages
    model = Model()
    rows = model.add("Gather", model.weight(table, "table"), model.input("ids", ["n"], np.int64))
    model.output(model.add("MatMul", rows, model.weight(weights, "w"), name="y"))
    path = model.save(
        tmp_path / "model.onnx", {"w": (DATA_FILE, offset), "table": (DATA_FILE, offset + weights.nbytes)}
    )
    session = tandem_session(path, report_file=report.file)
    ids = np.array([0, 63, 5])
    assert_close(run(session, ids=ids)["y"], table[ids] @ weights)
    assert report.forms("table") == {"copied" if offset % 4 else "mapped"}


def test_short_weights_at_an_odd_offset(tmp_path, rng):
    table = matrix(rng, INPUTS, OUTPUTS, np.float16)
    path = lookup(table).save(tmp_path / "model.onnx", {"table": (DATA_FILE, 1)})
    np.testing.assert_array_equal(run(tandem_session(path), ids=np.array([3, 1]))["y"], table[[3, 1]])


def test_overlapping_weights(tmp_path, rng, x):
    both = matrix(rng, INPUTS + 1, OUTPUTS)
    model = Model()
    value = model.input("x", ["batch", INPUTS])
    first, second = model.weight(both[:-1], "w0"), model.weight(both[1:], "w1")
    model.output(model.add("MatMul", value, first)).output(model.add("MatMul", value, second))
    path = model.save(tmp_path / "model.onnx", {"w0": (DATA_FILE, 0), "w1": (DATA_FILE, OUTPUTS * 4)})
    found = list(run(tandem_session(path), x=x).values())
    assert_close(found[0], x @ both[:-1])
    assert_close(found[1], x @ both[1:])


def test_weights_inside_the_model_file(tmp_path, x, weights):
    path = product(weights).save(tmp_path / "model.onnx", places={})
    assert list(tmp_path.iterdir()) == [path]
    assert_multiplies(tandem_session(path), x, weights)


def test_weights_inside_model_bytes(x, weights):
    model = product(weights).bytes()
    session = tandem_session(model)
    del model
    assert_multiplies(session, x, weights)


def test_weights_in_a_folder_that_the_session_names(tmp_path, x, weights):
    path = product(weights).save(tmp_path / "model" / "model.onnx")
    (tmp_path / "data").mkdir()
    (tmp_path / "model" / DATA_FILE).rename(tmp_path / "data" / DATA_FILE)
    assert_multiplies(tandem_session(path, entries={DATA_FOLDER: tmp_path / "data"}), x, weights)


needs_folder_for_bytes = pytest.mark.skipif(
    ORT_VERSION < (1, 24), reason="this ONNX Runtime looks for data of a model from memory in the working directory"
)


@needs_folder_for_bytes
def test_weights_beside_model_bytes(tmp_path, x, weights):
    path = product(weights).save(tmp_path / "model.onnx")
    assert_multiplies(tandem_session(path.read_bytes(), entries={DATA_FOLDER: tmp_path}), x, weights)


def test_model_bytes_find_weights_in_the_working_directory(tmp_path, monkeypatch, x, weights):
    path = product(weights).save(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    assert_multiplies(tandem_session(path.read_bytes()), x, weights)


@pytest.mark.parametrize("folder", ["modèles", "Ünïcödé 模型", "with space", "quote'\"", "a,b;c%20d", "new\nline"])
def test_folders_of_any_name(tmp_path, x, weights, folder):
    path = product(weights).save(tmp_path / folder / "model.onnx")
    assert_multiplies(tandem_session(path), x, weights)


def test_data_files_of_any_name(tmp_path, x, weights):
    path = product(weights).save(tmp_path / "model.onnx", {"w": ("poids é 重み.data", 0)})
    assert_multiplies(tandem_session(path), x, weights)


def test_relative_path_from_another_working_directory(tmp_path, monkeypatch, x, weights):
    product(weights).save(tmp_path / "models" / "model.onnx")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert_multiplies(tandem_session("../models/model.onnx"), x, weights)
    monkeypatch.chdir(tmp_path / "models")
    assert_multiplies(tandem_session("model.onnx"), x, weights)


def test_working_directory_may_change_after_loading(tmp_path, monkeypatch, x, weights):
    product(weights).save(tmp_path / "models" / "model.onnx")
    monkeypatch.chdir(tmp_path / "models")
    session = tandem_session("model.onnx")
    monkeypatch.chdir(tmp_path)
    assert_multiplies(session, x, weights)


def test_files_may_go_after_loading(tmp_path, rng):
    table, weights = matrix(rng, INPUTS, INPUTS), matrix(rng, INPUTS, OUTPUTS)
    model = Model()
    rows = model.add("Gather", model.weight(table), model.input("ids", ["n"], np.int64))
    model.output(model.add("MatMul", rows, model.weight(weights), name="y"))
    session = tandem_session(model.save(tmp_path / "models" / "model.onnx"))
    shutil.rmtree(tmp_path / "models")
    assert_close(run(session, ids=np.array([1, 2]))["y"], table[[1, 2]] @ weights)


@pytest.fixture(params=[product, lookup], ids=["packed", "mapped"])
def exchangeable(request, tmp_path, rng):
    """A model file whose only weight can be exchanged, and what it computes with which weight."""

    class Exchangeable:
        path = tmp_path / "model.onnx"
        data = tmp_path / DATA_FILE

        def save(self):
            weights = matrix(rng, INPUTS, OUTPUTS)
            request.param(weights).save(self.path)
            return weights

        def assert_uses(self, session, weights):
            if request.param is product:
                x = matrix(rng, 3, INPUTS)
                assert_close(run(session, x=x)["y"], x @ weights)
            else:
                np.testing.assert_array_equal(run(session, ids=np.arange(INPUTS))["y"], weights)

    return Exchangeable()


def test_replaced_data_is_for_new_sessions_only(exchangeable):
    old_weights = exchangeable.save()
    old = tandem_session(exchangeable.path)
    exchangeable.data.unlink()
    new_weights = exchangeable.save()
    new = tandem_session(exchangeable.path)
    exchangeable.assert_uses(new, new_weights)
    exchangeable.assert_uses(old, old_weights)


def test_data_changed_in_place_is_what_a_new_session_uses(exchangeable):
    exchangeable.save()
    tandem_session(exchangeable.path)
    weights = exchangeable.save()
    exchangeable.assert_uses(tandem_session(exchangeable.path), weights)


def test_changed_data_with_the_old_time_is_what_a_new_session_uses(tmp_path, rng, x):
    """As archives and build systems write files: all with one time."""
    path, data = tmp_path / "model.onnx", tmp_path / DATA_FILE
    old_weights, new_weights = (matrix(rng, INPUTS, OUTPUTS) for _ in range(2))
    product(old_weights).save(path)
    times = data.stat()
    old = tandem_session(path)
    product(new_weights).save(path)
    os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))
    new = tandem_session(path)
    assert_multiplies(old, x, old_weights)
    assert_multiplies(new, x, new_weights)


def test_hard_links_are_one_file(tmp_path, alone, weights, x):
    path = product(weights).save(tmp_path / "a" / "model.onnx")
    (tmp_path / "b").mkdir()
    for name in ("model.onnx", DATA_FILE):
        os.link(tmp_path / "a" / name, tmp_path / "b" / name)
    first = tandem_session(path, report_file=alone.file)
    second = tandem_session(tmp_path / "b" / "model.onnx", report_file=alone.file)
    assert_multiplies(second, x, weights)
    assert alone.process["forms"]["packed"]["count"] == 1
    del first


def test_link_of_the_data_into_the_folder_of_the_real_model(tmp_path, weights, x):
    """The layout of a Hugging Face cache."""
    product(weights).save(tmp_path / "blobs" / "model.onnx")
    (tmp_path / "snapshot").mkdir()
    for name in ("model.onnx", DATA_FILE):
        (tmp_path / "snapshot" / name).symlink_to(tmp_path / "blobs" / name)
    assert_multiplies(tandem_session(tmp_path / "snapshot" / "model.onnx"), x, weights)


@pytest.mark.parametrize("optimized", [False, True])
def test_constants_that_onnxruntime_made(tmp_path, rng, x, optimized):
    """Its optimizer computes with constants and so makes new ones, which are in no file."""
    model = Model()
    weights, factor = model.weight(matrix(rng, INPUTS, OUTPUTS), "w"), model.weight(matrix(rng, 1, OUTPUTS), "factor")
    table = model.add("Transpose", model.add("Mul", weights, factor), perm=[1, 0])
    value = model.add("MatMul", model.input("x", ["batch", INPUTS]), model.add("Add", weights, factor))
    model.output(value).output(model.add("Gather", table, model.input("ids", ["n"], np.int64)))
    path = model.save(tmp_path / "model.onnx")
    feeds = {"x": x, "ids": np.array([0, 47, 5])}
    assert_same_outputs(run(tandem_session(path, optimized=optimized), **feeds), run(cpu_session(model), **feeds))


@pytest.mark.parametrize("optimized", [False, True])
def test_constants_of_constant_nodes(rng, x, optimized):
    model = Model()
    weights = matrix(rng, INPUTS, OUTPUTS)
    constant = model.add("Constant", value=numpy_helper.from_array(weights))
    model.output(model.add("MatMul", model.input("x", ["batch", INPUTS]), constant, name="y"))
    assert_multiplies(tandem_session(model, optimized=optimized), x, weights)


def test_initializers_that_may_be_fed_are_no_weights(rng, x):
    """An initializer that is also an input is only a default."""
    default, fed = matrix(rng, INPUTS, OUTPUTS), matrix(rng, INPUTS, OUTPUTS)
    model = Model()
    model.input("w", [INPUTS, OUTPUTS])
    model.output(model.add("MatMul", model.input("x", ["batch", INPUTS]), model.weight(default, "w"), name="y"))
    session = tandem_session(model)
    assert_close(run(session, x=x)["y"], x @ default)
    assert_close(run(session, x=x, w=fed)["y"], x @ fed)
