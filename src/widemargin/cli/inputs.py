"""Input of the commands: data files and models."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from widemargin.cli.errors import reading
from widemargin.data.formats import TEXT, format_of
from widemargin.data.svmlight import read_svmlight
from widemargin.labels import whole_labels
from widemargin.model_io import load_model

if TYPE_CHECKING:
    from widemargin.data.disk import DiskRows


class Data(NamedTuple):
    """Rows, labels and optional groups and weights of one file or folder."""

    X: "scipy.sparse.csr_matrix | DiskRows"
    y: np.ndarray
    qid: np.ndarray | None
    weight: np.ndarray | None = None


def read_data(path: str, n_features: int | None = None, labelled: bool = True) -> Data:
    """Read svmlight text from a file, or from standard input for "-", into memory.

    Arrow and Parquet files, and folders of them, stay on disk and are read as needed. If not
    `labelled`, they may have no labels; `y` is empty then.

    With `n_features`, the rows get exactly the features of a model. Features that do not occur
    in the file are zero, and features that the model was not trained on are dropped. LIBLINEAR
    does the same.
    """
    with reading(path):
        if stays_on_disk(path):
            data = _on_disk(path, labelled)
        else:
            text = read_svmlight(path)
            data = Data(text.X, whole_labels(text.y), text.qid)
    if n_features is not None:
        data = data._replace(X=with_features(data.X, n_features))
    return data


def stays_on_disk(path: str) -> bool:
    """Return whether the rows stay on disk, rather than being read into memory."""
    return path != "-" and (os.path.isdir(path) or format_of(path) != TEXT)


def _on_disk(path: str, labelled: bool) -> Data:
    from widemargin.data.disk import open_rows

    rows = open_rows(path)
    if labelled and rows.labels is None:
        raise ValueError("there is no column label")
    y = np.empty(0) if rows.labels is None else rows.labels
    return Data(rows, y, rows.qid, rows.weights)


def with_features(X: Any, n_features: int) -> Any:
    """Return the rows with exactly that many features, padded with zeros or cut."""
    if not scipy.sparse.issparse(X):
        return X.resized(n_features)
    X.resize(X.shape[0], n_features)
    return X


def read_model(path: str) -> Any:
    """Load a model; raises `BadInput` if that fails."""
    with reading(path):
        return load_model(path)
