"""Conversion of labels: whole numbers, and indices into lists of classes."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d


def whole_labels(labels: np.ndarray) -> np.ndarray:
    """Return floating-point labels as integers if all are whole, so that 1.0 prints as 1."""
    if (
        labels.dtype.kind == "f"
        and np.array_equal(labels, np.trunc(labels))
        and np.abs(labels).max() < 2**53
    ):
        return labels.astype(np.int64)
    return labels


def places_of(y: ArrayLike, classes: np.ndarray) -> np.ndarray:
    """Return the index of each row's label in `classes`, (n,); these may be in any order.

    Raises ValueError, naming the row, if a label is not in `classes`.
    """
    place = {label: j for j, label in enumerate(classes.tolist())}
    labels = column_or_1d(y).tolist()
    places = np.array([place.get(label, -1) for label in labels], dtype=np.intp)
    if np.any(places < 0):
        row = int(np.argmin(places))
        raise ValueError(f"row {row} has label {labels[row]!r}, which the model does not know")
    return places
