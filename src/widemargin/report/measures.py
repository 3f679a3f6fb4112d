"""Metrics of a model on labelled rows, for reports and for `widemargin evaluate`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_regressor
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from widemargin.arrays import on_host
from widemargin.fitted import (
    Calibrated,
    Classifier,
    Labelling,
    Measured,
    Ordinal,
    Probabilistic,
)
from widemargin.labels import places_of
from widemargin.metrics import mean_average_precision, ndcg, pairwise_accuracy
from widemargin.sigmoids import probabilities

#: metrics by their keys; None where undefined
Measures: TypeAlias = dict[str, float | None]

NAMES = {
    "groups": "groups",
    "accuracy": "accuracy",
    "roc_area": "ROC AUC",
    "average_precision": "average precision",
    "break_even": "precision-recall break-even",
    "f1": "F1",
    "macro_f1": "macro F1",
    "mean_absolute_error": "mean absolute error",
    "pairwise_accuracy": "pairwise accuracy",
    "ndcg_at_10": "NDCG@10",
    "mean_average_precision": "MAP",
    "r2": "R2",
    "root_mean_squared_error": "root mean squared error",
    "mean_pinball_loss": "mean pinball loss",
    "fraction_below": "rows at or below the prediction",
}


class Judged(NamedTuple):
    """True and predicted labels of rows that a model has scored.

    Attributes
    ----------
    scores : ndarray of shape (n,) or (n, n_classes)
    labels : ndarray of shape (m,)
        The labels of the rows and of the model, in increasing order; for an ordinal model in
        the order of its classes.
    names : list of str, of length m
        The labels as text.
    true : ndarray of shape (n,)
        Index of each row's label in `labels`.
    known : ndarray of shape (n_classes,)
        Indices of the model's classes in `labels`; empty for a ranking model.
    predicted : ndarray of shape (n,) or None
        Index of the predicted class in `labels`; None for a ranking model.
    qid : ndarray of shape (n,) or None
        Query of each row.
    probabilities : ndarray of shape (n, n_classes) or None
        Probabilities of the model's classes.
    """

    scores: np.ndarray
    labels: np.ndarray
    names: list[str]
    true: np.ndarray
    known: np.ndarray
    predicted: np.ndarray | None
    qid: np.ndarray | None
    probabilities: np.ndarray | None = None

    @property
    def positive(self) -> np.ndarray | None:
        """Mask of the positive rows, (n,), if there are two classes; else None."""
        if self.predicted is None:
            two = self.qid is None and self.labels.size == 2
            return self.true == 1 if two else None
        return self.true == self.known[1] if self.known.size == 2 else None

    @property
    def positive_name(self) -> str | None:
        """Name of the positive class."""
        if self.positive is None:
            return None
        return self.names[1 if self.predicted is None else self.known[1]]


class Forecast(NamedTuple):
    """Numbers that a model has predicted, and the true ones.

    Attributes
    ----------
    true, predicted : ndarray of shape (n,)
    quantile : float or None
        What part of the rows shall be at or below the prediction; None unless it is a quantile.
    """

    true: np.ndarray
    predicted: np.ndarray
    quantile: float | None = None

    @property
    def positive_name(self) -> None:
        """No class is positive: there are none."""
        return None


@dataclass(frozen=True)
class JudgedRows:
    """Rows that the metrics and curves of a report are computed on.

    Attributes
    ----------
    judged : Judged or Forecast
    origin : str
        Where the rows come from, as text.
    trained_on : bool
        Whether the model was trained on them.
    settled : str
        How many of the predictions are proved to be the optimum's own; empty if not known.
    """

    judged: Judged | Forecast
    origin: str = "the rows that were passed in"
    trained_on: bool = False
    settled: str = ""


def scores_of(model: Any, X: Any) -> np.ndarray:
    """Return the scores behind the predictions: (n,), or (n, n_classes) for several classes."""
    return model.score_samples(X) if isinstance(model, Ordinal) else model.decision_function(X)


def judge(model: Any, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> Judged | Forecast:
    """Score rows, in one pass over them, and predict their labels or their targets.

    Parameters
    ----------
    model : fitted classifier, LinearRanker, OrdinalSVC or LinearSVR
    X : {array-like, sparse matrix} of shape (n, n_features), or rows on disk
    y : array-like of shape (n,)
        True targets, or true labels, of the same kind as the model's. A row whose label the model
        does not know counts as an error.
    qid : array-like of shape (n,), optional
        Queries, for a ranking model.
    """
    if isinstance(model, Labelling) and model.multilabel_:
        raise ValueError(
            "the model predicts any number of labels for each row, which reports and `widemargin "
            "evaluate` do not measure: use sklearn.metrics and widemargin.metrics"
        )
    y = np.asarray(y)
    if is_regressor(model):
        return _forecast(model, X, y)
    scores = on_host(scores_of(model, X))
    if y.size != len(scores):
        raise ValueError(f"X has {len(scores)} rows, and y has {y.size}")
    qid = None if qid is None else np.asarray(qid)
    if qid is not None and len(qid) != y.size:
        raise ValueError(f"X has {y.size} rows, and qid has {len(qid)}")
    if not isinstance(model, Classifier):
        labels, true = np.unique(y, return_inverse=True)
        nothing = np.empty(0, dtype=np.intp)
        return Judged(scores, labels, _names(labels), true, nothing, None, qid)
    classes = np.asarray(model.classes_)
    if classes.dtype.kind in "biuf" and y.dtype.kind in "biuf":
        # The model's labels may be of another numeric type, or bool: compare as float64.
        classes, y = classes.astype(np.float64), y.astype(np.float64)
    elif (classes.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(f"y holds {y.dtype} labels, and the model's are {classes.dtype}")
    if isinstance(model, Ordinal) and not _are_rising_numbers(classes):
        labels = classes
        true = places_of(y, labels)  # an unknown label has no place in this order
    else:
        labels = np.union1d(classes, y)
        true = np.searchsorted(labels, y)
    known = places_of(classes, labels)
    names = _names(labels)
    for place, label in zip(known, model.classes_.tolist()):
        names[place] = str(label)
    if isinstance(model, Ordinal):
        places = np.searchsorted(model.thresholds_, scores, side="left")
    else:
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    chances = None
    if isinstance(model, Calibrated):
        chances = probabilities(scores.reshape(scores.shape[0], -1), model.sigmoids_)
    elif isinstance(model, Probabilistic):
        chances = model.probabilities_of(scores)
    qid = qid if isinstance(model, Measured) else None
    return Judged(scores, labels, names, true, known, known[places], qid, chances)


def _forecast(model: Any, X: Any, y: np.ndarray) -> Forecast:
    predicted = model.predict(X)
    if predicted.ndim > 1:
        raise ValueError(
            f"the model predicts {predicted.shape[1]} targets; rows are judged by one target"
        )
    if y.shape != predicted.shape:
        raise ValueError(f"X has {predicted.size} rows, and y has the shape {y.shape}")
    quantile = model.quantile if model.loss == "pinball" else None
    return Forecast(y.astype(np.float64), predicted.astype(np.float64), quantile)


def measure(model: object, judged: Judged | Forecast) -> Measures:
    """Return the metrics of a fitted model on labelled rows.

    Returns
    -------
    measures : dict
        Keys are those of `NAMES`, and the measure that a model was trained for. None where a
        metric is undefined, such as the ROC AUC of rows of a single class.
    """
    if isinstance(judged, Forecast):
        return _forecast_metrics(judged)
    if judged.predicted is None:
        return _ranking_metrics(judged) if judged.positive is None else _roc_metrics(judged)
    if isinstance(model, Ordinal):
        return _ordinal_metrics(judged)
    if judged.positive is None:
        return _multiclass_metrics(judged)
    own: Measures = {}
    if isinstance(model, Measured) and model.measure != "error":
        value = model.measure_scores(judged.positive, judged.scores, qid=judged.qid)
        own = {model.measure: None if math.isnan(value) else value}
    return own | _binary_metrics(judged) | own


def as_text(measures: Measures) -> dict[str, str]:
    """Return metrics by their names, as rounded text."""
    lines = {}
    for key, value in measures.items():
        if value is None:
            text = "undefined"
        elif key == "groups":
            text = f"{value:,}"
        else:
            text = rounded(value, 4)
        lines[name_of(key)] = text
    return lines


def name_of(key: str) -> str:
    """Return the name of a metric; measures that models are trained for are named already."""
    return NAMES.get(key, key)


def rounded(value: float, decimals: int) -> str:
    """Format with so many decimals; errors in the units of targets may need other ones."""
    if value == 0.0 or 10.0 ** (1 - decimals) <= abs(value) < 1e4:
        return f"{value:.{decimals}f}"
    return f"{value:.{decimals + 1}g}"


def _names(labels: np.ndarray) -> list[str]:
    return [f"{label:g}" if isinstance(label, float) else str(label) for label in labels.tolist()]


def _are_rising_numbers(classes: np.ndarray) -> bool:
    return classes.dtype.kind in "biuf" and bool(np.all(classes[1:] > classes[:-1]))


def _roc_metrics(judged: Judged) -> Measures:
    return {
        "roc_area": pairwise_accuracy(judged.true, judged.scores),
        "average_precision": mean_average_precision(judged.true, judged.scores),
    }


def _ranking_metrics(judged: Judged) -> Measures:
    grades = judged.labels[judged.true]
    arguments = grades, judged.scores, judged.qid
    return {
        "groups": 1 if judged.qid is None else len(np.unique(judged.qid)),
        "pairwise_accuracy": if_defined(pairwise_accuracy, *arguments),
        "ndcg_at_10": if_defined(ndcg, *arguments, 10),
        "mean_average_precision": if_defined(mean_average_precision, *arguments),
    }


def _ordinal_metrics(judged: Judged) -> Measures:
    assert judged.predicted is not None
    return {
        "mean_absolute_error": float(np.abs(judged.predicted - judged.true).mean()),
        "accuracy": accuracy_score(judged.true, judged.predicted),
        "pairwise_accuracy": if_defined(pairwise_accuracy, judged.true, judged.scores),
    }


def _multiclass_metrics(judged: Judged) -> Measures:
    arguments = judged.true, judged.predicted
    return {
        "accuracy": accuracy_score(*arguments),
        "macro_f1": f1_score(*arguments, average="macro", zero_division=0.0),
    }


def _binary_metrics(judged: Judged) -> Measures:
    """The second class is the positive one."""
    positive, scores = judged.positive, judged.scores
    assert positive is not None
    return {
        "accuracy": float(np.mean(judged.true == judged.predicted)),
        "roc_area": roc_auc_score(positive, scores) if 0 < positive.sum() < len(scores) else None,
        "break_even": break_even_point(positive, scores),
        "f1": f1_score(positive, scores > 0, zero_division=0.0) if positive.any() else None,
    }


def _forecast_metrics(forecast: Forecast) -> Measures:
    errors = forecast.true - forecast.predicted
    if forecast.quantile is not None:
        return {
            "mean_pinball_loss": float(pinball_losses(forecast).mean()),
            "fraction_below": float((errors <= 0.0).mean()),
        }
    square = float(np.square(errors).mean())
    spread = float(forecast.true.var())
    return {
        "r2": 1.0 - square / spread if spread > 0.0 else None,
        "mean_absolute_error": float(np.abs(errors).mean()),
        "root_mean_squared_error": math.sqrt(square),
    }


def pinball_losses(forecast: Forecast) -> np.ndarray:
    """Return the pinball loss of each row, (n,)."""
    assert forecast.quantile is not None
    errors = forecast.true - forecast.predicted
    return np.maximum(forecast.quantile * errors, (forecast.quantile - 1.0) * errors)


def if_defined(measure: Callable[..., float], *values: Any) -> float | None:
    """Return the metric, or None where it is undefined for these rows."""
    try:
        return measure(*values)
    except ValueError:
        return None


def break_even_point(positive: np.ndarray, scores: np.ndarray) -> float | None:
    """Return the precision-recall break-even point; None without positive rows.

    Precision equals recall when as many rows are predicted positive as are positive. If rows
    with equal scores lie on both sides of that cut, each of them counts as the fraction of
    positives among them, so the order of the rows does not matter.
    """
    n_positive = int(positive.sum())
    if n_positive == 0:
        return None
    threshold = np.partition(scores, -n_positive)[-n_positive]
    above = scores > threshold
    tied = scores == threshold
    true_positives = positive[above].sum() + (n_positive - above.sum()) * positive[tied].mean()
    return float(true_positives / n_positive)
