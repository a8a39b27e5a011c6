#!/usr/bin/env python3
"""Makes build/ ready: a virtual environment, the oldest ONNX Runtime beside it, and C++ headers.

usage: bootstrap.py [--only venv|oldest-onnxruntime|debian]

Every step is skipped while the list it was made from is unchanged. Nothing is installed outside
build/. A missing system package ends the run with the command that installs it.
"""

import argparse
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LISTS = ROOT / "requirements"

# Programs a build needs, and the Debian package of each.
PROGRAMS = {
    "g++": "g++",
    "make": "make",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "git": "git",
}
MINIMUM_PYTHON = (3, 10)
MINIMUM_CMAKE = (3, 25)
MINIMUM_GXX = 12


def fail(message):
    sys.exit(f"bootstrap: {message}")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run(*command, **options):
    try:
        subprocess.run(command, check=True, **options)
    except subprocess.CalledProcessError as error:
        fail(f"'{' '.join(map(str, command))}' ended with status {error.returncode}")


def check_system():
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    try:
        import ensurepip  # noqa: F401  (Debian ships it apart, in python3-venv)
        import venv  # noqa: F401
    except ImportError:
        missing.append("python3-venv")
    if missing:
        fail(f"missing system packages; install them with:\n  sudo apt-get install {' '.join(missing)}")
    if sys.version_info < MINIMUM_PYTHON:
        fail(f"Python {platform.python_version()} is too old: {'.'.join(map(str, MINIMUM_PYTHON))} or newer is needed")
    cmake = tuple(int(part) for part in output_of("cmake", "--version").split()[2].split(".")[:2])
    if cmake < MINIMUM_CMAKE:
        fail(f"CMake {cmake[0]}.{cmake[1]} is too old: {'.'.join(map(str, MINIMUM_CMAKE))} or newer is needed")
    gxx = int(output_of("g++", "-dumpversion").split(".")[0])
    if gxx < MINIMUM_GXX:
        fail(f"g++ {gxx} is too old: {MINIMUM_GXX} or newer is needed (C++20)")


def up_to_date(name, *sources):
    """(stamp file, True when the step was made from these very sources before)"""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes() if isinstance(source, pathlib.Path) else str(source).encode())
    stamp = BUILD / "stamps" / name
    return stamp, digest.hexdigest(), stamp.exists() and stamp.read_text() == digest.hexdigest()


def step(name, title, sources, make):
    stamp, digest, done = up_to_date(name, *sources)
    if done:
        return
    print(f"bootstrap: {title}", flush=True)
    make()
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest)


def pip(*arguments):
    run(BUILD / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", *arguments)


def make_venv():
    run(sys.executable, "-m", "venv", "--clear", BUILD / "venv")
    pip("-r", LISTS / "python.txt")


def make_oldest_onnxruntime():
    target = BUILD / "oldest-onnxruntime"
    shutil.rmtree(target, ignore_errors=True)
    pip("--target", target, "-r", LISTS / "oldest-onnxruntime.txt")


def debian_packages():
    rows = [line.split("#")[0].split() for line in (LISTS / "debian.txt").read_text().splitlines()]
    return {row[0]: row[1:] for row in rows if row}


def debian_mirror():
    """(address, release) of the Debian archive that this machine's apt is configured with"""
    rows = output_of("apt-get", "indextargets", "--format", "$(SITE)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages")
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    for row in rows.splitlines():
        site, suite, component = row.split("|")
        if suite == release and component == "main":
            return site, release
    fail(
        "apt on this machine lists no Debian archive. Install the headers of nlohmann-json, xxHash, GoogleTest, "
        "google-benchmark and ONNX Runtime (>= 1.23) yourself and set TANDEM_SYSTEM_DEPS=1"
    )


def make_debian():
    """Unpacks the listed packages with an apt state of its own, so that the system's stays as it is."""
    site, release = debian_mirror()
    packages = debian_packages()
    state, deps = BUILD / "apt", BUILD / "deps"
    for folder in (state, deps):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (state / "lists/partial", state / "cache/archives/partial", state / "debs", deps):
        folder.mkdir(parents=True)
    keyring = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f"[signed-by={keyring}] " if keyring.exists() else ""
    suites = dict.fromkeys(release if suite == "stable" else suite for row in packages.values() for suite in row)
    (state / "sources.list").write_text("".join(f"deb {signed}{site} {suite} main\n" for suite in suites))
    options = [
        f"-oDir::Etc::sourcelist={state}/sources.list",
        "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={state}/lists",
        f"-oDir::Cache={state}/cache",
        "-oAPT::Sandbox::User=root",
        "-oAcquire::Languages=none",
    ]
    run("apt-get", "-qq", *options, "update")
    for package, wanted in packages.items():
        for suite in wanted:
            suite = release if suite == "stable" else suite
            command = ["apt-get", "-qq", *options, "download", f"{package}/{suite}"]
            if subprocess.run(command, cwd=state / "debs", stderr=subprocess.DEVNULL).returncode == 0:
                break
        else:
            fail(f"none of the suites {' '.join(wanted)} has the package {package}")
    for archive in sorted((state / "debs").glob("*.deb")):
        run("dpkg-deb", "-x", archive, deps)
        print(f"bootstrap:   {archive.name}", flush=True)
    shutil.rmtree(state)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["venv", "oldest-onnxruntime", "debian"])
    only = parser.parse_args().only
    check_system()
    BUILD.mkdir(exist_ok=True)
    script = pathlib.Path(__file__)
    if only in (None, "venv"):
        venv_list = LISTS / "python.txt"
        step("venv", "virtual environment", [venv_list, script, sys.executable], make_venv)
    if only in (None, "oldest-onnxruntime"):
        oldest = LISTS / "oldest-onnxruntime.txt"
        step("oldest-onnxruntime", "oldest ONNX Runtime", [oldest, script, sys.executable], make_oldest_onnxruntime)
    if only in (None, "debian") and os.environ.get("TANDEM_SYSTEM_DEPS") != "1":
        step("debian", "C++ headers", [LISTS / "debian.txt", script], make_debian)


if __name__ == "__main__":
    main()
