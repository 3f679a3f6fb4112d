"""Thresholds of a classifier of two classes: what each of them would decide."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin.report.charts import Axis, Chart, Curve, line_chart, place_on_chart
from widemargin.report.scales import Scale, linear, thinned

# Thresholds that can be chosen on the page.
_MOST_THRESHOLDS = 160
# Promised values of precision and recall among the operating points.
_LEVELS = (0.9, 0.95, 0.99)
_UNIT = Scale(0.0, 1.0)


@dataclass(frozen=True)
class Thresholds:
    """Counts of the rows with scores above each threshold.

    Attributes
    ----------
    values : ndarray of shape (m,)
        Thresholds, in increasing order. Rows with higher scores are predicted positive.
    true_positives, false_positives : ndarray of int, shape (m,)
    n_positive, n_negative : int
    """

    values: np.ndarray
    true_positives: np.ndarray
    false_positives: np.ndarray
    n_positive: int
    n_negative: int

    @classmethod
    def of(cls, positive: np.ndarray, scores: np.ndarray) -> "Thresholds":
        """Return a threshold below all scores, one between any two of them, and zero."""
        order = np.argsort(scores, kind="stable")
        ordered, is_positive = scores[order], positive[order]
        last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        above = np.append(ordered[last][1:], np.nan)
        middle = 0.5 * (ordered[last] + above)
        # Halfway may round to the score above; then the score itself divides them.
        values = np.where(middle < above, middle, ordered[last])
        found = np.append(0, np.cumsum(is_positive)[last])
        passed = np.append(0, last + 1)
        # The threshold of the model takes the place of the one that decides the same.
        lowest = ordered[0] - 0.01 * (ordered[-1] - ordered[0] or 1.0)
        values = np.append(min(lowest, np.nextafter(ordered[0], -np.inf)), values)
        values[np.searchsorted(ordered[last], 0.0, side="right")] = 0.0
        n_positive = int(positive.sum())
        n_negative = positive.size - n_positive
        return cls(
            values, n_positive - found, n_negative - (passed - found), n_positive, n_negative
        )

    @property
    def n_predicted(self) -> np.ndarray:
        """Rows predicted positive, (m,)."""
        return self.true_positives + self.false_positives

    @property
    def precision(self) -> np.ndarray:
        """Precision, (m,); 1 where no row is predicted positive, as in scikit-learn's curves."""
        predicted = self.n_predicted
        one = np.ones(predicted.size)
        return np.divide(self.true_positives, predicted, out=one, where=predicted > 0)

    @property
    def recall(self) -> np.ndarray:
        """Recall, (m,)."""
        return self.true_positives / self.n_positive

    @property
    def false_positive_rate(self) -> np.ndarray:
        """Fraction of the negative rows that are predicted positive, (m,)."""
        return self.false_positives / self.n_negative

    @property
    def f1(self) -> np.ndarray:
        """F1, (m,)."""
        return 2 * self.true_positives / (self.n_positive + self.n_predicted)

    @property
    def of_the_model(self) -> int:
        """The place of the model's own threshold, zero."""
        return int(np.flatnonzero(self.values == 0.0)[0])

    def take(self, places: np.ndarray) -> "Thresholds":
        """Return some of the thresholds."""
        return Thresholds(
            self.values[places],
            self.true_positives[places],
            self.false_positives[places],
            self.n_positive,
            self.n_negative,
        )


def decisions(positive: np.ndarray, scores: np.ndarray, name: str) -> dict[str, Any] | None:
    """Return what the template shows of thresholds; None for rows of a single class.

    Parameters
    ----------
    positive : ndarray of bool, shape (n,)
    scores : ndarray of shape (n,)
    name : str
        The positive class.
    """
    if not 0 < positive.sum() < positive.size:
        return None
    thresholds = Thresholds.of(positive, scores)
    points = _operating_points(thresholds)
    values = np.unique(scores)
    kept = thinned(
        np.linspace(0.0, 1.0, thresholds.values.size), thresholds.recall, _MOST_THRESHOLDS
    )
    places = np.unique(np.concatenate([kept, *points.values()]).astype(int))
    shown = thresholds.take(places)
    x = _axis(shown)
    return {
        "chart": _chart(shown, x, name),
        "points": [
            {"name": what, **_row(thresholds.take(place), values)}
            for what, place in points.items()
        ],
        "data": {
            "thresholds": [_shortest(value, values) for value in shown.values.tolist()],
            "true_positives": shown.true_positives.tolist(),
            "false_positives": shown.false_positives.tolist(),
            "n_positive": shown.n_positive,
            "n_negative": shown.n_negative,
            "x": [round(float(at), 1) for at in place_on_chart(x, Axis(_UNIT, ""), shown.values)],
            "chosen": shown.of_the_model,
        },
        "last": shown.values.size - 1,
        "positive": name,
    }


def _operating_points(thresholds: Thresholds) -> dict[str, np.ndarray]:
    """Return places of thresholds by what they are for, each (1,)."""
    precision, recall = thresholds.precision, thresholds.recall
    some = thresholds.n_predicted > 0
    points = {
        "as trained": thresholds.of_the_model,
        "highest F1": int(np.argmax(thresholds.f1)),
        "precision = recall": int(
            np.argmin(np.abs(thresholds.n_predicted - thresholds.n_positive))
        ),
    }
    for level in _LEVELS:
        # The highest threshold with this recall has about the best precision.
        points[f"recall ≥ {level:g}"] = int(np.flatnonzero(recall >= level)[-1])
    for level in _LEVELS:
        enough = np.flatnonzero(some & (precision >= level))
        if enough.size:
            points[f"precision ≥ {level:g}"] = int(enough[np.argmax(recall[enough])])
    return {what: np.array([place]) for what, place in points.items()}


def _row(point: Thresholds, scores: np.ndarray) -> dict[str, str]:
    return {
        "threshold": str(_shortest(float(point.values[0]), scores)),
        "precision": f"{point.precision[0]:.4f}",
        "recall": f"{point.recall[0]:.4f}",
        "f1": f"{point.f1[0]:.4f}",
        "false_positive_rate": f"{point.false_positive_rate[0]:.4f}",
    }


def _shortest(threshold: float, scores: np.ndarray) -> float:
    """Return the number of fewest digits that divides sorted scores as the threshold does."""
    place = np.searchsorted(scores, threshold, side="right")
    for digits in range(3, 18):
        short = float(f"{threshold:.{digits}g}")
        if np.searchsorted(scores, short, side="right") == place:
            return short
    return threshold


def _axis(thresholds: Thresholds) -> Axis:
    return Axis(linear(thresholds.values), "threshold on the score")


def _chart(thresholds: Thresholds, x: Axis, name: str) -> Chart:
    curves = [
        Curve(thresholds.values, values, what, style)
        for what, values, style in (
            ("precision", thresholds.precision, "s1"),
            ("recall", thresholds.recall, "s2"),
            ("F1", thresholds.f1, "s3"),
            ("false positive rate", thresholds.false_positive_rate, "s4"),
        )
    ]
    chosen = np.full(2, thresholds.values[thresholds.of_the_model])
    curves.append(Curve(chosen, np.array([0.0, 1.0]), "", "chosen"))
    best = int(np.argmax(thresholds.f1))
    return line_chart(
        "Threshold",
        curves,
        x,
        Axis(_UNIT, ""),
        summary=f"F1 is highest, {thresholds.f1[best]:.4f}, "
        f"above a score of {thresholds.values[best]:.3g}.",
        note=f"Rows with a score above the threshold are predicted {name}.",
    )
