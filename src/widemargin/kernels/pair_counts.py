"""Weights of pairs of rows whose targets differ, in O(n log n).

A Fenwick tree holds the weights of the rows so far by rank. It adds up the weights below any rank
in log steps: ``tree[k]``, k from 1, covers the ranks k - (k & -k) .. k - 1.
"""

import numpy as np

from widemargin.kernels.jit import kernel


@kernel
def _weight_below(tree, rank):
    total = 0.0
    k = rank
    while k > 0:
        total += tree[k]
        k &= k - 1
    return total


@kernel
def _add_weight(tree, size, rank, weight):
    k = rank + 1
    while k <= size:
        tree[k] += weight
        k += k & -k


@kernel
def pair_weights(ranks, scores, weights, query_ends, ordered, pairs):
    """Sum w_i w_j over the pairs of each query in which row i ranks above row j.

    Only non-negative numbers are added, so nothing cancels: counts are exact up to 2^52 pairs.

    `ranks` (n,) are those of the targets among the distinct ones of the query, from 0 without
    gaps. `scores` (n,) never decrease inside a query. `query_ends` (q,) are the ends of the
    queries' rows. `ordered` (q,) receive the weight of the pairs with s_i > s_j, and half the
    weight of those with s_i = s_j; `pairs` (q,) the weight of all pairs.
    """
    most_ranks = ranks.max() + 1
    tree = np.empty(most_ranks + 1)
    weight_of = np.empty(most_ranks)
    begin = 0
    for q in range(query_ends.shape[0]):
        end = query_ends[q]
        size = ranks[begin:end].max() + 1
        tree[: size + 1] = 0.0
        weight_of[:size] = 0.0
        twice_ordered = 0.0
        tied = begin
        while tied < end:
            tied_end = tied
            while tied_end < end and scores[tied_end] == scores[tied]:
                twice_ordered += weights[tied_end] * _weight_below(tree, ranks[tied_end])
                tied_end += 1
            # The weight below is added before and after the rows of one score: ties count half.
            for i in range(tied, tied_end):
                _add_weight(tree, size, ranks[i], weights[i])
                weight_of[ranks[i]] += weights[i]
            for i in range(tied, tied_end):
                twice_ordered += weights[i] * _weight_below(tree, ranks[i])
            tied = tied_end
        ordered[q] = 0.5 * twice_ordered

        total, below = 0.0, 0.0
        for rank in range(size):
            total += weight_of[rank] * below
            below += weight_of[rank]
        pairs[q] = total
        begin = end
