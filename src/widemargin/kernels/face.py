"""Conjugate residuals for the free dual variables of coordinate descent.

The rows F of an index have free dual variables. The system is  Q d = r  with

    Q_st = y_s y_t (x_s.x_t + k - mean_dot_s - mean_dot_t) + shift_s [s = t]

for rows s and t of F. It is solved in the variables root d, with root_s^2 = Q_ss, so that the
diagonal is 1. Arrays with one number per row of F are rows of `system` and `vectors`, in the order
below; `numbers` has what the iterations hand on. `mean_dot` has all rows, or none if it is zero.
"""

import numpy as np
from numba.extending import register_jitable

from widemargin.kernels.jit import kernel
from widemargin.kernels.loss import slope_at, steepness_of
from widemargin.kernels.response import sign_of, target_of
from widemargin.kernels.rows import row_add, row_dot, row_prefetch
from widemargin.kernels.typing import Array, Rows

#: rows of `system`: the labels, alpha, costs, shifts, r, and root
LABEL, ALPHA, COST, SHIFT, RIGHT, ROOT = range(6)
SYSTEM_SIZE = 6
#: rows of `vectors`: d and r - Q d, both scaled; the direction, and Q times direction and residual
CHANGE, RESIDUAL, DIRECTION, IMAGE, OF_RESIDUAL = range(5)
VECTORS_SIZE = 5
#: what `numbers` has
SQUARE, CURVATURE, NOTHING, GAP, ITERATIONS, W_SQUARE, BEGUN = range(7)
NUMBERS_SIZE = 7
#: how a call of `iterate` ended: it may go on, nothing is left to do, or the gap will do
RUNNING, ENDED, ENOUGH = range(3)

# After how many iterations the gap is estimated, and for which multiples of w: one, and those that
# raise the margins of rows by this many times their mean error.
_ITERATIONS_BETWEEN_LOOKS = 4
_LIFTS = (0.0, 1.0, 2.0, 4.0)
# A residual has no curvature if its curvature is this much smaller than that of single rows. It is
# zero if its square is this fraction of the first one.
_NO_CURVATURE = 1e-13
_NOTHING = 1e-24
# How many rows ahead rows are prefetched.
_LOOK_AHEAD = 2


@register_jitable
def is_free(alpha: float, cost: float, norm: float, low: float, high: float) -> bool:
    """Return whether alpha is between its bounds, and not zero; never for an empty row."""
    inside = (alpha > (low * cost if cost > 0.0 else 0.0)) & (
        alpha < (high * cost if cost > 0.0 else 0.0)
    )
    return inside & (alpha != 0.0) & (norm > 0.0)


@kernel
def free_rows(
    alpha: Array, cost: Array, norms: Array, low: float, high: float, free: Array,
) -> int:  # fmt: skip
    """Fill `free` with the rows of free dual variables; return their number."""
    count = 0
    for i in range(alpha.shape[0]):
        free[count] = i
        count += is_free(alpha[i], cost[i], norms[i], low, high)
    return count


@register_jitable
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for t in range(a.shape[0]):
        total += a[t] * b[t]
    return total


@register_jitable
def _scores(
    rows: Rows, index: Array, w: Array, z: float, k: float, w_mean_dot: float, mean_dot: Array,
    scores: Array,
) -> None:  # fmt: skip
    """Fill scores with those of the rows by w = sum of g_i (x_i - mean), where z = sum of g_i."""
    for t in range(index.shape[0]):
        if t + _LOOK_AHEAD < index.shape[0]:
            row_prefetch(rows, index[t + _LOOK_AHEAD])
        i = index[t]
        own = mean_dot[i] if mean_dot.shape[0] > 0 else 0.0
        scores[t] = row_dot(rows, i, w) + z * (k - own) - w_mean_dot


@kernel
def start(
    rows: Rows, index: Array, y: Array, cost: Array, alpha: Array, bend: float, w: Array,
    offset: Array, norms: Array, mean_dot: Array, system: Array, numbers: Array,
) -> None:  # fmt: skip
    """Fill `system`, where w and `offset` = [b, z, k] are those of coordinate descent."""
    b, z, k = offset[0], offset[1], offset[2]
    right, root = system[RIGHT], system[ROOT]
    _scores(rows, index, w, z, k, -b, mean_dot, right)
    for t in range(index.shape[0]):
        i = index[t]
        sign, shift = sign_of(y[i]), bend / cost[i]
        own = mean_dot[i] if mean_dot.shape[0] > 0 else 0.0
        system[LABEL, t], system[ALPHA, t], system[COST, t] = sign, alpha[i], cost[i]
        system[SHIFT, t] = shift
        right[t] = target_of(y[i]) - sign * right[t] - shift * alpha[i]
        root[t] = np.sqrt(norms[i] + k + shift - 2.0 * own)
    numbers[W_SQUARE] = _dot(w, w)


@register_jitable
def _combine(
    rows: Rows, index: Array, signed: Array, mean_dot: Array, w: Array
) -> tuple[float, float]:
    """Set w to X^T signed; return the sum of signed, and its dot product with mean_dot."""
    w[:] = 0.0
    z, w_mean_dot = 0.0, 0.0
    for t in range(index.shape[0]):
        if t + _LOOK_AHEAD < index.shape[0]:
            row_prefetch(rows, index[t + _LOOK_AHEAD])
        row_add(rows, index[t], signed[t], w)
        z += signed[t]
        if mean_dot.shape[0] > 0:
            w_mean_dot += signed[t] * mean_dot[index[t]]
    return z, w_mean_dot


@kernel
def combine(
    rows: Rows, index: Array, signed: Array, mean_dot: Array, w: Array
) -> tuple[float, float]:
    """Set w to X^T signed; return the sum of signed, and its dot product with mean_dot."""
    return _combine(rows, index, signed, mean_dot, w)


@kernel
def multiply(
    rows: Rows, index: Array, mean_dot: Array, k: float, system: Array, vector: Array,
    product: Array, scratch: Array, w: Array,
) -> None:  # fmt: skip
    """Set product to Q (vector / root) / root, whose matrix has the diagonal 1.

    `scratch` (m,) and w (d,) are overwritten.
    """
    label, shift, root = system[LABEL], system[SHIFT], system[ROOT]
    for t in range(index.shape[0]):
        scratch[t] = label[t] * vector[t] / root[t]
    z, w_mean_dot = _combine(rows, index, scratch, mean_dot, w)
    _scores(rows, index, w, z, k, w_mean_dot, mean_dot, scratch)
    for t in range(index.shape[0]):
        product[t] = (label[t] * scratch[t] + shift[t] * vector[t] / root[t]) / root[t]


@kernel
def gap_of(
    system: Array, y: Array, low: float, high: float, bend: float, w_square: float,
    change: Array, residual: Array,
) -> float:  # fmt: skip
    """Return the rows' contributions to the gap between alpha and w + X^T (change y).

    `change` is root d, and `residual` is (r - Q d) / root. Multiples of that point are tried, too.
    """
    label, alpha, cost = system[LABEL], system[ALPHA], system[COST]
    shift, right, root = system[SHIFT], system[RIGHT], system[ROOT]
    m = label.shape[0]
    moved, along, usual = 0.0, 0.0, 0.0
    for t in range(m):
        d, left = change[t] / root[t], residual[t] * root[t]
        moved += d * (right[t] - left - shift[t] * d)
        along += d * (target_of(y[t]) - right[t] - shift[t] * alpha[t])
        usual += abs(left + shift[t] * (alpha[t] + d))  # |residual|
    usual /= max(1, m)
    square = w_square + 2.0 * along + moved
    steepness, least = steepness_of(bend), np.inf
    for lift in _LIFTS:
        more = usual * lift
        total = 0.0
        for t in range(m):
            short = residual[t] * root[t] + shift[t] * (alpha[t] + change[t] / root[t])
            still = (1.0 + more) * short - more * target_of(y[t])
            if bend > 0.0:
                a = slope_at(still, low, high, steepness)
                loss = a * (still - 0.5 * bend * a)
            else:
                loss = max(high * still, low * still)
            total += cost[t] * loss - alpha[t] * (still - 0.5 * shift[t] * alpha[t])
        distance = more * more * square + 2.0 * more * (along + moved) + moved
        least = min(least, total + 0.5 * distance)
    return least


@kernel
def iterate(
    rows: Rows, index: Array, mean_dot: Array, k: float, system: Array, y: Array,
    vectors: Array, numbers: Array, low: float, high: float, bend: float, enough: float,
    slowest: float, most: float, n_iter: int, scratch: Array, w: Array,
) -> int:  # fmt: skip
    """Make up to n_iter iterations, but no more than `most` in all calls; return how it ended.

    They end when the rows' gap contributions are at most `enough`, or are more than `slowest`
    times those of the last estimate. `scratch` (m,) and w (d,) are overwritten.
    """
    m = index.shape[0]
    change, residual = vectors[CHANGE], vectors[RESIDUAL]
    direction, image, of_residual = vectors[DIRECTION], vectors[IMAGE], vectors[OF_RESIDUAL]
    if numbers[BEGUN] == 0.0:
        for t in range(m):
            change[t] = 0.0
            direction[t] = residual[t] = system[RIGHT, t] / system[ROOT, t]
        multiply(rows, index, mean_dot, k, system, residual, image, scratch, w)
        numbers[CURVATURE], numbers[SQUARE] = _dot(residual, image), _dot(residual, residual)
        numbers[NOTHING], numbers[GAP] = _NOTHING * numbers[SQUARE], np.inf
        numbers[ITERATIONS], numbers[BEGUN] = 0.0, 1.0
    for _ in range(n_iter):
        square, curvature = numbers[SQUARE], numbers[CURVATURE]
        if numbers[ITERATIONS] >= most or square <= numbers[NOTHING]:
            return ENDED
        if curvature <= _NO_CURVATURE * square:
            return ENDED
        step = curvature / _dot(image, image)
        square = 0.0
        for t in range(m):
            change[t] += step * direction[t]
            residual[t] -= step * image[t]
            square += residual[t] * residual[t]
        numbers[SQUARE] = square
        numbers[ITERATIONS] += 1.0
        if numbers[ITERATIONS] % _ITERATIONS_BETWEEN_LOOKS == 0:
            last = numbers[GAP]
            gap = gap_of(system, y, low, high, bend, numbers[W_SQUARE], change, residual)
            numbers[GAP] = gap
            if (gap <= enough) | (gap > slowest * last):
                return ENOUGH
        multiply(rows, index, mean_dot, k, system, residual, of_residual, scratch, w)
        numbers[CURVATURE] = _dot(residual, of_residual)
        ratio = numbers[CURVATURE] / curvature
        for t in range(m):
            direction[t] = residual[t] + ratio * direction[t]
            image[t] = of_residual[t] + ratio * image[t]
    return RUNNING


@kernel
def clipped_gain(
    rows: Rows, index: Array, mean_dot: Array, k: float, system: Array, low: float, high: float,
    wish: Array, change: Array, scratch: Array, w: Array,
) -> tuple[float, float, float]:  # fmt: skip
    """Set change to `wish`, clipped to the bounds, and w to X^T (change y).

    Return the gain of the dual, the sum of change y, and its dot product with mean_dot.
    """
    alpha, cost = system[ALPHA], system[COST]
    rise, bent = 0.0, 0.0
    for t in range(index.shape[0]):
        after = min(max(alpha[t] + wish[t], low * cost[t]), high * cost[t])
        change[t] = after - alpha[t]
        rise += system[RIGHT, t] * change[t]
        bent += system[SHIFT, t] * change[t] * change[t]
        scratch[t] = system[LABEL, t] * change[t]
    z, w_mean_dot = _combine(rows, index, scratch, mean_dot, w)
    bent += _dot(w, w) + k * z * z - 2.0 * z * w_mean_dot
    return rise - 0.5 * bent, z, w_mean_dot
