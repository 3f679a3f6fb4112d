"""Passes on a GPU, with the names and meanings of passes/cpu.py.

A fit makes hundreds of passes for two-class losses. Each of these is one kernel, with one small
copy to the host if it returns sums. The others are array expressions, which run on all arrays
that dispatch NumPy's functions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray as Array

from widemargin import meeting
from widemargin.arrays import on_host
from widemargin.kernels.loss import Numbers
from widemargin.kernels.response import signs, targets
from widemargin.passes import cpu
from widemargin.passes.cpu import ROUNDING, TRIALS
from widemargin.passes.pairs import pair_sums as pair_sums

#: rows times steps that a round of a line search may evaluate, as a fraction of all rows: a round
#: takes its time to wait for its end
ROWS_PER_ROUND = 32.0

# At most how many passes narrow the bracket of a line search, and the fraction of the losses that
# may be left to gain.
_ROUNDS, _ENOUGH = 16, 1e-12


def _cuda() -> Any:
    # Imported when needed: it needs CuPy.
    from widemargin.kernels import cuda

    return cuda


def margin_cut(y: Array, cost: Array, loss: Numbers, S: Array) -> tuple[Array, float, float, int]:
    slope = np.empty_like(S)
    sums = _cuda().sums("margin_cut", S.size, 3, (y, cost, *loss, S, slope))
    return slope, *sums


def bounded_losses(
    residual: Array, error: Array, cost: Array, loss: Numbers
) -> tuple[float, float]:
    most, size = _losses_and_sizes(residual + error, loss)
    if loss[1] != 0.0:  # the loss has two sides
        other = _losses_and_sizes(residual - error, loss)
        most, size = np.maximum(most, other[0]), np.maximum(size, other[1])
    return float((cost * most).sum()), float((cost * size * error).sum())


def _losses_and_sizes(residual: Array, loss: Numbers) -> tuple[Array, Array]:
    """Return the losses at residuals, (n,), and the sizes of their slopes."""
    eps, low, high, bend = loss
    excess = residual - np.clip(residual, -eps, eps)
    if bend > 0.0:
        a = np.clip(excess / bend, low, high)
        return a * (excess - 0.5 * bend * a), np.abs(a)
    size = np.where(excess > 0.0, high, np.where(excess < 0.0, -low, 0.0))
    return np.maximum(high * excess, low * excess), size


def dual_height(y: Array, cost: Array, loss: Numbers, A: Array) -> float:
    eps, low, high, bend = loss
    alpha, counts = A * signs(y), cost > 0.0
    # Bounds may be infinite, and costs zero.
    scale = np.where(counts, cost, np.finfo(float).tiny)
    least, most = (np.where(counts, bound * scale, 0.0) for bound in (low, high))
    if bool(((alpha < least) | (alpha > most)).any()):
        return -np.inf
    shift = bend / np.where(counts, cost, np.inf)
    terms = targets(y) * alpha - eps * np.abs(alpha) - alpha * (0.5 * shift * alpha)
    return float(terms.sum())


def sizes(A: Array, row_lengths: Array) -> tuple[float, float, int]:
    size = np.abs(A)
    return float(size.sum()), float(size @ row_lengths), int(np.count_nonzero(size))


def margin_rates(y: Array, S: Array, D: Array) -> tuple[Array, Array]:
    residual, rate = np.empty_like(S), np.empty_like(S)
    _cuda().launch("margin_rates", S.size, (y, S, D, residual, rate, S.size))
    return residual, rate


def margin_walk(
    y: Array, cost: Array, loss: Numbers, S: Array, T: Array, penalty: Array, *numbers: float
) -> tuple[Array, Array, Callable[[], Array]]:
    """Find the step from S to T at which  1/2 a step^2 + b step + losses  is lowest, and take it.

    `penalty` are sums of a, b and c, as `way` returns them. `numbers` are `rounding`, `moved`,
    `guess`, the step to begin at, `instead_of_zero` and `beyond`. If a is less than `rounding` c,
    the way is `moved`, the same for all rows. If the step is 0, `instead_of_zero` is taken. S
    becomes the scores there. Returns the slope of the losses at a point farther on, (n,), by a
    fraction `beyond` of what is left of the way; packed bits, which tell where it is not 0; and a
    function that waits for numbers: the step, a, b, c, the losses at its end, and loss, -r* of the
    slope and rows with a loss at the point farther on. On the host these are several passes, see
    `exact` in solvers/line_search.py.
    """
    residual, rate, slope = np.empty_like(S), np.empty_like(S), np.empty_like(S)
    lossy = np.empty_like(S, shape=(-(-S.size // 32),), dtype=np.uint32)
    arguments = (y, cost, *loss, S, T, penalty, np.int32(len(penalty)), *map(float, numbers))
    arguments += (_ENOUGH, np.int32(_ROUNDS), residual, rate, slope, lossy)
    found = _cuda().start_together("margin_walk", S.size, 18, 8, arguments)
    return slope, lossy.view(np.uint8)[: -(-S.size // 8)], found


def margin_sums(
    residual: Array, rate: Array, cost: Array, loss: Numbers, steps: Array
) -> tuple[Array, Array]:
    cuda, found = _cuda(), []
    for begin in range(0, steps.size, cuda.STEPS):
        some = steps[begin : begin + cuda.STEPS + 1]
        some = np.pad(some, (0, cuda.STEPS + 1 - some.size), mode="edge")
        arguments = (residual, rate, cost, *loss, *some.tolist())
        found.append(cuda.sums("margin_sums", residual.size, 4 * cuda.STEPS, arguments))
    sums = np.concatenate(found).reshape(-1, 4)[: steps.size]
    return sums[:, :3], sums[:-1, 3]


def changed(pieces: Array, j: int) -> Array | slice | None:
    if pieces.ndim == 1:  # counts of rows that change, without a list: return all rows, or none
        return slice(None) if pieces[j] else None
    return cpu.changed(pieces, j)


def advance(S: Array, D: Array, step: float, beyond: float) -> None:
    _cuda().launch("advance", S.size, (S, D, float(step), float(beyond), S.size))


def way(start: Array, end: Array) -> tuple[Array, Array]:
    ahead = np.empty_like(start)
    return ahead, _cuda().partial_sums("way", start.size, 3, (start, end, ahead))


def weighted_sum(weights: Array, vectors: Array) -> Array:
    return _cuda().weighted_sum(weights, vectors)


def products(vectors: Array, v: Array) -> Callable[[], Array]:
    return _cuda().products(vectors, v)


def most_planes() -> int:
    """Return for how many planes `ascend` can solve the reduced dual."""
    return _cuda().most_planes()


def ascend(
    H: Array, c: Array, z: Array, height: float, tolerance: float, value: float, last: Array
) -> Any:
    """Begin to solve a reduced dual without a free intercept; see solvers/reduced_dual.py.

    `last` is what `products` has returned for the last plane: H (m, m) may lack its row and
    column. `height`, z (m,) and `value` are those of the last solution. Returns weights -z, for
    `weighted_sum`, and a function that waits for numbers: whether `value` is reached, the new
    value, the planes' height and the new z. If it is not reached, the weights are those of the
    last solution.
    """
    return _cuda().ascend(H, c, z, height, tolerance, value, last)


def rates(y: Array, change: Array, shift: float) -> Array:
    rate = np.empty_like(change)
    _cuda().launch("rates", change.size, (y, change, float(shift), rate, change.size))
    return rate


def lowest(
    z: Array,
    rate: Array,
    cost: Array,
    smooth: Numbers,
    slope: float,
    curvature: float,
    guess: float,
    slope_left: float,
) -> tuple[float, float]:
    numbers = (slope, curvature, guess, slope_left, ROUNDING)
    arguments = (z, rate, cost, *map(float, (*smooth, *numbers)), np.int32(TRIALS))
    step, curved = _cuda().start_together("lowest", z.size, 6, 2, arguments)()
    return float(step), float(curved)


def curvature(z: Array, cost: Array, smooth: Numbers) -> tuple[Array, int, float]:
    weight = np.empty_like(z)
    arguments = (z, cost, *map(float, smooth), weight)
    return weight, *_cuda().sums("curvature", z.size, 2, arguments)


def dual_point(z: Array, y: Array, cost: Array, smooth: Numbers, bend: float) -> tuple:
    A = np.empty_like(z)
    arguments = (z, y, cost, *map(float, smooth), float(bend), A)
    return A, *_cuda().sums("dual_point", z.size, 8, arguments)


def places(weight: Array, count: int) -> Array:
    # As flatnonzero, without waiting for the count.
    found = np.empty_like(weight, shape=(count,), dtype=np.int64)
    _cuda().start_together("places", weight.size, 1, 0, (weight, found))
    return found


def solve_definite(matrix: Array, right: Array) -> Array | None:
    begun = _cuda().solve_definite(matrix, right)
    with meeting.waiting():
        found = on_host(begun)
    definite = found.view(np.int64)[-1] == 0 and np.isfinite(found).all()
    return found[:-1] if definite else None


# --- several classes ------------------------------------------------------------------------


def _own_and_worst(y: Array, S: Array) -> tuple[Array, Array, Array]:
    """Return own score, highest of all others + 1 and own, and the class of that, (n,) each."""
    own_class = np.arange(S.shape[1], like=y) == y[:, None]
    raised = S - own_class
    own = (S * own_class).sum(axis=1)
    return own, raised.max(axis=1) + 1.0, raised.argmax(axis=1).astype(y.dtype)


def multiclass_cut(y: Array, cost: Array, S: Array) -> tuple[Array, Array, float, float, int]:
    own, highest, worst = _own_and_worst(y, S)
    lossy = (worst != y) & (cost > 0.0)
    worst = np.where(lossy, worst, y)
    pull = np.where(lossy, cost, 0.0)
    slope = np.zeros_like(S)
    multiclass_mix(y, pull, -1.0, worst, slope)
    value = float((pull * (highest - own)).sum())
    return slope, worst, value, float(pull.sum()), int(lossy.sum())


def multiclass_sums(
    y: Array, cost: Array, S: Array, D: Array, steps: Array
) -> tuple[Array, Array]:
    sums, pieces = [], []
    rows = np.arange(y.size, like=y)
    for step in steps.tolist():
        own, highest, worst = _own_and_worst(y, S + step * D)
        sums.append((cost * (highest - own)).sum())
        sums.append((cost * (D[rows, worst] - D[rows, y])).sum())
        pieces.append(np.where(cost > 0.0, worst, y))
    values_and_slopes = on_host(np.stack(sums)).reshape(-1, 2)  # one copy for all of them
    return np.pad(values_and_slopes, ((0, 0), (0, 1))), np.stack(pieces)


def multiclass_mix(y: Array, cost: Array, weight: float, worst: Array, A: Array) -> None:
    classes = np.arange(A.shape[1], like=y)
    step = (weight * cost)[:, None]
    A -= step * (classes == worst[:, None])
    A += step * (classes == y[:, None])
