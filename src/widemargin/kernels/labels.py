"""Loops of problems that have few rows each: their rows with few columns, and scores of many."""

import numpy as np

from widemargin.kernels.jit import kernel
from widemargin.kernels.typing import Array, Rows


@kernel
def take_rows(
    rows: Rows, index: Array, place: Array, values: Array, columns: Array, starts: Array,
    used: Array,
) -> int:  # fmt: skip
    """Copy CSR rows, with their columns numbered in the order in which they first occur.

    `place` (d,) is -1 everywhere, before and after. used[c] is the column that has the number c.
    Return how many there are.
    """
    old_values, indices, indptr = rows
    at = n_used = 0
    starts[0] = 0
    for t in range(index.shape[0]):
        i = index[t]
        for k in range(indptr[i], indptr[i + 1]):
            column = indices[k]
            if place[column] < 0:
                place[column] = n_used
                used[n_used] = column
                n_used += 1
            columns[at] = place[column]
            values[at] = old_values[k]
            at += 1
        starts[t + 1] = at
    for c in range(n_used):
        place[used[c]] = -1
    return n_used


@kernel
def scores_above(
    rows: Rows, W: Array, begin: int, end: int, thresholds: Array, counts: Array, index: Array,
    found: Array,
) -> None:  # fmt: skip
    """List the CSR rows begin <= i < end with x_i . W[:, j] > thresholds[j], for each j.

    They are appended to index[j] and their scores to found[j], as long as there is room; counts[j]
    is how many there are.
    """
    values, indices, indptr = rows
    n_labels, room = W.shape[1], index.shape[1]
    total = np.empty(n_labels)
    for i in range(begin, end):
        total[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            value, w = np.float64(values[k]), W[indices[k]]
            for j in range(n_labels):
                total[j] += value * np.float64(w[j])
        for j in range(n_labels):
            if total[j] > thresholds[j]:
                count = counts[j]
                if count < room:
                    index[j, count] = i
                    found[j, count] = total[j]
                counts[j] = count + 1
