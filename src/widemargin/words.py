"""Numbers as people read them: counts, shares, sizes."""

import math

import numpy as np


def percent(fraction: float) -> str:
    """Format with two significant digits: 0.00081 as "0.081 %", 6.6e-07 as "0.000066 %"."""
    value = 100.0 * fraction
    if value >= 10.0:
        return f"{value:.0f} %"
    if not 1e-6 <= value < 1e-4:
        return f"{value:.2g} %"
    return f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0") + " %"


def duration(seconds: float) -> str:
    """Format a time: 4.1 ms, 0.35 s, 12 s, 3 min 20 s."""
    for unit, value in ("ms", 1000.0 * seconds), ("s", seconds):
        if value < 99.5:  # above, two digits are not enough
            return f"{value:.2g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


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


def label_in_words(label) -> str:
    """Format a class label, of NumPy's types or others: 1, 0.5, 'spam'."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def listed(values: list) -> str:
    """Format the first few values: 1, 2, 3, 4, 5, ..."""
    shown = [str(value) for value in values[:5]]
    return ", ".join(shown + ["..."] * (len(values) > 5))
