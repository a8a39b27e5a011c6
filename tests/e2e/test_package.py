"""The Python package: names, registration, sessions in three lines, the command line."""

import pathlib

import onnxruntime
import onnxruntime_ep_tandem as tandem
import pytest
from models import matrix, product
from sessions import assert_close


def test_library_exists():
    path = pathlib.Path(tandem.get_library_path())
    assert path.is_file()
    assert path.is_absolute()
    assert path.suffix == ".so"


def test_names():
    assert tandem.get_ep_name() == "TandemExecutionProvider"
    assert tandem.get_ep_names() == [tandem.get_ep_name()]


def test_registration_happens_once():
    first = tandem.register()
    again = tandem.register("another name")
    assert [device.ep_name for device in first] == [tandem.get_ep_name()]
    assert len(again) == len(first)
    assert len([device for device in onnxruntime.get_ep_devices() if device.ep_name == tandem.get_ep_name()]) == 1


def test_device_tells_what_it_is():
    [device] = tandem.register()
    assert device.ep_vendor == "Tandem"
    assert device.ep_metadata["ov_device"] == "CPU"
    assert device.device.type == onnxruntime.OrtHardwareDeviceType.CPU


def test_session_in_three_lines(tmp_path, rng):
    weights, x = matrix(rng, 64, 48), matrix(rng, 2, 64)
    path = product(weights).save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path, tandem.session_options(), enable_fallback=0)
    assert session.get_providers()[0] == tandem.get_ep_name()
    assert_close(session.run(None, {"x": x})[0], x @ weights)


def test_session_options_leave_the_graph_as_it_is():
    options = tandem.session_options()
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.intra_op_num_threads == 0


def test_unknown_option_is_an_error_of_the_session(rng):
    options = tandem.session_options(precison="FP32")
    with pytest.raises(Exception, match="Tandem has no option 'precison'; did you mean 'precision'"):
        onnxruntime.InferenceSession(product(matrix(rng, 64, 48)).bytes(), options, enable_fallback=0)


def test_options_may_be_any_object(tmp_path, rng):
    file = tmp_path / "report.json"
    options = tandem.session_options(num_streams=2, report_file=file)
    session = onnxruntime.InferenceSession(product(matrix(rng, 64, 48)).bytes(), options, enable_fallback=0)
    assert tandem.read_report(file)["sessions"][-1]["options"] == {"num_streams": "2", "report_file": str(file)}
    del session
