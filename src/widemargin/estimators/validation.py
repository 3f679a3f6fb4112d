"""Validation of user input; errors name the parameter, or the row and column."""

import math
import re
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from widemargin.arrays import Matrix, Vector, on_host
from widemargin.data import Rows
from widemargin.data.devices import gpu_array, gpu_rows, is_on_gpu
from widemargin.data.memory import RowsInMemory

# CSR, as SciPy makes it; subclasses are left to scikit-learn's validation.
_CSR = (scipy.sparse.csr_matrix, scipy.sparse.csr_array)
# Whole-number labels within a range of this size are counted rather than sorted.
_MAX_LABEL_RANGE = 1 << 16


def check_choice(name: str, value: object, choices: Collection) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_positive(name: str, value: object, *, optional: bool = False) -> None:
    if not ((optional and value is None) or (is_real(value) and 0 < value < math.inf)):
        raise ValueError(f"{name} must be a positive number, not {value!r}")


def check_not_negative(name: str, value: object) -> None:
    if not (is_real(value) and 0 <= value < math.inf):
        raise ValueError(f"{name} must be a number of at least 0, not {value!r}")


def check_fraction(name: str, value: object) -> None:
    if not (is_real(value) and 0 < value < 1):
        raise ValueError(f"{name} must be a number between 0 and 1, not {value!r}")


def check_count(name: str, value: object) -> None:
    if not (is_whole(value) and value >= 1):
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, not {value!r}")


def check_threads(name: str, value: object) -> None:
    if not (value is None or (is_whole(value) and value != 0)):
        raise ValueError(f"{name} must be None or a whole number other than 0, not {value!r}")


def check_level(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, not {value!r}")


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def check_bytes(name: str, value: object) -> int | None:
    """Return a number of bytes from a number or a string such as "512MB"; None for None."""
    if value is None:
        return None
    if isinstance(value, str):
        parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]i?)?B?\s*", value)
        if parts:
            return int(float(parts[1]) * _UNITS[parts[2] or ""])
    elif is_whole(value) and value > 0:
        return int(value)
    raise ValueError(f'{name} must be a number of bytes, or such as "512MB", not {value!r}')


def check_costs(name: str, costs: Vector) -> np.ndarray:
    """Return values of C, (n,), from a list of values or the number of values."""
    if is_whole(costs):
        check_count(name, costs)
        return np.logspace(-3.0, 3.0, costs)
    try:
        values = np.array(costs, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be a whole number or a list of numbers, not {costs!r}")
    for value in values.tolist():
        check_positive(f"each of {name}", value)
    return values


def check_training_parameters(estimator: BaseEstimator) -> None:
    """Check the parameters that all estimators share: stopping rules, threads, verbosity."""
    check_positive("tol", estimator.tol)
    check_count("max_iter", estimator.max_iter)
    check_positive("max_time", estimator.max_time, optional=True)
    check_flag("warm_start", estimator.warm_start)
    check_threads("n_jobs", estimator.n_jobs)
    check_level("verbose", estimator.verbose)


def check_targets(y: Vector) -> np.ndarray:
    """Return targets as float64: (n,), also for a single column, or (n, k)."""
    if is_on_gpu(y):
        raise ValueError("y is on a GPU, and regression trains on the host")
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    options = {"dtype": np.float64, "ensure_2d": False, "input_name": "y"}
    y = check_array(y, ensure_min_features=1, **options)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have one column, or one for each target; it has {y.ndim} axes")
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def check_labels(y: Vector) -> np.ndarray:
    """Return class labels as an array (n,), on the GPU if y is there."""
    if is_on_gpu(y):
        return _check_gpu_numbers("y", y)
    y = check_label_values(y)
    if y.dtype.kind not in "biuSU":  # discrete types are always classes
        check_classification_targets(y)
    return y


def check_label_values(y: Vector) -> np.ndarray:
    """Return labels, strings or numbers, as an array (n,); refuse missing ones."""
    if not (type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biufSU"):
        y = column_or_1d(y, warn=True)
    missing = np.zeros(1, dtype=bool)
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype.kind == "O":
        missing = np.array([label is None or label != label for label in y])
    if missing.any():
        raise ValueError(f"y has no label in row {int(np.argmax(missing))} (NaN)")
    return y


def classes_of(y: np.ndarray, like: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted labels that occur in y, and the index of each row's label, (n,).

    Numeric labels are sorted on the device of `like`, and the indices stay there.
    """
    if like is not None and y.dtype.kind in "biuf":
        y = np.asarray(y, like=like)
    elif _has_small_range(y):
        low = y.min()
        numbers = (y.astype(np.int64) if y.dtype.kind == "i" else y) - low
        numbers = numbers.astype(np.intp, copy=False)  # `bincount` takes no uint64
        places = np.flatnonzero(np.bincount(numbers))
        codes = np.empty(places[-1] + 1, dtype=np.min_scalar_type(places.size))
        codes[places] = np.arange(places.size)
        return low + places.astype(y.dtype), codes[numbers]
    classes = np.unique(y)
    # A binary search among few labels is much faster than numpy.unique with return_inverse, which
    # sorts all rows. The smallest integer type saves memory.
    codes = np.searchsorted(classes, y)
    return on_host(classes), codes.astype(np.min_scalar_type(len(classes)))


def _has_small_range(y: np.ndarray) -> bool:
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "iu" or y.size == 0:
        return False
    return int(y.max()) - int(y.min()) < _MAX_LABEL_RANGE


def check_groups(qid: Vector | None, n_rows: int) -> np.ndarray | None:
    """Return the index of each row's group in the sorted groups, (n,); None without groups."""
    if qid is None:
        return None
    return np.unique(check_qid(qid, n_rows), return_inverse=True)[1]


def check_qid(qid: Vector, n_rows: int) -> np.ndarray:
    """Return the groups of rows as an array (n,); refuse missing ones."""
    qid = column_or_1d(qid)
    if qid.shape[0] != n_rows:
        raise ValueError(
            f"X and qid have inconsistent numbers of samples: {n_rows} and {len(qid)}"
        )
    missing = qid != qid if qid.dtype.kind in "fc" else [q is None or q != q for q in qid]
    if np.any(missing):
        raise ValueError(f"qid is missing in row {int(np.argmax(missing))}")
    return qid


def check_same_length(X: Matrix, y: Any) -> None:
    n_rows = count_rows(X)
    if n_rows != y.shape[0]:
        raise ValueError(
            f"X and y have inconsistent numbers of samples: {n_rows} and {y.shape[0]}"
        )


def count_rows(X: Matrix) -> int:
    """Return the number of rows of a matrix or of Rows."""
    return X.n_rows if isinstance(X, Rows) else X.shape[0]


def check_matrix(
    estimator: BaseEstimator, X: Matrix, *, reset: bool, at_least: int = 1, finite: bool = True
) -> Matrix:
    """Return X as a C-ordered float array or CSR matrix, without a copy if it is one already.

    X must have at least `at_least` rows. `Rows` (on disk, for example) are returned as they are,
    since they validate themselves. Raises ValueError, naming row and column, if a value is
    missing or infinite; with ``finite=False`` this is left to `check_finite`.
    """
    if isinstance(X, Rows):
        return _check_rows(estimator, X, reset)
    if is_on_gpu(X):
        return _check_gpu_matrix(estimator, X, reset)
    if scipy.sparse.issparse(X) and X.ndim == 2:
        _check_structure(X)
    if not _is_plain(estimator, X, reset, at_least):
        X = _validated(estimator, X, reset, at_least)
    if finite:
        check_finite_matrix(estimator, X)
    return X


def _is_plain(estimator: BaseEstimator, X: Matrix, reset: bool, at_least: int) -> bool:
    """Return whether X needs no conversion, and has no column names to compare.

    Then set what fitting sets. scikit-learn's validation takes a tenth of the smallest fits.
    """
    in_place = X.flags.c_contiguous if type(X) is np.ndarray else type(X) in _CSR
    if not in_place or X.ndim != 2 or X.dtype not in (np.float64, np.float32):
        return False
    if X.shape[0] < max(1, at_least) or X.shape[1] == 0:
        return False
    named = "feature_names_in_" in vars(estimator)
    if reset and not named:
        estimator.n_features_in_ = X.shape[1]
    return not named and vars(estimator).get("n_features_in_") == X.shape[1]


def _validated(estimator: BaseEstimator, X: Matrix, reset: bool, at_least: int) -> Matrix:
    """Return X as scikit-learn validates and converts it."""
    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=[np.float64, np.float32],
        order="C",
        ensure_all_finite=False,
        ensure_min_samples=at_least,
    )


def check_finite(estimator: BaseEstimator, X: Matrix, rows: Rows) -> None:
    """Raise ValueError, naming row and column, if a value of X is missing or infinite.

    `rows` are the rows of X. Finite squared norms, which fits need anyway, prove all values
    finite.
    """
    if isinstance(X, Rows) or is_on_gpu(X):
        return
    if not (isinstance(rows, RowsInMemory) and np.isfinite(rows.squared_norms().sum())):
        check_finite_matrix(estimator, X)


def _check_rows(estimator: BaseEstimator, rows: Rows, reset: bool) -> Rows:
    if reset:
        estimator.n_features_in_ = rows.n_features
        vars(estimator).pop("feature_names_in_", None)
    elif rows.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return rows


def _check_gpu_matrix(estimator: BaseEstimator, X: Matrix, reset: bool) -> Rows:
    """Return a matrix on a GPU as Rows."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, it has {X.ndim}")
    rows: Any = gpu_rows(X)
    _check_rows(estimator, rows, reset)
    if rows.n_rows == 0 or rows.n_features == 0:
        raise ValueError(f"X has no rows or no columns: its shape is {tuple(X.shape)}")
    if not rows.is_finite():
        raise ValueError(
            f"Input X contains NaN or infinity. {type(estimator).__name__} does not accept "
            "missing values encoded as NaN, or infinite ones."
        )
    return rows


def _check_gpu_numbers(name: str, values: Any) -> np.ndarray:
    values = gpu_array(values)
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension, it has {values.ndim}")
    if not bool(np.isfinite(values).all()):
        raise ValueError(f"{name} contains NaN or infinity")
    return values


def _check_structure(X: Matrix) -> None:
    """Raise ValueError if the index arrays of sparse X are invalid.

    SciPy's conversions do not check them, and could read or write out of bounds. The column
    indices of CSR are checked by `Rows`.
    """
    name = f"X is not valid {X.format.upper()}"
    if X.format == "coo":
        for axis, places, size in zip(("row", "column"), (X.row, X.col), X.shape):
            _check_places(f"{name}: {axis} index", places, size)
    elif X.format in ("csr", "csc", "bsr"):
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        lines, size = X.shape[0] // height, X.shape[1] // width
        if X.format == "csc":
            lines, size = size, lines
        if X.indptr.shape != (lines + 1,):
            raise ValueError(f"{name}: indptr has {X.indptr.size} entries, not {lines + 1}")
        if X.format != "csr":
            if X.indptr[0] != 0 or np.any(np.diff(X.indptr) < 0):
                raise ValueError(f"{name}: indptr does not increase from 0")
            if X.indptr[-1] > min(X.indices.size, X.data.shape[0]):
                raise ValueError(f"{name}: indptr does not span its data")
            _check_places(f"{name}: index", X.indices, size)


def _check_places(name: str, places: np.ndarray, size: int) -> None:
    if places.size and (places.min() < 0 or places.max() >= size):
        bad = places[(places < 0) | (places >= size)][0]
        raise ValueError(f"{name} {bad} is outside of 0..{size - 1}")


def check_finite_matrix(estimator: BaseEstimator, X: Matrix) -> None:
    """Raise ValueError, naming row and column, if a value of a dense or CSR X is not finite."""
    # Entries after the end of the last row do not belong to the matrix.
    values = X.data[: X.indptr[-1]] if scipy.sparse.issparse(X) else X
    # A finite sum proves all values finite, without a mask of the size of the matrix. Summing in
    # the type of the values takes a quarter of the time and rarely overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        if any(np.isfinite(np.sum(values, dtype=dtype)) for dtype in (values.dtype, np.float64)):
            return
    bad = np.flatnonzero(~np.isfinite(values.ravel()))
    if bad.size == 0:
        return
    if scipy.sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        column = int(X.indices[bad[0]])
    else:
        row, column = (int(place) for place in np.unravel_index(bad[0], X.shape))
    kind = "NaN" if np.isnan(values.ravel()[bad[0]]) else "infinity"
    raise ValueError(
        f"Input X contains {kind} (row {row}, column {column}; {bad.size} such "
        f"value{'s' if bad.size > 1 else ''} in all). {type(estimator).__name__} does not "
        "accept missing values encoded as NaN, or infinite ones."
    )


def check_row_numbers(name: str, rows: Vector, n_rows: int) -> np.ndarray:
    """Return a mask of rows that are given as one, or as numbers from 0."""
    found, mask = np.asarray(rows), np.zeros(n_rows, dtype=bool)
    if found.dtype == bool and found.shape == (n_rows,):
        return found
    whole = found.dtype.kind in "iu" and found.ndim == 1
    if found.size and not (whole and found.min() >= 0 and found.max() < n_rows):
        raise ValueError(f"{name} must be row numbers from 0 to {n_rows - 1}, or a mask of them")
    mask[found.astype(np.intp)] = True
    return mask


def check_weights(sample_weight: Vector | None, X: Matrix) -> np.ndarray | None:
    """Return sample weights as float64 (n,), not all zero; None if all weights are one."""
    weights = check_some_weights(sample_weight, X)
    if weights is not None and not np.any(weights > 0.0):
        raise ValueError("sample_weight is zero for every row: there is nothing to train on")
    return weights


def check_some_weights(sample_weight: Vector | None, X: Matrix) -> np.ndarray | None:
    """Return the sample weights of a part of the rows as float64 (m,); None if all are one."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(count_rows(X), float(sample_weight))
    if is_on_gpu(sample_weight):
        sample_weight = gpu_array(sample_weight).get()
    try:
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}") from None
    if sample_weight.shape != (count_rows(X),):
        raise ValueError(
            f"sample_weight must have one number for each of {count_rows(X)} rows; its shape is "
            f"{sample_weight.shape}"
        )
    if sample_weight.size == 0:
        return None
    weights = check_array(sample_weight, ensure_2d=False, input_name="sample_weight")
    if np.any(weights < 0.0):
        row = int(np.argmax(weights < 0.0))
        raise ValueError(f"sample_weight must not be negative: row {row} has {weights[row]:g}")
    return weights
