"""Sums over pairs of rows, in O(n log n), and the sort that they begin with.

Rows come group by group, in increasing order of score, so that the rows that make a loss with a
given one are a window. Two sweeps move it along, one for each side of the pairs, and a Fenwick
tree holds the weight of the window's rows by level. Nothing is ever taken out of a tree: all
sums are of non-negative terms and lose no digits.

A pair (i above j) is in the plane where  s_i - MARGIN < s_j.  Both sweeps test just that: rounded
in two ways, a pair could be found from one side and missed from the other. What such planes leave
out, losses of pairs whose margin is short of 1 by less, is added to the value, so that it is never
below the risk's. Differences of scores are taken as they are written: reordered, 1 - (s_i - s_j)
may become (1 + s_j) - s_i, and lose the 1.
"""

import numpy as np

from widemargin.kernels.jit import IN_ORDER, kernel

# Short of 1 by more than rounding. Planes cross where pairs have a margin of just 1, so that is
# where solvers go and take planes; and a plane is remembered by its point. If rounding decided
# which pairs are in it, who makes the scores anew would find another plane, and a worse bound.
# Pairs this near have next to no loss: with or without them a plane is about as high at its point.
MARGIN = 1.0 - 1e-11
# By how much, as a fraction of a score, that difference may be rounded.
BLUR = 2.0**-51
# Rows below one that are looked at for such losses; if there are more, rows of equal scores,
# then all rows of the group are taken to have as much loss as there can be.
MOST_NEAR = 64


@kernel
def add_pairs(ends, by_level, total):
    """total (g,) += the weight of all pairs of a group; ends (g,) are where its levels end.

    Level by level, so that no sum is a difference: weights may be of very different size.
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
    """keys (n,) receive scores in fixed point, above, and row numbers, in `index_bits`, below.

    Sorting such numbers is much faster than finding the permutation that sorts floats.
    """
    for i in range(S.shape[0]):
        keys[i] = (np.uint64((S[i] - lowest) * scale) << index_bits) | np.uint64(i)


@kernel
def by_group(order, member, place, grouped):
    """grouped (n,) receives `order` group by group, else unchanged.

    member (n,) is the group of each row; place (g,) where each group begins, and is used up.
    """
    for i in order:
        g = member[i]
        grouped[place[g]] = i
        place[g] += 1


@kernel
def settle(starts, order, S, most_moves):
    """Put right what fixed point could not tell apart; return whether `most_moves` were enough."""
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

    Of the pairs that have a loss. starts (g + 1,) are the ends of groups, n_levels (g,) their
    numbers of levels. Returns the sum of push * score, counted from each group's middle score, and
    that of its terms' sizes.
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

    As `pushes`, from the other end; returns also the sum of pull, the weight of all pairs, and the
    losses of those that are not in the plane.
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
