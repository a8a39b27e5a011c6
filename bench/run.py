#!/usr/bin/env python3
"""The benchmark of Tandem beside its peers; README.md says what each figure means.

usage: run.py pair --weights f32|f16|int4 [--quick] [--repeat N] [--models DIR]
                   [--option NAME=VALUE] [--json FILE]
       run.py bundle [--weights ...] [...]
       run.py processes --count N [--weights ...] [...]
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
    from pair import BenchError, measure

    settings, result = begin(arguments)
    try:
        samples = measure(settings, progress)
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from error
    end(result | conclude(samples, settings), describe, arguments)


def bundle(arguments):
    """The pair from a bundle, beside its peers. Exits like pair()."""
    from pair import BenchError

    import bundle as measured

    settings, result = begin(arguments)
    try:
        result |= measured.measure(settings, progress)
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from error
    end(result | {"ratios": measured.ratios(result)}, describe_bundle, arguments)


def processes(arguments):
    """The pair from a bundle in many processes. Exits like pair()."""
    from pair import BenchError

    import bundle as measured

    settings, result = begin(arguments)
    try:
        rounds = measured.measure_processes(settings, arguments.count, progress)
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from error
    result |= {"count": arguments.count, "samples": rounds, "ratios": measured.process_ratios(rounds)}
    end(result, describe_processes, arguments)


def begin(arguments):
    """The Settings that the command line asks for, and the first entries of the result."""
    import machine
    from pair import Settings

    settings = Settings(
        weights=arguments.weights,
        models=arguments.models.resolve(),
        repeat=arguments.repeat or (1 if arguments.quick else 3),
        threads=machine.cores(),
        steps=QUICK_STEPS if arguments.quick else STEPS,
        options=dict(arguments.option),
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
    return settings, result


def progress(text):
    print(text, file=sys.stderr, flush=True)


def end(result, describe_result, arguments):
    """Prints the result, and writes it where the command line says."""
    print(describe_result(result))
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


def describe_bundle(result):
    """The result of bundle() as text."""
    import summary

    import bundle

    figures = summary.figures(result["samples"])
    lines = _head(result)
    for name, title in bundle.PEERS.items():
        load, memory = (figures[name][figure] for figure in ("load_ms", "anonymous"))
        lines.append(
            f"{title:24} load of the pair {load['median']:.0f} ms [{load['min']:.0f}..{load['max']:.0f}], "
            f"anonymous {memory['median'] / 2**20:.0f} MiB after a run of each"
        )
    disk = result["disk"]
    lines.append(f"disk {disk['files'] / 1e6:.1f} MB, unique weights {disk['unique_weights'] / 1e6:.1f} MB\n")
    return "\n".join([*lines, *_plain_ratios(result)])


def describe_processes(result):
    """The result of processes() as text."""
    lines = _head(result)
    for entry in result["samples"]:
        ready = ", ".join(f"{value:.0f}" for value in entry["ready_ms"])
        lines.append(f"ready after {ready} ms; pages of the bundle {sum(entry['pss']) / 1e6:.1f} MB in all")
    return "\n".join([*lines, "", *_plain_ratios(result)])


def _head(result):
    import machine

    return [
        f"command   {result['command']}",
        machine.describe(result["machine"], result["versions"]),
        f"weights   {result['weights']}; {result['threads']} threads; {result['repeat']} rounds\n",
    ]


def _plain_ratios(result):
    return [f"{name:26} {value:.3f}" for name, value in result["ratios"].items()]


def option(text):
    """NAME=VALUE as a pair."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


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
    titles = {
        pair: "memory and speed of a prefill and a decode session",
        bundle: "disk, load time and memory of the pair from a bundle",
        processes: "the pair from a bundle in many processes",
    }
    for call, title in titles.items():
        measured = commands.add_parser(call.__name__, help=title)
        default = {"required": True} if call is pair else {"default": "int4"}
        measured.add_argument("--weights", choices=WEIGHTS, **default)
        measured.add_argument("--quick", action="store_true", help="one process of each candidate and fewer steps")
        measured.add_argument(
            "--repeat", type=positive, metavar="N", help="processes of each candidate; default: 3, quick: 1"
        )
        measured.add_argument("--models", type=Path, default=ROOT / "build" / "smollm2", metavar="DIR")
        measured.add_argument("--json", type=Path, metavar="FILE", help="where to write the result with all samples")
        measured.add_argument(
            "--option", action="append", type=option, default=[], metavar="NAME=VALUE", help="one of Tandem's"
        )
        if call is processes:
            measured.add_argument("--count", type=positive, default=8, metavar="N")
        measured.set_defaults(call=call)
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
