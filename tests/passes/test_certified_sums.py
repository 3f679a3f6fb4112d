"""Sums of a certificate: against exact arithmetic, on the host and as array expressions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from widemargin.losses import HINGE, SMOOTH_HINGE, SQUARED_HINGE, Loss
from widemargin.passes import cpu, gpu
from widemargin.rounding import SUM

LOSSES = (
    HINGE,
    SQUARED_HINGE,
    SMOOTH_HINGE,
    Loss("absolute", low=-1.0),
    Loss("quantile", low=-0.25, high=0.75),
    Loss("tube", eps=0.3, low=-1.0),
    Loss("squared tube", eps=0.3, low=-math.inf, high=math.inf, bend=0.5),
    Loss("Huber", low=-0.7, high=0.7, bend=1.3),
)
both = pytest.mark.parametrize("passes", [cpu, gpu], ids=["cpu", "gpu"])
each = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def drawn(seed, n):
    rng = np.random.default_rng(seed)
    residual = rng.normal(size=n) * 10.0 ** rng.integers(-3, 3, n)
    residual[:: max(1, n // 5)] = 0.0
    error = rng.random(n) * 10.0 ** rng.integers(-12, 1, n)
    cost = rng.random(n) * (rng.random(n) < 0.9)
    return residual, error, cost


def exact_loss(residual, loss):
    """The definition of losses.py, at the best a: Fractions."""
    eps = Fraction(loss.eps)
    excess = max(abs(residual) - eps, Fraction(0)) * (1 if residual > 0 else -1)
    if loss.bend == 0.0:
        return max(Fraction(loss.high) * excess, Fraction(loss.low) * excess)
    a = excess / Fraction(loss.bend)
    for bound, pick in ((loss.low, max), (loss.high, min)):
        a = a if math.isinf(bound) else pick(a, Fraction(bound))
    return a * excess - Fraction(loss.bend) * a * a / 2


@both
@each
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_losses_are_those_of_the_worse_end(passes, loss, n):
    residual, error, cost = drawn(n, n)
    value, rounding = passes.bounded_losses(residual, error, cost, loss.numbers)
    upper, here = Fraction(0), Fraction(0)
    for r, e, c in zip(*(map(Fraction, array.tolist()) for array in (residual, error, cost))):
        upper += c * max(exact_loss(r + e, loss), exact_loss(r - e, loss))
        here += c * exact_loss(r, loss)
    assert abs(Fraction(value) - upper) <= Fraction(SUM) * upper + Fraction(1, 10**13)
    assert upper - here <= Fraction(rounding) * (1 + Fraction(SUM)) + Fraction(1, 10**13)


@both
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@each
def test_a_score_that_is_no_number_is_never_a_value(passes, loss, bad):
    residual, error, cost = drawn(3, 200)
    residual[77], cost[77] = bad, 1.0
    with np.errstate(invalid="ignore"):
        value, _ = passes.bounded_losses(residual, error, cost, loss.numbers)
    assert not math.isfinite(value)
    assert value != -math.inf


def bounds_of(loss, cost):
    return [
        np.where(cost > 0.0, bound * np.maximum(cost, 1e-300), 0.0)
        for bound in (loss.low, loss.high)
    ]


@both
@each
@pytest.mark.parametrize("with_labels", [True, False])
def test_the_dual_is_the_sum_of_its_terms(passes, loss, with_labels):
    rng = np.random.default_rng(5)
    cost, n = drawn(6, 333)[2], 333
    y = rng.choice([-1, 1], n).astype(np.int8) if with_labels else rng.normal(size=n)
    sign = y if with_labels else np.ones(n)
    least, most = bounds_of(loss, cost)
    alpha = np.clip(rng.normal(size=n), least, most)
    height, size = Fraction(0), Fraction(0)
    for i in range(n):
        a = Fraction(float(alpha[i]))
        terms = [a * (1 if with_labels else Fraction(float(y[i]))), -Fraction(loss.eps) * abs(a)]
        if cost[i] > 0.0:
            terms.append(-Fraction(loss.bend) * a * a / (2 * Fraction(float(cost[i]))))
        height += sum(terms)
        size += sum(map(abs, terms))
    found = passes.dual_height(y, cost, loss.numbers, alpha * sign)
    assert abs(Fraction(found) - height) <= Fraction(SUM) * size


@both
@each
def test_no_bound_is_violated(passes, loss):
    cost = np.ones(130)
    cost[100] = 0.0
    y = np.ones(130, dtype=np.int8)
    for row, beyond in ((100, 1e-300), (129, loss.high * (1 + 1e-15)), (3, loss.low - 1e-15)):
        if math.isfinite(beyond):
            A = np.zeros(130)
            A[row] = beyond
            assert passes.dual_height(y, cost, loss.numbers, A) == -math.inf


@both
def test_sizes(passes):
    rng = np.random.default_rng(7)
    A, lengths = rng.normal(size=777), rng.random(777)
    A[rng.random(777) < 0.3] = 0.0
    lengths.flags.writeable = False
    size, pull, n_used = passes.sizes(A, lengths)
    exact = [abs(Fraction(a)) for a in A.tolist()]
    pulls = sum(a * Fraction(x) for a, x in zip(exact, lengths.tolist()))
    assert abs(Fraction(size) - sum(exact)) <= Fraction(SUM) * sum(exact)
    assert abs(Fraction(pull) - pulls) <= Fraction(SUM) * pulls
    assert n_used == np.count_nonzero(A)
