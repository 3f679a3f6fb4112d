"""Every search against brute-force minimisation of the same function of one variable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.risk import CrammerSinger, Hinge, PairwiseHinge, SquaredHinge
from widemargin.solvers.line_search import (
    Penalty,
    ThreePoint,
    TruncatedGrid,
    bracketed,
    exact,
    grid,
)


@st.composite
def lines(draw):
    """A penalty, a risk, scores and a direction; with ties, zero costs, flat and steep parts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = int(rng.integers(1, 40)), int(rng.integers(2, 6))
    cost = draw(st.sampled_from([0.01, 1.0, 100.0])) * rng.integers(0, 4, n)
    kind = draw(st.sampled_from([Hinge, SquaredHinge, CrammerSinger]))
    if kind is CrammerSinger:
        risk, shape = CrammerSinger(rng.integers(0, k, n), cost, k), (n, k)
    else:
        risk, shape = kind(rng.choice([-1, 1], n), cost), (n,)
    S = rng.standard_normal(shape) * draw(st.sampled_from([0.0, 1.0, 10.0]))
    D = rng.standard_normal(shape) * draw(st.sampled_from([0.1, 1.0, 100.0]))
    if draw(st.booleans()):
        S, D = np.round(S), np.round(D)
    a = abs(rng.standard_normal()) * draw(st.sampled_from([0.01, 1.0, 100.0]))
    return Penalty(a, rng.standard_normal(), 1.0 + rng.random()), risk, S, D


def lowest(f, low, high):
    """Return the minimum of a convex function, by ternary search."""
    while f(2.0 * high) < f(high):
        high *= 2.0
    high *= 2.0
    ends = f(low)
    for _ in range(200):
        third = (high - low) / 3.0
        if f(low + third) < f(high - third):
            high -= third
        else:
            low += third
    return min(ends, f(low), f(high))


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.1, 1.0, 100.0]),
    guess=st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
    tolerance=st.sampled_from([0.0, 1e-3, 0.1]),
)
def test_the_bracketed_search_keeps_to_its_tolerance(seed, spread, guess, tolerance):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    risk = PairwiseHinge(rng.permutation(n) // 2, rng.random(n))
    S, D = rng.standard_normal(n), spread * rng.standard_normal(n)
    penalty = Penalty(rng.random(), rng.standard_normal(), 1.0)

    def f(step):
        return penalty.at(step) + risk.value(S + step * D)

    step, value = bracketed(penalty, risk.line(S, D), guess, tolerance)
    assert step >= 0.0
    assert value == pytest.approx(f(step), rel=1e-10)
    best = lowest(f, 0.0, 1.0)
    assert value <= best + tolerance + 1e-9 * max(1.0, abs(best))


@settings(deadline=None, max_examples=300)
@given(parts=lines(), guess=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_the_exact_search_is_exact(parts, guess):
    penalty, risk, S, D = parts

    def f(step):
        return penalty.at(step) + risk.value(S + step * D)

    line = risk.line(S, D)
    step, value = exact(penalty, line, guess)
    assert step >= 0.0
    # Curvatures of rows that are on another piece at the end were added up, and taken off again.
    rounding = 1e-15 * float(line.evaluate(np.zeros(1)).curvatures[0]) * step**2
    assert value == pytest.approx(f(step), rel=1e-10, abs=rounding)
    best = lowest(f, 0.0, 1.0)
    assert value <= best + 1e-10 * max(1.0, abs(best)) + rounding


def test_the_curvature_may_be_the_same_at_both_ends_and_another_in_between():
    """A fuzzer's find: the search took the piece at 0 for a lower bound, and stayed there."""
    D = np.array([1, -1, 0, 1, 0, 1, 1, -1, -1, -1, 1, 1, 1.0])
    S = np.array([2, -3, -2, -9, -3, -1, 7, 10, -10, -5, -12, -3, -16.0])
    y = [1, 1, -1, 1, 1, 1, -1, 1, -1, 1, -1, 1, -1]
    cost = np.array([3, 3, 3, 2, 3, 1, 3, 2, 1, 3, 1, 0, 2]) / 100.0
    risk, penalty = SquaredHinge(y, cost), Penalty(0.5311586801235059, -0.8864629626072504, 1.7)
    for guess in (1e-3, 0.1, 1.0, 30.0):
        step, value = exact(penalty, risk.line(S, D), guess)
        assert step == pytest.approx(0.3196, rel=1e-3)
        assert value == pytest.approx(penalty.at(step) + risk.value(S + step * D))


def test_steep_rows_that_have_no_loss_at_the_end():
    """A fuzzer's find: beside losses of 1e7 step^2, the rest has lost its last digits."""
    D = np.array([-25.5, 57.3, 222.7, -242.8, -68.1])
    risk = SquaredHinge([-1, 1, 1, -1, -1], [0.0, 100.0, 300.0, 300.0, 200.0])
    penalty = Penalty(1.64, -1.02, 1.5)
    step, value = exact(penalty, risk.line(np.zeros(5), D), 30.0)
    assert value == pytest.approx(penalty.at(step) + risk.value(step * D), rel=1e-8)


def breakpoints(risk, S, D):
    """All steps > 0 at which the multi-class hinge has a kink: n (k - 1) of them and more."""
    for i in range(len(S)):
        lines = [
            (S[i, j] - S[i, risk.y[i]] + (j != risk.y[i]), D[i, j] - D[i, risk.y[i]])
            for j in range(S.shape[1])
        ]
        for p, (c, b) in enumerate(lines):
            for other_c, other_b in lines[:p]:
                if b != other_b and (other_c - c) / (b - other_b) > 0.0:
                    yield (other_c - c) / (b - other_b)


@given(seed=st.integers(0, 2**32 - 1))
def test_a_minimum_at_a_kink_is_hit_to_the_last_places(seed):
    rng = np.random.default_rng(seed)
    risk = CrammerSinger(rng.integers(0, 3, 8), rng.random(8), 3)
    S, D = rng.standard_normal((8, 3)), rng.standard_normal((8, 3))
    penalty = Penalty(0.01, -0.1, 1.0)
    _, value = exact(penalty, risk.line(S, D), 0.3)
    kinks = [penalty.at(t) + risk.value(S + t * D) for t in breakpoints(risk, S, D)]
    assert value <= min(kinks, default=np.inf) * (1 + 1e-12)


def test_no_way_to_go_means_no_step():
    risk = Hinge([1, -1], [1.0, 1.0])
    S = np.array([0.5, 0.5])
    step, value = exact(Penalty(0.0, 0.0, 2.0), risk.line(S, np.zeros(2)), 0.1)
    assert (step, value) == (0.0, pytest.approx(2.0 + 0.5 + 1.5))


@pytest.mark.parametrize("kind", [Hinge, SquaredHinge])
def test_a_way_without_penalty_ends_at_the_least_risk(kind):
    """As a free intercept alone has it."""
    risk = kind([1, 1, -1], np.ones(3))
    step, value = exact(Penalty(0.0, 0.0, 0.0), risk.line(np.zeros(3), np.ones(3)), 0.1)
    best = min(risk.value(np.full(3, b)) for b in np.linspace(0.0, 2.0, 2001))
    assert value == pytest.approx(best, abs=1e-6)
    assert value == pytest.approx(risk.value(np.full(3, step)))


def test_most_rows_are_looked_at_once():
    rng = np.random.default_rng(0)
    n = 100_000
    risk = Hinge(rng.choice([-1, 1], n), np.full(n, 1.0 / n))
    line = risk.line(rng.standard_normal(n), rng.standard_normal(n))
    looked_at = []
    between, evaluate = type(line).between, type(line).evaluate

    class Counting(type(line)):
        def evaluate(self, steps):
            looked_at.append(self.size * len(steps))
            return evaluate(self, steps)

        def between(self, sums, j):
            part = between(self, sums, j)
            if part is not None:
                part.__class__ = Counting
            return part

    line.__class__ = Counting
    exact(Penalty(1.0, -0.2, 1.0), line, 0.1)
    assert looked_at[0] == 3 * n
    assert sum(looked_at[1:]) <= 2 * n


def smooth_valley(minimum, seed=0):
    """A penalty and a line of many small hinges whose sum is lowest at `minimum`."""
    rng = np.random.default_rng(seed)
    risk = Hinge(rng.choice([-1, 1], 5000), np.full(5000, 1e-3))
    S, D = rng.standard_normal(5000), rng.standard_normal(5000)
    line = risk.line(S, D)
    slope = float(line.evaluate([minimum]).slopes[0])
    a = 20.0
    penalty = Penalty(a, -a * minimum - slope, 10.0 + (0.5 * a * minimum + slope) * minimum)
    return penalty, line


@pytest.mark.parametrize("minimum", [0.0, 0.03, 0.5, 1.37, 1.8])
def test_the_grid_finds_the_minimum_to_its_finest_spacing(minimum):
    penalty, line = smooth_valley(minimum)
    step, value = grid(penalty, line)
    assert step == pytest.approx(minimum, abs=0.2**3)
    assert value == pytest.approx(penalty.at(step) + line.evaluate([step]).values[0])


@pytest.mark.parametrize("search", [TruncatedGrid, ThreePoint])
def test_searches_with_a_memory_follow_a_moving_minimum(search):
    find = search()
    for minimum in [0.9, 0.5, 0.3, 0.31, 0.3, 0.1, 0.05, 0.04, 0.05, 0.6, 1.5]:
        for _ in range(6):  # as many calls as uncertainty may need to grow again
            penalty, line = smooth_valley(minimum)
            step, value = find(penalty, line)
        assert step == pytest.approx(minimum, abs=0.021)
        assert value == pytest.approx(penalty.at(step) + line.evaluate([step]).values[0])


@pytest.mark.parametrize("search", [TruncatedGrid, ThreePoint])
def test_a_settled_search_is_cheap(search):
    find = search()
    penalty, line = smooth_valley(0.05)
    calls = []
    evaluate = line.evaluate
    line.evaluate = lambda steps: calls.append(1) or evaluate(steps)
    for _ in range(10):
        calls.clear()
        find(penalty, line)
    assert len(calls) <= 12


@pytest.mark.parametrize("search", [TruncatedGrid, ThreePoint])
@pytest.mark.parametrize("minimum", [-1.2, -0.3, 0.0, 0.3, 1.37, 2.7])
def test_a_first_search_finds_a_minimum_outside_its_window(search, minimum):
    step, _ = search()(*smooth_valley(minimum))
    assert step == pytest.approx(minimum, abs=0.021)


def test_three_points_do_not_stop_where_the_exact_search_does():
    """Steps of zero again and again are the trap that the paper leads out of, in section V."""
    rng = np.random.default_rng(0)
    find, steps = ThreePoint(), []
    for _ in range(30):
        risk = Hinge(rng.choice([-1, 1], 200), np.full(200, 0.01))
        line = risk.line(rng.standard_normal(200), 5.0 * rng.standard_normal(200))
        slope = float(line.evaluate([0.0]).slopes[0])
        penalty = Penalty(10.0, 0.1 * rng.random() - slope, 10.0)
        assert exact(penalty, line, 0.1)[0] == 0.0
        steps.append(find(penalty, line)[0])
    assert np.all(np.abs(steps) <= 0.05)
    assert np.count_nonzero(steps) == 30
    assert min(steps) < 0.0 < max(steps)


def test_three_points_where_nothing_is_lost_any_more():
    """Of two values of zero none is the larger part of the other."""
    risk = Hinge(np.array([1, 1]), np.zeros(2))
    step, value = ThreePoint()(Penalty(0.0, 0.0, 0.0), risk.line(np.zeros(2), np.ones(2)))
    assert step >= 0.0
    assert value == 0.0


@pytest.mark.parametrize("search", [TruncatedGrid, ThreePoint])
@pytest.mark.parametrize("minimum", [1e3, 1e7, 1e13])
@pytest.mark.parametrize("begin", [0.0, 3e7])
def test_a_minimum_far_away_is_found_soon(search, minimum, begin):
    """In longer and longer strides."""
    penalty, line = smooth_valley(minimum)
    evaluate, calls = line.evaluate, []
    line.evaluate = lambda steps: calls.append(1) or evaluate(steps)
    find = search()
    find.last = begin
    step, _ = find(penalty, line)
    assert step == pytest.approx(minimum, rel=1e-5, abs=0.021)
    assert len(calls) < 400


@pytest.mark.parametrize("search", [TruncatedGrid, ThreePoint])
def test_values_beyond_float64_end_a_search(search):
    """A fuzzer's find: three points with infinite values were narrowed for ever."""
    risk = SquaredHinge([1, -1], [1.0, 1.0])
    line, calls = risk.line(np.zeros(2), np.full(2, 1e200)), []
    evaluate = line.evaluate

    def counted(steps):
        calls.append(1)
        assert len(calls) < 1000
        return evaluate(steps)

    line.evaluate = counted
    with np.errstate(over="ignore", invalid="ignore"):
        search()(Penalty(1.0, 0.0, 1.0), line)
