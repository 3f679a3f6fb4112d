"""Passes by compiled kernels, over chunks of the rows if there are several threads."""

import numpy as np
import scipy.linalg

from widemargin import threads
from widemargin.kernels import newton as newton_kernels
from widemargin.kernels import risk as kernels
from widemargin.passes.sweeps import pair_sums

__all__ = [
    "ROWS_PER_ROUND",
    "advance",
    "changed",
    "curvature",
    "dual_point",
    "lowest",
    "margin_cut",
    "margin_rates",
    "margin_sums",
    "most_planes",
    "multiclass_cut",
    "multiclass_mix",
    "multiclass_sums",
    "pair_sums",
    "places",
    "products",
    "rates",
    "solve_definite",
    "way",
    "weighted_sum",
]

#: rows times steps that a round of a line search may evaluate, as a fraction of all rows
ROWS_PER_ROUND = 0.25


def margin_cut(y, cost, loss, S):
    """Return the slope of a margin loss at S, (n,), and loss, -r* of the slope, rows with loss.

    `loss` are its numbers, see losses.py.
    """
    slope = np.empty(S.shape)

    def chunk(begin, end):
        part = slice(begin, end)
        return kernels.margin_cut(y[part], cost[part], loss, S[part], slope[part])

    return slope, *threads.sums(chunk, threads.chunks(S.size, 4 * S.size))


def margin_rates(y, S, D):
    """Return residual and rate, (n,): 1 - y s is residual + step rate along S + step D."""
    residual, rate = np.empty(S.shape), np.empty(S.shape)

    def chunk(begin, end):
        part = slice(begin, end)
        kernels.margin_rates(y[part], S[part], D[part], residual[part], rate[part])

    threads.run(chunk, threads.chunks(S.size, 4 * S.size))
    return residual, rate


def margin_sums(residual, rate, cost, loss, steps):
    """Return value, slope and curvature of the losses at p steps, (p, 3), and rows' pieces.

    Pieces are (p, n): the piece of its loss that each row is on. On a GPU they are (p - 1,): how
    many rows are on another piece at the next step.
    """
    pieces = np.empty((steps.size, residual.size), dtype=np.uint8)

    def chunk(begin, end):
        sums = np.zeros((steps.size, 3))
        part = slice(begin, end)
        rows = residual[part], rate[part], cost[part]
        kernels.margin_line(*rows, loss, steps, sums, pieces[:, part])
        return sums

    chunks = threads.chunks(residual.size, 2 * residual.size * steps.size)
    first, *others = threads.run(chunk, chunks)
    return sum(others, start=first), pieces


def changed(pieces, j):
    """Return the rows on other pieces at step j + 1 than at step j, (m,); None if there are none.

    On a GPU, other rows may be among them.
    """
    rows = np.flatnonzero(pieces[j] != pieces[j + 1])
    return rows if rows.size else None


def multiclass_cut(y, cost, S):
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


def multiclass_sums(y, cost, S, D, steps):
    """Return value, slope and curvature at S + step D, (n, k) each, as `margin_sums` does.

    Pieces are worst classes.
    """
    S, D = np.asfortranarray(S), np.asfortranarray(D)
    pieces = np.empty((steps.size, y.size), dtype=y.dtype)

    def chunk(begin, end):
        sums = np.zeros((steps.size, 3))
        kernels.multiclass_line(y, cost, S.T, D.T, steps, begin, end, sums, pieces)
        return sums

    chunks = threads.chunks(y.size, 2 * S.size * steps.size)
    first, *others = threads.run(chunk, chunks)
    return sum(others, start=first), pieces


def multiclass_mix(y, cost, weight, worst, A):
    """Subtract weight times the slope of a cut, given by its worst classes, from A (n, k)."""
    kernels.multiclass_mix(y, cost, weight, worst, A.T)


def advance(S, D, step, beyond):
    """S receives S + step D, and D the point a fraction `beyond` of D farther on."""
    S, D = S.ravel(order="K"), D.ravel(order="K")  # views
    threads.run(
        kernels.advance,
        [
            (S[begin:end], D[begin:end], step, beyond)
            for begin, end in threads.chunks(S.size, 2 * S.size)
        ],
    )


def way(start, end):
    """Return end - start, (d,), and |way|^2, start . way and |start|^2, in p parts, (p, 3).

    On a GPU these stay there.
    """
    ahead = end - start
    return ahead, np.array([[ahead @ ahead, start @ ahead, start @ start]])


def weighted_sum(weights, vectors):
    """Return the sum of the first m of `vectors` times weights (m,), on the host: (d,)."""
    return weights @ vectors[: weights.size]


def most_planes():
    """Return for how many planes a device solves the reduced dual itself: none on the host."""
    return 0


def products(vectors, v):
    """Return a function that returns the products of `vectors` (m, d), and of v itself, with v.

    They are on the host, (m + 1,). The function waits for a GPU, but not for work that was started
    after this call.
    """
    found = np.append(vectors @ v, v @ v)
    return lambda: found


def rates(y, change, shift):
    """Return the rate of z = 1 - y s along scores that change by `change` + `shift`, (n,)."""
    return -y * (change + shift)


#: slopes smaller than this fraction of their terms are rounding errors
ROUNDING = 1e-15
#: at most how many steps `lowest` tries
TRIALS = 100


def lowest(z, rate, cost, smooth, slope, curvature, guess, slope_left):
    """Return t where  slope t + 1/2 curvature t^2 + smooth losses(z + t rate)  is lowest.

    And the curvature there. `slope_left` is the fraction of the first slope that may be left. If
    it is positive, the line goes downhill at t = 0, but for rounding; else t may have either sign.
    The method is Newton's, on the slope, which is a rising piecewise linear function of t, with
    a bracket around its root.
    """

    chunks = threads.chunks(z.size, 3 * z.size)

    def evaluate(step):
        of_losses, curved, size = _smooth_slope(z, rate, cost, smooth, step, chunks)
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


def _smooth_slope(z, rate, cost, smooth, step, chunks):
    """Return the smoothed losses' slope along z + step rate, its curvature, and sum of |terms|.

    `smooth` are the numbers of the loss with a larger bend, see kernels/newton.py.
    """
    if len(chunks) == 1:  # what follows would take longer than the sums over few rows
        return newton_kernels.smooth_slope(z, rate, cost, smooth, step)

    def chunk(begin, end):
        part = slice(begin, end)
        return newton_kernels.smooth_slope(z[part], rate[part], cost[part], smooth, step)

    return threads.sums(chunk, chunks)


def curvature(z, cost, smooth):
    """Return the smoothed losses' curvatures, (n,), how many are not zero, and their sum."""
    weight = np.empty(z.size)

    def chunk(begin, end):
        part = slice(begin, end)
        return newton_kernels.curvature(z[part], cost[part], smooth, weight[part])

    return weight, *threads.sums(chunk, threads.chunks(z.size, 3 * z.size))


def dual_point(z, y, cost, smooth, bend):
    """Return A (n,), the smoothed losses' dual variables, and sums: see kernels/newton.py."""
    A = np.empty(z.size)

    def chunk(begin, end):
        part = slice(begin, end)
        return newton_kernels.dual_point(z[part], y[part], cost[part], smooth, bend, A[part])

    return A, *threads.sums(chunk, threads.chunks(z.size, 4 * z.size))


def places(weight, count):
    """Return the places of the `count` nonzero weights, (count,)."""
    return np.flatnonzero(weight != 0.0)  # a mask takes an eighth of the time


def solve_definite(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Return matrix^-1 right on the host; None if the matrix is not positive definite.

    Only the lower triangle of the matrix is used.
    """
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    if failed:
        return None
    solution = scipy.linalg.lapack.dpotrs(factor, right, lower=1)[0]
    return solution if np.isfinite(solution).all() else None
