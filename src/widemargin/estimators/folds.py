"""Folds of a cross-validation: rows to train on, and held-out rows."""

import numpy as np

from widemargin.words import label_in_words

#: folds whose held-out scores are used for calibration; fewer if a class has fewer rows
CALIBRATION_FOLDS = 5


def check_folds(folds, y, weights):
    """Return the folds as [(train, held_out)], row numbers without those of weight zero.

    Parameters
    ----------
    folds : iterable of (train, held_out)
        As scikit-learn's splitters yield them: row numbers, or masks of length n.
    y : ndarray of shape (n,)
        Class labels.
    weights : ndarray of shape (n,) or None
    """
    checked = []
    for number, (train, held_out) in enumerate(folds, start=1):
        train = _check_rows(f"fold {number} of cv trains on", train, y.size, weights)
        held_out = _check_rows(f"fold {number} of cv holds out", held_out, y.size, weights)
        label = y[train[0]]
        if np.all(y[train] == label):
            raise ValueError(
                f"fold {number} of cv trains on rows of one class only, {label_in_words(label)}: "
                "a classifier needs two. Use fewer folds, or ones that are stratified"
            )
        checked.append((train, held_out))
    if not checked:
        raise ValueError("cv has no folds")
    return checked


def _check_rows(whose, index, n_rows, weights):
    index = np.asarray(index)
    if index.dtype == bool and index.shape == (n_rows,):
        index = np.flatnonzero(index)
    if index.size and (
        index.dtype.kind not in "iu" or index.ndim != 1 or index.min() < 0 or index.max() >= n_rows
    ):
        raise ValueError(f"{whose} what are no row numbers from 0 to {n_rows - 1}")
    index = index.astype(np.intp, copy=False)
    if weights is not None:
        index = index[weights[index] > 0.0]
    if not index.size:
        of_weight = "" if weights is None else " of a weight above zero"
        raise ValueError(f"{whose} no rows{of_weight}")
    return index


def fold_weights(folds, weights, n_rows):
    """Return the training weights of the rows for each fold: [(n,)].

    A row that occurs several times in a fold counts as often.
    """
    counts = (np.bincount(train, minlength=n_rows) for train, _ in folds)
    if weights is None:
        # There is one count per row and fold; most are 0 or 1.
        return [count.astype(np.min_scalar_type(count.max())) for count in counts]
    return [weights * count for count in counts]
