"""Thresholds against every way of placing them."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.estimators.thresholds import best_thresholds

LOSSES = {"absolute": lambda p, r: np.abs(p - r), "zero_one": lambda p, r: p != r}


def predicted(thresholds, scores):
    return np.array([sum(t < s for t in thresholds) for s in scores])


def total_loss(loss, thresholds, scores, ranks, weights):
    return float(weights @ LOSSES[loss](predicted(thresholds, scores), ranks))


@st.composite
def scored_rows(draw):
    """Few rows, ties among scores, ranks without rows, weights whose sums do not round."""
    n = draw(st.integers(1, 9))
    n_ranks = draw(st.integers(1, 5))
    scores = draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n))
    ranks = draw(st.lists(st.integers(0, n_ranks - 1), min_size=n, max_size=n))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n, max_size=n))
    weights[0] = 1.0
    return np.array(scores) / 3, np.array(ranks), np.array(weights), n_ranks


@pytest.mark.parametrize("loss", LOSSES)
@given(rows=scored_rows())
def test_no_placement_is_better_and_no_equal_one_lower(loss, rows):
    scores, ranks, weights, n_ranks = rows
    thresholds = best_thresholds(scores, ranks, n_ranks, weights, loss)
    assert thresholds.shape == (n_ranks - 1,)
    assert np.all(thresholds[1:] >= thresholds[:-1])

    distinct = np.unique(scores[weights > 0])
    places = [-np.inf, *(distinct[1:] + distinct[:-1]) / 2, np.inf]
    assert np.all(np.isclose(thresholds[:, None], places, rtol=1e-15).any(axis=1))
    reached = total_loss(loss, thresholds, scores, ranks, weights)
    for other in combinations_with_replacement(places, n_ranks - 1):
        value = total_loss(loss, other, scores, ranks, weights)
        assert value >= reached
        if value == reached:
            assert np.all(thresholds <= np.array(other) + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_rows_in_order_leave_no_error(loss, seed, n_ranks):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(200)
    ranks = np.searchsorted(np.sort(rng.standard_normal(n_ranks - 1)), scores)
    thresholds = best_thresholds(scores, ranks, n_ranks, rng.random(200) + 0.1, loss)
    np.testing.assert_array_equal(np.searchsorted(thresholds, scores, side="left"), ranks)


@pytest.mark.parametrize("loss", LOSSES)
def test_ranks_without_rows_have_no_room(loss):
    scores = np.array([1.0, 2.0, 3.0, 4.0])
    thresholds = best_thresholds(scores, np.array([1, 1, 3, 3]), 6, loss=loss)
    np.testing.assert_array_equal(thresholds, [-np.inf, 2.5, 2.5, np.inf, np.inf])
    assert best_thresholds(scores, np.zeros(4, dtype=int), 1, loss=loss).shape == (0,)


def test_the_two_losses_differ():
    scores, ranks = np.zeros(7), np.array([0, 0, 0, 1, 1, 3, 3])
    assert predicted(best_thresholds(scores, ranks, 4, loss="absolute"), [0.0]) == [1]  # median
    assert predicted(best_thresholds(scores, ranks, 4, loss="zero_one"), [0.0]) == [0]  # mode


def test_of_equally_good_thresholds_the_lowest():
    inverted = np.array([1.0, 2.0]), np.array([1, 0]), 2
    np.testing.assert_array_equal(best_thresholds(*inverted), [-np.inf])


def test_neighbouring_floats_are_parted():
    for low in (1.0, np.nextafter(1.0, 2.0), -1.0, 0.0, 5e-324, -5e-324):
        scores = np.array([low, np.nextafter(low, np.inf)])
        thresholds = best_thresholds(scores, np.array([0, 1]), 2)
        np.testing.assert_array_equal(np.searchsorted(thresholds, scores), [0, 1])


def test_scores_of_any_size():
    largest = np.finfo(np.float64).max
    scores = np.array([-largest, 0.75 * largest, largest])
    with np.errstate(all="raise"):
        thresholds = best_thresholds(scores, np.array([0, 1, 2]), 3)
    np.testing.assert_allclose(thresholds / largest, [-0.125, 0.875])


def test_float32_scores_are_parted_as_they_are():
    scores = np.array([1.0, 1.0 + 2.0**-23], dtype=np.float32)
    thresholds = best_thresholds(scores, np.array([0, 1]), 2)
    np.testing.assert_array_equal(np.searchsorted(thresholds, scores), [0, 1])


def test_rows_of_weight_zero_move_no_threshold():
    scores, ranks = np.array([0.0, 1.0, 2.0]), np.array([0, 0, 1])
    thresholds = best_thresholds(scores, ranks, 2, weights=np.array([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(thresholds, [1.0])
    with pytest.raises(ValueError, match="no row has a positive weight"):
        best_thresholds(scores, ranks, 2, weights=np.zeros(3))
