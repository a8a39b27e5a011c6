"""docs/conformance.md, from the record in docs/conformance.json."""

import json
import pathlib

from verdicts import ALL, NO_SESSION, NONE, PART, write

DOCS = pathlib.Path(__file__).parents[2] / "docs"
RECORD, DOCUMENT = DOCS / "conformance.json", DOCS / "conformance.md"

_HEAD = """\
# Conformance

<!-- Written by tests/conformance with TANDEM_UPDATE_DOCS=1. -->

All tests of the `onnx` package ({onnx}) - single nodes, models by PyTorch, light networks - through a stock
ONNX Runtime {onnxruntime} with Tandem on OpenVINO {openvino}, each against the outputs and within the tolerances
that it brings along. Nothing hides a failure: sessions do not fall back when one cannot be created, and activations
are f32. `make test-conformance` runs them and fails, with name and reason, for each that got worse than it is
written here; [conformance.json](conformance.json) has the same by name. The CPU had AVX-512; without it, OpenVINO
computes bf16 in another way.

| | cases |
|---|---|
| all | {cases} |
| passed | {passed} |
| ... by ONNX Runtime's CPU provider alone | {passed_on_onnxruntime} |
| Tandem claims all nodes | {claimed_all} |
| ... a part of them | {claimed_part} |
| ... none | {claimed_none} |
| at least one node is declined by a rule | {declined_by_rule} |
| ONNX Runtime makes no session of it, whoever else it asks | {no_session} |
| regressions: right on the CPU provider, not on Tandem | {regressions} |
| refused: claimed, and then there was no session | {refused} |
| crashes and hangs | {crashes} |
| rounding: each node is right on what comes before it, the network as a whole is not | {rounding} |
"""

# Lists of names, each with a note.
_LISTS = {
    "regressions": ("Regressions", ""),
    "refused": ("Refused", ""),
    "crashes": ("Crashes", ""),
    "rounding": ("Rounding", "Softmax of a thousand equal numbers near 1e10: the last bit decides."),
    "wrong_where_onnxruntime_is_not_right": (
        "Not right, and not on the CPU provider alone either",
        "Random numbers; results that differ from a 0 by rounding where no absolute difference is allowed; and what\n"
        "the CPU provider, which got the node, does not do as ONNX says.",
    ),
    "passed_where_onnxruntime_is_not_right": (
        "Right on Tandem only",
        "The CPU provider lacks an operator or a type, or is not right.",
    ),
}


def rewrite(record):
    """Writes both files."""
    write(RECORD, record)
    DOCUMENT.write_text(render(json.loads(RECORD.read_text())))


def render(record):
    parts = [_HEAD.format(**record, **record["versions"])]
    for key, (title, note) in _LISTS.items():
        names = ",\n".join(f"`{name}`" for name in record["lists"][key])
        if names:
            parts.append("\n\n".join(part for part in (f"## {title}", note, names) if part) + "\n")
    parts.append(_models(record))
    parts.append(_declined(record))
    parts.append(_operators(record))
    return "\n".join(parts)


def _declined(record):
    reasons = {}
    for name, exception in record["exceptions"].items():
        for operator, reason in exception.get("declined", {}).items():
            cases, operators = reasons.setdefault(reason, (set(), set()))
            cases.add(name)
            operators.add(operator)
    rows = sorted(reasons.items(), key=lambda item: (-len(item[1][0]), item[0]))
    lines = [
        "## Why nodes are left to the CPU provider",
        "",
        "Cases in which a node of these operators is declined, and the rule (`src/graph/capability.cc`,",
        "`src/graph/operator_faults.cc`) or the answer of OpenVINO.",
        "",
        "| reason | cases | operators |",
        "|---|---|---|",
        *(f"| {reason} | {len(cases)} | {', '.join(sorted(operators))} |" for reason, (cases, operators) in rows),
    ]
    return "\n".join(lines) + "\n"


def _models(record):
    ways = list(next(iter(record["real_models"].values())))[1:]
    lines = [
        "## Real models",
        "",
        f"{record['real_models_passed']} of {record['real_models_total']} models in packages of the registries "
        "(`tests/models`) compute what",
        "they do on ONNX Runtime's CPU provider: in each of these ways, or in all that ONNX Runtime itself can go. How",
        "many of the nodes are Tandem's; of a compiled model, the nodes that are left of it. `make test-models`",
        "runs them.",
        "",
        f"| model | | {' | '.join(ways)} |",
        f"|---|---|{'---|' * len(ways)}",
        *(f"| {name} | {' | '.join(row.values())} |" for name, row in record["real_models"].items()),
    ]
    return "\n".join(lines) + "\n"


def _operators(record):
    lines = [
        "## Operators",
        "",
        "Cases by the operator that they are about; functions that are written out as others count as themselves.",
        "",
        "| operator | cases | all claimed | a part | none | no session | passed |",
        "|---|---|---|---|---|---|---|",
    ]
    for operator, row in record["operators"].items():
        counts = [row["cases"], *(row[claim] or "" for claim in (ALL, PART, NONE, NO_SESSION)), row["passed"]]
        lines.append(f"| {operator} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"
