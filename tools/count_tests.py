#!/usr/bin/env python3
"""Sums up the JUnit files of a folder, of GoogleTest and pytest, as one line: "N passed, N failed".

usage: count_tests.py FOLDER FAILED_STEPS

FAILED_STEPS of a run count too when no test says why they failed: a build or the lint. The status is 0 when nothing
failed.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def counts(file):
    """(passed, failed) test cases; skipped ones are neither."""
    passed = failed = 0
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            failed += 1
        elif "skipped" not in outcomes and case.get("status") != "notrun":
            passed += 1
    return passed, failed


def main():
    folder, failed_steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    results = [counts(file) for file in sorted(folder.glob("*.xml"))]
    passed = sum(result[0] for result in results)
    failed = max(sum(result[1] for result in results), failed_steps)
    print(f"{passed} passed, {failed} failed")
    sys.exit(0 if failed == 0 else 1)


if __name__ == "__main__":
    main()
