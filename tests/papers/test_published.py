"""Solvers to the letter against the papers' pseudocode in plain NumPy, iterate by iterate."""

import numpy as np
import pytest
import scipy.sparse as sp
from papers import arnosti, cutting_planes, descent
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from widemargin import LinearRanker, LinearSVC, LinearSVCCV, svm_path
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import CrammerSinger, Hinge
from widemargin.solvers import auto, published_descent
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.oracle import Oracle
from widemargin.solvers.settings import PUBLISHED_PLANES


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), np.where(y == 1, 1, -1)


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200] / 16.0, np.where(y[:200] % 2 == 1, 1, -1)


def sparse_words():
    """More features than rows, most of them zero."""
    rng = np.random.default_rng(0)
    X = sp.random(120, 200, density=0.05, format="csr", random_state=0)
    return X.toarray(), np.where(X @ rng.standard_normal(200) > 0.0, 1, -1)


TWO_CLASSES = [breast_cancer, digits, sparse_words]


def many_classes(load):
    X, y = load(return_X_y=True)
    return scale(X[::3]), y[::3]


def problem_of(X, y, C, multi=False):
    """Rows as they are stored most often: CSR, if most entries are zero."""
    cost = np.full(len(y), C)
    stored = sp.csr_matrix(X) if np.mean(X == 0.0) > 0.5 else X
    risk = CrammerSinger(y, cost, y.max() + 1) if multi else Hinge(y, cost)
    return Problem(as_rows(stored), risk, Intercept.NONE)


class Watched(Oracle):
    """Notes each point that is gone to."""

    def __init__(self, problem, monitor):
        super().__init__(problem, monitor)
        self.points = []

    def jump(self, target):
        return self.noted(super().jump(target))

    def step(self, *arguments):
        return self.noted(super().step(*arguments))

    def noted(self, answer):
        self.points.append(answer.center.vector.copy())
        return answer


def planes_of(problem, method, eps):
    """Return the points of a published method, and its monitor."""
    monitor = Monitor(eps, 10_000)
    oracle = Watched(problem, monitor)
    CuttingPlanes(method, PUBLISHED_PLANES[method]).ask(oracle, State.zero(problem))
    return oracle.points, monitor


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, printed in zip(ours, theirs, strict=True):
        printed = np.ravel(printed)
        np.testing.assert_allclose(mine, printed, rtol=0, atol=1e-9 * max(1.0, abs(printed).max()))


@pytest.mark.parametrize("data", TWO_CLASSES)
@pytest.mark.parametrize("C_avg", [1.0, 100.0])
def test_cpa(data, C_avg):
    X, y = data()
    ours, monitor = planes_of(problem_of(X, y, C_avg / len(y)), "cpa", 1e-3)
    assert monitor.status == "published"
    assert_same(ours, cutting_planes.cpa(X, y, C_avg, 1e-3)[1:])


@pytest.mark.parametrize("data", TWO_CLASSES)
@pytest.mark.parametrize("C_avg", [1.0, 100.0])
def test_ocas(data, C_avg):
    X, y = data()
    ours, monitor = planes_of(problem_of(X, y, C_avg / len(y)), "ocas", 1e-3)
    assert monitor.status == "published"
    assert monitor.certificate.relative_gap <= 1e-3 * (1 + 1e-6)
    assert_same(ours, cutting_planes.ocas(X, y, C_avg, 1e-3)[1:])


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
@pytest.mark.parametrize("search", [arnosti.gca, arnosti.gca2, arnosti.tca])
def test_cheaper_line_searches(load, search):
    X, y = many_classes(load)
    ours, monitor = planes_of(problem_of(X, y, 10.0 / len(y), True), search.__name__, 1e-2)
    assert monitor.status == "published"
    assert_same(ours, arnosti.oca(X, y, 10.0, 1e-2, search))


def test_a_rule_on_the_risk_is_the_papers_for_pairs_of_rows_too():
    """Joachims 2006, Algorithm 2: the slack may be off by eps, as a fraction of all pairs."""
    X, y = breast_cancer()
    pairs = LinearRanker(C=10.0, solver="cpa-paper", tol=0.01).fit(X, y)
    assert pairs.status_ == "published"
    certificate = pairs.certificate_
    assert 0.0 < certificate.gap <= 0.01 * 10.0 * len(y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smooth_hinge"])
@pytest.mark.parametrize("solver", ["dcd-paper", "acf-paper"])
@pytest.mark.parametrize("penalized", [False, True])
def test_a_small_eps_is_a_small_gap(solver, loss, penalized):
    """Of all problems that the papers' steps can solve; the certificate is the library's."""
    X, y = digits()
    intercept = {"fit_intercept": penalized, "penalized_intercept": penalized}
    model = LinearSVC(solver=solver, loss=loss, tol=1e-4, random_state=0, **intercept).fit(X, y)
    assert (model.status_, model.solver_) == ("published", solver)
    assert 0.0 <= model.certificate_.relative_gap <= 1e-3
    best = LinearSVC(solver="newton", loss=loss, tol=1e-6, **intercept).fit(X, y)
    assert best.certificate_.dual <= model.certificate_.primal
    np.testing.assert_allclose(model.intercept_, best.intercept_, atol=1e-2)


@pytest.mark.parametrize("solver", ["dcd-paper", "acf-paper", "cpa-paper"])
def test_limits_stop_what_the_rule_does_not(solver):
    X, y = breast_cancer()
    settings = {"loss": "hinge", "fit_intercept": False, "C": 100.0, "tol": 1e-6}
    model = LinearSVC(solver=solver, max_iter=3, random_state=0, **settings)
    with pytest.warns(ConvergenceWarning, match="before its paper's rule held for tol=1e-06"):
        model.fit(X, y)
    assert model.status_ == "max_iter"
    assert np.isfinite(model.certificate_.gap)


def test_several_classes_and_a_warm_start():
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(
        solver="dcd-paper", loss="hinge", penalized_intercept=True, tol=0.01, random_state=0,
        warm_start=True, C=0.1,
    )  # fmt: skip
    passes = model.fit(scale(X), y).n_iter_
    assert model.status_ == "published"
    assert model.fit(scale(X), y).n_iter_ <= passes


def test_paths_and_folds_take_them_too():
    X, y = breast_cancer()
    settings = {"loss": "hinge", "fit_intercept": False, "solver": "acf-paper", "tol": 0.01}
    path = svm_path(X, y, Cs=[0.01, 0.1], random_state=0, **settings)
    assert list(path.statuses) == ["published", "published"]
    search = LinearSVCCV(Cs=[0.01, 0.1], cv=3, random_state=0, **settings).fit(X, y)
    assert search.score(X, y) > 0.95


@pytest.mark.parametrize("solver", ["dcd-paper", "acf-paper"])
def test_an_intercept_that_the_papers_do_not_have_is_refused(solver):
    X, y = breast_cancer()
    with pytest.raises(ValueError, match=f"'{solver}' has no free intercept.*penalized"):
        LinearSVC(solver=solver).fit(X, y)


@pytest.fixture
def visited(monkeypatch):
    """A list of copies of (w, alpha) after each sweep."""
    sweeps, visit = [], published_descent._Run.visit

    def noted(run, *arguments):
        gains = visit(run, *arguments)
        sweeps.append((run.visits.w.copy(), run.visits.alpha.copy()))
        return gains

    monkeypatch.setattr(published_descent._Run, "visit", noted)
    return sweeps


@pytest.mark.parametrize("data", TWO_CLASSES)
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("name", ["dcd", "acf"])
def test_descent(name, data, C, visited):
    X, y = data()
    eps, random = 0.1, np.random.default_rng(3)
    problem = problem_of(X, y, C)
    monitor = Monitor(eps, 10_000)
    solver = auto.make(f"{name}-paper", problem.risk, 3)
    state = solver.solve(problem, State.zero(problem), monitor)
    assert monitor.status == "published"
    transcribed = {"dcd": descent.dcd, "acf": descent.avsf}[name]
    printed = transcribed(X, y, C, eps, random.permutation)
    assert_same([w for w, _ in visited], [w for w, *_ in printed])
    assert_same([alpha for _, alpha in visited], [alpha for _, alpha, *_ in printed])
    np.testing.assert_array_equal(state.coef, visited[-1][0])
