"""Certificates are true of the numbers that a model consists of, whatever rounding does."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.objective import exact_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from strategies import RISKS, TARGET_RISKS, gradings

from widemargin import LinearRanker, LinearSVC, LinearSVCCV, OrdinalSVC, certify
from widemargin.certificate import (
    Certificate,
    certify_state,
    dual_sums,
    lower_bound,
    proved_by,
    upper_bound,
)
from widemargin.data import as_rows
from widemargin.losses import Loss
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State, Tangents
from widemargin.risk import Bound, CrammerSinger, Hinge, PairwiseHinge, TargetRisk
from widemargin.solvers.descent import Descent
from widemargin.solvers.settings import CoordinateSettings

SCALES = (1e-30, 1e-8, 1.0, 1e5, 1e16, 1e30)


def exact_scores(X, coef, offset=0.0):
    coef = [Fraction(w) for w in coef.tolist()]
    return [
        sum((Fraction(x) * w for x, w in zip(row, coef)), start=Fraction(float(offset)))
        for row in np.asarray(X, dtype=np.float64).tolist()
    ]


def half_square(numbers):
    return sum((Fraction(number) ** 2 for number in np.ravel(numbers).tolist()), Fraction(0)) / 2


def exact_objective(problem, X, coef, offset):
    """P in exact arithmetic."""
    risk, total = problem.risk, half_square(coef)
    if problem.intercept is Intercept.PENALIZED:
        total += half_square(offset)
    if isinstance(risk, CrammerSinger):
        columns = [exact_scores(X, w, b) for w, b in zip(coef.T, offset)]
        for own, cost, *scores in zip(risk.y.tolist(), risk.cost.tolist(), *columns):
            worst = max((j != own) + s for j, s in enumerate(scores))
            total += Fraction(cost) * (worst - scores[own])
        return total
    scores = exact_scores(X, coef, offset)
    if isinstance(risk, PairwiseHinge):
        return total + exact_pairs(risk, scores)
    for (y, target), cost, s in zip(ways(risk), risk.cost.tolist(), scores):
        total += Fraction(cost) * exact_loss(risk.loss, target - y * s)
    return total


def ways(risk):
    """The sign and the target of each row."""
    targets = np.broadcast_to(risk.target, risk.cost.shape).tolist()
    return zip(risk.sign.tolist(), map(Fraction, targets))


def exact_pairs(risk, scores):
    rows = list(zip(risk.rows.tolist(), risk.member.tolist(), risk.level.tolist(), risk.weight))
    total = Fraction(0)
    for i, group, level, weight in rows:
        for j, other_group, other_level, other_weight in rows:
            if group == other_group and level > other_level:
                loss = max(Fraction(0), 1 - scores[i] + scores[j])
                total += Fraction(float(weight)) * Fraction(float(other_weight)) * loss
    return total


def exact_dual(problem, X, A):
    """D at feasible A, of a margin risk without a free intercept, in exact arithmetic."""
    risk = problem.risk
    columns = np.asarray(X, dtype=np.float64).T.tolist()
    A = [Fraction(a) for a in A.tolist()]
    w = [sum(Fraction(x) * a for x, a in zip(column, A)) for column in columns]
    if problem.intercept is Intercept.PENALIZED:
        w.append(sum(A))
    total = -sum(v * v for v in w) / 2
    for a, (y, target), cost in zip(A, ways(risk), risk.cost.tolist()):
        total += a * y * target - Fraction(risk.loss.eps) * abs(a)
        if risk.loss.bend and a:
            total -= Fraction(risk.loss.bend) * a * a / (2 * Fraction(cost))
    return total


@st.composite
def matrices(draw):
    """Small X, with columns and rows of very different size, and its generator."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = rng.integers(2, 9), rng.integers(1, 5)
    X = rng.standard_normal((n, d)) * draw(st.sampled_from(SCALES))
    kind = draw(st.sampled_from(["alike", "columns", "rows", "far"]))
    if kind == "columns":
        X = X * 10.0 ** rng.integers(-8, 8, d)
    elif kind == "rows":
        X = X * 10.0 ** rng.integers(-8, 8, n)[:, None]
    elif kind == "far":
        X = X + 1e10 * np.abs(X).max()
    if draw(st.booleans()):
        with np.errstate(over="ignore"):
            X = np.nan_to_num(X.astype(np.float32), posinf=1e38, neginf=-1e38)
    return X, rng


@st.composite
def stated_problems(draw):
    """A problem, its X, and a point.

    Of some, scores are small differences of large terms; of some, sums over rows are.
    """
    X, rng = draw(matrices())
    cancelling, opposing = draw(st.booleans()), draw(st.booleans())
    if cancelling:
        X = np.c_[X, X]
    if opposing:
        X = np.r_[X, X + np.float32(1e-6) * X * rng.standard_normal(X.shape).astype(X.dtype)]
    n, d = X.shape
    rows = as_rows(sp.csr_matrix(X) if draw(st.booleans()) else X)
    cost = draw(st.sampled_from([1e-8, 1.0, 1e10])) * 10.0 ** rng.integers(-12, 12, n)
    intercept = draw(st.sampled_from(Intercept))
    kind = draw(st.sampled_from([*RISKS, *TARGET_RISKS, CrammerSinger]))
    size = 1.0 / max(1e-300, float(np.abs(X).max()))
    if kind is CrammerSinger:
        problem = Problem(rows, CrammerSinger(rng.integers(0, 3, n), cost, 3), intercept)
        coef, offset = size * rng.standard_normal((d, 3)), rng.standard_normal(3)
        dual = cost[:, None] * rng.random((n, 3))
    else:
        y, dual = np.where(rng.random(n) < 0.5, 1, -1), cost * rng.random(n)
        if opposing:
            y = np.r_[y[: n // 2], -y[: n // 2]]
            cost, dual = np.tile(cost[: n // 2], 2), np.tile(dual[: n // 2], 2)
        risk = kind(y, cost)
        if isinstance(risk, TargetRisk):
            scale = draw(st.sampled_from([1e-10, 1.0, 1e10]))
            risk = risk.over(scale * risk.y + draw(st.sampled_from([0.0, 1e3, 1e12])), cost)
        problem = Problem(rows, risk, intercept)
        coef, offset = size * rng.standard_normal(d), float(rng.standard_normal())
    if cancelling:
        large = 1e9 * coef[: d // 2]
        coef[: d // 2] += large
        coef[d // 2 :] -= large
    if intercept is Intercept.NONE:
        offset = 0.0 * offset
    return problem, X, State(coef, offset, dual)


@settings(deadline=None, max_examples=150)
@given(stated=stated_problems())
def test_the_primal_value_is_no_smaller_than_the_true_one(stated):
    problem, X, state = stated
    found = upper_bound(problem, state.coef, state.offset)
    true = exact_objective(problem, X, state.coef, state.offset)
    assert Fraction(found.value) >= true
    # Nor by more larger than it says; which is what plain arithmetic is off by, about.
    assert Fraction(found.value) - true <= 3 * Fraction(found.rounding) + true / 10**12


@settings(deadline=None, max_examples=150)
@given(stated=stated_problems())
def test_the_dual_value_is_no_larger_than_any_true_objective(stated):
    problem, X, state = stated
    certificate = certify_state(problem, state)
    dual = Fraction(certificate.dual)
    zero = exact_objective(problem, X, 0.0 * state.coef, 0.0 * state.offset)
    assert dual <= zero
    # The point that goes with the dual variables, which is near the optimum if they are.
    bound, coef = lower_bound(problem, state.dual)
    if np.isfinite(coef).all():
        assert dual <= exact_objective(problem, X, coef, state.offset)
    risk = problem.risk
    if problem.intercept is not Intercept.FREE and not isinstance(risk, CrammerSinger):
        A = risk.feasible(risk.signed(state.dual))
        sums = dual_sums(problem.rows, risk, A, problem.rows.combine(A))
        for found in (bound, sums.bound(problem.intercept)):  # after a closer look, and before
            if np.isfinite(found.value):
                assert Fraction(found.value) <= exact_dual(problem, X, A)


@settings(deadline=None, max_examples=150)
@given(stated=stated_problems(), far=st.sampled_from([1e-3, 1.0, 1e6, 1e16]), seed=st.integers(0))
def test_the_dual_value_by_a_product_for_other_dual_variables(stated, far, seed):
    """Large terms that cancel leave the rounding of both products."""
    problem, X, state = stated
    rows, risk, intercept = problem.rows, problem.risk, problem.intercept
    if intercept is Intercept.FREE or isinstance(risk, CrammerSinger):
        return
    rng = np.random.default_rng(seed)
    A = risk.feasible(risk.signed(state.dual))
    some = rng.random(A.size) < 0.5
    known = A + np.where(some, far * np.abs(A).max() * rng.standard_normal(A.size), 0.0)
    change = A - known
    combined = rows.combine(known) + rows.combine(change)
    sums = dual_sums(rows, risk, A, combined, change)
    for found in (sums.bound(intercept), proved_by(problem, A, combined, change=change)):
        if np.isfinite(found.value):
            assert Fraction(found.value) <= exact_dual(problem, X, A)
    # A small change of A may be large in X^T A: of long rows that A leaves out.
    moved, pull = (float(np.abs(each) @ rows.lengths) for each in (change, A))
    if far == 1e-3 and np.isfinite(combined).all() and np.isfinite(sums.pull) and moved < pull:
        exact = lower_bound(problem, state.dual)[0]
        assert proved_by(problem, A, combined, change=change).rounding <= 3.0 * exact.rounding


@settings(deadline=None, max_examples=100)
@given(data=st.data(), scale=st.sampled_from([1.0, 1e6, 1e12]))
def test_a_ranking_is_certified_within_rounding(data, scale):
    X, rng = data.draw(matrices())
    n, d = X.shape
    y, weight, group = data.draw(gradings(n))
    weight = weight * 10.0 ** rng.integers(-6, 6, n)
    problem = Problem(as_rows(X), PairwiseHinge(y, weight, group), Intercept.NONE)
    size = scale / max(1e-300, float(np.abs(X).max()))
    coef, points = size * rng.standard_normal(d), size * rng.standard_normal((2, d))
    certificate = certify_state(problem, State(coef, 0.0, Tangents(np.array([0.5, 0.5]), points)))
    assert Fraction(certificate.primal) >= exact_objective(problem, X, coef, 0.0)
    for point in (0.0 * coef, coef, *points):
        assert Fraction(certificate.dual) <= exact_objective(problem, X, point, 0.0)


@settings(deadline=None, max_examples=100)
@given(matrix=matrices(), sparse=st.booleans())
def test_scores_in_twice_the_precision(matrix, sparse):
    X, rng = matrix
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    coef = rng.standard_normal(X.shape[1]) * 10.0 ** rng.integers(-5, 5, X.shape[1])
    high, low, sizes = rows.precise_scores(np.arange(len(X)), coef, 0.3)
    np.testing.assert_allclose(sizes, np.abs(X).astype(np.float64) @ np.abs(coef) + 0.3)
    for found, rest, true, size in zip(high, low, exact_scores(X, coef, 0.3), sizes):
        assert abs(Fraction(found) + Fraction(rest) - true) <= Fraction(1e-30) * Fraction(size)
    np.testing.assert_allclose(
        rows.combine_sizes(np.arange(len(X)) - 1.0),
        np.abs(X).astype(np.float64).T @ np.abs(np.arange(len(X)) - 1.0),
    )


def test_rounding_of_scores_is_no_proof():
    """Losses of 1e-16 a row, at a cost of 1e6, are more than the penalty of such coefficients."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 40)) * 1e5, np.where(rng.random(30) < 0.5, 1, -1)
    model = LinearSVC(C=1e6, loss="hinge", fit_intercept=False, tol=1e-8).fit(X, y)
    problem = Problem(as_rows(X), Hinge(y, np.full(30, 1e6)), Intercept.NONE)
    assert Fraction(model.certificate_.primal) >= exact_objective(problem, X, model.coef_[0], 0.0)
    assert model.certificate_.gap >= 0.0
    assert certify(model, X, y) == model.certificate_


@pytest.mark.parametrize("far", [1e8, 1e9, 1e10])
def test_where_float64_cannot_prove_the_tolerance_it_says_so(far):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)) + far, np.arange(40) % 2
    with pytest.warns(ConvergenceWarning, match="float64 cannot prove more"):
        model = LinearSVC(tol=1e-6, max_time=5.0, random_state=0).fit(X, y)
    assert model.status_ == "rounding"
    assert model.certificate_.relative_gap > 1e-6
    assert model.certificate_.rounding > 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["dcd", "acf"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("far", [1e8, 1e10, 1e12, 1e15])
def test_rows_far_from_zero_leave_coordinate_descent_numbers(solver, loss, far):
    """What |x - mean|^2 is, beside |x|^2, is all rounding there; it was negative for some rows."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)) + far, np.arange(40) % 2
    model = LinearSVC(solver=solver, loss=loss, max_iter=50, random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.coef_.any() or model.certificate_.dual > 0.0
    assert 0.0 <= model.certificate_.dual <= model.certificate_.primal


def test_a_ranking_is_the_same_wherever_columns_are():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(40), np.arange(40) % 2
    near = LinearRanker(tol=1e-6).fit(x[:, None], y)
    far = LinearRanker(tol=1e-6).fit(np.c_[np.full(40, 1e16), x], y)
    assert far.status_ == "converged"
    assert far.certificate_.primal == pytest.approx(near.certificate_.primal, rel=1e-6)
    assert far.coef_[0] == 0.0
    assert certify(far, np.c_[np.full(40, 1e16), x], y) == far.certificate_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_shifted_exactly(dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((20, 4)) + np.array([1e6, 0.0, -1e5, 3.0])).astype(dtype)
    shifted = as_rows(X).near_origin().matrix
    assert np.abs(shifted).max() < 10.0
    for column, there in zip(X.T.tolist(), shifted.T.tolist()):
        moves = {Fraction(a) - Fraction(b) for a, b in zip(column, there)}
        assert len(moves) == 1
    rows = as_rows(rng.standard_normal((20, 4)))
    assert rows.near_origin() is rows


def test_scores_so_large_that_one_is_lost_beside_them():
    """Equal scores of 1e17 lack a whole margin, which reordered arithmetic rounds away."""
    risk = PairwiseHinge(np.array([0, 1, 2]), np.ones(3))
    for size in (1.0, 1e10, 1e17, 1e20):
        assert risk.value(np.full(3, size)) == pytest.approx(3.0)
    many = PairwiseHinge(np.repeat([0, 1], 200), np.ones(400))
    assert many.value(np.full(400, 1e17)) >= 200.0 * 200.0


@pytest.mark.parametrize(
    ("weights", "pairs"), [([1e-12, 1e6], 1e-6), ([1e6, 1e-12], 1e-6), ([1e9, 1e9], 1e18)]
)
def test_pairs_of_weights_of_very_different_size(weights, pairs):
    risk = PairwiseHinge(np.array([0, 1]), np.array(weights))
    np.testing.assert_allclose(risk.weigh_pairs(), [pairs], rtol=1e-12)
    model = LinearRanker(max_iter=100).fit([[0.0], [1.0]], [0, 1], sample_weight=weights)
    assert np.isfinite(model.coef_).all()
    assert model.certificate_.relative_gap <= 1e-3


def test_queries_of_weights_of_very_different_size():
    X, qid, weights = [[0.0], [1.0]] * 2, [0, 0, 1, 1], np.repeat([1e9, 1e-8], 2)
    for normalization in ("pairs", "queries"):
        model = LinearRanker(normalization=normalization)
        model.fit(X, [0, 1] * 2, qid=qid, sample_weight=weights)
        assert np.isfinite(model.coef_).all()
        assert model.certificate_.relative_gap <= 1e-3


def test_an_ordinal_objective_of_weights_of_very_different_size():
    model = OrdinalSVC(C=1.0).fit([[0.0], [0.0]], [0, 1], sample_weight=[1e-6, 1e6])
    assert model.certificate_.primal == pytest.approx(1000000.000001, rel=1e-12)


def test_a_lower_bound_above_the_objective_is_no_success():
    monitor = Monitor(tol=1e-3, max_iter=10)
    assert monitor.check(Certificate(1.0, 2.0), None, 0)
    assert monitor.status == "inconsistent"
    assert "neither is to be trusted" in str(Certificate(1.0, 2.0))


def test_a_point_that_is_no_number_ends_coordinate_descent():
    problem = Problem(as_rows(np.ones((2, 1))), Hinge([1, -1], [1.0, 1.0]), Intercept.NONE)

    class Lost(Descent):
        _advance = _check = None

    monitor = Monitor(tol=1e-3, max_iter=10)
    lost = Lost(problem, State.zero(problem), monitor, CoordinateSettings())
    with pytest.raises(FloatingPointError, match="left the range of float64"):
        lost._remember(np.zeros(1), 0.0, np.zeros(2), Bound(np.nan, 0.0), None, Bound(0.0, 0.0))


@pytest.mark.parametrize("values", [(np.nan, 0.0), (1.0, np.nan), (np.inf, 0.0), (1.0, -np.inf)])
def test_a_certificate_that_is_no_number_ends_the_run(values):
    with pytest.raises(FloatingPointError, match="left the range of float64"):
        Monitor(tol=1e-3, max_iter=10).check(Certificate(*values), None, 0)


def test_a_row_near_the_end_of_single_precision():
    """Found by fuzzing: Newton's method hands over to "acf", whose w overflowed."""
    rows = [
        -8497723, -238671152, -440500032, -1126908416, -949363968, 225103712, -328789056,
        917122496, 375713760, -92541800, 112504480, 429696736, -424608768, 1e30, 932986304,
        -534435488, 1586007040, -1309627904, -373922400, 587755200, 1622342784, -324152672,
        1017849472, -551342784, 739270016, -1242811776, -591066752, 765816640, -506498048,
        2037060480, -92822728, 340283072, 1188840320, 77911368, 393567712, -439048992,
        -153284192, 1190301568,
    ]  # fmt: skip
    y = [int(label) for label in "01011111001011100001111000010011111011"]
    X = np.array(rows, dtype=np.float32)[:, None]
    Cs, tol = [0.7019903725690936, 27078.428321013405, 13.28665253790253], 0.02085085035698413
    model = LinearSVCCV(Cs=Cs, cv=2, tol=tol, max_iter=200, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert 0.0 < model.certificate_.dual < model.certificate_.primal < 30.0


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), far=st.sampled_from([1.0, 1e6, 1e12]))
@pytest.mark.parametrize("intercept", [Intercept.NONE, Intercept.PENALIZED, Intercept.FREE])
def test_a_dual_value_of_large_terms_that_cancel(intercept, seed, far):
    """The sum of targets times dual variables is then all rounding."""
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 400)
    targets, A = far + rng.random(n), rng.standard_normal(n)
    A[-1] -= A.sum() if intercept is Intercept.FREE else (targets @ A) / targets[-1]
    cost = 2.0 * np.abs(A) + 1.0
    risk = TargetRisk(targets, cost, Loss("absolute", low=-1.0))
    rows = as_rows(np.zeros((n, 1)))
    found = dual_sums(rows, risk, A, np.zeros(1)).bound(intercept)
    total = sum(map(Fraction, A.tolist()))
    height = sum(Fraction(t) * Fraction(a) for t, a in zip(targets.tolist(), A.tolist()))
    if intercept is Intercept.PENALIZED:
        height -= total * total / 2
    elif intercept is Intercept.FREE:  # one of those with the sign of the excess gives it up
        able = [i for i in range(n) if A[i] * float(total) > 0 and abs(A[i]) >= abs(total)]
        height -= max((total * Fraction(targets[i]) for i in able), default=0)
    assert Fraction(found.value) <= height
    assert height - Fraction(found.value) <= Fraction(1e-12 * far * n)
