import numpy as np
import pytest
from device_array import DeviceArray, device, host
from hypothesis import given
from hypothesis import strategies as st

from widemargin.kernels.pairwise import MARGIN
from widemargin.passes.pairs import pair_sums
from widemargin.risk import PairwiseHinge


def pair_sums_of(risk, S, where=np.asarray):
    """`pair_sums` at the scores of the rows in pairs."""
    S, starts, *of_rows = map(where, (S, risk.starts, risk.member, risk.level, risk.weight))
    return pair_sums(S, starts, risk.n_levels, *of_rows)[:3]


def by_hand(y, weight, group, S):
    """Value, constant and slope, from a matrix of all pairs."""
    pair = (y[:, None] > y) & (group[:, None] == group)
    pair = pair * weight[:, None] * weight
    lossy = pair * (S[:, None] - MARGIN < S)
    value = np.sum(pair * np.maximum(0.0, 1.0 - (S[:, None] - S)))
    return value, lossy.sum(), lossy.sum(axis=0) - lossy.sum(axis=1)


@st.composite
def graded_scores(draw, most_groups=12):
    """Grades, weights, groups and scores of rows, some of them in no pair."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = rng.integers(
        2, draw(st.sampled_from([2, 3, 50])) + 1, draw(st.integers(1, most_groups))
    )
    group = rng.permutation(np.repeat(np.arange(sizes.size), sizes))
    n = group.size
    y = rng.permutation(n) % draw(st.sampled_from([2, 3, 5, 8, n]))
    y[[0, np.flatnonzero(group == group[0])[1]]] = 0, 1  # at least one pair
    weight = draw(
        st.sampled_from([np.ones(n), rng.integers(1, 5, n), rng.random(n) + 1e-3, 10.0**-y])
    )
    S = draw(st.sampled_from([0.0, 0.3, 2.0, 50.0])) * rng.standard_normal(n)
    S = S.round(draw(st.sampled_from([0, 1, 17])))  # ties, and pairs at the margin
    return y, weight, group, S + draw(st.sampled_from([0.0, -3.7, 1e8]))


def assert_same(found, expected, weight, S):
    """Compare values, constants and slopes.

    Fixed point rounds each weight by up to 2^-60 of all: n times that, at most, for all pairs.
    """
    (value, constant, slope), (expected_value, expected_constant, expected_slope) = found, expected
    rounding = 1e-15 * weight.sum() ** 2
    spread = 1.0 + np.ptp(S)
    assert value == pytest.approx(expected_value, rel=1e-12, abs=spread * rounding)
    assert constant == pytest.approx(expected_constant, rel=1e-12, abs=rounding)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-12, atol=rounding)


@given(problem=graded_scores())
def test_sums_are_those_of_the_sweeps(problem):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    S = S[risk.rows]
    assert_same(pair_sums_of(risk, S), risk._pairs(S)[:3], weight, S)


@given(problem=graded_scores(most_groups=4))
def test_sums_are_those_of_all_pairs(problem):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    value, constant, slope = pair_sums_of(risk, S[risk.rows])
    found = value, constant, risk._spread(slope)
    assert_same(found, by_hand(y, weight, group, S), weight, S)


@given(problem=graded_scores(), seed=st.integers(0, 10**6))
def test_the_plane_touches_the_risk_and_is_nowhere_above_it(problem, seed):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    S = S[risk.rows]
    value, constant, slope = pair_sums_of(risk, S)
    size = np.abs(slope) @ np.abs(S) + constant
    # Pairs that lack a hair's breadth to their margin have a loss, and are in no plane.
    left_out = (1.0 - MARGIN) * weight.sum() ** 2
    assert value == pytest.approx(slope @ S + constant, rel=1e-9, abs=1e-12 * size + left_out)
    slope_sums, sizes = (np.add.reduceat(a, risk.starts[:-1]) for a in (slope, np.abs(slope)))
    assert np.all(np.abs(slope_sums) <= 1e-13 * sizes)
    other = 3.0 * np.random.default_rng(seed).standard_normal(S.size)
    there = pair_sums_of(risk, other)[0]
    assert slope @ other + constant <= there + 1e-9 * (constant + there)


@given(problem=graded_scores())
def test_arrays_stay_on_the_device(problem):
    y, weight, group, S = problem
    risk = PairwiseHinge(y, weight, group)
    S = S[risk.rows]
    value, constant, slope = pair_sums_of(risk, S, where=device)
    assert isinstance(slope, DeviceArray)
    expected = pair_sums_of(risk, S)
    assert (value, constant) == expected[:2]
    np.testing.assert_array_equal(host(slope), expected[2])


@pytest.mark.parametrize("n_below", [1, 10, 200])
@pytest.mark.parametrize("by_rows", [True, False])
def test_losses_of_pairs_just_short_of_their_margin(n_below, by_rows):
    """Pairs that are in no plane have a loss; where they are many, at most what is returned."""
    rng = np.random.default_rng(0)
    short = 1e-12 * (1.0 + rng.random(n_below))
    S = np.r_[0.0, short - 1.0, -2.0, 0.5, short - 1.0]
    y = np.r_[2, rng.integers(0, 2, n_below), 0, 2, rng.integers(0, 2, n_below)]
    group = np.r_[np.zeros(n_below + 2), np.ones(n_below + 1)]
    weight = rng.random(S.size) + 0.5
    risk = PairwiseHinge(y, weight, group)
    value, constant, slope = pair_sums_of(risk, S[risk.rows])
    if by_rows:
        value = risk.value(S)
    expected, *plane = by_hand(y, weight, group, S)
    assert constant == pytest.approx(plane[0])
    lost = value - (constant + slope @ S[risk.rows])
    true = expected - (plane[0] + plane[1] @ S)
    assert true > 1e-13
    if n_below <= 64:
        assert lost == pytest.approx(true, abs=1e-13)  # sums of about 10 are rounded
    else:
        assert true <= lost <= 1e-11 * weight.sum() ** 2


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_two_rows(offset):
    risk = PairwiseHinge(np.array([3.0, 7.0]), np.array([2.0, 0.5]))
    for S, loss in [([0.0, 0.0], 1.0), ([0.25, 0.0], 1.25), ([0.0, 0.75], 0.25)]:
        value, constant, slope = pair_sums_of(risk, np.array(S) + offset)
        assert (value, constant, slope.tolist()) == (loss, 1.0, [1.0, -1.0])
    for S in [0.0, 1.0], [0.0, 5.0]:  # at the margin there is no loss
        value, constant, slope = pair_sums_of(risk, np.array(S) + offset)
        assert (value, constant, slope.tolist()) == (0.0, 0.0, [0.0, 0.0])


def test_a_margin_that_rounding_blurs_is_seen_alike_from_both_sides():
    """The two ways to compare scores disagree; one side alone would unbalance slopes."""
    rng = np.random.default_rng(0)
    S = np.r_[0.1 * np.arange(40), 0.1 * np.arange(40) - MARGIN]
    S = np.r_[S, np.nextafter(S, 9.0), np.nextafter(S, -9.0)]
    y = rng.integers(0, 6, S.size)
    assert np.any((S[:, None] - MARGIN < S) != (S[:, None] < S + MARGIN))
    risk = PairwiseHinge(y, np.ones(S.size))
    value, constant, slope = pair_sums_of(risk, S)
    expected = by_hand(y, np.ones(S.size), np.zeros(S.size), S)
    assert (constant, slope.tolist()) == (expected[1], expected[2].tolist())
    assert slope.sum() == 0.0
    assert value == pytest.approx(expected[0])


@pytest.mark.parametrize("grades", [2, 7, 20_000])
def test_whole_weights_are_added_without_error(grades):
    n = 20_000
    rng = np.random.default_rng(0)
    y = rng.permutation(n) * grades // n
    weight = rng.integers(1, 100, n).astype(float)
    risk = PairwiseHinge(y, weight)
    nothing = pair_sums_of(risk, np.zeros(n))  # every pair is lost by one
    assert nothing[0] == nothing[1] == risk.weigh_pairs().sum()
    S = rng.standard_normal(n)
    value, constant, slope = pair_sums_of(risk, S)
    expected = risk._pairs(S)
    assert constant == expected[1]
    np.testing.assert_array_equal(slope, expected[2])
    assert value == pytest.approx(expected[0], rel=1e-13)
