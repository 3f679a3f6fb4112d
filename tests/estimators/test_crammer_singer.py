import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

from widemargin import LinearSVC, certify
from widemargin.model_io import load_model, save_model, write_liblinear
from widemargin.solvers.registry import RiskKind, names

METHODS = names(risk=RiskKind.ANY)
SOLVERS = ["auto", *names(risk=RiskKind.CRAMMER_SINGER)]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "intercept", [{}, {"penalized_intercept": True}, {"fit_intercept": False}], ids=str
)
def test_every_solver_proves_the_same_optimum(iris, solver, intercept):
    model = LinearSVC(multi_class="crammer_singer", solver=solver, **intercept).fit(*iris)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-3
    again = certify(model, *iris)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    best = LinearSVC(multi_class="crammer_singer", solver="ocas", tol=1e-6, **intercept).fit(*iris)
    assert again.dual <= best.certificate_.primal * (1 + 1e-9)
    assert again.primal >= best.certificate_.dual * (1 - 1e-9)


@pytest.mark.parametrize("solver", ["acf", "ocas"])
def test_the_objective_agrees_with_scikit_learn(solver):
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    model = LinearSVC(
        C=0.1, multi_class="crammer_singer", solver=solver, tol=1e-4, fit_intercept=False
    ).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = SklearnLinearSVC(
            C=0.1, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=20_000
        ).fit(X, y)
    scores = X @ reference.coef_.T
    own = scores[np.arange(len(y)), y]
    others = scores + (np.arange(10) != y[:, None])
    objective = 0.5 * np.sum(reference.coef_**2) + 0.1 * np.sum(others.max(axis=1) - own)
    assert model.certificate_.dual <= objective * (1 + 1e-9)
    assert model.certificate_.primal == pytest.approx(objective, rel=2e-4)


@pytest.mark.parametrize("solver", ["auto", "ocas"])
def test_two_classes_are_the_hinge_at_twice_the_cost(iris, solver):
    X, y = iris[0][50:], iris[1][50:]
    pair = LinearSVC(multi_class="crammer_singer", solver=solver, tol=1e-6, C=0.5).fit(X, y)
    hinge = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y)
    assert pair.coef_.shape == (1, 4)
    np.testing.assert_allclose(pair.coef_, hinge.coef_, atol=1e-2)
    np.testing.assert_array_equal(pair.predict(X), hinge.predict(X))
    assert certify(pair, X, y).relative_gap <= 1.01e-6


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="only one class"):
        LinearSVC(multi_class="crammer_singer").fit(np.ones((3, 2)), [1, 1, 1])


def test_weights_equal_repetition(iris):
    X, y = iris
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    weights[[0, 60, 120]] = 1
    settings = {"multi_class": "crammer_singer", "tol": 1e-7, "solver": "ocas"}
    weighted = LinearSVC(**settings).fit(X, y, sample_weight=weights)
    repeated = LinearSVC(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-6)


def test_a_saved_model_comes_back_and_certifies(iris, tmp_path):
    model = LinearSVC(multi_class="crammer_singer", solver="ocas").fit(*iris)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(iris[0]), model.predict(iris[0]))
    assert certify(loaded, *iris).dual == pytest.approx(model.certificate_.dual)


def test_liblinear_text_names_the_solver(iris, tmp_path):
    model = LinearSVC(multi_class="crammer_singer").fit(*iris)
    write_liblinear(model, tmp_path / "model")
    assert (tmp_path / "model").read_text().startswith("solver_type MCSVM_CS\nnr_class 3\n")


def test_to_sklearn_predicts_the_same(iris):
    model = LinearSVC(multi_class="crammer_singer").fit(*iris)
    twin = model.to_sklearn()
    assert twin.multi_class == "crammer_singer"
    np.testing.assert_array_equal(twin.predict(iris[0]), model.predict(iris[0]))


@pytest.mark.parametrize("solver", ["acf", "ocas"])
def test_a_warm_start_at_the_solution_stops_at_once(iris, solver):
    model = LinearSVC(
        multi_class="crammer_singer", solver=solver, warm_start=True, random_state=0
    ).fit(*iris)
    model.fit(*iris)
    assert len(model.history_) == 1
    assert model.status_ == "converged"


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_threads_give_the_same_bits_every_time(multi_class):
    X, y = make_classification(
        40_000, 8, n_informative=6, n_redundant=0, n_classes=3, random_state=0
    )
    settings = {"multi_class": multi_class, "solver": "ocas", "loss": "hinge", "C": 1e-3}
    first = LinearSVC(n_jobs=2, **settings).fit(X, y)
    second = LinearSVC(n_jobs=2, **settings).fit(X, y)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    alone = LinearSVC(**settings).fit(X, y)
    assert first.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-3)


@pytest.mark.parametrize("solver", METHODS)
def test_cutting_planes_serve_one_against_the_rest(iris, solver):
    for loss in ("hinge", "squared_hinge"):
        model = LinearSVC(solver=solver, loss=loss).fit(*iris)
        assert len(model.certificate_.parts) == 3
        assert all(part.relative_gap <= 1e-3 for part in model.certificate_.parts)
        assert model.history_[-1].phases["reduced problem"] > 0.0
