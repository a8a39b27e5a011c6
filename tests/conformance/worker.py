"""What a worker process does: run one case on one provider, and say what came of it."""

import os
import pathlib
import tempfile
from dataclasses import dataclass, field

import onnxruntime
import onnxruntime_ep_tandem as tandem
from cases import Case
from node_by_node import split
from values import assert_same, from_ort, is_foreign, to_ort

# From best to worst. Rounding: each node is right, alone, and the network is not.
OUTCOMES = PASSED, ROUNDING, WRONG, ERROR, REFUSED, CRASH = "passed", "rounding", "wrong", "error", "refused", "crash"
FATAL = 4  # of ONNX Runtime's log levels


@dataclass
class Result:
    outcome: str
    message: str = ""
    claimed: int = 0  # nodes; only Tandem's results have these
    declined: list = field(default_factory=list)  # (operator, reason) of the other nodes


def serve(connection):
    """Runs (case, on_tandem) after (case, on_tandem) until there are no more."""
    onnxruntime.set_default_logger_severity(FATAL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        while (job := connection.recv()) is not None:
            case, on_tandem = job
            connection.send(run_case(case, report if on_tandem else None))


def run_case(case: Case, report):
    """On Tandem if there is a file for its report, else on ONNX Runtime's CPU provider."""
    result = _run_once(case, report)
    if report and result.outcome == WRONG:
        nodes = split(case)
        if nodes and all(_run_once(node, report).outcome == PASSED for node in nodes):
            result.outcome = ROUNDING
    return result


def _run_once(case, report):
    try:
        session = _session(case.model, report)
    except Exception as error:
        return Result(REFUSED, str(error))
    result = Result(PASSED)
    if report:
        nodes = tandem.read_report(report)["sessions"][-1]["nodes"]
        result.claimed = nodes["claimed"]
        result.declined = [(node["op_type"], node["reason"]) for node in nodes["declined"]]
    try:
        found = [_run(session, inputs) for inputs, _ in case.data_sets]
    except Exception as error:
        result.outcome, result.message = ERROR, str(error)
        return result
    try:
        for outputs, (_, expected) in zip(found, case.data_sets, strict=True):
            assert_same(outputs, expected, case.rtol, case.atol)
    except AssertionError as error:
        result.outcome, result.message = WRONG, str(error)
    return result


def _session(model, report):
    if report:
        options = tandem.session_options(intra_op_num_threads=1, activation_precision="f32", report_file=report)
        providers = None
    else:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        providers = ["CPUExecutionProvider"]
    options.log_severity_level = FATAL
    return onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=0)


def _run(session, inputs):
    names = [port.name for port in session.get_inputs()]
    feeds = dict(zip(names, inputs, strict=False))  # optional ones are left out at the end
    types = {port.type for port in [*session.get_inputs(), *session.get_outputs()]}
    if not any(_is_foreign_name(name) for name in types) and not any(is_foreign(value) for value in inputs):
        return session.run(None, feeds)
    values = session.run_with_ort_values(None, {name: to_ort(value) for name, value in feeds.items()})
    return [from_ort(value) for value in values]


def _is_foreign_name(type_name):
    """For names of types such as tensor(float8e5m2)."""
    short = ("bfloat16", "float8", "float4", "int4", "int2")
    return any(f"({name}" in type_name or f"(u{name}" in type_name for name in short)
