#!/usr/bin/env python3
"""SmolLM2 on Tandem and on ONNX Runtime's CPU provider, side by side: the same pair of sessions, the same prompt.

usage: demo.py OUTDIR     (exports OUTDIR/int4 and OUTDIR/f32 if need be; half a gigabyte)

Each provider runs in a process of its own, so that its memory is its own. Exit status 1: with f32 weights the two
do not choose the same tokens.
"""

import argparse
import contextlib
import io
import multiprocessing
import tempfile
import time
from collections import Counter
from pathlib import Path

# The providers' processes import this file too: what only the parent needs is imported in show().
from generate import Pair

PROMPT = "Explain in a few sentences why the sky is blue."
NEW_TOKENS = 48
WEIGHTS = ("int4", "f32")
EXACT = "f32"  # both providers compute in f32 with these weights
NOTES = {"int4": "; ORT CPU quantizes activations to 8 bits with int4 weights, Tandem does not"}
FORMS = ("prefill", "decode")
TANDEM, ORT_CPU = "Tandem", "ORT CPU"
ERRORS_ONLY = 3


def open_tandem(paths):
    """Sessions of the models on Tandem, and its report of them."""
    import onnxruntime
    import onnxruntime_ep_tandem as tandem

    with tempfile.TemporaryDirectory() as folder:
        report_file = Path(folder) / "report.json"
        options = [tandem.session_options(report_file=report_file) for _ in paths]
        sessions = [onnxruntime.InferenceSession(*pair) for pair in zip(paths, options, strict=True)]
        return sessions, tandem.read_report(report_file)


def open_ort_cpu(paths):
    """Sessions of the models on ONNX Runtime's CPU provider, with its default options."""
    import onnxruntime

    return [onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]) for path in paths], None


OPEN = {TANDEM: open_tandem, ORT_CPU: open_ort_cpu}


def run(provider, folder, prompt_ids, eos_id, connection):
    """The process of a provider: sends each token when it is there, then the figures, a dictionary.

    Times are in seconds, memory is in bytes.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(ERRORS_ONLY)
    start = time.perf_counter()
    sessions, report = OPEN[provider]([folder / f"{form}.onnx" for form in FORMS])
    opened = time.perf_counter()
    pair = Pair(*sessions)
    times = [time.perf_counter()]
    for token in pair.generate(prompt_ids, NEW_TOKENS, stop=[eos_id]):
        times.append(time.perf_counter())
        connection.send(token)
    connection.send(
        {
            "open": opened - start,
            "first_token": times[1] - times[0],
            "tokens_per_second": (len(times) - 2) / (times[-1] - times[1]),
            "resident_bytes": resident_bytes(),
            "copies": copies(report) if report else {},
        }
    )


def copies(report):
    """Bytes of weights in memory by (form, how many sessions use the copy), each copy counted once."""
    slots = {weight["slot"]: weight for session in report["sessions"] for weight in session["weights"]}
    total = Counter()
    for weight in slots.values():
        total[weight["form"], weight["sessions"]] += weight["bytes"]
    return dict(total)


def resident_bytes():
    """The physical memory of this process, files that it has mapped included."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmRSS")


def generate(provider, folder, chat):
    """The tokens and the figures of a provider. Writes the text while it comes."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (provider, folder, chat.encode_prompt(PROMPT), chat.eos_id, sender)
    process = context.Process(target=run, args=arguments)
    process.start()
    sender.close()  # the process has its own; without this one, its end is seen here
    tokens, written = [], ""
    print(f"\n{provider}: ", end="", flush=True)
    try:
        while isinstance(message := receiver.recv(), int):
            tokens.append(message)
            text = chat.decode(tokens)
            if not text.endswith("\ufffd"):  # else a character is not complete
                print(text[len(written) :], end="", flush=True)
                written = text
    except EOFError:
        raise SystemExit(f"demo.py: the process of {provider} ended early") from None
    finally:
        process.join()
    print(" ...")
    return tokens, message


def table(figures, disk_bytes):
    """Lines of text: the figures by provider, side by side."""
    rows = [
        ("time to open both sessions, ms", [f"{f['open'] * 1e3:.0f}" for f in figures.values()]),
        ("time to first token, ms", [f"{f['first_token'] * 1e3:.0f}" for f in figures.values()]),
        ("tokens per second", [f"{f['tokens_per_second']:.1f}" for f in figures.values()]),
        ("weights on disk, MB", [megabytes(disk_bytes)] * len(figures)),
    ]
    for key in sorted({key for f in figures.values() for key in f["copies"]}):
        form, sessions = key
        users = f"{sessions} sessions use each" if sessions > 1 else "1 session uses each"
        rows.append((f"weights {form}, {users}, MB", [megabytes(f["copies"].get(key)) for f in figures.values()]))
    rows.append(("resident memory, MB", [megabytes(f["resident_bytes"]) for f in figures.values()]))
    width = max(len(title) for title, _ in rows)
    heading = " " * width + "".join(f"{provider:>10}" for provider in figures)
    return [heading, *(f"{title:{width}}" + "".join(f"{cell:>10}" for cell in cells) for title, cells in rows)]


def megabytes(size_bytes):
    return "-" if size_bytes is None else f"{size_bytes / 1e6:.1f}"


def show(folder, weights):
    """Exports, generates on both providers, and prints. Returns how many of the tokens are the same, from the first."""
    import weight_file
    from chat import Chat
    from export import Options, export

    print(f"\n=== {weights} weights in {folder}", flush=True)
    with contextlib.redirect_stdout(io.StringIO()):  # the list of files
        export(folder, Options(weights, "plain"))
    chat = Chat(folder)
    print(f"{NEW_TOKENS} tokens, each the likeliest one: {PROMPT}", flush=True)
    results = {provider: generate(provider, folder, chat) for provider in OPEN}
    figures = {provider: result[1] for provider, result in results.items()}
    print()
    print("\n".join(table(figures, (folder / weight_file.FILE_NAME).stat().st_size)))
    tandem, ort = (results[provider][0] for provider in (TANDEM, ORT_CPU))
    same = next((i for i, (a, b) in enumerate(zip(tandem, ort, strict=False)) if a != b), min(len(tandem), len(ort)))
    print(f"the first {same} of {max(len(tandem), len(ort))} tokens are the same{NOTES.get(weights, '')}", flush=True)
    return tandem == ort


def main():
    parser = argparse.ArgumentParser(description="SmolLM2 on Tandem and on ORT's CPU provider, side by side.")
    parser.add_argument("folder", type=Path, metavar="OUTDIR", help="has, or gets, the models int4 and f32")
    folder = parser.parse_args().folder
    agree = {weights: show(folder / weights, weights) for weights in WEIGHTS}
    if not agree[EXACT]:
        raise SystemExit(f"demo.py: with {EXACT} weights {TANDEM} and {ORT_CPU} do not choose the same tokens")


if __name__ == "__main__":
    main()
