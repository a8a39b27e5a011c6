"""What a process does: run one model on one provider."""

import os
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path

import onnxruntime
import onnxruntime_ep_tandem as tandem

CPU, PLAIN, BYTES, EMBEDDED, BUNDLED = "ORT CPU", "plain", "from bytes", "EPContext, embedded", "EPContext, bundle"
THREADS = 2
FATAL = 4  # of ONNX Runtime's log levels


@dataclass
class Result:
    outputs: list = field(default_factory=list)  # of each case
    error: str = ""
    claimed: int = 0
    declined: int = 0
    seconds: float = 0  # of all cases, when the session is warm
    peak_mb: float = 0  # resident memory of the process


def serve(connection):
    """Runs (path, inputs of the cases, way, folder for what it writes) until a job is None."""
    onnxruntime.set_default_logger_severity(FATAL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while (job := connection.recv()) is not None:
        connection.send(_run(*job))


def _run(path, cases, way, folder):
    result = Result()
    report = Path(folder) / "report.json"
    try:
        session = _session(path, way, Path(folder), report)
        result.outputs = [session.run(None, inputs) for inputs in cases]
        # Once more: shapes come back, and nothing is kept from run to run.
        start = time.perf_counter()
        result.outputs += [session.run(None, inputs) for inputs in cases]
        result.seconds = time.perf_counter() - start
    except Exception as error:
        result.error = str(error)
        return result
    if way != CPU:
        nodes = tandem.read_report(report)["sessions"][0]["nodes"]  # an EPContext model is of what these became
        result.claimed, result.declined = nodes["claimed"], len(nodes["declined"])
    result.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def _session(path, way, folder, report):
    if way == CPU:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    if way == BYTES:
        return _tandem(Path(path).read_bytes(), report)
    if way == PLAIN:
        return _tandem(path, report)
    compiled = folder / "compiled.onnx"
    entries = {
        "ep.context_enable": "1",
        "ep.context_file_path": str(compiled),
        "ep.context_embed_mode": "1" if way == EMBEDDED else "0",
    }
    _tandem(path, report, entries)
    return _tandem(compiled, report)


def _tandem(model, report, entries=None):
    options = tandem.session_options(intra_op_num_threads=THREADS, report_file=report)
    options.log_severity_level = FATAL
    for name, value in (entries or {}).items():
        options.add_session_config_entry(name, value)
    return onnxruntime.InferenceSession(model, options, enable_fallback=0)
