import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from exact import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems, ranking_problems

from widemargin import LinearSVR
from widemargin.certificate import Certificate, certify_state, lower_bound, upper_bound
from widemargin.data import as_rows
from widemargin.estimators.problems import with_constant
from widemargin.losses import Loss
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State, Tangents
from widemargin.risk.targets import TargetRisk
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.words import at_most, duration, percent, percent_at_most


def exact(problem):
    return optimum(
        problem.rows.matrix,
        problem.risk.y,
        problem.risk.cost,
        loss=problem.risk.loss,
        intercept=problem.intercept,
    )


@settings(deadline=None, max_examples=150)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.0, 0.1, 3.0]))
def test_any_numbers_bracket_the_optimum(problem, seed, scale):
    """Whatever coefficients and dual variables are certified, feasible or not."""
    rng = np.random.default_rng(seed)
    state = State(
        coef=scale * rng.standard_normal(problem.rows.n_features),
        offset=0.0 if problem.intercept is Intercept.NONE else float(rng.standard_normal()),
        dual=problem.risk.cost.max() * scale * rng.standard_normal(problem.rows.n_rows),
    )
    certificate = certify_state(problem, state)
    best = exact(problem)
    slip = 1e-7 * max(1.0, abs(best))
    assert certificate.dual - slip <= best <= certificate.primal + slip


@settings(deadline=None, max_examples=150)
@given(
    # Few features, large values and large costs together take coordinate descent forever.
    problem=problems(scales=(0.1, 1.0), costs=(0.01, 1.0)),
    schedule=st.sampled_from(["dcd", "acf"]),
)
def test_a_solved_problem_is_certified_at_the_exact_optimum(problem, schedule):
    monitor = Monitor(tol=1e-5, max_iter=100_000)
    state = CoordinateDescent(schedule).solve(problem, State.zero(problem), monitor)
    assert monitor.status == "converged"
    certificate = certify_state(problem, state)
    assert certificate.relative_gap <= 1.01e-5
    best = exact(problem)
    slip = 1e-7 * max(1.0, abs(best))
    assert certificate.dual - slip <= best <= certificate.primal + slip


def test_values_by_hand():
    from widemargin.data import as_rows
    from widemargin.problem import Problem
    from widemargin.risk import Hinge

    rows = as_rows(np.array([[1.0], [-1.0]]))
    problem = Problem(rows, Hinge([1, -1], [1.0, 1.0]), Intercept.PENALIZED)
    # 1/2 0.5^2 + 1/2 0.1^2 + (1 - 0.6) + (1 - 0.4)
    assert upper_bound(problem, np.array([0.5]), 0.1).value == pytest.approx(1.13)
    (value, _), coef = lower_bound(problem, np.array([0.5, 0.25]))
    assert coef == pytest.approx([0.75])
    # sum of alpha - 1/2 0.75^2 - 1/2 (0.5 - 0.25)^2
    assert value == pytest.approx(0.75 - 0.28125 - 0.03125)


def test_a_free_intercept_needs_balanced_dual_variables():
    """Rows that tell nothing: the best b costs 2, and unbalanced alphas would "prove" 3."""
    from widemargin.data import as_rows
    from widemargin.problem import Problem
    from widemargin.risk import Hinge

    risk = Hinge([1, 1, -1], [1.0, 1.0, 1.0])
    problem = Problem(as_rows(np.zeros((3, 1))), risk, Intercept.FREE)
    assert exact(problem) == pytest.approx(2.0, abs=1e-6)
    assert lower_bound(problem, np.ones(3))[0].value == pytest.approx(2.0)
    best = risk.best_offset(np.zeros(3))
    assert upper_bound(problem, np.zeros(1), best).value == pytest.approx(2.0)


def test_totals_add_up_and_keep_their_parts():
    parts = [Certificate(3.0, 2.0), Certificate(5.0, 4.5)]
    total = Certificate.total(parts)
    assert (total.primal, total.dual, total.gap) == (8.0, 6.5, 1.5)
    assert total.relative_gap == pytest.approx(1.5 / 8.0)
    assert total.parts == tuple(parts)
    assert Certificate.total(parts[:1]) is parts[0]
    record = total.as_dict()
    assert record["gap"] == 1.5
    assert [part["gap"] for part in record["parts"]] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("primal", "dual", "words"),
    [
        (2.0, 1.999, "proved within 0.051 % of the optimum"),
        (2.0, 2.0, "proved optimal"),
        (2.0, 0.1, "proved at most 20.0 times the optimum"),
        (0.0, 0.0, "proved optimal"),
        (0.0, -1e-9, "proved optimal"),
        (2.0, 0.0, "with no useful bound on its distance to the optimum"),
        (np.nan, np.nan, "with no useful bound on its distance to the optimum"),
    ],
)
def test_certificate_in_words(primal, dual, words):
    assert Certificate(primal, dual).bound_in_words() == words


def test_numbers_that_are_no_numbers_prove_nothing():
    assert not Certificate(np.nan, 1.0).relative_gap <= 1e300
    assert Certificate(0.0, 0.0).relative_gap == 0.0


@settings(deadline=None, max_examples=150)
@given(
    problem=ranking_problems(),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.1, 1.0, 3.0]),
)
def test_any_tangents_prove_a_bound(problem, seed, scale):
    """Whatever points and weights: honest ones, of too large a sum, or negative."""
    monitor = Monitor(1e-4, 10_000)
    state = CuttingPlanes().solve(problem, State.zero(problem), monitor)
    best = monitor.certificate.primal * (1.0 + 1e-9)
    honest = state.dual
    assert lower_bound(problem, Tangents(1.1 * honest.weights, honest.coefs))[0].value <= best
    rng = np.random.default_rng(seed)
    points = np.concatenate(
        [honest.coefs, scale * rng.standard_normal((3, honest.coefs.shape[1]))]
    )
    weights = np.concatenate([honest.weights, rng.standard_normal(3)])
    assert lower_bound(problem, Tangents(weights, points))[0].value <= best


def test_a_time_is_written_out_for_people():
    seconds = [0.0041, 0.0994, 0.0997, 0.35, 12.0, 99.4, 99.7, 200.0]
    shown = ["4.1 ms", "99 ms", "0.1 s", "0.35 s", "12 s", "99 s", "1 min 40 s", "3 min 20 s"]
    assert [duration(time) for time in seconds] == shown


def test_a_share_is_written_out_for_people():
    shares = [0.5, 8.1e-4, 6.6e-7, 9.99e-7, 1e-8, 3e-9]
    shown = ["50 %", "0.081 %", "0.000066 %", "0.0001 %", "0.000001 %", "3e-07 %"]
    assert [percent(share) for share in shares] == shown
    shown = ["50 %", "0.081 %", "0.000066 %", "0.0001 %", "0.000001 %", "3e-07 %"]
    exactly = [Fraction(Decimal(str(share))) for share in shares]
    assert [percent_at_most(share) for share in exactly] == shown
    assert percent_at_most(0.0) == "0 %"
    assert percent_at_most(Fraction(99001, 10**6)) == "10 %"
    assert str(Certificate(1.0, 1.0 - 6.6e-7)).endswith("proved within 0.000067 % of the optimum")


@given(st.fractions(0, 10**6, max_denominator=10**15) | st.just(0.0) | st.floats(1e-300, 1e6))
def test_a_bound_in_words_is_never_below_the_bound(bound):
    shown = Fraction(Decimal(percent_at_most(bound).removesuffix(" %"))) / 100
    assert bound <= shown <= Fraction(bound) * Fraction(12, 10)
    shown = Fraction(Decimal(at_most(float(bound))))
    assert float(bound) <= shown <= Fraction(float(bound)) * Fraction(12, 10)


@given(dual=st.floats(1e-300, 1e300), ratio=st.floats(1.0, 1e5))
def test_a_certificate_in_words_claims_no_more_than_it_proves(dual, ratio):
    primal = dual * ratio
    words = Certificate(primal, dual).bound_in_words()
    excess = Fraction(primal) / Fraction(dual) - 1
    if words == "proved optimal":
        assert excess <= Fraction(1, 10**10)
        return
    (number,) = re.findall(r"(?:within|at most) ([0-9.,e+-]+)", words)
    claimed = Fraction(Decimal(number.replace(",", "")))
    assert excess <= (claimed / 100 if "%" in words else claimed - 1)


def test_the_intercept_of_a_model_is_the_weight_of_a_feature_rounded():
    """Scores are differences of large numbers: one rounding of the intercept shows."""
    rng, model = np.random.default_rng(0), LinearSVR(intercept_scaling=5.3e10)
    model.set_params(penalized_intercept=True)
    X, y, cost = np.full((20, 1), 1e16, dtype=np.float32), rng.normal(size=20), np.ones(20)
    rows = with_constant(as_rows(X), model)
    scaling, loss = Fraction(rows.constant), Loss("absolute", low=-1.0)
    problem = Problem(rows, TargetRisk(y, cost, loss), Intercept.NONE)
    for _ in range(20):
        coef = np.array([2128.8, -2128.8 + rng.normal()]) * rng.uniform(0.9, 1.1)
        coef /= X[0, 0], rows.constant
        offset = Fraction(rows.constant * coef[1])
        score = Fraction(float(X[0, 0])) * Fraction(coef[0]) + offset
        exact = (Fraction(coef[0]) ** 2 + (offset / scaling) ** 2) / 2
        exact += sum(abs(Fraction(target) - score) for target in y.tolist())
        bound = upper_bound(problem, coef, 0.0)
        assert exact <= Fraction(bound.value) <= exact * (1 + Fraction(1, 10**9))
