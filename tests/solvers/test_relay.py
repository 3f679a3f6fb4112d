"""Turns of coordinate descent and Newton's method, as `auto` has them."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification

from widemargin import LinearSVC, certify
from widemargin.certificate import Certificate
from widemargin.data import as_rows
from widemargin.monitor import Leg, Monitor
from widemargin.problem import Problem, State
from widemargin.risk import Hinge, SquaredHinge
from widemargin.solvers import auto
from widemargin.solvers.choice_settings import RelaySettings
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.relay import Relay, _Pace


def clicks(n=6000, levels=(3, 9, 60, 400, 800), seed=0):
    """Return rows with one level of each field, and labels that no hyperplane separates."""
    rng = np.random.default_rng(seed)
    begins = np.cumsum([0, *levels[:-1]])
    columns = [begin + rng.integers(0, level, n) for begin, level in zip(begins, levels)]
    indices = np.stack(columns, axis=1).ravel()
    starts = np.arange(0, indices.size + 1, len(levels))
    X = sp.csr_matrix((np.ones(indices.size), indices, starts))
    scores = X @ rng.standard_normal(X.shape[1])
    return X, np.where(scores + 2.0 * rng.standard_normal(n) > 0.0, 1, -1)


def test_newton_takes_over_where_passes_would_be_many():
    X, y = clicks()
    model = LinearSVC(C=100.0, random_state=0, max_iter=20_000).fit(X, y)
    alone = LinearSVC(C=100.0, solver="acf", random_state=0, max_iter=20_000).fit(X, y)
    assert model.solver_ == "acf, then newton"
    assert model.status_ == alone.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=2e-3)
    assert model.n_iter_ < alone.n_iter_ / 2
    found = certify(model, X, y)
    assert found.relative_gap <= 1e-3
    assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-12)


def test_the_same_seed_gives_the_same_bits():
    X, y = clicks(seed=1)
    first, second = (LinearSVC(C=100.0, random_state=3).fit(X, y) for _ in range(2))
    assert first.solver_ == "acf, then newton"
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_history_counts_all_iterations_and_max_iter_limits_them():
    X, y = clicks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(C=100.0, random_state=0, tol=1e-12, max_iter=60).fit(X, y)
    iterations = [record.iteration for record in model.history_]
    assert model.solver_ == "acf, then newton"
    assert iterations == sorted(iterations)
    assert model.status_ == "max_iter"
    assert 55 <= model.n_iter_ <= 60
    gaps = np.array([record.relative_gap for record in model.history_])
    assert np.all(np.diff(gaps) <= 1e-9)  # of the best points of both


def test_a_named_solver_stays_alone():
    X, y = clicks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(C=100.0, solver="acf", random_state=0, max_iter=80).fit(X, y)
    assert model.solver_ == "acf"


def test_coordinate_descent_comes_back_after_an_attempt_that_failed():
    X, y = make_classification(300, 40, n_informative=20, flip_y=0.2, random_state=0)
    problem = Problem(as_rows(X), Hinge(np.where(y, 1, -1), np.full(300, 0.3)))
    settings = RelaySettings(
        first_look=1.0, fewest_iterations=0.0, most_left=1.0, part_of_passes_left=0.5
    )
    monitor = Monitor(tol=1e-9, max_iter=100_000)
    state = Relay(0, settings).solve(problem, State.zero(problem), monitor)
    assert monitor.status == "converged"
    assert monitor.handed_over_to == "newton"
    active = [record.active_rows for record in monitor.history]
    assert len(active) > 5
    other = Monitor(tol=1e-9, max_iter=100_000)
    CoordinateDescent("acf", 0).solve(problem, State.zero(problem), other)
    assert monitor.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-9)
    assert state.dual.min() >= 0.0


def test_many_features_with_a_kink_are_for_coordinate_descent_alone():
    X, y = clicks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(C=100.0, loss="hinge", random_state=0, max_iter=200).fit(X, y)
    assert model.solver_ == "acf"


def test_only_what_auto_chose_may_change():
    risk = SquaredHinge(np.array([1, -1]), np.ones(2))
    assert isinstance(auto.make("acf", risk, 0, may_change=True), Relay)
    assert isinstance(auto.make("acf", risk, 0), CoordinateDescent)
    assert not isinstance(auto.make("newton", risk, 0, may_change=True), Relay)


def test_progress_tells_how_many_passes_are_left():
    settings = replace(RelaySettings(), first_look=10.0, growth=2.0, most_left=100.0)
    pace = _Pace(1e-6, 1.0, settings)
    assert not pace.is_slow(9.0, 0.9)
    assert not pace.is_slow(10.0, 1e-3)  # ten passes more
    assert pace.is_slow(20.0, 1e-3 / math.e)  # ten passes for each factor of e
    left = 10.0 * math.log(1e3 / math.e)
    assert pace.attempt == pytest.approx(left * settings.part_of_passes_left)
    pace.tried(1e-4)
    assert not pace.is_slow(10.0, 0.99e-4 / math.e)  # not twice as long as the last attempt
    assert pace.is_slow(20.0, 0.99e-4 / math.e)  # no progress at all
    assert pace.attempt == pytest.approx(2000.0 * settings.part_of_passes_left)


def test_a_leg_is_a_part_of_the_whole():
    whole = Monitor(tol=1e-3, max_iter=100)
    whole.iteration = 30.0
    leg = Leg(whole, most=10.0)
    leg.iteration = 4.0
    assert not leg.check(Certificate(2.0, 1.0), None, 5)
    assert whole.iteration == 34.0
    assert whole.history[-1].iteration == 34.0
    leg.iteration = 10.0
    assert leg.must_stop()
    assert (leg.status, whole.status) == ("max_iter", "running")
    last = Leg(whole, most=1000.0)
    last.iteration = 60.0
    assert last.must_stop()
    assert (last.status, whole.status) == ("max_iter", "max_iter")


def test_a_leg_ends_as_the_whole_does():
    whole = Monitor(tol=1e-3, max_iter=100)
    leg = Leg(whole)
    whole.interruption.requested = True
    assert leg.must_stop()
    assert leg.status == "interrupted"
    solved = Monitor(tol=1e-3, max_iter=100)
    leg = Leg(solved)
    assert leg.check(Certificate(1.0, 1.0), None, 5)
    assert leg.status == solved.status == "converged"
