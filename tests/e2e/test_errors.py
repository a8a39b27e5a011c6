"""A session whose weights are not what the model says fails, and names weight, file, found and expected."""

import os
import shutil

import numpy as np
import pytest
from models import DATA_FILE, load, matrix, product
from processes import in_process
from sessions import DATA_FOLDER, ORT_VERSION, assert_close, run, tandem_session

INPUTS, OUTPUTS = 64, 48
NAME = "layers.0.weight"
BYTES = INPUTS * OUTPUTS * 4


@pytest.fixture
def weights(rng):
    return matrix(rng, INPUTS, OUTPUTS)


@pytest.fixture
def path(tmp_path, weights):
    """A model with one weight in DATA_FILE beside it."""
    return product(weights, name=NAME).save(tmp_path / "model" / "model.onnx")


@pytest.fixture
def data(path):
    return path.parent / DATA_FILE


def change_reference(path, **entries):
    """Changes where the model says that its weight is. None removes an entry."""
    proto = load(path)
    [tensor] = proto.graph.initializer
    place = {entry.key: entry.value for entry in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in place.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(proto.SerializeToString())


def assert_fails(path, *parts, by_onnxruntime=None, **settings):
    """No session, not even one that leaves everything to the CPU provider, and a message with all `parts`.

    `by_onnxruntime`: part of ONNX Runtime's own message, where a newer one refuses the model before Tandem sees it.
    """
    with pytest.raises(Exception) as raised:
        tandem_session(path, whole=False, **settings)
    message = str(raised.value)
    if by_onnxruntime and ORT_VERSION >= (1, 24):
        parts = (by_onnxruntime,)
    for part in parts:
        assert str(part) in message


def test_truncated_file(path, data):
    os.truncate(data, 1000)
    assert_fails(path, f"weight '{NAME}'", data, "has 1000 bytes", f"expected at least {BYTES}", "at offset 0")


def test_empty_file(path, data):
    os.truncate(data, 0)
    assert_fails(path, f"weight '{NAME}'", data, "has 0 bytes", f"expected at least {BYTES}")


def test_file_that_is_one_byte_short(path, data):
    os.truncate(data, BYTES - 1)
    assert_fails(path, f"weight '{NAME}'", data, f"has {BYTES - 1} bytes", f"expected at least {BYTES}")


def test_missing_file(path, data):
    data.unlink()
    assert_fails(path, f"weight '{NAME}'", data, "No such file", by_onnxruntime=NAME)


def test_missing_folder(path):
    folder = path.parent / "nowhere"
    settings = {"entries": {DATA_FOLDER: folder}}
    assert_fails(path, f"weight '{NAME}'", folder, "No such file", by_onnxruntime=NAME, **settings)


def test_folder_in_place_of_the_file(path, data):
    data.unlink()
    data.mkdir()
    assert_fails(path, f"weight '{NAME}'", DATA_FILE, "is not a regular file")


def test_pipe_in_place_of_the_file(path, data):
    data.unlink()
    os.mkfifo(data)
    assert_fails(path, f"weight '{NAME}'", DATA_FILE, "is not a regular file")


def test_offset_behind_the_data(path, data):
    change_reference(path, offset=100)
    parts = f"has {BYTES} bytes", f"expected at least {BYTES + 100} ({BYTES} at offset 100)"
    assert_fails(path, f"weight '{NAME}'", data, *parts)


def test_offset_that_is_larger_than_any_file(path, data):
    change_reference(path, offset=2**63 - 1)
    assert_fails(path, f"weight '{NAME}'", data, f"has {BYTES} bytes")


def test_negative_offset(path, data):
    change_reference(path, offset=-4)
    assert_fails(path, f"weight '{NAME}'", data)


@pytest.mark.parametrize("length", [100, BYTES - 4, BYTES + 4, 2**62])
def test_length_that_does_not_fit_the_shape(path, data, length):
    change_reference(path, length=length)
    assert_fails(
        path, f"weight '{NAME}'", data, f"found {length} bytes", f"expected {BYTES} for f32[{INPUTS},{OUTPUTS}]"
    )


def test_length_may_be_left_out(path, weights):
    change_reference(path, length=None)
    x = np.ones((1, INPUTS), np.float32)
    assert_close(run(tandem_session(path), x=x)["y"], x @ weights)


def test_offset_may_be_left_out(path, weights):
    change_reference(path, offset=None)
    x = np.ones((1, INPUTS), np.float32)
    assert_close(run(tandem_session(path), x=x)["y"], x @ weights)


def test_name_that_leads_out_of_the_folder(path, data):
    shutil.move(data, path.parents[1] / DATA_FILE)
    change_reference(path, location=f"../{DATA_FILE}")
    assert_fails(path, f"weight '{NAME}'", f"'../{DATA_FILE}'", "has '..' in its name", by_onnxruntime=NAME)


def test_name_that_leads_out_and_back(path):
    change_reference(path, location=f"folder/../{DATA_FILE}")
    assert_fails(path, f"weight '{NAME}'", "has '..' in its name; expected a path below the model")


def test_absolute_name(path, data):
    change_reference(path, location=data)
    assert_fails(path, f"weight '{NAME}'", "named by an absolute path", by_onnxruntime=NAME)


def test_absolute_name_of_a_device(path):
    change_reference(path, location="/dev/zero")
    assert_fails(path, f"weight '{NAME}'", "named by an absolute path", by_onnxruntime=NAME)


def test_link_that_leads_out_of_the_folder(path, data):
    outside = path.parents[1] / "outside.data"
    shutil.move(data, outside)
    data.symlink_to(outside)
    assert_fails(
        path, f"weight '{NAME}'", f"is a link to '{outside}'", "outside the model's folder", by_onnxruntime=NAME
    )


def test_link_to_nothing(path, data):
    data.unlink()
    data.symlink_to("nothing")
    assert_fails(path, f"weight '{NAME}'", data, by_onnxruntime=NAME)


def test_empty_name(path):
    change_reference(path, location="")
    assert_fails(path)


def refuse(path):
    assert_fails(path)


@pytest.mark.skipif(ORT_VERSION < (1, 24), reason="ONNX Runtime 1.23 itself reads any address, before it asks Tandem")
def test_name_that_stands_for_memory(tmp_path, path):
    """A marker that ONNX Runtime uses itself, with the address as offset. Newer ones refuse it in files."""
    change_reference(path, location="*/_ORT_MEM_ADDR_/*", offset=4096)
    in_process(refuse, path, folder=tmp_path)


def test_a_failure_leaves_no_session_in_the_report(path, data, alone):
    witness = tandem_session(path, report_file=alone.file)
    os.truncate(data, 1000)
    assert_fails(path, NAME, report_file=alone.file)
    assert alone.process["sessions"] == 1
    assert [session["model"] for session in alone.sessions] == [str(path)]
    del witness


def test_the_next_session_works_once_the_file_is_right(path, data, weights):
    content = data.read_bytes()
    os.truncate(data, 1000)
    assert_fails(path, NAME)
    data.write_bytes(content)
    x = np.ones((1, INPUTS), np.float32)
    assert_close(run(tandem_session(path), x=x)["y"], x @ weights)
