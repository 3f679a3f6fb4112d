from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import gradings

from widemargin import threads
from widemargin.data import as_rows
from widemargin.kernels import pairwise as kernels
from widemargin.passes import pairs as by_arrays
from widemargin.passes import sweeps as module
from widemargin.problem import Intercept, Problem
from widemargin.risk import PairwiseHinge


def by_hand(y, weight, group, S):
    """Value, slope and constant of the plane, from a matrix of all pairs.

    Pairs that rounding may have brought below their margin are not in the plane.
    """
    pair = (y[:, None] > y) & (group[:, None] == group)
    cost = pair * weight[:, None] * weight
    lossy = cost * (S[:, None] - kernels.MARGIN < S)
    value = np.sum(lossy * (1.0 - S[:, None] + S))
    return value, lossy.sum(axis=0) - lossy.sum(axis=1), lossy.sum()


@st.composite
def graded_scores(draw):
    n = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    S = draw(st.sampled_from([0.0, 0.3, 2.0, 50.0])) * rng.standard_normal(n)
    if draw(st.booleans()):
        S = np.round(S)  # ties, and pairs exactly at the margin
    return *draw(gradings(n)), S + draw(st.sampled_from([0.0, -3.7, 1e6]))


#: a fuzzer's find: 32.3 - 31.3 is rounded to less than 1
BELOW_THE_MARGIN = (
    np.array([2.0, 1.0, 0.0]),
    np.array([0.3, 0.2, 0.1]),
    np.zeros(3, dtype=np.intp),
    np.array([36.0, 35.0, -46.0]) - 3.7,
)


@given(problem=graded_scores(), n_threads=st.integers(1, 3))
@example(problem=BELOW_THE_MARGIN, n_threads=1)
def test_value_and_slope_are_those_of_all_pairs(problem, n_threads):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    with threads.lent(n_threads):
        cut = risk.cut(S)
    value, slope, constant = by_hand(y, weight, group, S)
    scale = 1e-12 * max(constant, 1.0) * max(1.0, np.ptp(S))
    assert cut.value == pytest.approx(value, rel=1e-9, abs=scale)
    assert risk.value(S) == cut.value
    assert cut.constant == pytest.approx(constant, rel=1e-12)
    np.testing.assert_allclose(cut.slope, slope, rtol=1e-9, atol=1e-9)
    assert np.count_nonzero(np.abs(slope) > 1e-9) <= cut.active <= S.size


@given(problem=graded_scores(), seed=st.integers(0, 10**6))
def test_a_cut_is_below_the_risk_everywhere(problem, seed):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    cut = risk.cut(S)
    other = 3.0 * np.random.default_rng(seed).standard_normal(S.size)
    assert risk.value(other) >= np.vdot(cut.slope, other) + cut.constant - 1e-9


@pytest.mark.parametrize("grades", [2, 6])
@pytest.mark.parametrize("sums", [module.pair_sums, by_arrays.pair_sums])
def test_rounding_decides_over_no_pair_at_the_margin(grades, sums):
    rng = np.random.default_rng(0)
    n = 60
    S = 0.25 * rng.integers(0, 12, n)  # many pairs are at the margin
    risk = PairwiseHinge(rng.integers(0, grades, n), np.ones(n))

    def plane(S):
        of_rows = risk.member, risk.level, risk.weight
        return sums(S, risk.starts, risk.n_levels, *of_rows)[1:3]

    constant, slope = plane(S)
    for _ in range(5):
        blurred = plane(S + 1e-14 * rng.standard_normal(n))
        assert blurred[0] == constant
        np.testing.assert_array_equal(blurred[1], slope)


@given(problem=graded_scores(), seed=st.integers(0, 10**6))
def test_a_line_has_the_values_and_slopes_of_its_points(problem, seed):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    D = np.random.default_rng(seed).standard_normal(S.size)
    steps = [0.0, 0.3, 1.7]
    sums = risk.line(S, D).evaluate(steps)
    for value, slope, step in zip(sums.values, sums.slopes, steps, strict=True):
        cut = risk.cut(S + step * D)
        assert value == cut.value
        assert slope == pytest.approx(cut.slope @ D, rel=1e-9, abs=1e-9)


@given(problem=graded_scores(), factor=st.sampled_from([0.25, 1.0, 7.0]))
def test_pairs_are_counted_weighed_and_scaled_by_group(problem, factor):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    for g, pairs, total in zip(risk.groups, risk.count_pairs(), risk.weigh_pairs(), strict=True):
        own = (group == g) & (weight > 0.0)
        pair = y[own][:, None] > y[own]
        assert pairs == pair.sum() > 0
        assert total == pytest.approx(np.sum(pair * weight[own][:, None] * weight[own]))
    scaled = risk.scaled(np.full(risk.groups.size, factor))
    assert scaled.value(S) == pytest.approx(factor * risk.value(S), abs=1e-9)


def test_a_weight_of_two_is_a_row_given_twice():
    rng = np.random.default_rng(0)
    y, group, S = rng.integers(0, 4, 30), rng.integers(0, 3, 30), rng.standard_normal(30)
    times = rng.integers(0, 3, 30)
    again = np.repeat(np.arange(30), times)
    weighted = PairwiseHinge(y, times, group)
    repeated = PairwiseHinge(y[again], np.ones(again.size), group[again])
    assert weighted.value(S) == pytest.approx(repeated.value(S[again]))
    assert weighted.count_pairs().sum() < weighted.weigh_pairs().sum()
    assert weighted.weigh_pairs().sum() == repeated.count_pairs().sum()


@pytest.mark.parametrize("grades", [2, 1000, 10**6])
def test_a_million_rows_lose_no_pair(grades):
    """Half of 10^12 pairs: counts and sums that are known are found to the last digit."""
    n = 10**6
    rng = np.random.default_rng(0)
    y = rng.permutation(n) * grades // n
    risk = PairwiseHinge(y, np.ones(n))
    pairs = n * (n - n // grades) // 2
    assert risk.count_pairs().sum() == pairs
    nothing = risk.cut(np.zeros(n))  # every pair is lost by one
    assert nothing.value == nothing.constant == pairs
    assert nothing.slope.sum() == 0.0
    best = risk.cut(2.0 * y)
    assert best.value == 0.0
    assert not best.slope.any()
    offset = risk.cut(0.25 * y + 1e9)  # at such heights, scores are whole multiples of 2^-23
    per_level, gaps = n // grades, np.arange(1, 4)
    lost = (grades - gaps[gaps < grades]) * (1.0 - 0.25 * gaps[gaps < grades])
    assert offset.value == pytest.approx(per_level**2 * lost.sum(), rel=1e-12)


@pytest.mark.parametrize(
    "S",
    [
        np.r_[np.linspace(0.0, 2.0, 500), 1e30],  # fixed point cannot tell the others apart
        np.r_[np.nextafter(1.0, 2.0) - 1e-16 * np.arange(300) % 3, -1e4],
        np.zeros(300),
        np.linspace(0.0, 5e-324, 300),
        np.r_[np.full(150, -np.finfo(float).max / 4), np.full(150, np.finfo(float).max / 4)],
    ],
    ids=["an outlier", "last places", "all equal", "denormal", "huge"],
)
def test_scores_that_are_hard_to_sort(S):
    rng = np.random.default_rng(0)
    S = rng.permutation(S)
    group, place = rng.integers(0, 3, S.size), np.arange(S.size)
    by_group = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(group))])
    order, in_order = module.sorted_by_group(S[by_group], starts, group[by_group])
    np.testing.assert_array_equal(np.sort(order), place)
    np.testing.assert_array_equal(in_order, S[by_group][order])
    for begin, end in pairwise(starts):
        assert np.all(np.diff(in_order[begin:end]) >= 0.0)
        assert np.all(group[by_group][order[begin:end]] == group[by_group][begin])


@given(seed=st.integers(0, 10**6))
def test_nearly_sorted_scores_are_settled_within_their_groups(seed):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 9, 5))])
    S = np.round(rng.standard_normal(starts[-1]), 1)
    order = rng.permutation(starts[-1])
    in_order, settled = S[order], order.copy()
    assert kernels.settle(starts, settled, in_order, 10**6)
    np.testing.assert_array_equal(in_order, S[settled])
    for begin, end in pairwise(starts):
        assert sorted(settled[begin:end]) == sorted(order[begin:end])
        assert np.all(np.diff(in_order[begin:end]) >= 0.0)
    backwards = np.arange(5.0)[::-1].copy()
    assert not kernels.settle(np.array([0, 5]), np.arange(5), backwards, 9)


def test_rows_without_pairs_have_no_part():
    y, group = np.array([1.0, 1.0, 2.0, 5.0, 4.0]), np.array([7, 7, 3, 9, 9])
    risk = PairwiseHinge(y, np.ones(5), group)
    assert risk.groups.tolist() == [9]
    cut = risk.cut(np.zeros(5))
    assert (cut.value, cut.active) == (1.0, 2)
    np.testing.assert_array_equal(cut.slope, [0, 0, 0, -1, 1])
    nobody = PairwiseHinge(y, np.zeros(5), group)
    assert nobody.rows.size == nobody.groups.size == 0


def test_there_is_no_intercept_to_be_had():
    risk = PairwiseHinge([0, 1, 2], np.ones(3))
    Problem(as_rows(np.eye(3)), risk, Intercept.NONE)
    with pytest.raises(ValueError, match="PairwiseHinge takes no intercept"):
        Problem(as_rows(np.eye(3)), risk)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_without_pairs(weight):
    """Rows of one grade, as a part of the rows may have, or of no weight."""
    S, D = np.array([1.0, 3.0, -2.0]), np.ones(3)
    grades = np.arange(3.0) if weight == 0.0 else np.ones(3)
    risk = PairwiseHinge(grades, np.full(3, weight))
    assert risk.count_pairs().sum() == risk.weigh_pairs().sum() == 0.0
    assert risk.value(S) == 0.0
    cut = risk.cut(S)
    assert (cut.value, cut.constant, cut.active) == (0.0, 0.0, 0)
    np.testing.assert_array_equal(cut.slope, np.zeros(3))
    found = risk.line(S, D).evaluate([0.0, 1.0])
    np.testing.assert_array_equal([found.values, found.slopes], np.zeros((2, 2)))
