"""Labels as they were meant, and their places among others."""

import numpy as np
from sklearn.utils.validation import column_or_1d


def whole_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels that are whole numbers as integers, so that 1 is not printed as 1.0."""
    if (
        labels.dtype.kind == "f"
        and np.array_equal(labels, np.trunc(labels))
        and np.abs(labels).max() < 2**53
    ):
        return labels.astype(np.int64)
    return labels


def places_of(y, classes) -> np.ndarray:
    """Return the place of each row's label in `classes`, (n,), which may be in any order.

    Raises ValueError, naming the row, where a label is not among them.
    """
    place = {label: j for j, label in enumerate(classes.tolist())}
    labels = column_or_1d(y).tolist()
    places = np.array([place.get(label, -1) for label in labels], dtype=np.intp)
    if np.any(places < 0):
        row = int(np.argmin(places))
        raise ValueError(f"row {row} has label {labels[row]!r}, which the model does not know")
    return places
