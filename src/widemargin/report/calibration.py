"""Calibration curves: how often what is predicted with some probability is true."""

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from widemargin.report.charts import REFERENCE, Axis, Chart, Curve, line_chart
from widemargin.report.measures import Judged
from widemargin.report.scales import Scale, linear

_N_BINS = 10
# Bins with fewer rows would show noise.
_FEWEST_ROWS_PER_BIN = 5
_UNIT = Scale(0.0, 1.0)


def calibration(judged: Judged) -> Chart | None:
    """Return a calibration curve; None without two classes or probabilities, or with few rows.

    Without probabilities, it shows how the fraction of positive rows rises with the score.
    """
    n_bins = min(_N_BINS, judged.true.size // _FEWEST_ROWS_PER_BIN)
    if n_bins < 3:
        return None
    if judged.probabilities is None:
        both = judged.positive is not None and 0 < judged.positive.sum() < judged.true.size
        return _rate_by_score(judged, n_bins) if both else None
    if judged.positive is not None:
        probability, happened = judged.probabilities[:, 1], judged.positive
        x_label, y_label = "predicted probability", "fraction of positive rows"
        note = f"Positive class: {judged.positive_name}. Bins of equally many rows."
    else:
        probability, happened = judged.probabilities.max(axis=1), judged.true == judged.predicted
        x_label, y_label = "probability of the predicted class", "fraction of correct rows"
        note = "Bins of equally many rows."
    observed, predicted = calibration_curve(
        happened, probability, n_bins=n_bins, strategy="quantile"
    )
    brier = brier_score_loss(happened, probability)
    diagonal = Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "perfectly calibrated", REFERENCE)
    curve = Curve(predicted, observed, "this model", "s1", _tooltip)
    return line_chart(
        "Calibration curve",
        [diagonal, curve],
        Axis(_UNIT, x_label),
        Axis(_UNIT, y_label),
        summary=f"Brier score {brier:.4f}.",
        note=f"{note} Brier score {brier:.4f}.",
    )


def _tooltip(predicted: float, observed: float) -> str:
    return f"predicted {predicted:.3f}, observed {observed:.3f}"


def _rate_by_score(judged: Judged, n_bins: int) -> Chart:
    """Return the fraction of positive rows against the mean score of bins."""
    assert judged.positive is not None
    order = np.argsort(judged.scores, kind="stable")
    bins = np.array_split(order, n_bins)
    scores = np.array([judged.scores[rows].mean() for rows in bins])
    rates = np.array([judged.positive[rows].mean() for rows in bins])

    def tooltip(score: float, rate: float) -> str:
        return f"score {score:.3g}: {rate:.3f} positive"

    return line_chart(
        "Positive rows by score",
        [Curve(scores, rates, "", "s1", tooltip)],
        Axis(linear(scores), "mean score"),
        Axis(_UNIT, "fraction of positive rows"),
        summary=f"From {rates[0]:.2f} in the lowest bin to {rates[-1]:.2f} in the highest.",
        note=f"Bins of equally many rows; positive class {judged.positive_name}. "
        "Scores are not probabilities: probability=True calibrates them.",
    )
