"""How good a model's scores are on labelled rows: what reports show, and `widemargin evaluate`."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from widemargin.arrays import on_host
from widemargin.labels import places_of
from widemargin.metrics import mean_average_precision, ndcg, pairwise_accuracy

NAMES = {
    "groups": "groups",
    "accuracy": "accuracy",
    "roc_area": "ROC area",
    "average_precision": "average precision",
    "break_even": "break-even",
    "f1": "F1",
    "macro_f1": "macro F1",
    "mean_absolute_error": "mean absolute error",
    "pairwise_accuracy": "pairwise accuracy",
    "ndcg_at_10": "NDCG@10",
    "mean_average_precision": "MAP",
}


class Judged(NamedTuple):
    """What is known of labelled rows once a model has scored them.

    Attributes
    ----------
    scores : ndarray of shape (n,) or (n, n_classes)
    labels : ndarray of shape (m,)
        All there are, rising: those of the rows and those that the model knows. Of a model
        with an order of its own, in that order.
    names : list of str, of length m
        The same as people write them.
    true : ndarray of shape (n,)
        Place of each row's label in `labels`.
    known : ndarray of shape (n_classes,)
        Places of the model's classes in `labels`; none for a model that ranks.
    predicted : ndarray of shape (n,) or None
        Place of the class that is predicted; None for a model that ranks.
    qid : ndarray of shape (n,) or None
    """

    scores: np.ndarray
    labels: np.ndarray
    names: list[str]
    true: np.ndarray
    known: np.ndarray
    predicted: np.ndarray | None
    qid: np.ndarray | None

    @property
    def positive(self) -> np.ndarray | None:
        """Which rows count as positive, (n,), where two labels are to be told apart."""
        if self.predicted is None:
            two = self.qid is None and self.labels.size == 2
            return self.true == 1 if two else None
        return self.true == self.known[1] if self.known.size == 2 else None

    @property
    def positive_name(self) -> str | None:
        """The label of the rows that count as positive."""
        if self.positive is None:
            return None
        return self.names[1 if self.predicted is None else self.known[1]]


def scores_of(model, X) -> np.ndarray:
    """Return what a model predicts by: (n,), or (n, n_classes) for more than two classes."""
    return model.score_samples(X) if _is_ordinal(model) else model.decision_function(X)


def judge(model, X, y, qid=None) -> Judged:
    """Score rows, in one pass over them, and compare with their labels.

    Parameters
    ----------
    model : fitted LinearSVC, LinearSVCCV, LinearRanker or OrdinalSVC
    X : {array-like, sparse matrix} of shape (n, n_features), or rows on disk
    y : array-like of shape (n,)
        Labels, of the kind of the model's own. One that it does not know counts as wrong.
    qid : array-like of shape (n,), optional
        Groups, for a model that ranks.
    """
    y = np.asarray(y)
    scores = on_host(scores_of(model, X))
    if y.size != len(scores):
        raise ValueError(f"X has {len(scores)} rows, and y has {y.size}")
    if qid is not None and len(qid) != y.size:
        raise ValueError(f"X has {y.size} rows, and qid has {len(qid)}")
    if not hasattr(model, "classes_"):
        labels, true = np.unique(y, return_inverse=True)
        nothing = np.empty(0, dtype=np.intp)
        return Judged(scores, labels, _names(labels), true, nothing, None, qid)
    classes = np.asarray(model.classes_)
    if classes.dtype.kind in "biuf" and y.dtype.kind in "biuf":
        # One type for all labels: a model's may be of another numeric type, or bool.
        classes, y = classes.astype(np.float64), y.astype(np.float64)
    elif (classes.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(f"y holds {y.dtype} labels, and the model's are {classes.dtype}")
    if _is_ordinal(model) and not _are_rising_numbers(classes):
        labels = classes
        true = places_of(y, labels)  # elsewhere, an unknown label has a place in the order
    else:
        labels = np.union1d(classes, y)
        true = np.searchsorted(labels, y)
    known = places_of(classes, labels)
    names = _names(labels)
    for place, label in zip(known, model.classes_.tolist()):
        names[place] = str(label)
    if _is_ordinal(model):
        places = np.searchsorted(model.thresholds_, scores, side="left")
    else:
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return Judged(scores, labels, names, true, known, known[places], None)


def measure(model, judged: Judged) -> dict[str, float | None]:
    """Measure a fitted model on labelled rows.

    Returns
    -------
    measures : dict
        Keys are those of `NAMES`. None where a measure is undefined, as is the ROC area of rows
        that are all of one class.
    """
    if judged.predicted is None:
        return _of_order(judged) if judged.positive is None else _of_two_sides(judged)
    if _is_ordinal(model):
        return _of_ordered_classes(judged)
    return _of_several_classes(judged) if judged.positive is None else _of_two_classes(judged)


def in_words(measures: dict[str, float | None]) -> dict[str, str]:
    """Name the measures and round them."""
    lines = {}
    for key, value in measures.items():
        if value is None:
            text = "undefined"
        else:
            text = f"{value:,}" if key == "groups" else f"{value:.4f}"
        lines[NAMES[key]] = text
    return lines


def _names(labels):
    return [f"{label:g}" if isinstance(label, float) else str(label) for label in labels.tolist()]


def _is_ordinal(model) -> bool:
    return hasattr(model, "thresholds_")


def _are_rising_numbers(classes: np.ndarray) -> bool:
    return classes.dtype.kind in "biuf" and bool(np.all(classes[1:] > classes[:-1]))


def _of_two_sides(judged):
    return {
        "roc_area": pairwise_accuracy(judged.true, judged.scores),
        "average_precision": mean_average_precision(judged.true, judged.scores),
    }


def _of_order(judged):
    grades = judged.labels[judged.true]
    about = grades, judged.scores, judged.qid
    return {
        "groups": 1 if judged.qid is None else len(np.unique(judged.qid)),
        "pairwise_accuracy": if_defined(pairwise_accuracy, *about),
        "ndcg_at_10": if_defined(ndcg, *about, 10),
        "mean_average_precision": if_defined(mean_average_precision, *about),
    }


def _of_ordered_classes(judged):
    return {
        "mean_absolute_error": float(np.abs(judged.predicted - judged.true).mean()),
        "accuracy": accuracy_score(judged.true, judged.predicted),
        "pairwise_accuracy": if_defined(pairwise_accuracy, judged.true, judged.scores),
    }


def _of_several_classes(judged):
    about = judged.true, judged.predicted
    return {
        "accuracy": accuracy_score(*about),
        "macro_f1": f1_score(*about, average="macro", zero_division=0.0),
    }


def _of_two_classes(judged):
    """Of two classes the second is the positive one."""
    positive, scores = judged.positive, judged.scores
    return {
        "accuracy": float(np.mean(judged.true == judged.predicted)),
        "roc_area": roc_auc_score(positive, scores) if 0 < positive.sum() < len(scores) else None,
        "break_even": break_even_point(positive, scores),
        "f1": f1_score(positive, scores > 0, zero_division=0.0) if positive.any() else None,
    }


def if_defined(measure: Callable[..., float], *values) -> float | None:
    """Return the measure of finite numbers, None where these rows have none."""
    try:
        return measure(*values)
    except ValueError:
        return None


def break_even_point(positive: np.ndarray, scores: np.ndarray) -> float | None:
    """Return the precision at which it equals the recall, None without positive rows.

    They are equal when as many rows are predicted positive as are positive. Where equal scores
    straddle that point, each of the tied rows counts by its share, so that the order of the
    rows does not matter.
    """
    n_positive = int(positive.sum())
    if n_positive == 0:
        return None
    threshold = np.partition(scores, -n_positive)[-n_positive]
    above = scores > threshold
    tied = scores == threshold
    hits = positive[above].sum() + (n_positive - above.sum()) * positive[tied].mean()
    return float(hits / n_positive)
