#!/usr/bin/env python3
"""Checks the sources: clang-format, clang-tidy (needs build/release) and ruff.

usage: lint.py [--fix] [--fast]

--fix   formats instead of checking, and stops there
--fast  leaves out clang-tidy, which takes minutes
"""

import argparse
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build/venv/bin"
PYTHON_FOLDERS = ["bench", "examples", "python", "tests", "tools"]


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def run(*command):
    """Runs a check; True when it is content. What it says is shown when it is not."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, end="", flush=True)
    return done.returncode == 0


def clang_format(fix):
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    return run(TOOLS / "clang-format", *mode, *tracked("*.h", "*.cc"))


def ruff(fix):
    mode = ["--fix"] if fix else []
    formatted = run(TOOLS / "ruff", "format", "-q", *([] if fix else ["--check"]), *PYTHON_FOLDERS)
    return run(TOOLS / "ruff", "check", "-q", *mode, *PYTHON_FOLDERS) and formatted


def clang_tidy():
    """One process for each core; a file's headers are checked with it."""

    def check(source):
        return run(TOOLS / "clang-tidy", "-p", "build/release", "--quiet", source)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return all(list(pool.map(check, tracked("src/*.cc", "bench/*.cc"))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--fast", action="store_true")
    arguments = parser.parse_args()
    checks = {"clang-format": clang_format(arguments.fix), "ruff": ruff(arguments.fix)}
    if not arguments.fix and not arguments.fast:
        checks["clang-tidy"] = clang_tidy()
    for name, content in checks.items():
        print(f"{name}: {'ok' if content else 'FAILED'}")
    sys.exit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
