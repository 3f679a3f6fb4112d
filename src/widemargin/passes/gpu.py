"""Passes on a GPU, with the names and meanings of passes/cpu.py.

A fit makes hundreds of passes for two-class losses. Each of these is one kernel, with one small
copy to the host if it returns sums. The others are array expressions, which run on all arrays
that dispatch NumPy's functions.
"""

import numpy as np

from widemargin import meeting
from widemargin.arrays import on_host
from widemargin.passes import cpu
from widemargin.passes.cpu import ROUNDING, TRIALS
from widemargin.passes.pairs import pair_sums

__all__ = [
    "ROWS_PER_ROUND",
    "advance",
    "ascend",
    "changed",
    "curvature",
    "dual_point",
    "lowest",
    "margin_cut",
    "margin_rates",
    "margin_sums",
    "margin_walk",
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

#: rows times steps that a round of a line search may evaluate, as a fraction of all rows: a round
#: takes its time to wait for its end
ROWS_PER_ROUND = 32.0

# At most how many passes narrow the bracket of a line search, and the fraction of the losses that
# may be left to gain.
_ROUNDS, _ENOUGH = 16, 1e-12


def _cuda():
    # Imported when needed: it needs CuPy.
    from widemargin.kernels import cuda

    return cuda


def margin_cut(y, cost, loss, S):
    slope = np.empty_like(S)
    sums = _cuda().sums("margin_cut", S.size, 3, (y, cost, *loss, S, slope))
    return slope, *sums


def margin_rates(y, S, D):
    residual, rate = np.empty_like(S), np.empty_like(S)
    _cuda().launch("margin_rates", S.size, (y, S, D, residual, rate, S.size))
    return residual, rate


def margin_walk(y, cost, loss, S, T, penalty, rounding, moved, guess, instead_of_zero, beyond):
    """Find the step from S to T at which  1/2 a step^2 + b step + losses  is lowest, and take it.

    `penalty` are sums of a, b and c, as `way` returns them. If a is less than `rounding` c, the
    way is `moved`, the same for all rows. If the step is 0, `instead_of_zero` is taken. S becomes
    the scores there. Returns the slope of the losses at a point farther on, (n,), by a fraction
    `beyond` of what is left of the way; packed bits, which tell where it is not 0; and a function
    that waits for numbers: the step, a, b, c, the losses at its end, and loss, -r* of the slope
    and rows with a loss at the point farther on. On the host these are several passes, see `exact`
    in solvers/line_search.py.
    """
    residual, rate, slope = np.empty_like(S), np.empty_like(S), np.empty_like(S)
    lossy = np.empty_like(S, shape=(-(-S.size // 32),), dtype=np.uint32)
    numbers = map(float, (rounding, moved, guess, instead_of_zero, beyond, _ENOUGH))
    arguments = (y, cost, *loss, S, T, penalty, np.int32(len(penalty)), *numbers)
    arguments += (np.int32(_ROUNDS), residual, rate, slope, lossy)
    cuda = _cuda()
    found = cuda.start_together("margin_walk", S.size, 18, 8, arguments)
    return slope, lossy.view(np.uint8)[: -(-S.size // 8)], found


def margin_sums(residual, rate, cost, loss, steps):
    cuda, found = _cuda(), []
    for begin in range(0, steps.size, cuda.STEPS):
        some = steps[begin : begin + cuda.STEPS + 1]
        some = np.pad(some, (0, cuda.STEPS + 1 - some.size), mode="edge")
        arguments = (residual, rate, cost, *loss, *some.tolist())
        found.append(cuda.sums("margin_sums", residual.size, 4 * cuda.STEPS, arguments))
    sums = np.concatenate(found).reshape(-1, 4)[: steps.size]
    return sums[:, :3], sums[:-1, 3]


def changed(pieces, j):
    if pieces.ndim == 1:  # counts of rows that change, without a list: return all rows, or none
        return slice(None) if pieces[j] else None
    return cpu.changed(pieces, j)


def advance(S, D, step, beyond):
    _cuda().launch("advance", S.size, (S, D, float(step), float(beyond), S.size))


def way(start, end):
    ahead = np.empty_like(start)
    return ahead, _cuda().partial_sums("way", start.size, 3, (start, end, ahead))


def weighted_sum(weights, vectors):
    return _cuda().weighted_sum(weights, vectors)


def products(vectors, v):
    return _cuda().products(vectors, v)


def most_planes():
    """Return for how many planes `ascend` can solve the reduced dual."""
    return _cuda().most_planes()


def ascend(H, c, z, height, tolerance, value, last):
    """Begin to solve a reduced dual without a free intercept; see solvers/reduced_dual.py.

    `last` is what `products` has returned for the last plane: H (m, m) may lack its row and
    column. `height`, z (m,) and `value` are those of the last solution. Returns weights -z, for
    `weighted_sum`, and a function that waits for numbers: whether `value` is reached, the new
    value, the planes' height and the new z. If it is not reached, the weights are those of the
    last solution.
    """
    return _cuda().ascend(H, c, z, height, tolerance, value, last)


def rates(y, change, shift):
    rate = np.empty_like(change)
    _cuda().launch("rates", change.size, (y, change, float(shift), rate, change.size))
    return rate


def lowest(z, rate, cost, smooth, slope, curvature, guess, slope_left):
    numbers = (slope, curvature, guess, slope_left, ROUNDING)
    arguments = (z, rate, cost, *map(float, (*smooth, *numbers)), np.int32(TRIALS))
    step, curved = _cuda().start_together("lowest", z.size, 6, 2, arguments)()
    return float(step), float(curved)


def curvature(z, cost, smooth):
    weight = np.empty_like(z)
    arguments = (z, cost, *map(float, smooth), weight)
    return weight, *_cuda().sums("curvature", z.size, 2, arguments)


def dual_point(z, y, cost, smooth, bend):
    A = np.empty_like(z)
    arguments = (z, y, cost, *map(float, smooth), float(bend), A)
    return A, *_cuda().sums("dual_point", z.size, 8, arguments)


def places(weight, count):
    # As flatnonzero, without waiting for the count.
    found = np.empty_like(weight, shape=(count,), dtype=np.int64)
    _cuda().start_together("places", weight.size, 1, 0, (weight, found))
    return found


def solve_definite(matrix, right):
    begun = _cuda().solve_definite(matrix, right)
    with meeting.waiting():
        found = on_host(begun)
    definite = found.view(np.int64)[-1] == 0 and np.isfinite(found).all()
    return found[:-1] if definite else None


# --- several classes ------------------------------------------------------------------------


def _own_and_worst(y, S):
    """Return own score, highest of all others + 1 and own, and the class of that, (n,) each."""
    own_class = np.arange(S.shape[1], like=y) == y[:, None]
    raised = S - own_class
    own = (S * own_class).sum(axis=1)
    return own, raised.max(axis=1) + 1.0, raised.argmax(axis=1).astype(y.dtype)


def multiclass_cut(y, cost, S):
    own, highest, worst = _own_and_worst(y, S)
    lossy = (worst != y) & (cost > 0.0)
    worst = np.where(lossy, worst, y)
    pull = np.where(lossy, cost, 0.0)
    slope = np.zeros_like(S)
    multiclass_mix(y, pull, -1.0, worst, slope)
    value = float((pull * (highest - own)).sum())
    return slope, worst, value, float(pull.sum()), int(lossy.sum())


def multiclass_sums(y, cost, S, D, steps):
    sums, pieces = [], []
    rows = np.arange(y.size, like=y)
    for step in steps.tolist():
        own, highest, worst = _own_and_worst(y, S + step * D)
        sums.append((cost * (highest - own)).sum())
        sums.append((cost * (D[rows, worst] - D[rows, y])).sum())
        pieces.append(np.where(cost > 0.0, worst, y))
    values_and_slopes = on_host(np.stack(sums)).reshape(-1, 2)  # one copy for all of them
    return np.pad(values_and_slopes, ((0, 0), (0, 1))), np.stack(pieces)


def multiclass_mix(y, cost, weight, worst, A):
    classes = np.arange(A.shape[1], like=y)
    step = (weight * cost)[:, None]
    A -= step * (classes == worst[:, None])
    A += step * (classes == y[:, None])
