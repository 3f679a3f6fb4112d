"""LinearSVC against scikit-learn's solvers, and its own promises."""

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

from widemargin import LinearSVC, certify


def two_classes(name):
    """Real and random two-class problems, features scaled."""
    rng = np.random.default_rng(0)
    if name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
    elif name == "digits, even or odd":
        X, y = load_digits(return_X_y=True)
        y = y % 2
    elif name == "wine, first or not":
        X, y = load_wine(return_X_y=True)
        y = y == 0
    elif name == "iris, last or not":
        X, y = load_iris(return_X_y=True)
        y = y == 2
    elif name == "random, not separable":
        X, y = rng.standard_normal((400, 10)), rng.integers(0, 2, 400)
    elif name == "random, more features than rows":
        X = rng.standard_normal((60, 200))
        y = X[:, 0] + 0.5 * rng.standard_normal(60) > 0.3
    return StandardScaler().fit_transform(X), y


NAMES = [
    "breast cancer",
    "digits, even or odd",
    "wine, first or not",
    "iris, last or not",
    "random, not separable",
    "random, more features than rows",
]


def objective(X, y, coef, intercept, C, *, penalized):
    sign = np.where(y == np.unique(y)[1], 1, -1)
    hinge = np.maximum(0.0, 1.0 - sign * (X @ coef + intercept)).sum()
    return 0.5 * coef @ coef + C * hinge + (0.5 * intercept**2 if penalized else 0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_a_free_intercept_agrees_with_svc(name, C):
    X, y = two_classes(name)
    model = LinearSVC(loss="hinge", C=C, random_state=0).fit(X, y)
    peer = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)
    best = objective(X, y, peer.coef_[0], peer.intercept_[0], C, penalized=False)
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert certificate.relative_gap <= 1e-3
    assert certificate.dual <= best * (1 + 1e-7)
    assert best <= certificate.primal * (1 + 1e-6)  # LIBSVM's is that far from the optimum
    assert certificate.primal == pytest.approx(
        objective(X, y, model.coef_[0], model.intercept_[0], C, penalized=False)
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_penalized_intercept_agrees_with_linear_svc(name):
    X, y = two_classes(name)
    C = 0.1
    model = LinearSVC(loss="hinge", C=C, penalized_intercept=True, random_state=0).fit(X, y)
    peer = SklearnLinearSVC(loss="hinge", C=C, tol=1e-9, max_iter=2_000_000).fit(X, y)
    best = objective(X, y, peer.coef_[0], peer.intercept_[0], C, penalized=True)
    assert model.certificate_.dual <= best * (1 + 1e-6)
    assert best <= model.certificate_.primal * (1 + 1e-6)


def test_squared_hinge_agrees_with_linear_svc_class_by_class():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LinearSVC(penalized_intercept=True, tol=1e-8, random_state=0).fit(X, y)
    peer = SklearnLinearSVC(tol=1e-10, dual=False, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-4)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=2e-4)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


def test_class_weights_are_row_weights():
    X, y = load_iris(return_X_y=True)
    weights = {0: 1.0, 1: 3.0, 2: 0.5}
    by_class = LinearSVC(class_weight=weights, tol=1e-10, random_state=0).fit(X, y)
    by_row = LinearSVC(tol=1e-10, random_state=0).fit(
        X, y, sample_weight=np.vectorize(weights.get)(y)
    )
    np.testing.assert_allclose(by_class.coef_, by_row.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_equal_repetition_and_zero_equals_removal(loss):
    X, y = two_classes("random, not separable")
    X, y = X[:100], y[:100]
    times = np.random.default_rng(1).integers(0, 4, 100)
    weighted = LinearSVC(loss=loss, tol=1e-10, random_state=0).fit(X, y, sample_weight=times)
    repeated = LinearSVC(loss=loss, tol=1e-10, random_state=1).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("solver", ["dcd", "acf"])
def test_the_certificate_can_be_recomputed_by_anyone(solver):
    X, y = load_digits(return_X_y=True)
    weights = np.linspace(0, 2, len(y))
    model = LinearSVC(loss="hinge", C=0.01, solver=solver, class_weight="balanced", random_state=0)
    model.fit(X / 16, y, weights)
    certificate = certify(model, X / 16, y, weights)
    assert len(certificate.parts) == 10
    assert certificate.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(model.certificate_.dual, rel=1e-12)
    assert all(part.relative_gap <= 1e-3 for part in certificate.parts)
    model.dual_variables_ *= 0.5  # a weaker proof is still a proof
    assert certify(model, X / 16, y, weights).dual < certificate.dual


def test_certify_refuses_other_data():
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="trained on 150 rows, and X has 149"):
        certify(model, X[1:], y[1:])
    with pytest.raises(ValueError, match="row 3 has label"):
        certify(model, X, np.where(np.arange(150) == 3, 7, y))


@pytest.mark.parametrize("sparse", [False, True])
def test_threads_and_seeds(sparse):
    X, y = load_digits(return_X_y=True)
    X = sp.csr_matrix(X / 16) if sparse else X / 16
    models = [
        LinearSVC(solver="acf", n_jobs=n_jobs, random_state=3).fit(X, y) for n_jobs in (1, 2, 2)
    ]
    for model in models[1:]:  # classes have their own seeds, whoever trains them
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        np.testing.assert_array_equal(model.intercept_, models[0].intercept_)
    other = LinearSVC(solver="acf", random_state=4).fit(X, y)
    assert not np.array_equal(other.coef_, models[0].coef_)


@pytest.mark.parametrize("solver", ["dcd", "acf", "newton", "ocas", "cpa", "tca"])
def test_a_warm_start_leaves_the_model_before_alone(solver):
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(C=0.01, warm_start=True, solver=solver, random_state=0).fit(X, y)
    before = model.coef_, model.intercept_
    copies = [array.copy() for array in before]
    model.set_params(C=1.0).fit(X, y)
    for array, copy in zip(before, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert not np.allclose(model.coef_, copies[0])


def test_warm_start_goes_on_where_it_stopped():
    X, y = two_classes("digits, even or odd")
    model = LinearSVC(C=1.0, loss="hinge", warm_start=True, random_state=0).fit(X, y)
    passes = model.n_iter_
    assert model.fit(X, y).n_iter_ == 1
    model.set_params(C=1.2).fit(X, y)
    assert model.n_iter_ < passes
    assert certify(model, X, y).relative_gap <= 1e-3
    model.fit(X[:-1], y[:-1])  # another number of rows: from the beginning
    assert certify(model, X[:-1], y[:-1]).relative_gap <= 1e-3


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
@pytest.mark.parametrize("solver", ["auto", "dcd", "acf", "newton", "ocas"])
@pytest.mark.parametrize("penalized", [True, False])
def test_a_warm_start_without_the_intercept_there_was(solver, multi_class, penalized):
    if solver == "newton" and multi_class == "crammer_singer":
        pytest.skip("there is no such solver")
    X, y = load_iris(return_X_y=True)
    settings = {"solver": solver, "multi_class": multi_class, "tol": 1e-4, "random_state": 0}
    model = LinearSVC(penalized_intercept=penalized, warm_start=True, **settings).fit(X, y)
    with pytest.raises(ValueError, match=r"the model has an intercept, .*fit_intercept=False"):
        certify(model.set_params(fit_intercept=False), X, y)
    model.fit(X, y)
    np.testing.assert_array_equal(model.intercept_, np.zeros(3))
    cold = LinearSVC(fit_intercept=False, **settings).fit(X, y)
    for one, other in ((model, cold), (cold, model)):
        assert one.status_ == "converged"
        assert one.certificate_.dual <= other.certificate_.primal


def test_one_weight_for_all_rows():
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(C=0.1, random_state=0).fit(X, y, sample_weight=2.0)
    np.testing.assert_allclose(
        model.coef_, LinearSVC(C=0.1, random_state=0).fit(X, y, np.full(150, 2.0)).coef_
    )


def test_weights_of_classes_that_there_are_not():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="names classes that y does not have: 'a', 7"):
        LinearSVC(class_weight={"a": 1.0, 7: 2.0, 0: 1.0}).fit(X, y)


def test_to_sklearn_predicts_the_same():
    X, y = load_digits(return_X_y=True)
    names = np.array([f"digit {k}" for k in range(10)])
    for labels in (names[y], y % 2):
        model = LinearSVC(random_state=0).fit(X / 16, labels)
        twin = pickle.loads(pickle.dumps(model.to_sklearn()))
        assert type(twin) is SklearnLinearSVC
        np.testing.assert_array_equal(twin.predict(X / 16), model.predict(X / 16))
        np.testing.assert_allclose(twin.decision_function(X / 16), model.decision_function(X / 16))


def test_auto_takes_newton_for_few_features_and_adaptive_frequencies_for_many():
    X, y = two_classes("breast cancer")
    assert LinearSVC(C=1.0).fit(X, y).solver_ == "newton"
    assert LinearSVC(C=1.0, solver="dcd").fit(X, y).solver_ == "dcd"
    wide = sp.random(X.shape[0], 2000, density=0.01, format="csr", random_state=0)
    assert LinearSVC(loss="hinge", C=1e-2).fit(wide, y).solver_ == "acf"
    assert LinearSVC(C=100.0).fit(wide, y).solver_ == "acf"


def test_data_far_from_the_origin_is_no_harder():
    """A free intercept makes the problem the same wherever the origin is."""
    X, y = two_classes("random, not separable")
    near = LinearSVC(random_state=0, tol=1e-6).fit(X, y)
    far = LinearSVC(random_state=0, tol=1e-6).fit(X + 1000.0, y)
    assert far.status_ == "converged"
    assert far.n_iter_ <= 2 * near.n_iter_
    assert far.certificate_.primal == pytest.approx(near.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-3)


def test_clone_and_pickle():
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(C=2.0, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.certificate_ == model.certificate_
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("solver", "loss", "most"), [("dcd", "hinge", 1.0), ("newton", "squared_hinge", 2.0)]
)
def test_many_classes_take_less_memory_than_their_dual_variables_would(solver, loss, most):
    """Most of these are zero, and are not kept: in training, in a warm start, in a proof."""
    n = 600
    X, y = np.random.default_rng(0).standard_normal((n, 20)), np.arange(n)
    model = LinearSVC(C=0.01, loss=loss, solver=solver, tol=0.1, random_state=0, warm_start=True)
    clone(model).fit(X, y % 3)  # compiles
    for task in (lambda: model.fit(X, y), lambda: model.fit(X, y), lambda: certify(model, X, y)):
        tracemalloc.start()
        try:
            task()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < most * 8 * n * n
    assert model.dual_variables_.shape == (n, n)
