"""Optimal thresholds between ranks, by dynamic programming.

A threshold t_k, k = 1 .. K - 1, corresponds to a cut c_k: it lies above the c_k lowest of the
distinct scores. Moving a row from rank k to rank k - 1 changes its loss by an amount that depends
only on k and the row, so the total loss is a constant plus

    f_1(c_1) + ... + f_{K-1}(c_{K-1}),      c_1 <= c_2 <= ... <= c_{K-1},

where f_k(c) is the sum of those changes over the rows below the cut. The minimum G_k(c) of the
first k terms with c_k = c satisfies

    G_k(c) = f_k(c) + min over c' <= c of G_{k-1}(c').
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

# Change in the loss of a row, given its rank, when the prediction moves from k to k - 1.
_LOSS_CHANGES = {
    "absolute": lambda ranks, k: np.where(ranks >= k, 1.0, -1.0),
    "zero_one": lambda ranks, k: (ranks == k).astype(np.float64) - (ranks == k - 1),
}


def best_thresholds(
    scores: ArrayLike,
    ranks: ArrayLike,
    n_ranks: int,
    weights: ArrayLike | None = None,
    loss: str = "absolute",
) -> np.ndarray:
    """Return the thresholds between ranks that minimise the total loss, (n_ranks - 1,).

    The rank predicted for a score is the number of thresholds below it,
    ``np.searchsorted(thresholds, scores, side="left")``. Of several optimal solutions, the one
    with the lowest thresholds is returned; rounding in sums of weights may hide a tie.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Finite.
    ranks : ndarray of int, shape (n,)
        True ranks, 0 .. n_ranks - 1; not all need to occur.
    n_ranks : int
    weights : ndarray of shape (n,), optional
        Weight of the loss of each row, one by default; ValueError if none is positive.
    loss : {"absolute", "zero_one"}, default="absolute"
        |predicted - true|, or 1 if they differ.

    Returns
    -------
    ndarray of float64, shape (n_ranks - 1,)
        Non-decreasing. Each is the midpoint of two neighbouring scores, or -inf (all rows above)
        or +inf (all rows below).
    """
    change_of_loss = _LOSS_CHANGES[loss]
    scores = np.asarray(scores, dtype=np.float64)
    ranks = np.asarray(ranks)
    weights = np.ones(scores.size) if weights is None else np.asarray(weights, dtype=np.float64)
    counted = np.flatnonzero(weights > 0.0)
    if counted.size == 0:
        raise ValueError("no row has a positive weight: thresholds are undefined")
    order = counted[np.argsort(scores[counted], kind="stable")]
    scores, ranks, weights = scores[order], ranks[order], weights[order]
    last_of_tie = np.append(np.flatnonzero(scores[1:] > scores[:-1]), scores.size - 1)

    def terms() -> Iterator[np.ndarray]:
        """Yield f_k, (number of distinct scores + 1,), for k = 1 .. n_ranks - 1."""
        for k in range(1, n_ranks):
            sums = np.cumsum(weights * change_of_loss(ranks, k))[last_of_tie]
            yield np.append(0.0, sums)

    cuts = _lowest_best_cuts(terms(), last_of_tie.size + 1)
    return _thresholds_at_cuts(scores[last_of_tie])[cuts]


def _lowest_best_cuts(terms: Iterable[np.ndarray], n_cuts: int) -> np.ndarray:
    """Return the lowest cuts c_1 <= c_2 <= ... that minimise the sum of the terms."""
    best_up_to = np.zeros(n_cuts)  # min over c' <= c of G_{k-1}(c')
    best_cuts = []  # the lowest c' that attains the minimum
    for term in terms:
        value = term + best_up_to
        best_up_to = np.minimum.accumulate(value)
        improves = np.append(True, value[1:] < best_up_to[:-1])
        cut = np.where(improves, np.arange(n_cuts, dtype=np.int32), np.int32(0))
        best_cuts.append(np.maximum.accumulate(cut))
    cuts = []
    bound = n_cuts - 1
    for best_cut in reversed(best_cuts):
        bound = int(best_cut[bound])
        cuts.append(bound)
    return np.array(cuts[::-1], dtype=np.int64)


def _thresholds_at_cuts(distinct: np.ndarray) -> np.ndarray:
    """Return the threshold of each cut of the distinct scores (m,), (m + 1,)."""
    low, high = distinct[:-1], distinct[1:]
    middle = 0.5 * low + 0.5 * high  # low + high might overflow
    # There is no float between adjacent floats; the lower one still separates them.
    separates = (low <= middle) & (middle < high)
    return np.concatenate(([-np.inf], np.where(separates, middle, low), [np.inf]))
