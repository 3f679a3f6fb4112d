"""The step of a Newton iteration, against the lowest point that bisection finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.passes import cpu


def slope_at(step, z, rate, cost, smooth, slope, curvature):
    """Return the slope along the way, written out."""
    eps, low, high, bend = smooth
    at = z + step * rate
    alpha = cost * np.clip(np.sign(at) * np.maximum(np.abs(at) - eps, 0.0) / bend, low, high)
    return float(alpha @ rate) + slope + curvature * step


def root(f):
    """Return where a rising function crosses zero, by bisection."""
    low = high = 1.0
    while f(low) > 0.0:
        low = min(0.0, 4.0 * low - 5.0)
    while f(high) < 0.0:
        high *= 4.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if f(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)


@given(
    st.integers(0, 10_000),
    st.integers(1, 200),
    st.sampled_from(
        [
            (0.0, 0.0, np.inf, 0.5),
            (0.0, 0.0, 1.0, 1.5),
            (0.0, 0.0, 1.0, 1e-3),
            (0.2, -0.5, 1.0, 0.1),
            (0.0, -np.inf, np.inf, 0.5),
        ]
    ),
    st.floats(-10.0, 10.0),
    st.floats(1e-3, 10.0),
)
def test_it_is_the_lowest_point(seed, n, smooth, slope, curvature):
    random = np.random.default_rng(seed)
    z, rate, cost = random.normal(size=n), random.normal(size=n), random.random(n)
    way = z, rate, cost, smooth
    step, curved = cpu.lowest(*way, slope, curvature, guess=0.0, slope_left=0.0)
    best = root(lambda t: slope_at(t, *way, slope, curvature))
    assert step == pytest.approx(best, rel=1e-7, abs=1e-7)
    assert curved >= curvature


@given(st.integers(0, 10_000), st.floats(1e-6, 0.5))
def test_downhill_it_leaves_no_more_than_a_share_of_the_slope(seed, slope_left):
    random = np.random.default_rng(seed)
    z, rate, cost = random.normal(size=50), random.normal(size=50), random.random(50)
    numbers = z, rate, cost, (0.0, 0.0, 1.0, 0.1)
    slope = -abs(slope_at(0.0, *numbers, 0.0, 0.0)) - 1.0
    step, _ = cpu.lowest(*numbers, slope, 0.5, guess=1.0, slope_left=slope_left)
    assert step > 0.0
    before = slope_at(0.0, *numbers, slope, 0.5)
    assert abs(slope_at(step, *numbers, slope, 0.5)) <= slope_left * abs(before) * (1 + 1e-9)


def test_uphill_it_stays():
    z, rate, cost = np.ones(3), np.ones(3), np.ones(3)
    way = z, rate, cost, (0.0, 0.0, 1.0, 0.5)
    assert cpu.lowest(*way, 1.0, 2.0, guess=1.0, slope_left=1e-3) == (0.0, 2.0)
