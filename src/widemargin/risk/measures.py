"""Measures of a whole ranking or labelling, by their names, and as losses of labellings.

A labelling of rows of which P are positive finds t of these, and accepts f of the negative ones.
Measures that depend on such counts are

    f1, f2, f0.5, ...       F = (1 + b^2) t / (t + f + b^2 P)
    prbep                   t / P, if as many rows are accepted as are positive
    precision@k             t / k, if k rows are accepted
    recall@k                t / P, if k rows are accepted
    recall@precision=p      t / P, or 0 if t / (t + f) < p

The loss of a labelling is the best value that its number of rows allows, minus its value. Others
depend on more than counts:

    error                   1 - the error rate, whose errors may have unequal costs
    average_precision       the mean over positive rows of the precision down to that row
    roc_auc@p               the area under the ROC curve up to a false positive rate p, as a
                            fraction of what is possible there
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray as Array

from widemargin.kernels import measures as kernels

# As kernels/measures.py: t (1 - p) / p may be a whole number but for rounding.
_ROUNDING = 1e-9
# Of b and k; the square of its inverse is no longer small beside 1.
_LARGEST = 1e9
_NAMES = (
    "f1 (f2, f0.5, ...), prbep, precision@k, recall@k, recall@precision=p, error, "
    "average_precision, roc_auc@p"
)


@dataclass(frozen=True)
class Measure:
    """A measure of the counts t and f.

    Attributes
    ----------
    kind : {"f", "prbep", "precision", "recall", "recall_at_precision", "error", \
            "average_precision", "roc_auc"}
    number : float
        b of F; k; the precision; or the false positive rate.
    """

    kind: str
    number: float = 0.0

    @property
    def is_of_fixed_size(self) -> bool:
        """Whether the number of accepted rows is given."""
        return self.kind in ("prbep", "precision", "recall")

    @property
    def takes_intercept(self) -> bool:
        """Whether an intercept has an effect: whether accepted rows are those of score > 0."""
        return self.kind in ("f", "recall_at_precision", "error")

    def sizes(self, n_high: Array, n_low: Array) -> Array:
        """Return how many rows are accepted, of n_high positive and n_low negative ones."""
        if self.kind == "prbep":
            return n_high
        return np.minimum(int(self.number), n_high + n_low)

    def value(self, t: Array, f: Array, n_high: Array) -> Array:
        """Return the measure of labellings that find t of n_high positive rows; elementwise."""
        if self.kind == "f":
            beta2 = self.number**2
            return (1.0 + beta2) * t / (t + f + beta2 * n_high)
        if self.kind == "precision":
            return t / np.maximum(t + f, 1)
        recall = t / n_high
        if self.kind == "recall_at_precision":
            return np.where((t > 0) & (f <= self._most_false(t)), recall, 0.0)
        return recall

    def _most_false(self, t: Array) -> Array:
        return np.floor(t * (1.0 - self.number) / self.number + _ROUNDING)

    def losses(self, missed: Array, accepted: Array, n_high: Array, n_low: Array) -> Array:
        """Return the loss of labellings that miss and accept so many rows; nan if not allowed.

        It is no difference of larger numbers: that would cost small losses their digits.
        """
        found = n_high - missed
        if self.kind == "f":
            beta2 = self.number**2
            return (accepted + beta2 * missed) / (found + accepted + beta2 * n_high)
        if self.kind == "recall_at_precision":
            return np.where(self.value(found, accepted, n_high) > 0.0, missed / n_high, 1.0)
        sizes = self.sizes(n_high, n_low)
        losses = self._gains(n_high, n_low) * (accepted - np.maximum(0, sizes - n_high))
        return np.where(found + accepted == sizes, losses, np.nan)

    def _gains(self, n_high: Array, n_low: Array) -> Array:
        return 1.0 / (self.sizes(n_high, n_low) if self.kind == "precision" else n_high)

    def worst(self, weights: Array, high: "Sorted", low: "Sorted") -> Array:
        """Return how many rows of each group the worst labelling misses and accepts, (g, 2)."""
        cuts = np.empty((weights.size, 2), dtype=np.int64)
        rows = high.starts, high.scores, low.starts, low.scores, cuts
        if self.kind == "f":
            kernels.f_measure(weights, self.number**2, *rows)
        elif self.kind == "recall_at_precision":
            kernels.recall_at_precision(weights, self.number, *rows)
        else:
            counts = np.diff(high.starts), np.diff(low.starts)
            kernels.fixed_size(weights * self._gains(*counts), self.sizes(*counts), *rows)
        return cuts


@dataclass(frozen=True)
class Sorted:
    """Scores in order within their groups, (m,), and where groups begin, (g + 1,)."""

    scores: Array
    starts: Array


_PATTERNS: dict[str, Callable[[str], Measure]] = {
    r"f(\d*\.?\d+)": lambda beta: Measure("f", float(beta)),
    r"prbep()": lambda _: Measure("prbep"),
    r"precision@(\d+)": lambda k: Measure("precision", int(k)),
    r"recall@(\d+)": lambda k: Measure("recall", int(k)),
    r"recall@precision=(\d*\.?\d+)": lambda p: Measure("recall_at_precision", float(p)),
    r"error()": lambda _: Measure("error"),
    r"average_precision()": lambda _: Measure("average_precision"),
    r"roc_auc@(\d*\.?\d+)": lambda p: Measure("roc_auc", float(p)),
}


def measure_called(name: str) -> Measure:
    """Return the measure of this name; ValueError if there is none."""
    for pattern, make in _PATTERNS.items():
        if isinstance(name, str) and (match := re.fullmatch(pattern, name)):
            measure = make(match[1])
            most = 1.0 if measure.kind in ("recall_at_precision", "roc_auc") else _LARGEST
            if match[1] == "" or 1.0 / _LARGEST <= measure.number <= most:
                return measure
    raise ValueError(f"measure must be one of {_NAMES}, not {name!r}")
