#!/usr/bin/env python3
"""The benchmark of Tandem beside its peers; README.md says what each figure means.

usage: run.py pair --weights f32|f16|int4 [--quick] [--repeat N] [--models DIR] [--json FILE]
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ("f32", "f16", "int4")
STEPS, QUICK_STEPS = {"prefill": 8, "decode": 60}, {"prefill": 3, "decode": 15}


def pair(arguments):
    """Measures, prints and writes. Exits with a message if a candidate fails or computes something else."""
    import machine
    from pair import BenchError, Settings, measure

    settings = Settings(
        weights=arguments.weights,
        models=arguments.models.resolve(),
        repeat=arguments.repeat or (1 if arguments.quick else 3),
        threads=machine.cores(),
        steps=QUICK_STEPS if arguments.quick else STEPS,
    )
    result = {
        "command": shlex.join(sys.argv),
        "machine": machine.machine(),
        "versions": machine.versions(),
        "weights": settings.weights,
        "threads": settings.threads,
        "repeat": settings.repeat,
        "steps": settings.steps,
    }
    try:
        samples = measure(settings, lambda text: print(text, file=sys.stderr, flush=True))
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from error
    result |= conclude(samples, settings)
    print(describe(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def conclude(samples, settings):
    """What follows from the samples, for JSON. `ratios` are numbers, `ratio_spreads` their [low, high]."""
    import summary
    from pair import TOLERANCES

    weights_bytes = (settings.models / settings.weights / "weights.data").stat().st_size
    ratios = summary.ratios(samples, weights_bytes)
    return {
        "weights_bytes": weights_bytes,
        "tolerance": TOLERANCES[settings.weights],
        "ratios": {name: ratio["value"] for name, ratio in ratios.items()},
        "ratio_spreads": {name: [ratio["low"], ratio["high"]] for name, ratio in ratios.items()},
        "figures": summary.figures(samples),
        "samples": samples,
    }


def describe(result):
    """The result as text."""
    import machine
    import summary

    steps = result["steps"]
    lines = [
        f"command   {result['command']}",
        machine.describe(result["machine"], result["versions"]),
        f"weights   {result['weights']}, {result['weights_bytes'] / 1e6:.1f} MB; {result['threads']} threads",
        f"samples   {result['repeat']} x a process of each candidate, with {steps['prefill']} prefills and "
        f"{steps['decode']} decodes each; median [lowest..highest]",
    ]
    if result["weights"] == "int4":
        lines.append(summary.INT4_NOTE)
    lines += ["", summary.table(result["figures"]), ""]
    lines.append(f"all logits are within {result['tolerance']:.0e} of ort_cpu's (relative Euclidean distance)")
    lines += ["", "tandem in relation; [lowest..highest] of the single rounds"]
    lines.append(summary.ratio_lines(result["ratios"], result["ratio_spreads"]))
    return "\n".join(lines)


def positive(text):
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def work(arguments):
    import worker

    worker.serve(arguments.candidate, arguments.folder, arguments.exchange, arguments.threads)


def main():
    parser = argparse.ArgumentParser(description="Measure Tandem beside its peers.")
    commands = parser.add_subparsers(required=True)
    measured = commands.add_parser("pair", help="memory and speed of a prefill and a decode session")
    measured.add_argument("--weights", choices=WEIGHTS, required=True)
    measured.add_argument("--quick", action="store_true", help="one process of each candidate and fewer steps")
    measured.add_argument(
        "--repeat", type=positive, metavar="N", help="processes of each candidate; default: 3, quick: 1"
    )
    measured.add_argument("--models", type=Path, default=ROOT / "build" / "smollm2", metavar="DIR")
    measured.add_argument("--json", type=Path, metavar="FILE", help="where to write the result with all samples")
    measured.set_defaults(call=pair)
    internal = commands.add_parser("worker", help="a process of a candidate, started by the others")
    internal.add_argument("candidate")
    internal.add_argument("folder", type=Path)
    internal.add_argument("exchange", type=Path)
    internal.add_argument("threads", type=int)
    internal.set_defaults(call=work)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
