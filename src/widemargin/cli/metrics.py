"""Check of the labels that `widemargin evaluate` is given."""

import numpy as np

from widemargin.words import count, listed


def check_labels(y: np.ndarray, classes: np.ndarray) -> str:
    """Return a warning about labels unknown to the model, or "".

    Raises
    ------
    ValueError
        No row has a label that the model knows.
    """
    if classes.dtype.kind not in "iufb":
        raise ValueError("its labels are numbers, as always in svmlight text; the model's are not")
    unknown = np.setdiff1d(y, classes)
    n_unknown = int(np.isin(y, unknown).sum())
    if n_unknown == len(y):
        raise ValueError(
            f"the model knows none of its labels ({listed(unknown.tolist())}), only "
            f"{listed(classes.tolist())}"
        )
    if n_unknown:
        rows, labels = count(n_unknown, "row"), listed(unknown.tolist())
        return f"{rows} with labels unknown to the model ({labels}), counted as errors"
    return ""
