"""usage: python -m onnxruntime_ep_tandem info | report MODEL... [--option NAME=VALUE]...

info     prints the library's path and the devices that it lists
report   opens a session of each model, one after the other and all at once, and prints what they share
"""

import argparse
import json
import pathlib
import tempfile

import onnxruntime_ep_tandem as tandem


def info():
    print(f"library  {tandem.get_library_path()}")
    for device in tandem.register():
        print(f"device   {device.ep_metadata['ov_device']} ({device.device.vendor or 'any vendor'})")


def report(models, options):
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        # All are held until the report is read: it tells of living sessions.
        sessions = [
            onnxruntime.InferenceSession(model, tandem.session_options(report_file=file, **options), enable_fallback=0)
            for model in models
        ]
        print(json.dumps(tandem.read_report(file), indent=1))
        del sessions


def option(text):
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def main():
    parser = argparse.ArgumentParser(
        prog="python -m onnxruntime_ep_tandem",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info")
    report_parser = commands.add_parser("report")
    report_parser.add_argument("models", nargs="+", metavar="MODEL")
    report_parser.add_argument("--option", action="append", type=option, default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    if arguments.command == "info":
        info()
    else:
        report(arguments.models, dict(arguments.option))


if __name__ == "__main__":
    main()
