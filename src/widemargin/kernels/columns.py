"""Coordinate descent over features, on a quadratic model of the losses.

With scores s, a model of the losses has the slopes p = r'(s) + h u where the scores are s + u, for
curvatures h (n,). A step of feature j minimises the model and the penalty of its weight; then p
is updated by one pass over the column. Columns are the rows of X^T, stored as kernels/rows.py
has it: (values,) of shape (m, n), or (values, indices, indptr). `places` (m,) are their indices.
"""

from typing import Any

import numpy as np
from numba.extending import overload, register_jitable

from widemargin.kernels.jit import IN_ORDER, REORDERING_MATH, kernel
from widemargin.kernels.rows import row_add, row_dot
from widemargin.kernels.typing import Array, Rows

_OPTIONS: Any = {"fastmath": set(REORDERING_MATH), "error_model": "numpy"}
_OPTIONS_IN_ORDER: Any = {"fastmath": set(IN_ORDER), "error_model": "numpy"}


def _add_weighted(columns, j, step, h, p):
    """Add step * h * x_j to p in place."""
    raise NotImplementedError("only inside compiled kernels")


def _weighted_square(columns, j, h):
    """Return the sum of h * x_j^2."""
    raise NotImplementedError("only inside compiled kernels")


@overload(_add_weighted, jit_options=_OPTIONS)
def _add_weighted_dense(columns, j, step, h, p):
    if len(columns) != 1:
        return None

    def dense(columns, j, step, h, p):
        x = columns[0][j]
        for i in range(x.shape[0]):
            p[i] += step * h[i] * x[i]

    return dense


@overload(_add_weighted, jit_options=_OPTIONS_IN_ORDER)
def _add_weighted_csc(columns, j, step, h, p):
    if len(columns) != 3:
        return None

    def csc(columns, j, step, h, p):
        values, indices, indptr = columns
        for k in range(indptr[j], indptr[j + 1]):
            p[indices[k]] += step * h[indices[k]] * values[k]

    return csc


@overload(_weighted_square, jit_options=_OPTIONS)
def _weighted_square_dense(columns, j, h):
    if len(columns) != 1:
        return None

    def dense(columns, j, h):
        x, total = columns[0][j], 0.0
        for i in range(x.shape[0]):
            total += h[i] * (np.float64(x[i]) * x[i])
        return total

    return dense


@overload(_weighted_square, jit_options=_OPTIONS_IN_ORDER)
def _weighted_square_csc(columns, j, h):
    if len(columns) != 3:
        return None

    def csc(columns, j, h):
        values, indices, indptr = columns
        total = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            total += h[indices[k]] * (np.float64(values[k]) * values[k])
        return total

    return csc


@register_jitable
def _lowest(gradient, curvature, w, l1, l2):
    """As `Penalty.lowest`; without any curvature, w itself, or zero."""
    whole = curvature + l2
    if not whole > 0.0:
        return 0.0 if abs(gradient) <= l1 else w
    free = curvature * w - gradient
    return (free - min(max(free, -l1), l1)) / whole


@kernel
def column_squares(columns: Rows, places: Array, h: Array, squares: Array) -> None:
    """squares (m,) receive the sums of h * x_j^2."""
    for t in range(places.shape[0]):
        squares[t] = _weighted_square(columns, places[t], h)


@kernel
def column_dots(columns: Rows, places: Array, p: Array, dots: Array) -> None:
    """dots (m,) receive x_j . p."""
    for t in range(places.shape[0]):
        dots[t] = row_dot(columns, places[t], p)


@kernel
def column_sum(columns: Rows, places: Array, steps: Array, total: Array) -> None:
    """Add the sum of steps_j x_j to total (n,)."""
    for t in range(places.shape[0]):
        if steps[t] != 0.0:
            row_add(columns, places[t], steps[t], total)


@kernel
def column_sweep(
    columns: Rows, places: Array, squares: Array, h: Array, l1: float, l2: float,
    only_nonzero: bool, w: Array, p: Array,
) -> float:  # fmt: skip
    """Visit columns once; w (m,) and p (n,) are updated. Return how much the model fell."""
    fell = 0.0
    for t in range(places.shape[0]):
        if only_nonzero and w[t] == 0.0:
            continue
        gradient = row_dot(columns, places[t], p)
        z = _lowest(gradient, squares[t], w[t], l1, l2)
        step = z - w[t]
        if step != 0.0:
            fell += 0.5 * (squares[t] + l2) * step * step
            _add_weighted(columns, places[t], step, h, p)
            w[t] = z
    return fell


@kernel
def gram_sweeps(
    gram: Array, l1: float, l2: float, w: Array, gradient: Array, most: int, enough: float
) -> float:  # fmt: skip
    """As `column_sweep`, for a model with the Gram matrix (m, m), several times.

    `gradient` (m,) is that of the model at w. A sweep over all weights is followed by at most
    `most` over those that are not zero, until one gains no more than `enough` of the first.
    Returns what the first one gained.
    """
    first = fell = _gram_sweep(gram, l1, l2, w, gradient, False)
    for _ in range(most):
        if fell <= enough * first:
            break
        fell = _gram_sweep(gram, l1, l2, w, gradient, True)
    return first


@register_jitable
def _gram_sweep(
    gram: Array, l1: float, l2: float, w: Array, gradient: Array, only_nonzero: bool
) -> float:
    fell = 0.0
    for j in range(w.shape[0]):
        if only_nonzero and w[j] == 0.0:
            continue
        column = gram[j]
        z = _lowest(gradient[j], column[j], w[j], l1, l2)
        step = z - w[j]
        if step != 0.0:
            fell += 0.5 * (column[j] + l2) * step * step
            for k in range(w.shape[0]):
                gradient[k] += step * column[k]
            w[j] = z
    return fell
