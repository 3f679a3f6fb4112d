"""Sums over rows of losses and their slopes, at one point and along a line.

The number of the piece that a row is on is computed by comparisons: a loop with a branch does not
vectorise. At a kink either slope is valid. Kernels take slices of the rows that they work on: an
index that starts at a variable would need a wrap-around test.
"""

import numpy as np

from widemargin.kernels.jit import kernel
from widemargin.kernels.loss import beyond, knots, loss_and_size, slope_at, steepness_of
from widemargin.kernels.response import sign_of, target_of

# So many rows are processed together: several steps along a line then read them from the cache.
_BLOCK = 1024
#: rows whose terms are added up in any order, in sums for a certificate
FEW = 64


@kernel
def margin_cut(y, cost, loss, S, slope):
    """slope (n,) receives the slope at S; return loss, -r* of the slope, rows with loss."""
    eps, low, high, bend = loss
    steepness = steepness_of(bend)
    value, constant, active = 0.0, 0.0, 0.0
    for i in range(S.shape[0]):
        sign, target = sign_of(y[i]), target_of(y[i])
        excess = beyond(target - sign * S[i], eps)
        a = slope_at(excess, low, high, steepness)
        pull = cost[i] * a
        value += pull * (excess - 0.5 * bend * a)
        constant += pull * (target - 0.5 * bend * a) - eps * abs(pull)
        active += 1.0 if a != 0.0 else 0.0
        slope[i] = -pull * sign
    return value, constant, active


@kernel
def bounded_losses(residual, error, cost, loss, values, roundings):
    """values and roundings (m,) receive sums over m blocks of FEW rows: of the losses at the worse
    end of residual +- error, and of how much the error may have added."""
    eps, low, high, bend = loss
    for j in range(values.shape[0]):
        block = slice(j * FEW, (j + 1) * FEW)
        z, e, c = residual[block], error[block], cost[block]
        value, rounding = 0.0, 0.0
        for i in range(z.shape[0]):
            most, size = loss_and_size(z[i] + e[i], eps, low, high, bend)
            if low != 0.0:
                other, other_size = loss_and_size(z[i] - e[i], eps, low, high, bend)
                most, size = max(most, other), max(size, other_size)
            value += c[i] * most
            rounding += c[i] * size * e[i]
        values[j], roundings[j] = value, rounding


@kernel
def dual_terms(y, cost, loss, A, heights):
    """heights (m,) receive sums over m blocks of FEW rows of the dual's terms at A (n,).

    Return how many rows violate a bound.
    """
    eps, low, high, bend = loss
    violated = 0
    for j in range(heights.shape[0]):
        block = slice(j * FEW, (j + 1) * FEW)
        response, c, a = y[block], cost[block], A[block]
        height = 0.0
        for i in range(a.shape[0]):
            alpha = a[i] * sign_of(response[i])
            counts = c[i] > 0.0
            least, most = (low * c[i], high * c[i]) if counts else (0.0, 0.0)
            violated += 1 if (alpha < least) | (alpha > most) else 0
            # A quotient: in a product of factors, compilers form alpha^2, which might underflow.
            a_own = alpha / c[i] if counts else 0.0
            term = target_of(response[i]) * alpha - eps * abs(alpha)
            height += term - 0.5 * bend * alpha * a_own
        heights[j] = height
    return violated


@kernel
def sizes(A, row_lengths, sums, pulls):
    """sums and pulls (m,) receive sums of |A_i| and of |A_i| times length over m blocks of FEW
    rows.

    Return how many A_i are not zero.
    """
    n_used = 0
    for j in range(sums.size):
        block = slice(j * FEW, (j + 1) * FEW)
        a, lengths = A[block], row_lengths[block]
        size, pull = 0.0, 0.0
        for i in range(a.shape[0]):
            size += abs(a[i])
            pull += abs(a[i]) * lengths[i]
            n_used += 1 if a[i] != 0.0 else 0
        sums[j], pulls[j] = size, pull
    return n_used


@kernel
def margin_rates(y, S, D, residual, rate):
    """residual and rate (n,) receive the terms of residuals along S + step D:
    residual + step rate."""
    for i in range(S.shape[0]):
        residual[i] = target_of(y[i]) - sign_of(y[i]) * S[i]
        rate[i] = -sign_of(y[i]) * D[i]


@kernel
def advance(S, D, step, beyond):
    """S receives S + step D, and D the point a fraction `beyond` of D farther on; all are (n,)."""
    for i in range(S.shape[0]):
        here = S[i] + step * D[i]
        D[i] = here + beyond * D[i]
        S[i] = here


@kernel
def margin_line(residual, rate, cost, loss, steps, sums, pieces):
    """Add to sums (p, 3) value, slope and curvature of the losses at each step.

    pieces[j, i] receives the piece of its loss that row i is on at step j.
    """
    eps, low, high, bend = loss
    first, second, third, last = knots(eps, low, high, bend)
    steepness = steepness_of(bend)
    for begin in range(0, residual.shape[0], _BLOCK):
        end = begin + _BLOCK
        start, way, weight = residual[begin:end], rate[begin:end], cost[begin:end]
        for j in range(steps.shape[0]):
            step = steps[j]
            piece = pieces[j, begin:end]
            value, slope, curvature = 0.0, 0.0, 0.0
            for i in range(start.shape[0]):
                z = start[i] + step * way[i]
                excess = beyond(z, eps)
                a = slope_at(excess, low, high, steepness)
                pull = weight[i] * a
                value += pull * (excess - 0.5 * bend * a)
                slope += pull * way[i]
                curved = (a == excess * steepness) & (excess != 0.0)
                curvature += weight[i] * way[i] * way[i] if curved else 0.0
                passed = (1.0 if z > first else 0.0) + (1.0 if z >= second else 0.0)
                passed += (1.0 if z > third else 0.0) + (1.0 if z > last else 0.0)
                piece[i] = np.uint8(passed)
            sums[j, 0] += value
            sums[j, 1] += slope
            sums[j, 2] += curvature * steepness


@kernel
def _worst_class(y, S, D, step, low, size, highest, worst):
    """For `size` rows from `low` on, find the class of highest score + [it is not the own one].

    S and D are (k, n), class by class, so that the loop over rows vectorises.
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
    """Subtract weight times the slope of `code` from A (k, n)."""
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
