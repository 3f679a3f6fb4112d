"""Sparse weights: certificates and optima, beside Clarabel and scikit-learn."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.svm import LinearSVC as SklearnLinearSVC
from sklearn.svm import l1_min_c

from tests.exact import optimum_of
from widemargin import (
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    certify,
    prove,
    svm_path,
)
from widemargin.certificate import certify_state, lower_bound
from widemargin.data import as_rows
from widemargin.losses import HINGE, SMOOTH_HINGE, SQUARED_HINGE, TARGET_LOSSES, Shape
from widemargin.monitor import Monitor
from widemargin.penalty import Penalty
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import MarginRisk, TargetRisk
from widemargin.solvers.feature_descent import FeatureDescent
from widemargin.solvers.feature_settings import FeatureSettings

PENALTIES = [Penalty(1.0, 0.0), Penalty(0.5, 0.5), Penalty(0.95, 0.05)]
SHAPE = Shape(epsilon=0.25, delta=0.5)
LOSSES = [
    SQUARED_HINGE,
    SMOOTH_HINGE,
    TARGET_LOSSES["squared_epsilon_insensitive"](SHAPE),
    TARGET_LOSSES["squared_epsilon_insensitive"](Shape()),
    TARGET_LOSSES["huber"](SHAPE),
]
#: models by columns for any number of features, or by Gram matrices
WAYS = {
    "columns": FeatureSettings(most_in_gram=0, smallest_set=2),
    "steps of columns alone": FeatureSettings(most_in_gram=0, largest_support=0),
    "gram": FeatureSettings(),
}

# Of 45 cases, each loss and each intercept meets each of four ways in turn.
WAYS_IN_TURN = itertools.cycle([*WAYS, "gram"])


def made(seed, n, d, loss, penalty, intercept, C=1.0, sparse=False):
    """Return a problem of random rows, some columns of which are equal, zero, or zero in most."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < 0.6)
    X[:, d // 2] = X[:, 0]
    X[:, -1] = 0.0
    cost = C * random.choice([0.0, 0.5, 1.0, 3.0], n)
    cost[:2] = C
    y = np.where(random.random(n) < 0.4, -1, 1)
    y[:2] = -1, 1
    rows = as_rows(sp.csr_array(X) if sparse else X)
    targets = loss.low < 0.0
    risk = TargetRisk(y * random.exponential(2.0, n), cost, loss) if targets else MarginRisk(
        y, cost, loss
    )  # fmt: skip
    return Problem(rows, risk, intercept, penalty)


def solved(problem, tol=1e-7, settings=WAYS["gram"], most=300):
    monitor = Monitor(tol, most)
    state = FeatureDescent(settings).solve(problem, State.zero(problem), monitor)
    return state, monitor


CASES = [
    (*case, way)
    for case, way in zip(itertools.product(PENALTIES, LOSSES, Intercept), WAYS_IN_TURN)
]


@pytest.mark.parametrize(("penalty", "loss", "intercept", "way"), CASES)
def test_optima_are_those_of_clarabel(penalty, loss, intercept, way):
    sparse = loss.bend == 0.5
    problem = made(3, 24, 9, loss, penalty, intercept, sparse=sparse)
    state, monitor = solved(problem, settings=WAYS[way])
    certificate = certify_state(problem, state)
    best = optimum_of(problem)
    assert monitor.status == "converged"
    assert certificate.relative_gap <= 1.01e-7
    assert certificate.primal >= best * (1.0 - 1e-8)
    assert certificate.dual <= best * (1.0 + 1e-8)
    assert state.coef[-1] == 0.0


@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(3, 20), st.integers(2, 12)),
    loss=st.sampled_from(LOSSES),
    penalty=st.sampled_from(PENALTIES),
    intercept=st.sampled_from(Intercept),
    C=st.sampled_from([1e-4, 0.1, 1.0, 30.0]),
    way=st.sampled_from(list(WAYS)),
)
def test_any_problem_is_solved_and_certified(seed, shape, loss, penalty, intercept, C, way):
    problem = made(seed, *shape, loss, penalty, intercept, C, sparse=bool(seed % 2))
    state, monitor = solved(problem, 1e-4, WAYS[way], 3000)
    assert monitor.status in ("converged", "rounding")
    assert certify_state(problem, state).relative_gap <= 1.01e-4 or monitor.status == "rounding"


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(LOSSES),
    penalty=st.sampled_from(PENALTIES),
    intercept=st.sampled_from(Intercept),
    size=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_any_dual_variables_give_a_lower_bound(seed, loss, penalty, intercept, size):
    problem = made(seed % 5, 12, 5, loss, penalty, intercept)
    dual = size * np.random.default_rng(seed).standard_normal(12)
    bound, _ = lower_bound(problem, problem.risk.unsigned(problem.risk.feasible(dual)))
    best = BEST.setdefault((seed % 5, loss, penalty, intercept), None)
    if best is None:
        best = BEST[seed % 5, loss, penalty, intercept] = optimum_of(problem)
    assert bound.value <= best * (1.0 + 1e-7)


BEST: dict = {}


def test_the_bound_of_x_t_a_holds_in_fractions():
    """Dual variables that reach the bound |X^T A| = 1 but for rounding are scaled below it."""
    from fractions import Fraction

    random = np.random.default_rng(0)
    X = random.standard_normal((200, 3)) * 10.0 ** random.integers(-6, 6, (200, 1))
    y = np.where(X[:, 0] > 0, 1, -1)
    problem = Problem(as_rows(X), MarginRisk(y, np.ones(200), SQUARED_HINGE), Intercept.NONE,
                      Penalty(1.0, 0.0))  # fmt: skip
    state, _ = solved(problem, 1e-10)
    alpha = state.dual * 1.7
    bound, _ = lower_bound(problem, alpha)
    exact = [Fraction(float(a)) * int(s) for a, s in zip(alpha, y)]
    pulls = [abs(sum(a * Fraction(float(x)) for a, x in zip(exact, X[:, j]))) for j in range(3)]
    scale = min(Fraction(1), 1 / max(pulls))
    terms = [scale * Fraction(float(a)) for a in alpha]
    value = sum(a - a * a / 4 for a in terms)
    assert bound.value <= value
    assert bound.value >= float(value) * (1.0 - 1e-6)


class TestBesideScikitLearn:
    X = np.random.default_rng(1).standard_normal((60, 15))
    y = np.sign(X[:, 0] - X[:, 3] + 0.3 * np.random.default_rng(2).standard_normal(60))

    @pytest.mark.parametrize("C", [0.05, 1.0])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_linear_svc(self, C, fit_intercept):
        shared = {"penalty": "l1", "dual": False, "C": C, "fit_intercept": fit_intercept}
        theirs = SklearnLinearSVC(**shared, tol=1e-10, max_iter=10**6, random_state=0)
        ours = LinearSVC(**shared, penalized_intercept=True, tol=1e-9).fit(self.X, self.y)
        theirs.fit(self.X, self.y)
        assert np.allclose(ours.coef_, theirs.coef_, atol=1e-5)
        assert np.allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
        assert np.array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
        assert ours.solver_ == "proximal"
        assert certify(ours, self.X, self.y).relative_gap <= 1.01e-9

    def test_the_least_c_is_theirs(self):
        least = l1_min_c(self.X, self.y, loss="squared_hinge", fit_intercept=True)
        for factor, none in ((0.999, True), (1.001, False)):
            shared = {"penalty": "l1", "penalized_intercept": True, "tol": 1e-10}
            model = LinearSVC(C=factor * least, **shared).fit(self.X, self.y)
            assert (not model.coef_.any() and not model.intercept_.any()) == none

    def test_paths_and_folds(self):
        path = svm_path(self.X, self.y, Cs=[0.01, 0.1, 1.0], penalty="l1", tol=1e-6)
        assert max(each.relative_gap for each in path.certificates) <= 1e-6
        counts = np.count_nonzero(path.coefs, axis=(1, 2))
        assert counts[0] < counts[1] < counts[2]
        search = LinearSVCCV(penalty="elasticnet", l1_ratio=0.9, Cs=[0.1, 1.0], cv=2)
        assert search.fit(self.X, self.y).best_estimator_.certificate_.relative_gap <= 1e-3

    def test_several_classes_and_threads(self):
        y = np.digitize(self.X[:, 1], [-0.5, 0.5])
        one = LinearSVC(penalty="l1", C=0.5).fit(self.X, y)
        two = LinearSVC(penalty="l1", C=0.5, n_jobs=2).fit(sp.csr_matrix(self.X), y)
        assert np.allclose(one.coef_, two.coef_, atol=1e-3)
        assert one.certificate_.relative_gap <= 1e-3

    @pytest.mark.parametrize("ratio", [1.0, 0.3])
    def test_lasso_and_elastic_net(self, ratio):
        target = self.X @ np.r_[1.0, -2.0, np.zeros(13)] + 3.0
        alpha = 0.05
        theirs = ElasticNet(alpha, l1_ratio=ratio, tol=1e-12).fit(self.X, target)
        ours = LinearSVR(
            loss="squared_epsilon_insensitive", penalty="elasticnet", l1_ratio=ratio,
            C=1.0 / (2 * 60 * alpha), tol=1e-9,
        ).fit(self.X, target)  # fmt: skip
        assert np.allclose(ours.coef_, theirs.coef_, atol=1e-5)
        assert np.isclose(ours.intercept_, theirs.intercept_, atol=1e-5)


class TestWhatIsRefused:
    X, y = np.eye(4), np.array([1, -1, 1, -1])

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"loss": "hinge"}, "penalty='l1' and loss='hinge' is not supported"),
            ({"dual": True}, "are not supported when dual=True"),
            ({"multi_class": "crammer_singer"}, "penalty='l1' is not for multi_class"),
            ({"solver": "acf"}, "solver='acf' is for penalty='l2': penalty='l1' needs one of"),
            ({"penalty": "l2", "solver": "proximal"}, "penalty='l1' or 'elasticnet'"),
            ({"penalty": "elasticnet", "l1_ratio": 1.5}, "l1_ratio must be a number from 0 to 1"),
            ({"penalty": "l3"}, "penalty must be one of 'l2', 'l1', 'elasticnet', not 'l3'"),
        ],
    )
    def test_in_words(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            LinearSVC(**({"penalty": "l1"} | parameters)).fit(self.X, self.y)

    def test_proofs_of_where_the_optimum_is(self):
        model = LinearSVC(penalty="l1").fit(self.X, self.y)
        with pytest.raises(ValueError, match="proofs are for penalty='l2'"):
            prove(model, self.X, self.y)

    def test_losses_with_kinks(self):
        problem = Problem(as_rows(self.X), MarginRisk(self.y, np.ones(4), HINGE),
                          Intercept.NONE, Penalty(1.0, 0.0))  # fmt: skip
        with pytest.raises(ValueError, match="penalty='l1' needs a smooth loss, and hinge has"):
            solved(problem)


class TestUglyInputs:
    random = np.random.default_rng(0)
    X = random.standard_normal((30, 6))
    y = np.where(X[:, 0] + 0.5 * random.standard_normal(30) > 0, 1, -1)

    def test_below_the_least_c_all_weights_are_zero(self):
        model = LinearSVC(penalty="l1", C=1e-5).fit(self.X, self.y)
        assert not model.coef_.any()
        assert model.certificate_.relative_gap < 1e-12

    @pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8])
    def test_any_scale_of_the_features(self, scale):
        plain = LinearSVC(penalty="l1", C=1.0, tol=1e-6).fit(self.X, self.y)
        model = LinearSVC(penalty="l1", C=1.0, tol=1e-6, max_iter=500)
        model.fit(scale * self.X, self.y)
        assert certify(model, scale * self.X, self.y).relative_gap <= 1e-5
        assert model.certificate_.relative_gap <= 1e-5
        assert plain.certificate_.relative_gap <= 1e-6

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("scale", [1e15, 1e30])
    def test_an_objective_that_all_but_vanishes_is_bounded_honestly(self, scale):
        """Losses are squares of residuals, which are all rounding here."""
        model = LinearSVC(penalty="l1", max_iter=500).fit(scale * self.X, self.y)
        assert model.status_ in ("converged", "rounding", "max_iter")
        assert 0.0 <= model.certificate_.dual <= model.certificate_.primal < 1e-10

    def test_columns_of_all_scales(self):
        X = self.X * 10.0 ** np.arange(-9, 9, 3)
        model = LinearSVC(penalty="l1", tol=1e-4, max_iter=500).fit(X, self.y)
        assert model.certificate_.relative_gap <= 1e-4

    @pytest.mark.parametrize("C", [1e6, 1e10])
    def test_a_huge_c(self, C):
        model = LinearSVC(penalty="l1", C=C, tol=1e-3, max_iter=2000).fit(self.X, self.y)
        assert model.certificate_.relative_gap <= 1e-3

    def test_one_feature_and_more_features_than_rows(self):
        assert LinearSVC(penalty="l1").fit(self.X[:, :1], self.y).status_ == "converged"
        wide = self.random.standard_normal((10, 900))
        for X in (wide, sp.csr_matrix(wide), wide.astype(np.float32)):
            model = LinearSVC(penalty="l1", tol=1e-6).fit(X, self.y[:10])
            assert model.status_ == "converged"
            assert np.count_nonzero(model.coef_) <= 10


@pytest.mark.parametrize("C", [0.02, 1.0])
@pytest.mark.parametrize("sparse", [True, False])
def test_logistic_regression_beside_saga(C, sparse):
    X, y = TestBesideScikitLearn.X, TestBesideScikitLearn.y
    theirs = SklearnLogistic(penalty="l1", solver="saga", C=C, tol=1e-10, max_iter=10**5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of `penalty`, which 1.6 needs
        theirs.fit(X, y)
    ours = LogisticRegression(penalty="l1", C=C, tol=1e-10)
    ours.fit(sp.csr_matrix(X) if sparse else X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert np.array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    assert certify(ours, X, y).relative_gap <= 1.01e-10


def test_sparse_rows_far_from_zero_are_trained_as_dense_ones_are():
    """The Gram matrix is one of rows about their mean: else it has no digits left of them."""
    X, y = np.random.default_rng(1).standard_normal((20, 15)) + 1e6, np.arange(20) % 2
    model = LinearSVC(penalty="elasticnet", l1_ratio=0.9, C=1e5, max_iter=300)
    dense = model.fit(X, y).certificate_.primal
    model.fit(sp.csr_matrix(X), y)
    assert model.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(dense, rel=2e-3)


def test_scales_far_apart_bring_no_warning_of_a_library(recwarn):
    """A Gram matrix is nearly singular then, and steps are tried anyway."""
    X = np.random.default_rng(0).standard_normal((40, 2)) * [1.0, 1e-20]
    y = np.arange(40) % 2
    LinearSVC(penalty="l1", C=1e20, max_iter=20, tol=1e-8).fit(X + y[:, None] * [1.0, 1e-20], y)
    # Curvature is lost to rounding, and models have no minimum.
    X = np.round(np.random.default_rng(3).standard_normal((30, 19)))
    model = LinearSVC(penalty="elasticnet", l1_ratio=1e-6, C=3e9, max_iter=30)
    for form in (np.asarray, sp.csr_matrix):
        model.fit(form((1.4987623e10 * X).astype(np.float32)), y[:30])
    assert {warning.category for warning in recwarn} <= {ConvergenceWarning}
