"""What commands read: data as rows, labels and groups; models; and how the two meet."""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from widemargin import OrdinalSVC
from widemargin.cli.errors import reading
from widemargin.data.svmlight import read_svmlight
from widemargin.model_io import load_model


class Data(NamedTuple):
    """Rows, labels and, where it has them, groups of one file."""

    X: scipy.sparse.csr_matrix
    y: np.ndarray
    qid: np.ndarray | None


def read_data(path: str, n_features: int | None = None) -> Data:
    """Read svmlight text from a file, or from standard input for "-".

    With `n_features`, the rows get exactly those a model knows: a file says nothing about
    features that never occur in it, so missing ones are zero, and a model has no weight for
    features it never saw, so others are dropped. LIBLINEAR does the same.
    """
    with reading(path):
        data = read_svmlight(path)
    if n_features is not None:
        data.X.resize(data.X.shape[0], n_features)
    return Data(data.X, whole_labels(data.y), data.qid)


def whole_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels that are whole numbers as integers, so that 1 is not printed as 1.0."""
    if (
        labels.dtype.kind == "f"
        and np.array_equal(labels, np.trunc(labels))
        and np.abs(labels).max() < 2**53
    ):
        return labels.astype(np.int64)
    return labels


def scores_of(model, X) -> np.ndarray:
    """Return what a model predicts by: (n,), or (n, n_classes) for more than two classes."""
    return model.score_samples(X) if isinstance(model, OrdinalSVC) else model.decision_function(X)


def read_model(path: str):
    """Load a model, or say in one line why that cannot be done."""
    with reading(path):
        return load_model(path)
