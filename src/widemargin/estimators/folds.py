"""Folds of a cross-validation: rows to train on, and held-out rows."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from widemargin.arrays import Vector
from widemargin.words import label_in_words

#: the rows to train on, and the held-out rows, as numbers
Fold: TypeAlias = tuple[np.ndarray, np.ndarray]
#: one weight per row for each of several classifiers; None if all of them are one
Weights: TypeAlias = Sequence[np.ndarray | None]

#: folds whose held-out scores are used for calibration; fewer if a class has fewer rows
CALIBRATION_FOLDS = 5


def check_folds(folds: Iterable, y: np.ndarray, weights: np.ndarray | None) -> list[Fold]:
    """Return folds, as scikit-learn's splitters yield them, without the rows of weight zero.

    The rows are row numbers or masks of length n; of what is returned, row numbers.
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


def _check_rows(whose: str, index: Vector, n_rows: int, weights: np.ndarray | None) -> np.ndarray:
    index = np.asarray(index)
    if index.dtype == bool and index.shape == (n_rows,):
        index = np.flatnonzero(index)
    if index.size and (
        index.dtype.kind not in "iu" or index.ndim != 1 or index.min() < 0 or index.max() >= n_rows
    ):
        raise ValueError(f"{whose} rows that are not numbers from 0 to {n_rows - 1}")
    index = index.astype(np.intp, copy=False)
    if weights is not None:
        index = index[weights[index] > 0.0]
    if not index.size:
        of_weight = "" if weights is None else " of a weight above zero"
        raise ValueError(f"{whose} no rows{of_weight}")
    return index


def fold_weights(folds: list[Fold], weights: np.ndarray | None, n_rows: int) -> list[np.ndarray]:
    """Return the training weights of the rows for each fold: [(n,)].

    A row that occurs several times in a fold counts as often.
    """
    counts = (np.bincount(train, minlength=n_rows) for train, _ in folds)
    if weights is None:
        # There is one count per row and fold; most are 0 or 1.
        return [count.astype(np.min_scalar_type(count.max())) for count in counts]
    return [weights * count for count in counts]
