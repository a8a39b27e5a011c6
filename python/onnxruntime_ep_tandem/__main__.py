"""Tandem on the command line.

info      prints the library's path and the devices that it lists
compile   compiles models into a folder: a small model for each, and one bundle of weights and programs for all
inspect   prints what a bundle holds, and which programs use which weights
verify    compares all of a bundle with its digests (needs the package xxhash)
run       runs a model once on Tandem; inputs come from .npy files
profile   sums up a profile (option profile_file, or ONNX Runtime's own) by operator type and by node
report    opens a session of each model, one after the other and all at once, and prints what they share

Exit status: 0 done, 1 an error, which is printed, 2 a wrong command line.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import onnxruntime_ep_tandem as tandem

from . import bundles, profiles


def info(arguments):
    print(f"library  {tandem.get_library_path()}")
    for device in tandem.register():
        print(f"device   {device.ep_metadata['ov_device']} ({device.device.vendor or 'any vendor'})")


def compile_models(arguments):
    def progress(number, count, model):
        bar = "#" * (20 * number // count)
        print(f"[{bar:20}] {number + 1} of {count}: {model.name}", file=sys.stderr, flush=True)

    options = dict(arguments.option)
    if arguments.device:
        options["device"] = arguments.device
    bundle = bundles.compile(arguments.models, arguments.output, bundle=arguments.bundle, progress=progress, **options)
    found = bundles.inspect(bundle)
    print(f"bundle             {bundle} ({_megabytes(found['file_bytes'])})")
    print(f"programs           {len(found['programs'])}")
    print(f"weights            {_megabytes(found['weight_bytes'])} unique")
    print(f"saved by sharing   {_megabytes(found['saved_bytes'])}")


def inspect(arguments):
    found = bundles.inspect(arguments.bundle)
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    print(f"format {found['format']}, made by Tandem {found['tandem']} with OpenVINO {found['openvino']}")
    print(f"{_megabytes(found['file_bytes'])}, weights {_megabytes(found['weight_bytes'])} unique")
    for program in found["programs"]:
        print(f"\n{program['program']} on {program['device']}")
        print(f"  {', '.join(program['inputs'])} -> {', '.join(program['outputs'])}")
        print(f"  {program['functions']} functions, {program['calls']} calls, {program['weights']} weights")
    print("\n    bytes  form    programs  names")
    for weight in found["weights"]:
        users = len(weight["programs"])
        print(f"{weight['bytes']:>9}  {weight['form']:6}  {users:8}  {', '.join(weight['names'])}")


def verify(arguments):
    print(f"{arguments.bundle}: {bundles.verify(arguments.bundle)} tensors are as they were written")


def run(arguments):
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(
        arguments.model, tandem.session_options(**dict(arguments.option)), enable_fallback=0
    )
    feeds = {name: np.load(file) for name, file in arguments.input}
    missing = [f"{i.name} {i.type}{i.shape}" for i in session.get_inputs() if i.name not in feeds]
    if missing:
        raise ValueError(f"give --input NAME=FILE.npy for {', '.join(missing)}")
    names = [output.name for output in session.get_outputs()]
    for name, value in zip(names, session.run(names, feeds), strict=True):
        print(f"{name}  {value.dtype}{list(value.shape)}")
        if arguments.output:
            pathlib.Path(arguments.output).mkdir(parents=True, exist_ok=True)
            np.save(pathlib.Path(arguments.output) / f"{name.replace('/', '_')}.npy", value)


def report(arguments):
    import onnxruntime

    options = dict(arguments.option)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        # All are held until the report is read: it tells of living sessions.
        sessions = [
            onnxruntime.InferenceSession(model, tandem.session_options(report_file=file, **options), enable_fallback=0)
            for model in arguments.models
        ]
        print(json.dumps(tandem.read_report(file), indent=1))
        del sessions


def profile(arguments):
    summary = profiles.summary(arguments.profile)
    runs_us = summary["runs_us"]
    print(f"{summary['runs']} runs, {runs_us / 1e3:.1f} ms, median {summary['median_us'] / 1e3:.3f} ms")
    for table, columns in (("types", ("op_name", "executor")), ("nodes", ("node", "op_name"))):
        rows = summary[table]
        print(f"\n      ms       %    count   mean us  {', '.join(columns)}")
        for row in rows[: arguments.top]:
            mean = row["us"] / row["count"]
            name = "  ".join(row[column] for column in columns)
            print(f"{row['us'] / 1e3:8.2f}  {row['us'] / runs_us:6.1%} {row['count']:8} {mean:9.1f}  {name}")
        if len(rows) > arguments.top:
            print(f"{len(rows) - arguments.top} more; --top shows them")
    between = runs_us - summary["ops_us"]
    print(f"\nbetween operators: {between / 1e3:.2f} ms, {between / runs_us:.1%}")


def pair(text):
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def _megabytes(size_bytes):
    return f"{size_bytes / 1e6:.1f} MB"


def _parser():
    parser = argparse.ArgumentParser(
        prog="tandem", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name, function, *, options=False):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        if options:
            command.add_argument("--option", action="append", type=pair, default=[], metavar="NAME=VALUE")
        return command

    add("info", info)
    command = add("compile", compile_models, options=True)
    command.add_argument("models", nargs="+", metavar="MODEL")
    command.add_argument("-o", "--output", required=True, metavar="DIR")
    command.add_argument("--bundle", metavar="NAME", help="its file name; default: that of the first model")
    command.add_argument("--device", help="CPU, GPU.0, ...; default: the first")
    command = add("inspect", inspect)
    command.add_argument("bundle", metavar="BUNDLE")
    command.add_argument("--json", action="store_true")
    command = add("verify", verify)
    command.add_argument("bundle", metavar="BUNDLE")
    command = add("run", run, options=True)
    command.add_argument("model", metavar="MODEL")
    command.add_argument("--input", action="append", type=pair, default=[], metavar="NAME=FILE.npy")
    command.add_argument("--output", metavar="DIR", help="where to write the outputs as .npy files")
    command = add("profile", profile)
    command.add_argument("profile", metavar="FILE")
    command.add_argument("--top", type=int, default=20, metavar="N", help="rows of a table; default: 20")
    command = add("report", report, options=True)
    command.add_argument("models", nargs="+", metavar="MODEL")
    return parser


def main():
    arguments = _parser().parse_args()
    try:
        arguments.function(arguments)
    except Exception as error:
        # ONNX Runtime's exceptions have no common base.
        raise SystemExit(f"tandem: {error}") from error


if __name__ == "__main__":
    main()
