"""Rows with any number of labels: the forms in which users pass them, and one for training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import MultiLabelBinarizer

from widemargin.arrays import Vector
from widemargin.data.devices import is_on_gpu

_SETS = (set, frozenset)
_LISTS = (list, tuple)
# Values of a matrix are searched in blocks of about so many.
_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class LabelMatrix:
    """Which labels each row has.

    Attributes
    ----------
    classes : ndarray of shape (k,)
        The labels: names, or the numbers of the columns.
    starts : ndarray of shape (k + 1,)
    rows : ndarray
        Label j has the rows ``rows[starts[j]:starts[j + 1]]``, in increasing order.
    n_rows : int
    is_sparse : bool
        Whether predictions are sparse matrices, as what was passed.
    """

    classes: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    n_rows: int
    is_sparse: bool

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self)

    def positives(self, j: int) -> np.ndarray:
        """Return the rows that have label j."""
        return self.rows[self.starts[j] : self.starts[j + 1]]

    @property
    def counts(self) -> np.ndarray:
        """How many rows have each label, (k,)."""
        return np.diff(self.starts)


def label_matrix(y: Vector, classes: np.ndarray | None = None) -> LabelMatrix | None:
    """Return the labels of rows that may have several; None if `y` has one label for each row.

    Parameters
    ----------
    y : sparse matrix, array or data frame of shape (n, k), of zeros and ones; or n sets of labels
        The labels of a row may be in a list or a tuple instead of a set if they are strings.
        Lists of numbers could as well be the rows of a matrix.
    classes : ndarray of shape (k,), optional
        The labels, if they are known; ValueError if `y` has others.
    """
    if is_on_gpu(y):
        return None
    if scipy.sparse.issparse(y):
        return _of_sparse(y, classes)
    values = _as_lists(y)
    if isinstance(values, (Sequence, np.ndarray)) and _are_sets(values):
        return _of_sets(values, classes)
    width = _columns(values)
    if width is None or width == 1:
        return None
    _check_width(width, classes)
    names = y.columns if hasattr(y, "columns") else None
    return _of_array(np.asarray(y), classes, names)


def _as_lists(y: Any) -> Any:
    """Return a column of lists, from a data frame, as an array of them; others as they are."""
    if isinstance(y, Sequence):
        return y
    values = np.asarray(y)
    if values.ndim != 1 or values.dtype != object:
        return y
    lists = np.empty(len(values), dtype=object)
    for i, row in enumerate(values):
        lists[i] = row.tolist() if isinstance(row, np.ndarray) else row
    return lists


def _columns(y: Any) -> int | None:
    """Return the number of columns of an array, a data frame, or a list of lists."""
    if isinstance(y, _LISTS):
        rows = [row for row in y if isinstance(row, (*_LISTS, np.ndarray))]
        widths = {len(row) for row in rows if np.ndim(row) == 1}
        return widths.pop() if rows and len(rows) == len(y) and len(widths) == 1 else None
    shape = np.asarray(y).shape
    return shape[1] if len(shape) == 2 else None


def _are_sets(y: Any) -> bool:
    """Return whether `y` has a set of labels for each row, or a list of strings."""
    if isinstance(y, np.ndarray) and (y.dtype != object or y.ndim != 1):
        return False
    if isinstance(y, str) or not any(isinstance(row, (*_SETS, *_LISTS)) for row in y):
        return False
    for i, row in enumerate(y):
        if not isinstance(row, (*_SETS, *_LISTS)):
            raise ValueError(
                f"y must have a set of labels for each row: row {i} is {row!r}; "
                "a row without labels is an empty set"
            )
    if all(isinstance(row, _SETS) for row in y):
        return True
    strings = [isinstance(label, str) for row in y for label in row]
    if strings and all(strings):
        return True
    if len({len(row) for row in y}) == 1:
        return False  # a matrix, as a list of lists
    raise ValueError(
        "y has lists of labels that are not strings, which could be rows of a matrix: pass sets "
        "of labels, or the matrix of sklearn.preprocessing.MultiLabelBinarizer"
    )


def _of_sets(y: Any, classes: np.ndarray | None) -> LabelMatrix:
    for i, row in enumerate(y):
        if len(set(row)) != len(row):
            twice = next(label for label in row if list(row).count(label) > 1)
            raise ValueError(f"row {i} of y has the label {twice!r} twice")
        if any(label is None or label != label for label in row):
            raise ValueError(f"row {i} of y has a missing label")
    known = {label for row in y for label in row}
    kinds = {isinstance(label, str) for label in known}
    if len(kinds) > 1:
        raise ValueError("y has labels that are strings beside others that are not")
    if classes is not None and known - set(classes.tolist()):
        label = min(known - set(classes.tolist()), key=str)
        raise ValueError(f"y has the label {label!r}, which the model does not know")
    if not known and classes is None:
        raise ValueError("y has no labels: all sets are empty")
    binarizer = MultiLabelBinarizer(
        classes=None if classes is None else classes.tolist(), sparse_output=True
    )
    return _of_sparse(binarizer.fit_transform(y), np.asarray(binarizer.classes_))


def _of_sparse(Y: Any, classes: np.ndarray | None) -> LabelMatrix:
    if Y.ndim != 2:
        raise ValueError(f"y must have two dimensions if it is sparse, it has {Y.ndim}")
    _check_width(Y.shape[1], classes)
    Y = Y.tocsc()
    if not Y.has_canonical_format:
        Y = Y.copy()
        Y.sum_duplicates()
    _check_zeros_and_ones(Y.data, lambda place: _place_in(Y, place))
    if not np.all(Y.data):
        Y = Y.copy()
        Y.eliminate_zeros()
    names = np.arange(Y.shape[1]) if classes is None else classes
    return LabelMatrix(names, Y.indptr, Y.indices, Y.shape[0], True)


def _place_in(Y: Any, place: int) -> tuple[int, int]:
    column = int(np.searchsorted(Y.indptr, place, side="right")) - 1
    return int(Y.indices[place]), column


def _of_array(Y: np.ndarray, classes: np.ndarray | None, names: Any) -> LabelMatrix:
    _check_width(Y.shape[1], classes)
    if Y.dtype.kind not in "biuf":
        raise ValueError(
            f"y has {Y.shape[1]} columns of type {Y.dtype}: a matrix of labels has zeros and ones"
        )
    step = max(1, _AT_ONCE // Y.shape[1])
    for begin in range(0, Y.shape[0], step):
        part = Y[begin : begin + step]
        _check_zeros_and_ones(
            part.ravel(),
            lambda place, begin=begin, shape=part.shape: _shifted(place, begin, shape),
        )
    columns, rows = np.nonzero(Y.T)
    starts = np.searchsorted(columns, np.arange(Y.shape[1] + 1))
    if classes is None:
        classes = np.arange(Y.shape[1]) if names is None else _checked_names(names)
    return LabelMatrix(classes, starts, rows, Y.shape[0], False)


def _shifted(place: int, begin: int, shape: tuple[int, int]) -> tuple[int, int]:
    row, column = np.unravel_index(place, shape)
    return begin + int(row), int(column)


def _checked_names(names: Any) -> np.ndarray:
    """Return the names of the columns of a data frame as labels."""
    names = np.asarray(names)
    distinct, counts = np.unique(names.astype(str), return_counts=True)
    if np.any(counts > 1):
        raise ValueError(f"y has two columns called {str(distinct[np.argmax(counts > 1)])!r}")
    return names.astype(str) if names.dtype == object else names


def _check_width(width: int, classes: np.ndarray | None) -> None:
    if width == 0:
        raise ValueError("y has no columns: there is no label to train for")
    if classes is not None and width != len(classes):
        raise ValueError(f"y has {width} columns, and the model has {len(classes)} labels")


def _check_zeros_and_ones(values: np.ndarray, place_of: Any) -> None:
    good = (values == 0) | (values == 1)
    if not good.all():
        bad = int(np.argmin(good))
        row, column = place_of(bad)
        raise ValueError(
            f"y has several columns, and is no matrix of zeros and ones: row {row}, column "
            f"{column} has {values[bad]}"
        )


def indicator(places: scipy.sparse.csr_array, as_sparse: bool) -> Any:
    """Return a matrix of labels as predictions are: CSR, or an array of int64."""
    return places if as_sparse else places.toarray()
