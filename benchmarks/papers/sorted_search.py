"""The exact line search as the papers have it: every breakpoint of every row, sorted.

Franc & Sonnenburg 2008, section 3.1 (two classes, n breakpoints) and Arnosti 2010, section II
(k classes, up to n (k - 1)). The library's own search avoids the sort; this one is what it is
measured against.
"""

from __future__ import annotations

import numpy as np

from widemargin.kernels.jit import kernel
from widemargin.risk.margin import MarginLine
from widemargin.solvers.line_search import Penalty


def sorted_exact(penalty: Penalty, line, guess: float) -> tuple[float, float]:
    """Return what `line_search.exact` returns."""
    del guess
    if not penalty.a > 0.0:
        return 0.0, penalty.c + float(line.evaluate([0.0]).values[0])
    steps, jumps, slope = _margin(line) if isinstance(line, MarginLine) else _multiclass(line)
    order = np.argsort(steps)
    steps, jumps = steps[order], jumps[order]
    # The slope of f right of each breakpoint, but for that of the penalty's square.
    after = penalty.b + slope + np.cumsum(jumps)
    before = np.concatenate([[penalty.b + slope], after[:-1]])
    step = 0.0
    if before.size == 0 or before[0] < 0.0:
        crossed = np.flatnonzero(after + penalty.a * steps >= 0.0)
        if crossed.size == 0:
            last = after[-1] if after.size else penalty.b + slope
            step = -last / penalty.a
        else:
            j = crossed[0]
            step = min(-before[j] / penalty.a, steps[j])
    step = max(0.0, float(step))
    return step, penalty.at(step) + float(line.evaluate([step]).values[0])


def _margin(line: MarginLine):
    """Breakpoints > 0 of max(0, slack + step rate), their jumps in slope, and the slope at 0."""
    residual, rate, cost = line.vectors
    slack, rate = cost * residual, cost * rate  # of a hinge
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = -slack / rate
    counted = (rate != 0.0) & (steps > 0.0)
    active = (slack > 0.0) | ((slack == 0.0) & (rate > 0.0))
    return steps[counted], np.abs(rate[counted]), float(rate[active].sum())


def _multiclass(line):
    """The same of the multi-class hinge: the corners of each row's upper envelope."""
    y, cost, S, D = line.vectors
    n, k = S.shape
    steps, jumps = np.empty(n * (k - 1)), np.empty(n * (k - 1))
    count, slope = _envelopes(y, cost, S.T, D.T, steps, jumps)
    return steps[:count], jumps[:count], slope


@kernel
def _envelopes(y, cost, S, D, steps, jumps):
    """Walk each row's envelope from step 0 on: at most k - 1 corners, each found among k lines."""
    k, count, slope = S.shape[0], 0, 0.0
    for i in range(y.shape[0]):
        own = np.intp(y[i])
        height, rate = 0.0, 0.0
        for j in range(k):
            h, r = S[j, i] - S[own, i] + 1.0, D[j, i] - D[own, i]
            if j != own and (h > height or (h == height and r > rate)):
                height, rate = h, r
        slope += cost[i] * rate
        step = 0.0
        while True:
            best, at, at_rate = -1, np.inf, rate
            for j in range(k):
                h = 0.0 if j == own else S[j, i] - S[own, i] + 1.0
                r = D[j, i] - D[own, i]
                if r > rate:
                    crossing = (height - h) / (r - rate)
                    if crossing < at or (crossing == at and r > at_rate):
                        best, at, at_rate = j, crossing, r
            if best < 0:
                break
            step = max(step, at)
            steps[count] = step
            jumps[count] = cost[i] * (at_rate - rate)
            count += 1
            height += (rate - at_rate) * at  # of the new line at step 0
            rate = at_rate
    return count, slope
