"""The Python package: names, registration, sessions in three lines, the command line."""

import json
import pathlib
import subprocess
import sys

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


def command(*arguments):
    result = [sys.executable, "-m", "onnxruntime_ep_tandem", *map(str, arguments)]
    return subprocess.run(result, capture_output=True, text=True, timeout=60)


def test_info_names_library_and_devices():
    result = command("info")
    assert result.returncode == 0, result.stderr
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert lines[0] == ["library", tandem.get_library_path()]
    assert lines[1][0] == "device"
    assert lines[1][1].startswith("CPU")


def test_report_of_models_shows_what_they_share(tmp_path, rng):
    weights = matrix(rng, 64, 48)
    paths = [product(weights).save(tmp_path / f"{name}.onnx") for name in "ab"]
    result = command("report", *paths, "--option", "fold=off", "--option", "num_of_threads=1")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [session["model"] for session in report["sessions"]] == [str(path) for path in paths]
    assert [session["unshared_bytes"] for session in report["sessions"]] == [0, 0]
    assert report["sessions"][0]["options"]["fold"] == "off"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: command"),
        (["report"], "required: MODEL"),
        (["report", "x.onnx", "--option", "fold"], "'fold' is not NAME=VALUE"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_wrong_command_lines_are_refused(arguments, message):
    result = command(*arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_report_of_a_model_that_does_not_exist(tmp_path):
    result = command("report", tmp_path / "nothing.onnx")
    assert result.returncode != 0
    assert "nothing.onnx" in result.stderr


def test_report_with_an_option_that_does_not_exist(tmp_path, rng):
    path = product(matrix(rng, 64, 48)).save(tmp_path / "model.onnx")
    result = command("report", path, "--option", "precison=FP32")
    assert result.returncode != 0
    assert "did you mean 'precision'" in result.stderr
