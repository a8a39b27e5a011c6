"""Profiles: what the option `profile_file` writes, or what ONNX Runtime's own profile has of Tandem."""

import collections
import json
import pathlib
import statistics

_PROVIDER = "TandemExecutionProvider"


def summary(file):
    """Time in microseconds, summed up over all runs in a profile.

    A dictionary: `runs`, `runs_us` of all of them and `median_us` of one, `ops_us` of all operators, and where that
    went, the most first: `types`, by `op_name` and `executor`, and `nodes`, by `node` and `op_name`, each with its `us`
    and `count`.
    """
    try:
        events = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
        own = [event for event in events if event.get("args", {}).get("provider") == _PROVIDER]
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"'{file}' is no profile: {error}") from None
    runs = [event for event in own if event["name"] == "tandem_run"]
    if not runs:
        raise ValueError(f"'{file}' has no run of Tandem; a profile is written when its session ends")
    ops = [event for event in own if "executor" in event["args"]]
    types, nodes = collections.defaultdict(list), collections.defaultdict(list)
    for event in ops:
        arguments = event["args"]
        types[arguments["op_name"], arguments["executor"]].append(event["dur"])
        nodes[event["name"], arguments["op_name"]].append(event["dur"])
    return {
        "runs": len(runs),
        "runs_us": sum(event["dur"] for event in runs),
        "median_us": statistics.median(event["dur"] for event in runs),
        "ops_us": sum(event["dur"] for event in ops),
        "types": _sums(types, ("op_name", "executor")),
        "nodes": _sums(nodes, ("node", "op_name")),
    }


def _sums(durations, names):
    sums = [dict(zip(names, key, strict=True)) | {"us": sum(us), "count": len(us)} for key, us in durations.items()]
    return sorted(sums, key=lambda row: -row["us"])
