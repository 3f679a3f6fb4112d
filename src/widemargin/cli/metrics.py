"""What `widemargin evaluate` knows of labels before it measures."""

import numpy as np

from widemargin.words import count, listed


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
