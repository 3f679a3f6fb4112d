"""Sums over pairs of rows, in O(n log n), and the sort before them.

Rows come group by group, in increasing order of score, so the rows that have a loss with a given
row are a window. Two sweeps move the window, one for each side of the pairs. A Fenwick tree holds
the weights of the window's rows by level. Nothing is ever removed from a tree: all sums have
nonnegative terms, and lose no digits.

A pair (i above j) is in the plane if  s_i - MARGIN < s_j.  Both sweeps use just this test: with
another rounding, a sweep could miss a pair that the other one has found. Pairs whose margin is
only a little below 1 are left out of the plane. Their losses are added to the value, so that it is
never below the risk. Differences of scores must not be reordered: 1 - (s_i - s_j) could become
(1 + s_j) - s_i, and lose the 1.
"""

import numpy as np

from widemargin.kernels.jit import IN_ORDER, kernel

# Below 1 by more than rounding. Planes meet where pairs have a margin of exactly 1, so solvers go
# to such points and take planes there; and a plane is stored as its point. If rounding decided
# which pairs are in it, recomputed scores would give another plane, and a worse bound. Pairs this
# near to their margin have nearly no loss: with or without them, the plane is about as high.
MARGIN = 1.0 - 1e-11
# A bound on the rounding error of this difference, as a fraction of a score.
BLUR = 2.0**-51
# At most this many rows below a row are tested for such losses. If there are more, with equal
# scores, all rows of the group are counted with the largest possible loss.
MOST_NEAR = 64


@kernel
def add_pairs(ends, by_level, total):
    """total (g,) += the weight of all pairs of each group; ends (g,) are where its levels end.

    The sum goes level by level, and has no differences: weights may be of very different size.
    """
    begin = 0
    for g in range(ends.shape[0]):
        below = 0.0
        for k in range(begin, ends[g]):
            total[g] += by_level[k] * below
            below += by_level[k]
        begin = ends[g]


@kernel
def sort_keys(S, lowest, scale, index_bits, keys):
    """keys (n,) receive scores in fixed point in the high bits, and row numbers in the low ones.

    Sorting such integers is much faster than finding the permutation that sorts floats.
    """
    for i in range(S.shape[0]):
        keys[i] = (np.uint64((S[i] - lowest) * scale) << index_bits) | np.uint64(i)


@kernel
def by_group(order, member, place, grouped):
    """grouped (n,) receives `order` group by group, with the order in each group unchanged.

    member (n,) is the group of each row. place (g,) is the begin of each group, and is
    overwritten.
    """
    for i in order:
        g = member[i]
        grouped[place[g]] = i
        place[g] += 1


@kernel
def settle(starts, order, S, most_moves):
    """Sort rows with equal fixed-point scores; return whether `most_moves` were enough."""
    moves = 0
    for g in range(starts.shape[0] - 1):
        for p in range(starts[g] + 1, starts[g + 1]):
            s, i = S[p], order[p]
            q = p
            while q > starts[g] and S[q - 1] > s:
                S[q], order[q] = S[q - 1], order[q - 1]
                q -= 1
            S[q], order[q] = s, i
            moves += p - q
            if moves > most_moves:
                return False
    return True


@kernel(fastmath=IN_ORDER)
def pushes(starts, n_levels, S, level, weight, tree, push):
    """push (n,) receives, for each row, its weight times that of the rows above it in pairs.

    Only pairs with a loss count. starts (g + 1,) are the ends of groups, n_levels (g,) their
    numbers of levels. Returns the sum of push * score, relative to each group's middle score, and
    the sum of its terms' sizes.
    """
    moment, size_of_moment = 0.0, 0.0
    for g in range(starts.shape[0] - 1):
        begin, end, size = starts[g], starts[g + 1], n_levels[g]
        middle = S[(begin + end) // 2]
        h = begin
        if size == 2:
            window = 0.0
            for p in range(begin, end):
                while h < end and S[h] - MARGIN < S[p]:
                    window += weight[h] * level[h]
                    h += 1
                push[p] = weight[p] * window * (1 - level[p])
                moment += push[p] * (S[p] - middle)
                size_of_moment += push[p] * abs(S[p] - middle)
            continue
        tree[: size + 1] = 0.0
        for p in range(begin, end):
            while h < end and S[h] - MARGIN < S[p]:
                k = size - level[h]
                while k <= size:
                    tree[k] += weight[h]
                    k += k & -k
                h += 1
            window = 0.0
            k = size - 1 - level[p]
            while k > 0:
                window += tree[k]
                k &= k - 1
            push[p] = weight[p] * window
            moment += push[p] * (S[p] - middle)
            size_of_moment += push[p] * abs(S[p] - middle)
    return moment, size_of_moment


@kernel(fastmath=IN_ORDER)
def pulls(starts, n_levels, S, level, weight, tree, pull):
    """pull (n,) receives, for each row, its weight times that of the rows below it in pairs.

    As `pushes`, from the other end. Also returns the sum of pull, which is the weight of all
    pairs, and the losses of the pairs that are not in the plane.
    """
    total, moment, size_of_moment, near = 0.0, 0.0, 0.0, 0.0
    for g in range(starts.shape[0] - 1):
        begin, end, size = starts[g], starts[g + 1], n_levels[g]
        whole = weight[begin:end].sum()
        middle = S[(begin + end) // 2]
        h = end - 1
        if size == 2:
            window = 0.0
            for p in range(end - 1, begin - 1, -1):
                while h >= begin and S[p] - MARGIN < S[h]:
                    window += weight[h] * (1 - level[h])
                    h -= 1
                pull[p] = weight[p] * window * level[p]
                total += pull[p]
                moment += pull[p] * (S[p] - middle)
                size_of_moment += pull[p] * abs(S[p] - middle)
                near += _losses_left_out(begin, h, p, S, level, weight, whole)
            continue
        tree[: size + 1] = 0.0
        for p in range(end - 1, begin - 1, -1):
            while h >= begin and S[p] - MARGIN < S[h]:
                k = level[h] + 1
                while k <= size:
                    tree[k] += weight[h]
                    k += k & -k
                h -= 1
            window = 0.0
            k = level[p]
            while k > 0:
                window += tree[k]
                k &= k - 1
            pull[p] = weight[p] * window
            total += pull[p]
            moment += pull[p] * (S[p] - middle)
            size_of_moment += pull[p] * abs(S[p] - middle)
            near += _losses_left_out(begin, h, p, S, level, weight, whole)
    return total, moment, size_of_moment, near


@kernel(fastmath=IN_ORDER)
def _losses_left_out(begin, h, p, S, level, weight, whole):
    """Return the losses of row p with rows below it, from row h down: MARGIN and less than 1.

    `whole` is the weight of its group.
    """
    losses, q = 0.0, h
    while q >= begin and S[p] - S[q] < 1.0:
        if h - q == MOST_NEAR:
            return weight[p] * whole * (1.0 - MARGIN + BLUR * abs(S[p]))
        if level[q] < level[p]:
            losses += weight[p] * weight[q] * (1.0 - (S[p] - S[q]))
        q -= 1
    return losses
