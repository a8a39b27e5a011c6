"""Medians, ratios and tables of samples; most of it for what pair.measure() returns."""

from statistics import median

from candidates import CANDIDATES, OPENVINO_CONSTANTS, ORT_CPU, TANDEM


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _megabytes(value):
    return number(value / 1e6)


def _distance(value):
    return f"{value:.1e}"


# Figure, its line in the table, and how the table writes a value.
ROWS = (
    ("first_session_ms", "first session: create, ms", number),
    ("first_session_first_run_ms", "first session: first run, ms", number),
    ("first_session_anon", "first session: anonymous MB", _megabytes),
    ("second_session_ms", "second session: create, ms", number),
    ("second_session_first_run_ms", "second session: first run, ms", number),
    ("second_session_anon", "second session: anonymous MB", _megabytes),
    ("second_session_resident", "second session: resident MB", _megabytes),
    ("third_session_anon", "third session: anonymous MB", _megabytes),
    ("libraries_resident", "before any session: resident MB", _megabytes),
    ("pair_resident", "both sessions: resident MB", _megabytes),
    ("weights_private", "weights in private memory, MB", _megabytes),
    ("nodes_declined", "nodes on ORT's CPU provider", "{:.0f}".format),
    ("prefill_ms", "prefill of 128 tokens, ms", number),
    ("decode_ms", "decode of 1 token, ms", number),
    ("prefill_distance", "prefill logits off ort_cpu", _distance),
    ("decode_distance", "decode logits off ort_cpu", _distance),
)
INT4_NOTE = (
    "note      activations: tandem, ort_cpu and openvino_constants quantize them to 8 bits with int4 weights, by\n"
    "          their defaults."
)


def figures(samples):
    """Median, lowest and highest of each figure of each candidate, over all rounds and steps."""
    return {
        name: {figure: _spread(_flat(values)) for figure, values in by_figure.items()}
        for name, by_figure in samples.items()
    }


def ratios(samples, weights_bytes):
    """Each ratio by name: `value`, and `low` and `high` of the single rounds.

    Times of two candidates are divided step by step; the median of that is the value. Memory is a ratio of medians.
    """
    tandem = samples[TANDEM]
    result = {
        f"{session}_session_anon_over_weights": _ratio(tandem[f"{session}_session_anon"], [weights_bytes])
        for session in ("second", "third")
    }
    result["second_session_time_over_first"] = paired(
        [[value] for value in tandem["second_session_ms"]], [[value] for value in tandem["first_session_ms"]]
    )
    for peer in (OPENVINO_CONSTANTS, ORT_CPU):
        for form in ("decode", "prefill"):
            result[f"{form}_over_{peer}"] = paired(tandem[f"{form}_ms"], samples[peer][f"{form}_ms"])
    result["pair_resident_over_ort_cpu"] = _ratio(tandem["pair_resident"], samples[ORT_CPU]["pair_resident"])
    return result


def table(figures):
    """The figures as lines of text, a column for each candidate."""
    rows = [("", *CANDIDATES)]
    for figure, title, write in ROWS:
        rows.append((title, *(cell(figures[name].get(figure), write) for name in CANDIDATES)))
    return aligned(rows)


def brief(reason):
    """A long reason in one line of at most 250 characters: its beginning and its end, which says most."""
    text = " ".join(reason.split())
    return text if len(text) <= 250 else f"{text[:80]} ... {text[-165:]}"


def aligned(rows):
    """Rows of text cells as lines, in columns: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [[text.rjust(width) for text, width in zip(row, widths, strict=True)] for row in rows]
    for line, (title, *_) in zip(lines, rows, strict=True):
        line[0] = title.ljust(widths[0])
    return "\n".join("  ".join(line) for line in lines)


def ratio_lines(values, spreads):
    """The ratios as lines of text; `spreads` has low and high of each."""
    width = max(map(len, values))
    return "\n".join(
        f"{name.ljust(width)}  {value:.3f}  [{spreads[name][0]:.3f}..{spreads[name][1]:.3f}]"
        for name, value in values.items()
    )


def paired(numerators, denominators):
    """The ratio of lists of rounds, each a list of samples taken at the same moments."""
    rounds = [
        [numerator / denominator for numerator, denominator in zip(*pair, strict=True)]
        for pair in zip(numerators, denominators, strict=True)
    ]
    medians = [median(ratios) for ratios in rounds]
    return {"value": median(_flat(rounds)), "low": min(medians), "high": max(medians)}


def cell(spread, write):
    """Text such as '12.3 [12.1..12.9]'; '12.3' if nothing else was seen, '-' for what a candidate does not have."""
    if spread is None:
        return "-"
    middle, low, high = (write(spread[key]) for key in ("median", "min", "max"))
    return middle if low == high else f"{middle} [{low}..{high}]"


def _ratio(numerators, denominators):
    """The ratio of medians; low and high are those of single rounds."""
    if len(denominators) == 1:
        denominators = denominators * len(numerators)
    rounds = [numerator / denominator for numerator, denominator in zip(numerators, denominators, strict=True)]
    return {"value": median(numerators) / median(denominators), "low": min(rounds), "high": max(rounds)}


def _flat(values):
    """Samples of all rounds in one list."""
    return [sample for value in values for sample in (value if isinstance(value, list) else [value])]


def _spread(values):
    return {"median": median(values), "min": min(values), "max": max(values)}
