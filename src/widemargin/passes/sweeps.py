"""The pairwise hinge by sweeps over sorted rows, one after another: see kernels/pairwise.py."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy import ndarray as Array

from widemargin import threads
from widemargin.kernels import pairwise as kernels
from widemargin.rounding import gamma

#: a bound on the relative rounding error of a score that is scaled and compared
BLUR = kernels.BLUR

# How many moves per row the last step of the sort may take; else it is sorted again.
_MOVES = 8


def weigh_pairs(ends: Array, by_level: Array) -> Array:
    """Return the weight of all pairs of each group, (g,), by the weights of its rows per level.

    Levels are listed group by group; ends (g,) are the ends of the groups in this list.
    """
    total = np.zeros(ends.size)
    kernels.add_pairs(ends, by_level, total)
    return total


def pair_sums(
    S: Array, starts: Array, n_levels: Array, member: Array, level: Array, weight: Array
) -> tuple[float, float, Array, float]:
    """Return value, -r* of the slope, slope, and blur; for the arguments see passes/pairs.py."""
    slope = np.empty(S.shape)

    def chunk(first: int, last: int) -> tuple[float, float, float]:
        return _groups(S, (starts, n_levels, member, level, weight), first, last, slope)

    cuts = [end for _, end in threads.chunks(S.size, 64 * S.size)]
    ends = np.unique(np.searchsorted(starts, cuts))  # chunks of whole groups
    sums = threads.run(chunk, list(pairwise([0, *ends])))
    value, constant, terms = np.sum(sums, axis=0)
    # Rows are added up one by one, by their levels and by their scores.
    return float(value), float(constant), slope, gamma(4 * S.size + 64) * float(terms)


def _groups(
    S: Array, paired: tuple[Array, ...], first: int, last: int, slope: Array
) -> tuple[float, float, float]:
    """Sweep over the groups `first` to `last`; return value, constant, and size of the terms."""
    starts, n_levels, member, level, weight = paired
    part = slice(starts[first], starts[last])
    starts, n_levels = starts[first : last + 1] - part.start, n_levels[first:last]
    order, S = sorted_by_group(S[part], starts, member[part] - first)
    level, weight = level[part][order], weight[part][order]

    def sweep(kernel: Callable) -> tuple:
        sums = np.empty(S.shape)
        tree = np.empty(n_levels.max() + 1)
        return kernel(starts, n_levels, S, level, weight, tree, sums), sums

    ((pushed, size), push), ((constant, pulled, other_size, near), pull) = threads.run(
        sweep, [(kernels.pushes,), (kernels.pulls,)]
    )
    slope[part][order] = push - pull
    return constant + pushed - pulled + near, constant, constant + size + other_size + near


def sorted_by_group(S: Array, starts: Array, member: Array) -> tuple[Array, Array]:
    """Return the order of the rows by group and score, (n,), and their scores in this order."""
    n = S.size
    index_bits = np.uint64(n.bit_length())
    lowest = S.min()
    with np.errstate(divide="ignore", over="ignore"):
        scale = 2.0 ** (64 - n.bit_length()) * (1.0 - 1e-9) / (S.max() - lowest)
    if np.isfinite(scale):
        keys = np.empty(n, dtype=np.uint64)
        kernels.sort_keys(S, lowest, scale, index_bits, keys)
        keys.sort()
        keys &= (np.uint64(1) << index_bits) - np.uint64(1)
        order = _by_group(keys.view(np.int64), starts, member)
        sorted_S = S[order]
        if kernels.settle(starts, order, sorted_S, _MOVES * n):
            return order, sorted_S
    order = _by_group(np.argsort(S), starts, member)
    return order, S[order]


def _by_group(order: Array, starts: Array, member: Array) -> Array:
    if starts.size == 2:
        return order
    grouped = np.empty_like(order)
    kernels.by_group(order, member, starts[:-1].copy(), grouped)
    return grouped
