"""How good predictions are, in the numbers `widemargin evaluate` prints."""

from collections.abc import Callable

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from widemargin import LinearRanker, OrdinalSVC
from widemargin.cli.inputs import Data, scores_of
from widemargin.cli.output import count, listed
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


def check_labels(y: np.ndarray, classes: np.ndarray) -> str:
    """Say what is doubtful about measuring a model with these labels, "" if nothing is.

    Raises
    ------
    ValueError
        No row has a label that the model could predict.
    """
    if classes.dtype.kind not in "iufb":
        raise ValueError("its labels are numbers, as ever in svmlight text; the model's are not")
    unknown = np.setdiff1d(y, classes)
    n_unknown = int(np.isin(y, unknown).sum())
    if n_unknown == len(y):
        raise ValueError(
            f"none of its labels ({listed(unknown.tolist())}) is one that the model knows "
            f"({listed(classes.tolist())})"
        )
    if n_unknown:
        rows, labels = count(n_unknown, "row"), listed(unknown.tolist())
        return f"{rows} with labels the model never saw ({labels}), counted as wrong"
    return ""


def positive_label(model, data: Data):
    """Return the label that counts as positive, None where it is not one of two."""
    if isinstance(model, OrdinalSVC):
        return None
    if isinstance(model, LinearRanker):
        return data.y.max() if _two_sided(data) else None
    return model.classes_[1] if len(model.classes_) == 2 else None


def measure(model, data: Data) -> dict[str, float | None]:
    """Measure a fitted model on labelled rows.

    Parameters
    ----------
    model : fitted LinearSVC, LinearRanker or OrdinalSVC
        With classes that are numbers, where it has classes.
    data : Data
        A label that the model does not know counts as wrong.

    Returns
    -------
    measures : dict
        Keys are those of `NAMES`. None where a measure is undefined, as is the ROC area of rows
        that are all of one class.
    """
    # One type for all labels: a model's may be of another numeric type, or bool.
    y = np.asarray(data.y, dtype=np.float64)
    scores = scores_of(model, data.X)
    if isinstance(model, LinearRanker):
        if _two_sided(data):
            return _of_two_sides(y, scores)
        return _of_order(y, scores, data.qid)
    classes = np.asarray(model.classes_, dtype=np.float64)
    if isinstance(model, OrdinalSVC):
        predicted = np.asarray(model.predict(data.X), dtype=np.float64)
        return _of_ordered_classes(y, predicted, scores, classes)
    return _of_classes(y, scores, classes)


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


def _two_sided(data: Data) -> bool:
    """Whether ordering the rows means telling two labels apart, over all rows."""
    return data.qid is None and len(np.unique(data.y)) == 2


def _of_two_sides(y, scores):
    return {
        "roc_area": pairwise_accuracy(y, scores),
        "average_precision": mean_average_precision(y == y.max(), scores),
    }


def _of_order(y, scores, qid):
    return {
        "groups": 1 if qid is None else len(np.unique(qid)),
        "pairwise_accuracy": _if_defined(pairwise_accuracy, y, scores, qid),
        "ndcg_at_10": _if_defined(ndcg, y, scores, qid, 10),
        "mean_average_precision": _if_defined(mean_average_precision, y, scores, qid),
    }


def _of_ordered_classes(y, predicted, scores, classes):
    true_ranks, predicted_ranks = _ranks(y, predicted, classes)
    return {
        "mean_absolute_error": float(np.abs(predicted_ranks - true_ranks).mean()),
        "accuracy": accuracy_score(true_ranks, predicted_ranks),
        "pairwise_accuracy": _if_defined(pairwise_accuracy, y, scores),
    }


def _of_classes(y, scores, classes):
    """Of two classes the second, `classes[1]`, is the positive one."""
    if len(classes) > 2:
        true_ranks, predicted_ranks = _ranks(y, classes[scores.argmax(axis=1)], classes)
        return {
            "accuracy": accuracy_score(true_ranks, predicted_ranks),
            "macro_f1": f1_score(true_ranks, predicted_ranks, average="macro", zero_division=0.0),
        }
    positive = y == classes[1]
    return {
        "accuracy": float(np.mean(y == classes[(scores > 0).astype(int)])),
        "roc_area": roc_auc_score(positive, scores) if 0 < positive.sum() < len(y) else None,
        "break_even": break_even_point(positive, scores),
        "f1": f1_score(positive, scores > 0, zero_division=0.0) if positive.any() else None,
    }


def _ranks(y, predicted, classes):
    """Return the ranks of labels and predictions among all there are, those of no class too.

    As whole numbers, since scikit-learn takes fractions for measurements.
    """
    labels = np.union1d(classes, y)
    return np.searchsorted(labels, y), np.searchsorted(labels, predicted)


def _if_defined(measure: Callable[..., float], *values) -> float | None:
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
