"""How good predictions are, in the numbers `widemargin evaluate` prints."""

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from widemargin.cli.output import count

NAMES = {
    "accuracy": "accuracy",
    "roc_area": "ROC area",
    "break_even": "break-even",
    "f1": "F1",
    "macro_f1": "macro F1",
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
            f"none of its labels ({_listed(unknown)}) is one that the model knows "
            f"({_listed(classes)})"
        )
    if n_unknown:
        rows = count(n_unknown, "row")
        return f"{rows} with labels the model never saw ({_listed(unknown)}), counted as wrong"
    return ""


def measure(model, X, y) -> dict[str, float | None]:
    """Measure a fitted model on labelled rows.

    Parameters
    ----------
    model : fitted classifier
        With numeric classes. For two of them the second, `classes_[1]`, is the positive one.
    X : csr matrix of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        A label the model does not know counts as wrong.

    Returns
    -------
    measures : dict
        Accuracy and, for two classes, roc_area, break_even and f1; for more, macro_f1. None
        where a measure is undefined, as is the ROC area of rows that are all of one class.
    """
    # One type for all labels: a model's may be of another numeric type, or bool.
    y = np.asarray(y, dtype=np.float64)
    classes = np.asarray(model.classes_, dtype=np.float64)
    scores = model.decision_function(X)
    if len(classes) > 2:
        predicted = classes[scores.argmax(axis=1)]
        return {
            "accuracy": accuracy_score(y, predicted),
            "macro_f1": f1_score(y, predicted, average="macro", zero_division=0.0),
        }
    predicted = classes[(scores > 0).astype(int)]
    positive = y == classes[1]
    return {
        "accuracy": accuracy_score(y, predicted),
        "roc_area": roc_auc_score(positive, scores) if 0 < positive.sum() < len(y) else None,
        "break_even": break_even_point(positive, scores),
        "f1": f1_score(positive, scores > 0, zero_division=0.0) if positive.any() else None,
    }


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


def _listed(labels: np.ndarray) -> str:
    shown = [str(label) for label in labels[:5].tolist()]
    return ", ".join(shown + ["..."] * (len(labels) > 5))
