#!/usr/bin/env python3
"""The benchmark of Tandem beside its peers; README.md says what each figure means.

usage: run.py pair --weights f32|f16|int4 [--quick] [--repeat N] [--models DIR]
                   [--option NAME=VALUE] [--json FILE]
       run.py bundle [--weights ...] [...]
       run.py processes --count N [--weights ...] [...]
       run.py llm [--weights ...] [--kv shared|separate] [--curves] [...]
       run.py accuracy [--models DIR] [--json FILE]
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

from workers import LLM, PAIR, TOLERANCES, BenchError, Settings

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ("f32", "f16", "int4")
STEPS, QUICK_STEPS = {"prefill": 8, "decode": 60}, {"prefill": 3, "decode": 15}
LLM_STEPS = {"decode": 40, "prefill128": 8, "prefill512": 4}
LLM_QUICK_STEPS = {"decode": 15, "prefill128": 3, "prefill512": 2}


def pair(arguments):
    """Memory and speed of a prefill and a decode session."""
    from pair import measure

    settings, result = begin(arguments, STEPS, QUICK_STEPS)
    samples = measure(settings, progress)
    end(result | conclude(samples, settings), describe, arguments)


def bundle(arguments):
    """The pair from a bundle, beside its peers."""
    import bundle as measured

    settings, result = begin(arguments, STEPS, QUICK_STEPS)
    result |= measured.measure(settings, progress)
    end(result | {"ratios": measured.ratios(result)}, describe_bundle, arguments)


def processes(arguments):
    """The pair from a bundle in many processes."""
    import bundle as measured

    settings, result = begin(arguments, STEPS, QUICK_STEPS)
    rounds = measured.measure_processes(settings, arguments.count, progress)
    result |= {"count": arguments.count, "samples": rounds, "ratios": measured.process_ratios(rounds)}
    end(result, describe_processes, arguments)


def llm(arguments):
    """An LLM's prefill and decode beside the peers."""
    import llm as measured
    import machine

    settings, result = begin(arguments, LLM_STEPS, LLM_QUICK_STEPS)
    result["versions"] |= machine.versions_in(measured.PACKAGES)
    with_curves = arguments.curves or not arguments.quick
    result |= measured.measure(settings, arguments.kv, with_curves, progress)
    result |= measured.conclude(result, settings.weights)
    end(result, with_head(measured.describe), arguments)
    if failed := measured.failures(result):
        raise BenchError(f"no time for {', '.join(failed)}; all other results are there")


def accuracy(arguments):
    """What 8-bit activations cost."""
    import accuracy as measured

    settings, result = begin(arguments, {}, {})
    result |= measured.measure(settings, progress)
    end(result, with_head(measured.describe), arguments)


def begin(arguments, steps, quick_steps):
    """The Settings that the command line asks for, and the first entries of the result."""
    import machine

    settings = Settings(
        weights=arguments.weights,
        models=arguments.models.resolve(),
        repeat=arguments.repeat or (1 if arguments.quick else 3),
        threads=machine.cores(),
        steps=quick_steps if arguments.quick else steps,
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


def with_head(describe_lines):
    """Puts the command, the machine and the like before the lines that `describe_lines` makes of a result."""
    return lambda result: "\n".join([*_head(result), *describe_lines(result)])


def end(result, describe_result, arguments):
    """Prints the result, and writes it where the command line says."""
    print(describe_result(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def conclude(samples, settings):
    """What follows from the samples, for JSON. `ratios` are numbers, `ratio_spreads` their [low, high]."""
    import summary

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

    if arguments.kind == LLM:
        from llm_worker import LlmWorker as Worker
    else:
        from worker import Worker
    made_of = arguments.candidate, arguments.folder, arguments.exchange, arguments.threads
    worker.serve(lambda: Worker(*made_of))


def main():
    parser = argparse.ArgumentParser(description="Measure Tandem beside its peers.")
    commands = parser.add_subparsers(required=True)
    titles = {
        pair: "memory and speed of a prefill and a decode session",
        bundle: "disk, load time and memory of the pair from a bundle",
        processes: "the pair from a bundle in many processes",
        llm: "speed of an LLM's prefill and decode",
        accuracy: "what 8-bit activations cost",
    }
    for call, title in titles.items():
        measured = commands.add_parser(call.__name__, help=title)
        measured.add_argument("--models", type=Path, default=ROOT / "build" / "smollm2", metavar="DIR")
        measured.add_argument("--json", type=Path, metavar="FILE", help="where to write the result with all samples")
        if call is accuracy:
            measured.set_defaults(call=call, weights="int4", quick=False, repeat=1, option=[])
            continue
        default = {"required": True} if call is pair else {"default": "int4"}
        measured.add_argument("--weights", choices=WEIGHTS, **default)
        measured.add_argument("--quick", action="store_true", help="one process of each candidate and fewer steps")
        measured.add_argument(
            "--repeat", type=positive, metavar="N", help="processes of each candidate; default: 3, quick: 1"
        )
        measured.add_argument(
            "--option", action="append", type=option, default=[], metavar="NAME=VALUE", help="one of Tandem's"
        )
        if call is processes:
            measured.add_argument("--count", type=positive, default=8, metavar="N")
        if call is llm:
            measured.add_argument(
                "--kv",
                choices=("auto", "shared", "separate"),
                default="auto",
                help="past and present of tandem_contrib",
            )
            measured.add_argument("--curves", action="store_true", help="growth curves, which --quick leaves out")
        measured.set_defaults(call=call)
    internal = commands.add_parser("worker", help="a process of a candidate, started by the others")
    internal.add_argument("kind", choices=(PAIR, LLM))
    internal.add_argument("candidate")
    internal.add_argument("folder", type=Path)
    internal.add_argument("exchange", type=Path)
    internal.add_argument("threads", type=int)
    internal.set_defaults(call=work)
    arguments = parser.parse_args()
    try:
        arguments.call(arguments)
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from error


if __name__ == "__main__":
    main()
