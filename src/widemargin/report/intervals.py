"""Confidence intervals of metrics.

The percentile bootstrap; DeLong's for the ROC AUC; for regression the normal one, by each row's
influence on the metric.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri
from scipy.stats import binomtest, rankdata

from widemargin.fitted import Ordinal
from widemargin.metrics import ndcg
from widemargin.report.confusion import Confusion
from widemargin.report.measures import Forecast, Judged, if_defined, pinball_losses

#: probability that an interval covers the value
LEVEL = 0.95
_RESAMPLES = 1000
_FEWEST_RESAMPLES = 200
# Numbers in memory at once: resamples times cells of the confusion matrix.
_MOST_NUMBERS = 4_000_000
# Of more groups, this many are measured.
_MOST_GROUPS = 2000


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def intervals(model: object, judged: Judged | Forecast) -> dict[str, Interval]:
    """Return confidence intervals of metrics, by the keys of `measures.NAMES`.

    Rows are resampled; for a ranking of several groups, groups are.
    """
    if isinstance(judged, Forecast):
        return _of_forecast(judged)
    rng = np.random.default_rng(0)  # the same rows have the same interval
    if judged.predicted is None:
        if judged.positive is not None:
            return _defined(roc_area=_delong(judged.positive, judged.scores))
        return _defined(ndcg_at_10=_ndcg_interval(judged, rng))
    confusion = Confusion.of(judged)
    resampled = _Resampled(confusion, rng)
    found = {"accuracy": _accuracy_interval(confusion, resampled)}
    if isinstance(model, Ordinal):
        return _defined(**found, mean_absolute_error=_percentiles(resampled.mean_error()))
    if judged.positive is None:
        return _defined(**found, macro_f1=_percentiles(resampled.macro_f1()))
    positive = int(judged.known[1])
    return _defined(
        **found,
        f1=_percentiles(resampled.f1()[:, positive]),
        roc_area=_delong(judged.positive, judged.scores),
    )


class _Resampled:
    """Confusion matrices of resampled rows: their cells are multinomial."""

    def __init__(self, confusion: Confusion, rng: np.random.Generator):
        self.confusion = confusion
        n_rows, n_cells = int(confusion.counts.sum()), confusion.counts.size
        size = min(_RESAMPLES, max(_FEWEST_RESAMPLES, _MOST_NUMBERS // n_cells))
        self.counts = rng.multinomial(n_rows, confusion.counts / n_rows, size=size)
        self.n_rows = n_rows

    def accuracy(self) -> np.ndarray:
        """Return the accuracy of each resample."""
        return self.counts[:, self.confusion.is_correct].sum(axis=1) / self.n_rows

    def mean_error(self) -> np.ndarray:
        """Return the mean distance between true and predicted class."""
        distance = np.abs(self.confusion.true - self.confusion.predicted)
        return self.counts @ distance / self.n_rows

    def f1(self) -> np.ndarray:
        """Return F1 of each class, (n_resamples, n_classes); nan where undefined."""
        right = self.confusion.is_correct
        correct = self._by_class(self.counts * right, self.confusion.true)
        support = self._by_class(self.counts, self.confusion.true)
        predicted = self._by_class(self.counts, self.confusion.predicted)
        whole = support + predicted
        return np.divide(2 * correct, whole, out=np.full(whole.shape, np.nan), where=whole > 0)

    def macro_f1(self) -> np.ndarray:
        """Return the mean F1 over the classes that occur."""
        return np.nanmean(self.f1(), axis=1)

    def _by_class(self, counts: np.ndarray, classes: np.ndarray) -> np.ndarray:
        cells = np.arange(classes.size)
        shape = classes.size, self.confusion.n_classes
        return counts @ sp.csr_array((np.ones(classes.size), (cells, classes)), shape=shape)


def _defined(**found: Interval | None) -> dict[str, Interval]:
    return {name: interval for name, interval in found.items() if interval is not None}


def _percentiles(values: np.ndarray) -> Interval | None:
    """Return the percentile interval; None where all resamples agree, which proves nothing."""
    values = values[np.isfinite(values)]
    if not values.size or values.min() == values.max():
        return None
    low, high = np.quantile(values, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL])
    return Interval(float(low), float(high))


def _accuracy_interval(confusion: Confusion, resampled: _Resampled) -> Interval:
    """Return the bootstrap interval; the exact binomial one if all rows or none are right."""
    n_correct = int(confusion.n_correct.sum())
    if 0 < n_correct < resampled.n_rows:
        found = _percentiles(resampled.accuracy())
        if found is not None:
            return found
    exact = binomtest(n_correct, resampled.n_rows).proportion_ci(LEVEL, method="exact")
    return Interval(float(exact.low), float(exact.high))


def _delong(positive: np.ndarray, scores: np.ndarray) -> Interval | None:
    """Return the interval of the ROC AUC of DeLong, DeLong and Clarke-Pearson (1988)."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if min(n_positive, n_negative) < 2:
        return None
    ranks = rankdata(scores)
    above = (ranks[positive] - rankdata(scores[positive])) / n_negative
    below = 1.0 - (ranks[~positive] - rankdata(scores[~positive])) / n_positive
    area = float(above.mean())
    variance = above.var(ddof=1) / n_positive + below.var(ddof=1) / n_negative
    if not variance > 0.0:
        return None
    width = ndtri(0.5 + 0.5 * LEVEL) * math.sqrt(variance)
    return Interval(max(area - width, 0.0), min(area + width, 1.0))


def _of_forecast(forecast: Forecast) -> dict[str, Interval]:
    errors = forecast.true - forecast.predicted
    if forecast.quantile is not None:
        losses = pinball_losses(forecast)
        n_below = int((errors <= 0.0).sum())
        wilson = binomtest(n_below, errors.size).proportion_ci(LEVEL, method="wilson")
        return _defined(
            mean_pinball_loss=_normal(float(losses.mean()), losses),
            fraction_below=Interval(float(wilson.low), float(wilson.high)),
        )
    sizes, squares = np.abs(errors), errors**2
    away = (forecast.true - forecast.true.mean()) ** 2
    square, spread = float(squares.mean()), float(away.mean())
    found = {"mean_absolute_error": _normal(float(sizes.mean()), sizes)}
    if square > 0.0:
        root = math.sqrt(square)
        found["root_mean_squared_error"] = _normal(root, squares / (2.0 * root))
    if spread > 0.0:
        influence = (square * away / spread - squares) / spread
        found["r2"] = _normal(1.0 - square / spread, influence)
    return _defined(**found)


def _normal(value: float, influence: np.ndarray) -> Interval | None:
    """Return the normal interval of a metric, by the rows' influence on it up to a constant."""
    if influence.size < 2:
        return None
    width = ndtri(0.5 + 0.5 * LEVEL) * float(influence.std(ddof=1)) / math.sqrt(influence.size)
    return Interval(value - width, value + width) if width > 0.0 else None


def _ndcg_interval(judged: Judged, rng: np.random.Generator) -> Interval | None:
    """Return the interval of the mean NDCG@10, with groups resampled."""
    if judged.qid is None:
        return None
    _, group = np.unique(judged.qid, return_inverse=True)
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    n_groups = len(members)
    if n_groups > _MOST_GROUPS:
        members = [members[i] for i in rng.choice(n_groups, _MOST_GROUPS, replace=False)]
    grades = judged.labels[judged.true]
    gains = [if_defined(ndcg, grades[rows], judged.scores[rows]) for rows in members]
    known = np.array([gain for gain in gains if gain is not None])
    if known.size < 2:
        return None
    means = rng.choice(known, size=(_RESAMPLES, known.size)).mean(axis=1)
    # The mean of more groups than were measured varies less.
    narrower = math.sqrt(len(members) / n_groups)
    return _percentiles(known.mean() + narrower * (means - known.mean()))
