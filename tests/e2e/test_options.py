"""Options are taken by their exact names and values, or the session fails and says what would be right."""

import gc
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import onnxruntime_ep_tandem as tandem
import pytest
from models import chain, matrix, product
from processes import in_process
from sessions import assert_close, run, tandem_session

INPUTS, OUTPUTS = 64, 48
OPTIONS = {
    "device",
    "precision",
    "num_of_threads",
    "num_streams",
    "load_config",
    "cache_dir",
    "share_weights",
    "fold",
    "report_file",
}


@pytest.fixture
def weights(rng):
    return matrix(rng, INPUTS, OUTPUTS)


@pytest.fixture
def x(rng):
    return matrix(rng, 3, INPUTS)


@pytest.fixture
def open_session(weights):
    def open_(**options):
        return tandem_session(product(weights), **options)

    return open_


@pytest.fixture
def assert_works(open_session, weights, x):
    def check(tolerance=2e-6, **options):
        assert_close(run(open_session(**options), x=x)["y"], x @ weights, tolerance)

    return check


@pytest.fixture
def assert_refused(open_session):
    """Whether or not nodes may be left to another provider."""

    def check(*parts, **options):
        for whole in (True, False):
            with pytest.raises(Exception) as raised:
                open_session(whole=whole, **options)
            for part in parts:
                assert part in str(raised.value)

    yield check
    gc.collect()  # the failed sessions, which exceptions keep


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("precison", "precision"),
        ("Precision", "precision"),
        ("num_threads", "num_of_threads"),
        ("num_stream", "num_streams"),
        ("loadconfig", "load_config"),
        ("share_weight", "share_weights"),
        ("folds", "fold"),
        ("report_fil", "report_file"),
        ("cachedir", "cache_dir"),
        ("devise", "device"),
    ],
)
def test_unknown_option_is_refused_with_the_nearest(assert_refused, wrong, right):
    assert_refused(f"Tandem has no option '{wrong}'; did you mean '{right}'?", **{wrong: "x"})


def test_option_like_no_other_is_refused_with_all(assert_refused):
    assert_refused("Tandem has no option 'xyz'; its options are ", *OPTIONS, xyz="1")


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("device_type", "the option 'device'"),
        ("device_id", "the option 'device'"),
        ("device_luid", "the option 'device'"),
        ("model_priority", "set MODEL_PRIORITY in 'load_config'"),
        ("enable_opencl_throttling", "set PLUGIN_THROTTLE in 'load_config'"),
        ("enable_qdq_optimizer", "set NPU_QDQ_OPTIMIZATION in 'load_config'"),
        ("reshape_input", "set free dimensions"),
        ("disable_dynamic_shapes", "set free dimensions"),
        ("layout", "export the model"),
        ("enable_causallm", "use the model as it is"),
        ("context", "OpenCL"),
    ],
)
def test_options_of_openvinos_own_provider_get_advice(assert_refused, option, advice):
    assert_refused(f"Tandem has no option '{option}': ", advice, **{option: "x"})


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("precision", "FP8", "one of ACCURACY, FP32, FP16, BF16"),
        ("precision", "", "one of ACCURACY, FP32, FP16, BF16"),
        ("precision", "ACURACY", "did you mean 'ACCURACY'?"),
        ("num_of_threads", "-1", "a whole number from 0 on"),
        ("num_of_threads", "two", "a whole number from 0 on"),
        ("num_of_threads", "1.5", "a whole number from 0 on"),
        ("num_of_threads", "", "a whole number from 0 on"),
        ("num_of_threads", "99999999999", "a whole number from 0 on"),
        ("num_streams", "0", "a whole number from 1 on"),
        ("num_streams", "x", "a whole number from 1 on"),
        ("share_weights", "on", "one of auto, off"),
        ("fold", "yes", "one of auto, on, off"),
        ("device", "XYZ", "one of the session's devices: CPU"),
        ("device", "GPU.7", "one of the session's devices: CPU"),
    ],
)
def test_bad_value_is_refused_with_good_ones(assert_refused, option, value, expected):
    assert_refused(f"option '{option}': found '{value}', expected ", expected, **{option: value})


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ('{"CPU": ', ["option 'load_config'", "parse error"]),
        ('[{"CPU": {}}]', ["option 'load_config'", "an object of devices"]),
        ('{"TPU": {}}', ["option 'load_config'", "found 'TPU'", "CPU, GPU, NPU"]),
        ('{"CPU": 3}', ["option 'load_config'", "found '3'", "an object of properties"]),
        ("/nowhere/config.json", ["option 'load_config'", "'/nowhere/config.json'", "No such file"]),
    ],
)
def test_bad_configuration_is_refused(assert_refused, config, parts):
    assert_refused(*parts, load_config=config)


def test_bad_configuration_file_is_refused(assert_refused, tmp_path):
    file = tmp_path / "config.json"
    for text in ("hello", "", "[]"):
        file.write_text(text)
        assert_refused("option 'load_config'", load_config=file)


@pytest.mark.parametrize("properties", [{"NO_SUCH_PROPERTY": 1}, {"INFERENCE_PRECISION_HINT": "f99"}])
def test_property_that_openvino_does_not_know_is_refused(assert_refused, properties):
    [name] = properties
    assert_refused(name, load_config=json.dumps({"CPU": properties}))


def test_configuration_as_text(assert_works, report):
    config = {"CPU": {"INFERENCE_NUM_THREADS": 1, "ENABLE_HYPER_THREADING": False, "PERFORMANCE_HINT": "THROUGHPUT"}}
    assert_works(load_config=json.dumps(config), report_file=report.file)
    assert json.loads(report.last["options"]["load_config"]) == config


def test_configuration_as_file(assert_works, tmp_path):
    file = tmp_path / "my config é.json"
    file.write_text(json.dumps({"CPU": {"INFERENCE_NUM_THREADS": 1}}))
    assert_works(load_config=file)


def test_configuration_of_other_devices_is_ignored(assert_works):
    assert_works(load_config='{"GPU": {"ANYTHING": 1}, "NPU.3": {"X": "y"}}')


def test_configuration_wins_over_options(open_session, weights, x):
    """Shown by the arithmetic: bf16 where the CPU has it."""
    config = json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "f32"}})
    session = open_session(precision="BF16", share_weights="off", load_config=config)
    assert_close(run(session, x=x)["y"], x @ weights)


@pytest.mark.parametrize("precision", ["ACCURACY", "FP32", "accuracy", "fp32"])
@pytest.mark.parametrize("share_weights", ["auto", "off"])
def test_f32_precisions_are_exact(assert_works, precision, share_weights):
    assert_works(precision=precision, share_weights=share_weights)


@pytest.mark.parametrize("precision", ["BF16", "FP16"])
@pytest.mark.parametrize("share_weights", ["auto", "off"])
def test_short_precisions_are_close(assert_works, precision, share_weights):
    assert_works(precision=precision, share_weights=share_weights, tolerance=1e-1)


@pytest.mark.parametrize("fold", ["auto", "on", "off"])
@pytest.mark.parametrize("share_weights", ["auto", "off"])
def test_folding_and_sharing_do_not_change_results(rng, report, fold, share_weights):
    matrices = [matrix(rng, INPUTS, INPUTS) / 8 for _ in range(6)]
    session = tandem_session(chain(*matrices), fold=fold, share_weights=share_weights, report_file=report.file)
    x = matrix(rng, 3, INPUTS)
    expected = x
    for weight in matrices:
        expected = np.maximum(expected @ weight, 0)
    assert_close(run(session, x=x)["y"], expected)
    folds = fold == "on" and share_weights == "auto"
    assert [program["calls"] > 1 for program in report.last["programs"]] == [folds]


@pytest.mark.parametrize("threads", [1, 2, 0])
def test_number_of_threads(assert_works, threads):
    assert_works(num_of_threads=threads)


def test_number_of_threads_of_the_session_is_passed_on(weights, report, x):
    options = tandem.session_options(intra_op_num_threads=1, report_file=report.file)
    assert options.intra_op_num_threads == 1
    session = onnxruntime.InferenceSession(product(weights).bytes(), options, enable_fallback=0)
    assert report.last["options"]["num_of_threads"] == "1"
    assert_close(run(session, x=x)["y"], x @ weights)


def test_number_of_threads_is_found_out_if_it_is_not_given(weights, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_provider_for_devices(tandem.register(), {})
    session = onnxruntime.InferenceSession(product(weights).bytes(), options, enable_fallback=0)
    for _ in range(3):
        assert_close(run(session, x=x)["y"], x @ weights)


def test_streams_run_at_the_same_time(open_session, weights):
    session = open_session(num_streams=2)

    def work(seed):
        x = matrix(np.random.default_rng(seed), 5, INPUTS)
        for _ in range(50):
            assert_close(run(session, x=x)["y"], x @ weights)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_device_by_name(assert_works, report):
    assert_works(device="CPU", report_file=report.file)
    assert report.last["device"] == "CPU"


def test_cache_folder_is_accepted(assert_works, tmp_path):
    assert_works(cache_dir=tmp_path / "cache")


def open_with_report(model, file):
    with pytest.raises(Exception, match=re.escape(file)):
        tandem_session(model, report_file=file)


@pytest.mark.parametrize("name", ["nowhere/report.json", "."])
def test_report_file_that_cannot_be_written_is_an_error(tmp_path, weights, name):
    model = product(weights).save(tmp_path / "model.onnx")
    in_process(open_with_report, model, tmp_path / name, folder=tmp_path)


def lose_the_report(model, folder):
    """A session whose report cannot be written any more."""
    session = tandem_session(model, report_file=f"{folder}/report.json")
    shutil.rmtree(folder)
    return session


def open_another(model, folder):
    session = lose_the_report(model, folder)
    x = np.ones((1, INPUTS), np.float32)
    np.testing.assert_array_equal(run(tandem_session(model), x=x)["y"], run(session, x=x)["y"])


def end_another(model, folder):
    other = tandem_session(model)
    session = lose_the_report(model, folder)
    del other
    run(session, x=np.ones((1, INPUTS), np.float32))


def test_session_comes_while_the_report_of_another_is_lost(tmp_path, weights):
    (tmp_path / "reports").mkdir()
    model = product(weights).save(tmp_path / "model.onnx")
    in_process(open_another, model, tmp_path / "reports", folder=tmp_path)


def test_session_goes_while_the_report_of_another_is_lost(tmp_path, weights):
    (tmp_path / "reports").mkdir()
    model = product(weights).save(tmp_path / "model.onnx")
    in_process(end_another, model, tmp_path / "reports", folder=tmp_path)


def test_report_file_of_any_name(assert_works, tmp_path):
    file = tmp_path / "report é 1.json"
    assert_works(report_file=file)
    assert tandem.read_report(file)["process"]["sessions"] >= 1
    assert [path for path in tmp_path.iterdir() if path.suffix == ".json"] == [file]


def test_options_given_to_onnxruntime_directly(weights, x, report):
    """Without the help of the Python package."""
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(tandem.register(), {"report_file": str(report.file), "fold": "off"})
    session = onnxruntime.InferenceSession(product(weights).bytes(), options, enable_fallback=0)
    assert report.last["options"]["fold"] == "off"
    assert_close(run(session, x=x)["y"], x @ weights)


def test_option_as_a_session_entry(assert_refused):
    assert_refused("did you mean 'precision'?", entries={"ep.tandemexecutionprovider.precison": "FP32"})
