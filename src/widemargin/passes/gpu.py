"""Passes on a GPU, with the names and meanings of passes/cpu.py.

Those of two-class losses, of which a fit makes hundreds, are one kernel each, and one small copy
to the host where they sum up. The others are array expressions, which run on any arrays that
answer to NumPy's functions.
"""

import numpy as np

from widemargin.passes.pairs import pair_sums

__all__ = [
    "ROWS_PER_ROUND",
    "advance",
    "curvature",
    "dual_point",
    "margin_cut",
    "margin_line",
    "margin_sums",
    "multiclass_cut",
    "multiclass_mix",
    "multiclass_sums",
    "pair_sums",
    "smooth_slope",
    "solve_definite",
]

#: rows times steps that a round of a line search may evaluate, as a share of all rows: what takes
#: time is to wait for its end
ROWS_PER_ROUND = 8.0


def _cuda():
    # Imported when needed: it needs CuPy.
    from widemargin.kernels import cuda

    return cuda


def margin_cut(y, cost, squared, S):
    slope = np.empty_like(S)
    (sums,) = _cuda().sums("margin_cut", S.size, 3, (y, cost, squared, S, slope))
    return slope, *sums


def margin_line(y, cost, squared, S, D):
    slack, rate = np.empty_like(S), np.empty_like(S)
    arguments = (y, cost, squared, S, D, slack, rate, S.size)
    _cuda().launch("margin_line", S.size, arguments)
    return slack, rate


def margin_sums(slack, rate, squared, steps):
    pieces = np.empty_like(slack, shape=(steps.size, slack.size), dtype=np.uint8)
    steps = np.asarray(steps, like=slack)
    arguments = (slack, rate, squared, steps, pieces)
    return _cuda().sums("margin_sums", slack.size, 3, arguments, rounds=steps.size), pieces


def advance(S, D, step, beyond):
    _cuda().launch("advance", S.size, (S, D, float(step), float(beyond), S.size))


def smooth_slope(z, rate, cost, delta, cap, step):
    arguments = (z, rate, cost, 1.0 / delta, float(cap), float(step))
    return _cuda().sums("smooth_slope", z.size, 3, arguments)[0]


def curvature(z, cost, delta, cap):
    weight = np.empty_like(z)
    arguments = (z, cost, float(delta), float(cap), weight)
    return weight, *_cuda().sums("curvature", z.size, 2, arguments)[0]


def dual_point(z, y, cost, delta, cap):
    A = np.empty_like(z)
    arguments = (z, y, cost, 1.0 / delta, float(cap), A)
    return A, *_cuda().sums("dual_point", z.size, 5, arguments)[0]


def solve_definite(matrix, right):
    return _cuda().solve_definite(matrix, right)


# --- several classes ------------------------------------------------------------------------


def _own_and_worst(y, S):
    """Return own score, highest of all others + 1 and own, and whose that is, (n,) each."""
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
        value = float((cost * (highest - own)).sum())
        slope = float((cost * (D[rows, worst] - D[rows, y])).sum())
        sums.append((value, slope, 0.0))
        pieces.append(np.where(cost > 0.0, worst, y))
    return np.array(sums), np.stack(pieces)


def multiclass_mix(y, cost, weight, worst, A):
    classes = np.arange(A.shape[1], like=y)
    step = (weight * cost)[:, None]
    A -= step * (classes == worst[:, None])
    A += step * (classes == y[:, None])
