"""Risks of measures in exact arithmetic, by their definitions."""

import math
from fractions import Fraction

import numpy as np

from widemargin.risk import AveragePrecision, LabellingRisk


def measure_risk(risk, scores) -> Fraction:
    """Return the risk at scores, a Fraction for each row; C and weights as the risk has them."""
    total = Fraction(0)
    for g in range(len(risk.scale)):
        high, low = (
            sorted(scores[row] for row in side.rows[side.member == g].tolist())
            for side in (risk.sides.high, risk.sides.low)
        )
        low.reverse()
        if isinstance(risk, LabellingRisk):
            n = int(risk.sides.sizes[g])
            total += Fraction(float(risk.scale[g])) * _labelling(risk.measure, high, low, n)
        elif isinstance(risk, AveragePrecision):
            total += Fraction(float(risk.weight[g])) * _ranking(high[::-1], low)
        else:
            pairs = [max(0, 1 - s + t) for s in high for t in low[: int(risk.most[g])]]
            total += Fraction(float(risk.pull[g])) ** 2 * sum(pairs)
    return total


def _labelling(measure, high, low, n) -> Fraction:
    """Return the most that a labelling costs, over all numbers of missed and accepted rows."""
    P, N, worst = len(high), len(low), Fraction(0)
    lost = list(_sums(high))
    gained = list(_sums(low))
    number = Fraction(measure.number)
    for m in range(P + 1):
        for f in range(N + 1):
            t, parts = P - m, (1, 1)
            if measure.kind == "f":
                loss = 1 - (1 + number**2) * t / (t + f + number**2 * P)
            elif measure.kind == "recall_at_precision":
                most = math.floor(t * (1 - number) / number + Fraction(1e-9))
                loss = 1 - Fraction(t, P) if t and f <= most else Fraction(1)
            else:
                k = P if measure.kind == "prbep" else min(int(number), P + N)
                if t + f != k:
                    continue
                whole = k if measure.kind == "precision" else P
                loss = Fraction(min(k, P) - t, whole)
                swaps = min(m, f)
                parts = Fraction(swaps, max(1, m)), Fraction(swaps, max(1, f))
            worst = max(worst, n * loss - parts[0] * lost[m] + parts[1] * gained[f])
    return worst


def _ranking(high, low) -> Fraction:
    """Return the most that a ranking costs, row by row from the first place on.

    best[j] is what the first rows cost, if j of them are negative. The i-th positive row after j
    negative ones has the precision i / (i + j), and they are before it in the wrong order.
    """
    P, N = len(high), len(low)
    best = [Fraction(0)] * (N + 1)
    passed = list(_sums(low))
    for i, s in enumerate(high, 1):
        for j in range(N + 1):
            best[j] += Fraction(j, (i + j) * P) - Fraction(1, P * N) * (j * s - passed[j])
            best[j] = max(best[j], best[j - 1]) if j else best[j]
    return best[N]


def _sums(values):
    total = Fraction(0)
    yield total
    for value in values:
        total += value
        yield total


def size_of(risk, sizes) -> float:
    """Return the risk with all terms as they are, without their signs, for |scores| `sizes`."""
    one = risk.weight.sum() * (1.0 + 2.0 * sizes.max(initial=0.0))
    many = sum(float(risk.scale @ side.sums(sizes)) for side in (risk.sides.high, risk.sides.low))
    return float(one + many)


def at_cost(risk, power):
    """Return the risk with C divided by 4^power."""
    import copy

    scaled, factor = copy.copy(risk), np.ldexp(1.0, -2 * power)
    scaled.scale, scaled.weight = risk.scale * factor, risk.weight * factor
    if hasattr(risk, "pull"):
        scaled.pull = np.ldexp(risk.pull, -power)
    return scaled
