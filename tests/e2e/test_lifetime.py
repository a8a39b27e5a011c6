"""Sessions, registrations and the process may end in any order."""

import itertools
import os

import numpy as np
import onnxruntime
import onnxruntime_ep_tandem as tandem
import pytest
from models import chain, matrix, product, weightless
from processes import in_process, private_megabytes
from sessions import Report, run, tandem_session

SIZE = 1024
LAYERS = 4
LAYERS_MEGABYTES = LAYERS * SIZE * SIZE * 4 / 2**20


_kept = []  # sessions that live until the process ends


@pytest.fixture
def big_models(tmp_path, rng):
    """Three models over one file of 16 MB of weights."""
    model = chain(*[matrix(rng, SIZE, SIZE) for _ in range(LAYERS)])
    return [model.save(tmp_path / f"{name}.onnx") for name in "abc"]


@pytest.fixture
def small_model(tmp_path, rng):
    return product(matrix(rng, 64, 48)).save(tmp_path / "small.onnx")


def open_and_close(models, order, report_file):
    """Opens a session of each model, closes them in `order`. Returns the report and memory over the time."""
    report = Report(report_file)
    witness = tandem_session(weightless(), report_file=report_file)  # keeps the report to the end
    x = np.ones((1, SIZE), np.float32)
    states = []

    def note():
        process = report.process
        states.append({"megabytes": private_megabytes(), "sessions": process["sessions"] - 1, **process["forms"]})

    note()
    sessions = [tandem_session(model) for model in models]
    results = [run(session, x=x)["y"] for session in sessions]
    assert all((result == results[0]).all() for result in results)
    note()
    for number in order:
        sessions[number] = None
        note()
    run(witness, x=np.ones((1, 4), np.float32))
    return states


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=lambda order: "".join(map(str, order)))
def test_weights_go_with_the_last_session_in_any_order(tmp_path, big_models, order):
    states = in_process(open_and_close, big_models, order, tmp_path / "report.json", folder=tmp_path)
    assert [state["sessions"] for state in states] == [0, 3, 2, 1, 0]
    assert [state.get("packed", {}).get("count", 0) for state in states] == [0, LAYERS, LAYERS, LAYERS, 0]
    start, *held, end = [state["megabytes"] for state in states]
    for megabytes in held:
        assert LAYERS_MEGABYTES - 1 < megabytes - start < LAYERS_MEGABYTES + 8
    assert end - start < 6


def unregister_with_a_live_session(model, then):
    session = tandem_session(model)
    x = np.ones((1, 64), np.float32)
    before = run(session, x=x)["y"]
    onnxruntime.unregister_execution_provider_library("tandem")
    assert not [device for device in onnxruntime.get_ep_devices() if device.ep_name == tandem.get_ep_name()]
    if then == "run":
        for _ in range(50):
            np.testing.assert_array_equal(run(session, x=x)["y"], before)
    if then == "register":
        again = tandem_session(model)
        np.testing.assert_array_equal(run(again, x=x)["y"], before)
    if then == "end":
        _kept.append(session)


@pytest.mark.parametrize("then", ["release", "run", "register", "end"])
def test_session_outlives_the_registration(tmp_path, small_model, then):
    in_process(unregister_with_a_live_session, small_model, then, folder=tmp_path)


def unregister_between_sessions(model):
    x = np.ones((1, 64), np.float32)
    for _ in range(5):
        run(tandem_session(model), x=x)
        onnxruntime.unregister_execution_provider_library("tandem")


def test_registering_again_and_again(tmp_path, small_model):
    in_process(unregister_between_sessions, small_model, folder=tmp_path)


def exit_with_live_sessions(models):
    for model in models:
        session = tandem_session(model)
        session.run(None, {session.get_inputs()[0].name: np.ones((1, SIZE), np.float32)})
        _kept.append(session)
    return len(_kept)


def test_process_ends_with_live_sessions(tmp_path, big_models):
    assert in_process(exit_with_live_sessions, big_models, folder=tmp_path) == 3


def exit_with_unused_registration():
    return len(tandem.register())


def test_process_ends_without_a_session(tmp_path):
    assert in_process(exit_with_unused_registration, folder=tmp_path) == 1


def exit_in_a_thread(model):
    import threading

    def work():
        session = tandem_session(model)
        _kept.append(session)
        run(session, x=np.ones((1, 64), np.float32))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_process_ends_with_a_session_of_another_thread(tmp_path, small_model):
    in_process(exit_in_a_thread, small_model, folder=tmp_path)


def two_registrations(model, report_file):
    """Sessions of two factories, one each. Returns the report."""
    sessions = []
    for name in ("first", "second"):
        onnxruntime.register_execution_provider_library(name, tandem.get_library_path())
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == tandem.get_ep_name()]
    for device in devices:
        options = onnxruntime.SessionOptions()
        options.add_provider_for_devices([device], {"report_file": report_file})
        sessions.append(onnxruntime.InferenceSession(model, options, enable_fallback=0))
    x = np.ones((1, 64), np.float32)
    np.testing.assert_array_equal(*[run(session, x=x)["y"] for session in sessions])
    return tandem.read_report(report_file)


def test_registrations_of_the_library_share_weights(tmp_path, small_model):
    report = in_process(two_registrations, small_model, tmp_path / "report.json", folder=tmp_path)
    assert report["process"]["sessions"] == 2
    assert report["process"]["forms"]["packed"]["count"] == 1
    assert [session["unshared_bytes"] for session in report["sessions"]] == [0, 0]


def register_twice():
    library = tandem.get_library_path()
    onnxruntime.register_execution_provider_library("name", library)
    with pytest.raises(Exception, match="already registered"):
        onnxruntime.register_execution_provider_library("name", library)


def test_a_name_is_registered_once(tmp_path):
    in_process(register_twice, folder=tmp_path)


def open_many_times(model, count):
    memory = []
    x = np.ones((1, SIZE), np.float32)
    for _ in range(count):
        session = tandem_session(model)
        run(session, x=x)
        del session
        memory.append(private_megabytes())
    return memory


def test_memory_stays_flat_over_many_sessions(tmp_path, big_models):
    memory = in_process(open_many_times, big_models[0], 20, folder=tmp_path)
    assert max(memory[5:]) - memory[4] < 2


def open_many_failing(model, count):
    memory = []
    for _ in range(count):
        with pytest.raises(Exception, match="'w3'"):
            tandem_session(model)
        memory.append(private_megabytes())
    return memory


def test_memory_stays_flat_over_many_failures(tmp_path, big_models):
    os.truncate(tmp_path / "weights.data", SIZE * SIZE * 4 * 3)
    memory = in_process(open_many_failing, big_models[0], 20, folder=tmp_path)
    assert max(memory[5:]) - memory[4] < 2


def run_many_times(model, count):
    session = tandem_session(model)
    memory = []
    for batch in range(1, count):
        run(session, x=np.ones((batch % 7, 64), np.float32))
        if batch % 100 == 0:
            memory.append(private_megabytes())
    return memory


def test_memory_stays_flat_over_many_runs(tmp_path, small_model):
    memory = in_process(run_many_times, small_model, 2001, folder=tmp_path)
    assert max(memory[2:]) - memory[1] < 2
