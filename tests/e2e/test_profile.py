"""Profiles: the option `profile_file`, and Tandem's events in ONNX Runtime's own profile."""

import json
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxruntime_ep_tandem as tandem
import pytest
from llm import feeds
from models import Model, chain, matrix, product
from onnxruntime_ep_tandem import profiles
from sessions import ORT_VERSION, run, tandem_session

SIZE = 64
ROWS = 1000  # OpenVINO says nothing of an operator that takes less than a microsecond
RUNS = 3
LAYERS = 6  # enough to be folded
PROVIDER = "TandemExecutionProvider"
PROFILES_IN_ORT = ORT_VERSION >= (1, 25)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "profile.json"


@pytest.fixture
def mixed(rng):
    """Tandem's products among OpenVINO's operators."""
    return chain(matrix(rng, SIZE, SIZE), matrix(rng, SIZE, SIZE))


@pytest.fixture
def feed(rng):
    return {"x": matrix(rng, ROWS, SIZE)}


def profile(model, feed, file, runs=RUNS, **options):
    """The outputs of the last run, and the events."""
    session = tandem_session(model, profile_file=file, **options)
    for _ in range(runs):
        found = run(session, **feed)
    del session
    return found, read(file)


def read(file):
    return [event for event in json.loads(file.read_text()) if event["args"].get("provider") == PROVIDER]


def runs_of(events):
    return [event for event in events if event["name"] == "tandem_run"]


def calls_of(events):
    return [event for event in events if event["cat"] == "Api"]


def ops_of(events):
    return [event for event in events if "executor" in event["args"]]


def executors(events):
    return {event["args"]["op_name"]: event["args"]["executor"] for event in ops_of(events)}


def assert_nested(events, slack=0.002):
    """Operators are within their call, calls within their run, one after the other on each thread."""

    def inside(inner, outer):
        ends = [event["ts"] + event["dur"] for event in (inner, outer)]
        return outer["ts"] <= inner["ts"] + slack and ends[0] <= ends[1] + slack

    for level, above in ((ops_of, calls_of), (calls_of, runs_of)):
        for event in level(events):
            threads = [outer for outer in above(events) if outer["tid"] == event["tid"]]
            assert sum(inside(event, outer) for outer in threads) == 1
    for outer in runs_of(events):
        mine = [op for op in ops_of(events) if op["tid"] == outer["tid"] and inside(op, outer)]
        assert 0 < sum(op["dur"] for op in mine) <= outer["dur"] + slack


def test_operators_of_both_are_events_of_each_run(mixed, feed, file):
    _, events = profile(mixed, feed, file)
    assert executors(events) == {"SharedMatMul": "Tandem in OpenVINO", "Relu": "OpenVINO"}
    assert len(runs_of(events)) == len(calls_of(events)) == RUNS
    assert len(ops_of(events)) == 4 * RUNS
    assert_nested(events)


def test_operators_have_the_names_of_the_models_nodes(mixed, feed, file):
    _, events = profile(mixed, feed, file)
    nodes = {node.name: node.op_type for node in mixed.proto().graph.node}
    for op in ops_of(events):
        # OpenVINO leaves out the Identity, and calls what is before it by its name.
        expected = {"SharedMatMul": ["MatMul"], "Relu": ["Relu", "Identity"]}[op["args"]["op_name"]]
        assert nodes[op["name"]] in expected
    assert len({op["name"] for op in ops_of(events)}) == 4


def test_a_function_of_tandems_operators_tells_shapes_and_bytes(feed, file, rng):
    _, events = profile(product(matrix(rng, SIZE, SIZE)), feed, file)
    assert executors(events) == {"SharedMatMul": "Tandem"}
    for event in ops_of(events):
        assert event["args"]["output_shape"] == f"{ROWS}x{SIZE}"
        assert event["args"]["parameter_size"] == str(4 * SIZE * SIZE)
    assert_nested(events)


def test_a_model_without_names_has_those_of_its_values(mixed, feed, file):
    proto = mixed.proto()
    for node in proto.graph.node:
        node.name = ""
    _, events = profile(proto.SerializeToString(), feed, file)
    found = {op["name"] for op in ops_of(events)}
    assert len(found) == 4
    assert found <= {node.output[0] for node in proto.graph.node}


def test_results_are_those_without_a_profile(mixed, feed, file):
    expected = run(tandem_session(mixed), **feed)
    found, _ = profile(mixed, feed, file)
    np.testing.assert_array_equal(found["y"], expected["y"])


def test_without_the_option_there_is_nothing(mixed, feed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tandem_session(mixed), **feed)
    assert list(tmp_path.iterdir()) == []


def test_each_call_of_a_folded_layer_has_its_own_nodes(exports, file, rng):
    path = exports.model("int4", "plain", "dynamic", layers=LAYERS)
    session = tandem_session(path, whole=False, profile_file=file)
    given = feeds(session, "dynamic", rng)
    for _ in range(RUNS):
        run(session, **given)
    del session
    events = read(file)
    assert_nested(events)
    assert len({call["args"]["function"] for call in calls_of(events)}) * RUNS < len(calls_of(events))
    names = {node.name for node in onnx.load(path, load_external_data=False).graph.node}
    own = [op for op in ops_of(events) if op["args"]["executor"] == "Tandem" and "nodes" in op["args"]]
    for op in own:
        listed = op["args"]["nodes"].split(", ")
        assert {name for name in listed if not name.endswith(" more")} <= names
    for kind in ("Attention", "SharedMatMul"):
        calls = {op["name"]: op["args"]["call"] for op in own if op["args"]["op_name"] == kind}
        assert len(set(calls.values())) >= LAYERS - 2, "each call has a name of its own"
    attentions = [op["name"] for op in ops_of(events) if op["args"]["op_name"] == "Attention"]
    assert len(attentions) == LAYERS * RUNS
    assert len(set(attentions)) == LAYERS


def test_concurrent_runs_are_all_there(mixed, feed, file):
    session = tandem_session(mixed, profile_file=file, num_streams=2)
    barrier = threading.Barrier(4)  # a thread that ends gives its number away

    def work(session):
        for _ in range(20):
            run(session, **feed)
        barrier.wait()

    threads = [threading.Thread(target=work, args=(session,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del session, threads
    events = read(file)
    assert len(runs_of(events)) == 80
    assert len({event["tid"] for event in events}) == 4
    assert_nested(events)


def test_sessions_that_name_one_file_are_all_in_it(mixed, feed, file, rng):
    first = tandem_session(mixed, profile_file=file)
    second = tandem_session(product(matrix(rng, SIZE, SIZE)), profile_file=file)
    run(first, **feed)
    run(second, **feed)
    del first
    assert len(runs_of(read(file))) == 2
    run(second, **feed)
    del second
    events = read(file)
    assert len(runs_of(events)) == 3
    assert len({event["args"]["program"] for event in runs_of(events)}) == 2


def test_a_file_that_cannot_be_written_is_an_error_of_the_session(mixed, tmp_path):
    file = tmp_path / "none" / "profile.json"
    with pytest.raises(Exception, match=r"option 'profile_file'.*none/profile\.json"):
        tandem_session(mixed, profile_file=file)


def test_a_file_that_cannot_be_written_any_more_fails_nothing(mixed, feed, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    session = tandem_session(mixed, profile_file=folder / "profile.json")
    (folder / "profile.json").unlink()
    folder.rmdir()
    run(session, **feed)
    del session


def test_a_compiled_model_has_the_names_of_its_functions(compiled, file):
    _, models, feed, _ = compiled
    _, events = profile(models[1], feed, file)
    assert "SharedMatMul" in executors(events)
    assert len(runs_of(events)) == RUNS
    assert_nested(events)


def test_onnx_runtimes_profile_has_the_same_events(mixed, feed, tmp_path, file):
    settings = tandem.session_options(profile_file=file)
    settings.enable_profiling = True
    settings.profile_file_prefix = str(tmp_path / "ort")
    session = onnxruntime.InferenceSession(mixed.bytes(), settings, enable_fallback=0)
    for _ in range(RUNS):
        run(session, **feed)
    path = session.end_profiling()
    run(session, **feed)
    del session
    events = json.loads(Path(path).read_text())
    own = [event for event in events if event["cat"] != "Node" and event["args"].get("provider") == PROVIDER]
    if not PROFILES_IN_ORT:
        assert own == []
        return
    assert profiles.summary(path)["runs"] == RUNS
    mine = read(file)
    assert len(runs_of(own)) == RUNS
    assert len(runs_of(mine)) == RUNS + 1
    assert executors(own) == executors(mine)
    # Each run is within ONNX Runtime's event of the node, in whole microseconds.
    nodes = [event for event in events if event["cat"] == "Node"]
    for node, mine in zip(nodes, runs_of(own), strict=True):
        assert node["ts"] <= mine["ts"] + 1
        assert mine["ts"] + mine["dur"] <= node["ts"] + node["dur"] + 2


@pytest.mark.skipif(not PROFILES_IN_ORT, reason="ONNX Runtime before 1.25 asks for no events")
def test_any_name_is_fine_in_onnx_runtimes_profile(feed, tmp_path, rng):
    model = Model()
    x = model.input("x", ["batch", SIZE])
    model.output(model.add("Add", model.add("MatMul", x, model.weight(matrix(rng, SIZE, SIZE))), x, name="y"))
    proto = model.proto()
    for node in proto.graph.node:
        node.name = '[{"' + node.op_type
    settings = tandem.session_options()
    settings.enable_profiling = True
    settings.profile_file_prefix = str(tmp_path / "ort")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings, enable_fallback=0)
    run(session, **feed)
    [op] = ops_of(json.loads(Path(session.end_profiling()).read_text()))
    assert op["name"] == '[{"Add'
    assert op["args"]["nodes"].strip() == '[{"MatMul, [{"Add'


def test_onnx_runtimes_profile_alone_measures_openvinos_operators(mixed, feed, tmp_path):
    settings = tandem.session_options()
    settings.enable_profiling = True
    settings.profile_file_prefix = str(tmp_path / "ort")
    session = onnxruntime.InferenceSession(mixed.bytes(), settings, enable_fallback=0)
    run(session, **feed)
    own = ops_of(json.loads(Path(session.end_profiling()).read_text()))
    assert ("OpenVINO" in {event["args"]["executor"] for event in own}) == PROFILES_IN_ORT


def test_partitions_are_programs_of_their_own(file, rng):
    model = Model()
    x = model.add("MatMul", model.input("x", ["batch", SIZE]), model.weight(matrix(rng, SIZE, SIZE)))
    text = model.add("Cast", x, to=onnx.TensorProto.STRING)
    y = model.add("Cast", text, to=onnx.TensorProto.FLOAT)
    model.output(model.add("MatMul", y, model.weight(matrix(rng, SIZE, SIZE)), name="y"))
    _, events = profile(model, {"x": matrix(rng, 2, SIZE)}, file, whole=False)
    assert len({event["args"]["program"] for event in runs_of(events)}) == 2
    assert len(runs_of(events)) == 2 * RUNS
