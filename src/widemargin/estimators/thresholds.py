"""Thresholds that cut scores into ranks with the fewest errors, exactly.

A threshold t_k, k = 1 .. K - 1, is a cut c_k: it lies above the c_k lowest of the distinct scores.
Moving a row from rank k to rank k - 1 changes its loss by an amount that depends on k and on the
row alone, so the total loss is a constant plus

    f_1(c_1) + ... + f_{K-1}(c_{K-1}),      c_1 <= c_2 <= ... <= c_{K-1},

where f_k(c) sums those changes over the rows below the cut. The least value G_k(c) of the first k
terms with c_k = c follows from the one before:

    G_k(c) = f_k(c) + min over c' <= c of G_{k-1}(c').
"""

import numpy as np

# How much the loss of a row, given its rank, changes as the prediction moves from k to k - 1.
_CHANGES = {
    "absolute": lambda ranks, k: np.where(ranks >= k, 1.0, -1.0),
    "zero_one": lambda ranks, k: (ranks == k).astype(np.float64) - (ranks == k - 1),
}


def best_thresholds(scores, ranks, n_ranks, weights=None, loss="absolute"):
    """Return the thresholds that predict ranks from scores with the least total loss.

    The rank predicted for a score is the number of thresholds below it,
    ``np.searchsorted(thresholds, scores, side="left")``. Of several best solutions the lowest is
    returned: no other one has any threshold between lower scores. Weights whose sums round may
    hide that two solutions are equally good.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Finite.
    ranks : ndarray of int, shape (n,)
        True ranks, 0 .. n_ranks - 1; some may have no row.
    n_ranks : int
        At least 1.
    weights : ndarray of shape (n,), optional
        Weight of each row's loss. Rows of weight zero are as if absent. Default: 1 for each row.
    loss : {"absolute", "zero_one"}, default="absolute"
        |predicted - true|, or whether they differ.

    Returns
    -------
    ndarray of float64, shape (n_ranks - 1,)
        Non-decreasing. Each lies midway between neighbouring scores, or is -inf if all rows are
        above it and +inf if all are below.

    Raises
    ------
    ValueError
        If no row has a positive weight.
    """
    change_of_loss = _CHANGES[loss]
    scores = np.asarray(scores, dtype=np.float64)
    ranks = np.asarray(ranks)
    weights = np.ones(scores.size) if weights is None else np.asarray(weights, dtype=np.float64)
    counted = np.flatnonzero(weights > 0.0)
    if counted.size == 0:
        raise ValueError("there is no row of positive weight to set thresholds by")
    order = counted[np.argsort(scores[counted], kind="stable")]
    scores, ranks, weights = scores[order], ranks[order], weights[order]
    last_of_tie = np.append(np.flatnonzero(scores[1:] > scores[:-1]), scores.size - 1)

    def terms():
        """Yield f_k, (number of distinct scores + 1,), for k = 1 .. n_ranks - 1."""
        for k in range(1, n_ranks):
            sums = np.cumsum(weights * change_of_loss(ranks, k))[last_of_tie]
            yield np.append(0.0, sums)

    cuts = _lowest_best_cuts(terms(), last_of_tie.size + 1)
    return _places_of_cuts(scores[last_of_tie])[cuts]


def _lowest_best_cuts(terms, n_cuts):
    """Return the cuts c_1 <= c_2 <= ... that minimise the sum of the terms, each the lowest."""
    best_up_to = np.zeros(n_cuts)  # min over c' <= c of G_{k-1}(c')
    best_cuts = []  # and the lowest c' that attains it
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


def _places_of_cuts(distinct):
    """Return the threshold that each cut of the distinct scores (m,) stands for, (m + 1,)."""
    low, high = distinct[:-1], distinct[1:]
    middle = 0.5 * low + 0.5 * high  # low + high might overflow
    # Between neighbouring floats there is none: the lower one still parts them.
    separates = (low <= middle) & (middle < high)
    return np.concatenate(([-np.inf], np.where(separates, middle, low), [np.inf]))
