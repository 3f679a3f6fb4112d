"""Sums over rows of losses and their slopes, at one point and along a line.

Losses have kinks, and a loop with a branch in it does not vectorise. So which side of a kink a
row is on is a number, `on`, 0 or 1, made of a sign; at the kink itself either is a slope. And
kernels take the part of the rows they work on as slices: an index that counts from a variable
carries a wrap-around test.
"""

import math

import numpy as np

from widemargin.kernels.jit import kernel

# Rows worked on together, so that several steps along a line read them from cache.
_BLOCK = 1024


@kernel
def margin_cut(y, cost, squared, S, slope):
    """slope (n,) receives the slope at S; return loss, -r* of the slope, rows with loss."""
    value, constant, active = 0.0, 0.0, 0.0
    if squared:
        for i in range(S.shape[0]):
            slack = 1.0 - y[i] * S[i]
            on = 0.5 + math.copysign(0.5, slack)
            pull = 2.0 * on * cost[i] * slack
            value += 0.5 * pull * slack
            constant += pull - 0.5 * pull * slack
            active += on
            slope[i] = -pull * y[i]
    else:
        for i in range(S.shape[0]):
            slack = 1.0 - y[i] * S[i]
            on = 0.5 + math.copysign(0.5, slack)
            pull = on * cost[i]
            value += pull * slack
            constant += pull
            active += on
            slope[i] = -pull * y[i]
    return value, constant, active


@kernel
def margin_line_rows(y, cost, squared, S, D, slack, rate):
    """Write each row's loss along S + step D as max(0, slack + step rate)^p, p = 1 or 2.

    The cost is moved inside: c max(0, z)^p = max(0, c^(1/p) z)^p.
    """
    for i in range(S.shape[0]):
        scale = math.sqrt(cost[i]) if squared else cost[i]
        slack[i] = scale - scale * y[i] * S[i]
        rate[i] = -scale * y[i] * D[i]


@kernel
def advance(S, D, step, beyond):
    """S receives S + step D, and D the point a share `beyond` of D farther on; all are (n,)."""
    for i in range(S.shape[0]):
        here = S[i] + step * D[i]
        D[i] = here + beyond * D[i]
        S[i] = here


@kernel
def margin_line(slack, rate, squared, steps, sums, pieces):
    """Add to sums (p, 3) value, slope and curvature of the losses at each step.

    pieces[j, i] receives whether row i has a loss at step j.
    """
    for low in range(0, slack.shape[0], _BLOCK):
        high = low + _BLOCK
        s, r = slack[low:high], rate[low:high]
        for j in range(steps.shape[0]):
            step = steps[j]
            piece = pieces[j, low:high]
            value, slope, curvature = 0.0, 0.0, 0.0
            if squared:
                for i in range(s.shape[0]):
                    z = s[i] + step * r[i]
                    on = 0.5 + math.copysign(0.5, z)
                    value += on * z * z
                    slope += 2.0 * on * z * r[i]
                    curvature += 2.0 * on * r[i] * r[i]
                    piece[i] = np.uint8(on)
            else:
                for i in range(s.shape[0]):
                    z = s[i] + step * r[i]
                    on = 0.5 + math.copysign(0.5, z)
                    value += on * z
                    slope += on * r[i]
                    piece[i] = np.uint8(on)
            sums[j, 0] += value
            sums[j, 1] += slope
            sums[j, 2] += curvature


@kernel
def _worst_class(y, S, D, step, low, size, highest, worst):
    """Find, for `size` rows from `low` on, the class of highest score + [it is not the own one].

    S and D are (k, n), class by class, so that rows are what vectorises.
    """
    for i in range(size):
        highest[i] = -np.inf
    for j in range(S.shape[0]):
        s, d, own = S[j, low : low + size], D[j, low : low + size], y[low : low + size]
        this = np.float64(j)
        for i in range(size):
            z = s[i] + step * d[i]
            z = z - 1.0 if own[i] == j else z
            above = z > highest[i]
            highest[i] = z if above else highest[i]
            worst[i] = this if above else worst[i]


@kernel
def multiclass_cut(y, cost, S, begin, end, slope, code):
    """slope (k, n) and code (n,) receive slope and worst class at S (k, n).

    The code of a row without loss is its own class. Returns as `margin_cut`.
    """
    value, constant, active = 0.0, 0.0, 0.0
    highest, worst = np.empty(_BLOCK), np.empty(_BLOCK)
    for low in range(begin, end, _BLOCK):
        size = min(_BLOCK, end - low)
        _worst_class(y, S, S, 0.0, low, size, highest, worst)
        for j in range(S.shape[0]):
            slope[j, low : low + size] = 0.0
        for i in range(size):
            row, own, other = low + i, np.intp(y[low + i]), np.intp(worst[i])
            code[row] = other if cost[row] > 0.0 else own
            if other != own and cost[row] > 0.0:
                slope[other, row] = cost[row]
                slope[own, row] = -cost[row]
                value += cost[row] * (highest[i] - S[own, row] + 1.0)
                constant += cost[row]
                active += 1.0
    return value, constant, active


@kernel
def multiclass_mix(y, cost, weight, code, A):
    """Take weight times the slope of `code` from A (k, n)."""
    for i in range(y.shape[0]):
        if code[i] != y[i]:
            A[code[i], i] -= weight * cost[i]
            A[y[i], i] += weight * cost[i]


@kernel
def multiclass_line(y, cost, S, D, steps, begin, end, sums, pieces):
    """Add to sums (p, 3) value and slope at S + step D, (k, n) each.

    pieces[j, i] receives the worst class of row i at step j.
    """
    highest, worst = np.empty(_BLOCK), np.empty(_BLOCK)
    for low in range(begin, end, _BLOCK):
        size = min(_BLOCK, end - low)
        for j in range(steps.shape[0]):
            step = steps[j]
            piece = pieces[j]
            _worst_class(y, S, D, step, low, size, highest, worst)
            value, slope = 0.0, 0.0
            for i in range(size):
                row, own, other = low + i, np.intp(y[low + i]), np.intp(worst[i])
                value += cost[row] * (highest[i] - S[own, row] - step * D[own, row] + 1.0)
                slope += cost[row] * (D[other, row] - D[own, row])
                piece[row] = other if cost[row] > 0.0 else own
            sums[j, 0] += value
            sums[j, 1] += slope
