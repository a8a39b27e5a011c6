"""What came of each case, what of that is worse than before, and the record that is kept of it."""

import json
import re
from dataclasses import dataclass, field

from worker import CRASH, ERROR, OUTCOMES, PASSED, REFUSED, ROUNDING, WRONG

# Of the nodes that ONNX Runtime asks for, from best to worst. No session: it lacks an operator, whoever else it asks.
CLAIMS = ALL, PART, NONE, NO_SESSION = "all", "part", "none", "no session"

# Reasons without what is particular to a model.
_REASONS = [
    (r"^OpenVINO does not (read|compile) the graph:.*", r"OpenVINO does not \1 it"),
    (r"^OpenVINO makes '.*", "OpenVINO makes something of another type or shape than the model says"),
    (r"^OpenVINO uses \d+ of the inputs .*", "OpenVINO does not use all of its inputs"),
    (r"^output '[^']*' has an unknown rank", "OpenVINO does not know the rank of its result"),
    (r"^together with others: .*", "OpenVINO does not compile it together with its neighbours"),
    (r"(^|: )'[^']*'( \[[^\]]*\])? (is|has)\b", r"\1a value \3"),
]


@dataclass
class Verdict:
    claim: str = ALL
    outcome: str = PASSED
    onnxruntime: str = PASSED  # what comes of it on the CPU provider
    declined: dict = field(default_factory=dict)  # reasons by operator
    message: str = ""  # why it did not pass

    @property
    def is_regression(self):
        return self.onnxruntime == PASSED and self.outcome in (WRONG, ERROR)

    @property
    def is_refused(self):
        return self.outcome == REFUSED and self.claim != NO_SESSION

    @property
    def is_declined_by_rule(self):
        """At least one of its nodes; OpenVINO was not asked."""
        return any(not reason.startswith("OpenVINO ") for reason in self.declined.values())

    def is_worse_than(self, other):
        """Numbers count where the CPU provider has them right: others, such as bf16, differ from CPU to CPU."""
        if CLAIMS.index(self.claim) > CLAIMS.index(other.claim):
            return True
        if self.outcome == WRONG and self.onnxruntime != PASSED:
            return False
        return OUTCOMES.index(self.outcome) > OUTCOMES.index(other.outcome)

    def __str__(self):
        reasons = [f"{operator}: {reason}" for operator, reason in self.declined.items()]
        parts = [f"claimed: {self.claim}", self.outcome, f"ONNX Runtime: {self.onnxruntime}", self.message, *reasons]
        return "; ".join(part for part in parts if part)


def judge(on_cpu, on_tandem):
    """The verdict on two results of one case."""
    if on_tandem.outcome == on_cpu.outcome == REFUSED and on_tandem.message == on_cpu.message:
        claim = NO_SESSION
    elif not on_tandem.claimed:
        claim = NONE
    else:
        claim = PART if on_tandem.declined else ALL
    declined = {operator: _plain(reason) for operator, reason in on_tandem.declined}
    return Verdict(claim, on_tandem.outcome, on_cpu.outcome, declined, on_tandem.message)


def record(cases, verdicts, versions):
    """All verdicts as JSON: totals, and by name whatever was not claimed whole and passed."""
    verdicts = {name: verdicts[name] for name in sorted(cases)}

    def names(condition):
        return [name for name, verdict in verdicts.items() if condition(verdict)]

    lists = {
        "regressions": names(lambda verdict: verdict.is_regression),
        "refused": names(lambda verdict: verdict.is_refused),
        "crashes": names(lambda verdict: verdict.outcome == CRASH),
        "rounding": names(lambda verdict: verdict.outcome == ROUNDING),
        "wrong_where_onnxruntime_is_not_right": names(
            lambda verdict: verdict.outcome in (WRONG, ERROR) and not verdict.is_regression
        ),
        "passed_where_onnxruntime_is_not_right": names(
            lambda verdict: verdict.outcome == PASSED and verdict.onnxruntime != PASSED
        ),
    }
    return {
        "versions": versions,
        "cases": len(verdicts),
        "claimed_all": len(names(lambda verdict: verdict.claim == ALL)),
        "claimed_part": len(names(lambda verdict: verdict.claim == PART)),
        "claimed_none": len(names(lambda verdict: verdict.claim == NONE)),
        "declined_by_rule": len(names(lambda verdict: verdict.is_declined_by_rule)),
        "no_session": len(names(lambda verdict: verdict.claim == NO_SESSION)),
        "passed": len(names(lambda verdict: verdict.outcome == PASSED)),
        "passed_on_onnxruntime": len(names(lambda verdict: verdict.onnxruntime == PASSED)),
        **{key: len(lists[key]) for key in ("regressions", "refused", "crashes", "rounding")},
        "lists": lists,
        "operators": _operators(cases, verdicts),
        "exceptions": {name: _written(verdict) for name, verdict in verdicts.items() if _written(verdict)},
    }


def write(file, document):
    """As JSON, with a line for each operator and each exception."""
    lines = []
    for key, value in document.items():
        if key in ("operators", "exceptions", "lists", "real_models"):
            entries = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{entries}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded(document, name):
    """The verdict that a record has on a case."""
    return Verdict(**document["exceptions"].get(name, {}))


def _operators(cases, verdicts):
    rows = {}
    for name, verdict in verdicts.items():
        row = rows.setdefault(cases[name].operator, dict.fromkeys(("cases", *CLAIMS, "passed"), 0))
        row["cases"] += 1
        row[verdict.claim] += 1
        row["passed"] += verdict.outcome == PASSED
    return dict(sorted(rows.items(), key=lambda item: item[0].lower()))


def _written(verdict):
    """What is not as it should be. Messages have numbers in them that change from run to run."""
    usual = Verdict()
    fields = ("claim", "outcome", "onnxruntime", "declined")
    return {name: getattr(verdict, name) for name in fields if getattr(verdict, name) != getattr(usual, name)}


def _plain(reason):
    for pattern, text in _REASONS:
        reason = re.sub(pattern, text, reason, flags=re.DOTALL)
    return reason
