"""Labels as they were meant."""

import numpy as np


def whole_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels that are whole numbers as integers, so that 1 is not printed as 1.0."""
    if (
        labels.dtype.kind == "f"
        and np.array_equal(labels, np.trunc(labels))
        and np.abs(labels).max() < 2**53
    ):
        return labels.astype(np.int64)
    return labels
