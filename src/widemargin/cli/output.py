"""What commands print: one JSON object for machines, or a few plain lines for people."""

import json
import math
import sys
from typing import Any


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object and nothing else."""
    write_stdout(json.dumps(_plain(values)) + "\n")


def print_lines(pairs: dict[str, str]) -> None:
    """Print names and what they stand for, in two columns."""
    width = max(map(len, pairs))
    write_stdout("".join(f"{name:<{width}}  {value}\n" for name, value in pairs.items()))


def write_stdout(text: str) -> None:
    """Write and flush, so that a closed pipe is noticed here and not when Python exits."""
    sys.stdout.write(text)
    sys.stdout.flush()


def certificate_in_words(certificate) -> str:
    """Say what a certificate proves, e.g. "objective 123.4, proved within 0.08 % of ..."."""
    return f"objective {certificate.primal:.6g}, {bound_in_words(certificate)}"


def bound_in_words(certificate) -> str:
    """Say how far above the optimum the objective can be at most.

    In parts of the dual value: the optimum is at least that, so the sentence is true however
    large the gap is. (`relative_gap` is in parts of the primal value, and never passes 100 %.)
    """
    gap = max(certificate.gap, 0.0)
    if gap == 0.0:
        return "proved optimal"
    if certificate.dual <= 0.0:
        return "with no useful bound on its distance to the optimum"
    if gap > certificate.dual:
        return f"proved at most {certificate.primal / certificate.dual:,.1f} times the optimum"
    return f"proved within {percent(gap / certificate.dual)} of the optimum"


def percent(fraction: float) -> str:
    """Format with two significant digits: 0.00081 as "0.081 %"."""
    value = 100.0 * fraction
    return f"{value:.0f} %" if value >= 10.0 else f"{value:.2g} %"


def count(number: int, noun: str) -> str:
    """Format a count: 1 row, 20,242 rows, 2 classes."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def shape_in_words(n_rows: int, n_features: int, n_classes: int | None = None) -> str:
    """Format the size of a problem: 20,242 rows, 47,236 features, 2 classes."""
    words = [count(n_rows, "row"), count(n_features, "feature")]
    if n_classes is not None:
        words.append(count(n_classes, "class"))
    return ", ".join(words)


def labels_as_text(labels: list, scores: list | None) -> str:
    """One line per row: its label and, where given, its decision values after tabs."""
    if scores is None:
        return "".join(f"{label}\n" for label in labels)
    lines = []
    for label, values in zip(labels, scores):
        values = values if isinstance(values, list) else [values]  # one for two classes
        lines.append("\t".join([str(label), *map(repr, values)]) + "\n")
    return "".join(lines)


def _plain(value):
    """`value` as strict JSON knows it: NumPy's scalars as Python's, no NaN and no infinity."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
