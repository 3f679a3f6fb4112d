"""Labels with an order: numbers, or ordered categories."""

from numbers import Real
from typing import Any, NoReturn

import narwhals.stable.v2 as frames
import numpy as np
from sklearn.utils.validation import column_or_1d

from widemargin.arrays import Vector
from widemargin.estimators.validation import check_label_values, classes_of
from widemargin.labels import places_of
from widemargin.words import listed


def ordered_classes(y: Vector) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels in y, from the lowest to the highest, and the rank of each row's label.

    y has numbers, or ordered categories: a pandas.Categorical with ``ordered=True``, a Series of
    that type, or a polars Series of type Enum. Categories that do not occur are left out. Raises
    ValueError if a label is missing, or if labels have no order.
    """
    categories = _categories(y)
    if categories is None:
        y = check_label_values(y)
        _check_numbers(y)
        classes, codes = classes_of(y)
        return classes, codes.astype(np.intp)
    labels, places = categories
    present = np.unique(places)
    return labels[present], np.searchsorted(present, places)


def check_grades(y: Vector) -> np.ndarray:
    """Return grades as float64 (n,): finite numbers, or the ranks of ordered categories."""
    categories = _categories(y)
    if categories is not None:
        return categories[1].astype(np.float64)
    y = column_or_1d(y, warn=True)
    _check_numbers(y)
    try:
        grades = y.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must be numbers: grades that rows are to be ordered by") from None
    bad = ~np.isfinite(grades)
    if bad.any():
        row = int(np.argmax(bad))
        kind = "NaN" if np.isnan(grades[row]) else "infinity"
        raise ValueError(f"Input y contains {kind} (row {row}): grades must be finite numbers")
    return grades


def _categories(y: Vector) -> tuple[np.ndarray, np.ndarray] | None:
    """Return all labels of ordered categories and each row's rank; None if y has none."""
    column = _column(y)
    if column is None:
        return None
    missing = column.is_null().to_numpy()
    if missing.any():
        raise ValueError(f"y has no label in row {int(np.argmax(missing))}: it is missing")
    if column.dtype == frames.Categorical:
        _refuse("y has categories without an order")
    if not isinstance(column.dtype, frames.Enum):
        return None
    values = list(column.dtype.categories)
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    if len({type(value) for value in values}) == 1 and isinstance(values[0], Real | str):
        labels = np.array(values)  # the dtype that such labels have as an array
    return labels, places_of(column.to_numpy(), labels)


def _column(y: Any) -> frames.Series | None:
    """Return y as a narwhals Series; None if it is no column of a data frame library."""
    pandas = frames.dependencies.get_pandas()
    if pandas is not None and isinstance(y, pandas.Categorical | pandas.Index):
        y = pandas.Series(y)
    y = frames.from_native(y, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(y, frames.DataFrame) and y.shape[1] == 1:
        y = y[:, 0]
    return y if isinstance(y, frames.Series) else None


def _check_numbers(y: np.ndarray) -> None:
    """Raise ValueError if labels are strings, or objects that are not numbers."""
    missing_or_number = Real | None
    if y.dtype.kind in "USO" and not all(isinstance(v, missing_or_number) for v in y.tolist()):
        _refuse(
            f"y has labels that are no numbers, without an order "
            f"({listed(list(dict.fromkeys(y.tolist())))})"
        )


def _refuse(problem: str) -> NoReturn:
    raise ValueError(
        f"{problem}. Give numbers, or ordered categories: "
        'pandas.Categorical(y, ["low", "medium", "high"], ordered=True), with your labels from '
        'the lowest to the highest, or polars.Series(y, dtype=polars.Enum(["low", ...]))'
    )
