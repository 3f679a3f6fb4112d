"""Formatting of numbers for text: counts, percentages, durations, sizes."""

import math
from fractions import Fraction

import numpy as np


def percent(fraction: float) -> str:
    """Format with two significant digits: 0.00081 as "0.081 %", 6.6e-07 as "0.000066 %"."""
    return _in_percent(100.0 * fraction)


def percent_at_most(bound: float | Fraction) -> str:
    """Format an upper bound as `percent` does, rounded up, so that it stays a bound."""
    if not 0 < bound < math.inf:
        return percent(float(bound))
    return _in_percent(_rounded_up(100 * Fraction(bound)))


def at_most(bound: float) -> str:
    """Format an upper bound with two significant digits, rounded up: 0.00121 as "0.0013"."""
    if not 0 < bound < math.inf:
        return f"{bound:.2g}"
    value = _rounded_up(Fraction(bound))
    return f"{value:.2g}" if value < 10.0 else f"{value:.0f}"


def times_at_most(larger: float, smaller: float) -> str:
    """Format larger / smaller with one decimal, rounded up: 1.61 as "1.7"."""
    if not math.isfinite(larger):
        return f"{larger / smaller:,.1f}"
    whole, tenths = divmod(math.ceil(10 * Fraction(larger) / Fraction(smaller)), 10)
    return f"{whole:,}.{tenths}"


def _rounded_up(value: Fraction) -> float:
    """Return a positive number rounded up to two significant digits or to a whole number."""
    exponent = math.floor(math.log10(value.numerator) - math.log10(value.denominator))
    exponent += (value >= Fraction(10) ** (exponent + 1)) - (value < Fraction(10) ** exponent)
    unit = Fraction(10) ** min(exponent - 1, 0)
    return float(math.ceil(value / unit) * unit)


def _in_percent(value: float) -> str:
    if value >= 10.0:
        return f"{value:.0f} %"
    if not 1e-6 <= value < 1e-4:
        return f"{value:.2g} %"
    return f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0") + " %"


def duration(seconds: float) -> str:
    """Format a time: 4.1 ms, 0.35 s, 12 s, 3 min 20 s."""
    for unit, value in ("ms", 1000.0 * seconds), ("s", seconds):
        if value < 99.5:  # larger values need more than two digits
            return f"{value:.2g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def count(number: int, noun: str) -> str:
    """Format a count: 1 row, 20,242 rows, 2 classes, 3 categories."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    if noun.endswith("s"):
        plural = noun + "es"
    return f"{number:,} {noun if number == 1 else plural}"


def shape_in_words(n_rows: int, n_features: int, n_classes: int | None = None) -> str:
    """Format the size of a problem: 20,242 rows, 47,236 features, 2 classes."""
    words = [count(n_rows, "row"), count(n_features, "feature")]
    if n_classes is not None:
        words.append(count(n_classes, "class"))
    return ", ".join(words)


def label_in_words(label: object) -> str:
    """Format a class label, which may be a NumPy scalar: 1, 0.5, 'spam'."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def listed(values: list) -> str:
    """Format the first few values: 1, 2, 3, 4, 5, ..."""
    shown = [str(value) for value in values[:5]]
    return ", ".join(shown + ["..."] * (len(values) > 5))
