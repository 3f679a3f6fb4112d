"""Passes by compiled kernels, over chunks of the rows if there are several threads."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy import ndarray as Array

from widemargin import threads
from widemargin.arrays import for_kernels
from widemargin.kernels import newton as newton_kernels
from widemargin.kernels import risk as kernels
from widemargin.kernels.loss import Numbers
from widemargin.passes.sweeps import pair_sums as pair_sums

#: rows times steps that a round of a line search may evaluate, as a fraction of all rows
ROWS_PER_ROUND = 0.25


def _cut(work: int, *arguments: Any) -> list[tuple]:
    """Return the arguments of each thread's call: vectors (n,) are cut, others stay as they are.

    `work` is how many numbers a row costs.
    """
    n_rows = arguments[0].size
    return [
        tuple(a[begin:end] if isinstance(a, np.ndarray) else a for a in arguments)
        for begin, end in threads.chunks(n_rows, work * n_rows)
    ]


def margin_cut(y: Array, cost: Array, loss: Numbers, S: Array) -> tuple[Array, float, float, int]:
    """Return the slope of a margin loss at S, (n,), and loss, -r* of the slope, rows with loss.

    `loss` are its numbers, see losses.py.
    """
    slope = np.empty(S.shape)
    return slope, *threads.sums(kernels.margin_cut, _cut(4, y, cost, loss, S, slope))


def _blocks(n_rows: int) -> Array:
    """Return an array for the sums over blocks of rows."""
    return np.empty(-(-n_rows // kernels.FEW))


def bounded_losses(
    residual: Array, error: Array, cost: Array, loss: Numbers
) -> tuple[float, float]:
    """Return the losses at the worse end of residual +- error, (n,), and how much that added.

    The sums are off by at most the fraction SUM of rounding.py, as NumPy's are.
    """
    values, roundings = _blocks(residual.size), _blocks(residual.size)
    kernels.bounded_losses(residual, error, cost, loss, values, roundings)
    value = float(values.sum())
    # Losses are not negative. A comparison with NaN may have hidden an infinite residual.
    return value if value >= 0.0 else math.nan, float(roundings.sum())


def dual_height(y: Array, cost: Array, loss: Numbers, A: Array) -> float:
    """Return the sum of the dual's terms at A (n,), -inf if a row violates a bound.

    It is off by at most the fraction SUM of the sum of its terms' sizes.
    """
    heights = _blocks(A.size)
    if kernels.dual_terms(y, cost, loss, A, heights):
        return -math.inf
    return float(heights.sum())


def sizes(A: Array, row_lengths: Array) -> tuple[float, float, int]:
    """Return the sums of |A_i| and of |A_i| times length, and how many A_i are not zero.

    The sums are off by at most the fraction SUM.
    """
    sums, pulls = _blocks(A.size), _blocks(A.size)
    n_used = kernels.sizes(A, for_kernels(row_lengths), sums, pulls)
    return float(sums.sum()), float(pulls.sum()), int(n_used)


def margin_rates(y: Array, S: Array, D: Array) -> tuple[Array, Array]:
    """Return residual and rate, (n,): 1 - y s is residual + step rate along S + step D."""
    residual, rate = np.empty(S.shape), np.empty(S.shape)
    threads.run(kernels.margin_rates, _cut(4, y, S, D, residual, rate))
    return residual, rate


def margin_sums(
    residual: Array, rate: Array, cost: Array, loss: Numbers, steps: Array
) -> tuple[Array, Array]:
    """Return value, slope and curvature of the losses at p steps, (p, 3), and rows' pieces.

    Pieces are (p, n): the piece of its loss that each row is on. On a GPU they are (p - 1,): how
    many rows are on another piece at the next step.
    """
    pieces = np.empty((steps.size, residual.size), dtype=np.uint8)

    def chunk(begin: int, end: int) -> Array:
        sums = np.zeros((steps.size, 3))
        part = slice(begin, end)
        rows = residual[part], rate[part], cost[part]
        kernels.margin_line(*rows, loss, steps, sums, pieces[:, part])
        return sums

    chunks = threads.chunks(residual.size, 2 * residual.size * steps.size)
    first, *others = threads.run(chunk, chunks)
    return sum(others, start=first), pieces


def changed(pieces: Array, j: int) -> Array | None:
    """Return the rows on other pieces at step j + 1 than at step j, (m,); None if there are none.

    On a GPU, other rows may be among them.
    """
    rows = np.flatnonzero(pieces[j] != pieces[j + 1])
    return rows if rows.size else None


def multiclass_cut(y: Array, cost: Array, S: Array) -> tuple[Array, Array, float, float, int]:
    """Return slope (n, k) and worst classes (n,) at S (n, k), then as `margin_cut`.

    The worst class of a row without a loss is its own.
    """
    S = np.asfortranarray(S)
    slope = np.empty(S.shape, order="F")
    worst = np.empty(y.size, dtype=y.dtype)
    chunks = [
        (y, cost, S.T, begin, end, slope.T, worst)
        for begin, end in threads.chunks(y.size, 2 * S.size)
    ]
    return slope, worst, *threads.sums(kernels.multiclass_cut, chunks)


def multiclass_sums(
    y: Array, cost: Array, S: Array, D: Array, steps: Array
) -> tuple[Array, Array]:
    """Return value, slope and curvature at S + step D, (n, k) each, as `margin_sums` does.

    Pieces are worst classes.
    """
    S, D = np.asfortranarray(S), np.asfortranarray(D)
    pieces = np.empty((steps.size, y.size), dtype=y.dtype)

    def chunk(begin: int, end: int) -> Array:
        sums = np.zeros((steps.size, 3))
        kernels.multiclass_line(y, cost, S.T, D.T, steps, begin, end, sums, pieces)
        return sums

    chunks = threads.chunks(y.size, 2 * S.size * steps.size)
    first, *others = threads.run(chunk, chunks)
    return sum(others, start=first), pieces


def multiclass_mix(y: Array, cost: Array, weight: float, worst: Array, A: Array) -> None:
    """Subtract weight times the slope of a cut, given by its worst classes, from A (n, k)."""
    kernels.multiclass_mix(y, cost, weight, worst, A.T)


def advance(S: Array, D: Array, step: float, beyond: float) -> None:
    """S receives S + step D, and D the point a fraction `beyond` of D farther on."""
    S, D = S.ravel(order="K"), D.ravel(order="K")  # views
    threads.run(kernels.advance, _cut(2, S, D, step, beyond))


def way(start: Array, end: Array) -> tuple[Array, Array]:
    """Return end - start, (d,), and |way|^2, start . way and |start|^2, in p parts, (p, 3).

    On a GPU these stay there.
    """
    ahead = end - start
    return ahead, np.array([[ahead @ ahead, start @ ahead, start @ start]])


def weighted_sum(weights: Array, vectors: Array) -> Array:
    """Return the sum of the first m of `vectors` times weights (m,), on the host: (d,)."""
    return weights @ vectors[: weights.size]


def most_planes() -> int:
    """Return for how many planes a device solves the reduced dual itself: none on the host."""
    return 0


def products(vectors: Array, v: Array) -> Callable[[], Array]:
    """Return a function that returns the products of `vectors` (m, d), and of v itself, with v.

    They are on the host, (m + 1,). The function waits for a GPU, but not for work that was started
    after this call.
    """
    found = np.append(vectors @ v, v @ v)
    return lambda: found


def rates(y: Array, change: Array, shift: float) -> Array:
    """Return the rate of z = 1 - y s along scores that change by `change` + `shift`, (n,)."""
    return -y * (change + shift)


#: slopes smaller than this fraction of their terms are rounding errors
ROUNDING = 1e-15
#: at most how many steps `lowest` tries
TRIALS = 100


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
    """Return t where  slope t + 1/2 curvature t^2 + smooth losses(z + t rate)  is lowest.

    And the curvature there. `slope_left` is the fraction of the first slope that may be left. If
    it is positive, the line goes downhill at t = 0, but for rounding; else t may have either sign.
    The method is Newton's, on the slope, which is a rising piecewise linear function of t, with
    a bracket around its root. `smooth` are the numbers of the loss with a larger bend, see
    kernels/newton.py.
    """
    chunks = _cut(3, z, rate, cost, smooth)

    def evaluate(step: float) -> tuple[float, float, float]:
        calls = [(*chunk, step) for chunk in chunks]
        of_losses, curved, size = threads.sums(newton_kernels.smooth_slope, calls)
        terms = size + abs(slope) + abs(curvature * step)
        return of_losses + slope + curvature * step, curved + curvature, terms

    low, high = -np.inf, np.inf
    step, enough = guess, 0.0
    if slope_left > 0.0:
        at_zero, _, terms = evaluate(0.0)
        if at_zero >= -ROUNDING * terms:
            return 0.0, curvature
        low, enough = 0.0, slope_left * abs(at_zero)
    for _ in range(TRIALS):
        here, curved, terms = evaluate(step)
        if abs(here) <= max(enough, ROUNDING * terms):
            break
        if here < 0.0:
            low = step
        else:
            high = step
        next_step = step - here / curved if curved > 0.0 else np.nan
        if not low < next_step < high:
            if low == -np.inf:
                next_step = high - max(1.0, abs(high))
            elif high == np.inf:
                next_step = low + max(1.0, 3.0 * abs(low))
            else:
                next_step = 0.5 * (low + high)
        if next_step in (low, high):
            break
        step = next_step
    return step, curved


def curvature(z: Array, cost: Array, smooth: Numbers) -> tuple[Array, int, float]:
    """Return the smoothed losses' curvatures, (n,), how many are not zero, and their sum."""
    weight = np.empty(z.size)
    return weight, *threads.sums(newton_kernels.curvature, _cut(3, z, cost, smooth, weight))


def dual_point(z: Array, y: Array, cost: Array, smooth: Numbers, bend: float) -> tuple:
    """Return A (n,), the smoothed losses' dual variables, and sums: see kernels/newton.py."""
    A = np.empty(z.size)
    return A, *threads.sums(newton_kernels.dual_point, _cut(4, z, y, cost, smooth, bend, A))


def places(weight: Array, count: int) -> Array:
    """Return the places of the `count` nonzero weights, (count,)."""
    return np.flatnonzero(weight != 0.0)  # a mask takes an eighth of the time


def solve_definite(matrix: Array, right: Array) -> Array | None:
    """Return matrix^-1 right on the host; None if the matrix is not positive definite.

    Only the lower triangle of the matrix is used.
    """
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    if failed:
        return None
    solution = scipy.linalg.lapack.dpotrs(factor, right, lower=1)[0]
    return solution if np.isfinite(solution).all() else None
