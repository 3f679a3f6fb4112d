"""The one-class SVM: against a QP solver, LIBSVM and exact arithmetic; files and bad input."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from exact import nearest_point
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import SGDOneClassSVM
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import (
    FourierFeatures,
    LinearOneClassSVM,
    LinearSVC,
    certify,
    load_model,
    open_rows,
    save_model,
)
from widemargin.estimators import one_class_svm
from widemargin.model_io import ModelFileError


def rows(n=60, d=4, shift=1.0, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def optimum(X, nu, weights=None):
    """Return the optimum of the dual by an interior point method."""
    n = len(X)
    weights = np.ones(n) if weights is None else weights
    caps = weights / (nu * weights.sum())
    return -nearest_point(X, caps).obj_val


def objective(model, X, nu, weights=None):
    """Return the objective of a model in exact arithmetic."""
    weights = np.ones(len(X)) if weights is None else weights
    w, rho = [Fraction(v) for v in model.coef_[0]], Fraction(model.offset_)
    total = sum(map(Fraction, weights))
    value = sum(v * v for v in w) / 2 - rho
    for x, weight in zip(X, weights):
        short = max(Fraction(0), rho - sum(v * Fraction(u) for v, u in zip(w, x)))
        value += Fraction(weight) * short / (Fraction(nu) * total)
    return value


@parametrize_with_checks([LinearOneClassSVM(), LinearOneClassSVM(nu=0.1)])
def test_scikit_learn_conformance(estimator, check):
    if "sample_weight_equivalence" in str(check):
        pytest.skip("compares labels of rows on the plane: see test_weights_are_repetitions")
    check(estimator)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_weights_are_repetitions(make):
    X = rows(15, 10)
    weights = np.random.default_rng(0).integers(0, 5, 15)
    weighted = LinearOneClassSVM(nu=0.1, tol=1e-9).fit(make(X), sample_weight=weights)
    repeated = LinearOneClassSVM(nu=0.1, tol=1e-9).fit(make(np.repeat(X, weights, axis=0)))
    scores = weighted.decision_function(X)
    np.testing.assert_allclose(scores, repeated.decision_function(X), atol=1e-6)
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-8)


@settings(max_examples=40)
@given(st.data())
def test_certificates_enclose_the_optimum(data):
    n, d = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 6))
    nu = data.draw(st.sampled_from([0.02, 0.1, 0.5, 0.77, 1.0]))
    X = rows(n, d, data.draw(st.sampled_from([0.0, 0.3, 2.0])), data.draw(st.integers(0, 50)))
    if data.draw(st.booleans()):
        X = np.round(X)  # ties
    weights = None
    if data.draw(st.booleans()):
        weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), float)
        weights[0] += 1.0
    model = LinearOneClassSVM(nu=nu, tol=1e-6).fit(X, sample_weight=weights)
    assert model.status_ == "converged"
    found, wanted = model.certificate_, optimum(X, nu, weights)
    slack = 1e-8 * (1.0 + abs(wanted))
    assert found.dual <= wanted + slack
    assert found.primal >= wanted - slack
    assert found.gap <= 1e-6 * max(-found.dual, found.floor)
    assert objective(model, X, nu, weights) <= Fraction(found.primal)
    assert certify(model, X, sample_weight=weights) == found
    assert model.dual_variables_.sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_the_solution_of_libsvm(nu, make):
    X = rows(300, 8, 1.5)
    model = LinearOneClassSVM(nu=nu, tol=1e-10).fit(make(X))
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-7, max_iter=10**6).fit(X)
    np.testing.assert_allclose(model.coef_, theirs.coef_ / (nu * 300), atol=1e-5)
    np.testing.assert_allclose(
        model.decision_function(X), theirs.decision_function(X) / (nu * 300), atol=1e-4
    )
    outliers = (model.decision_function(X) < -1e-12).mean()  # not rows on the plane
    assert outliers <= nu + 1e-9
    assert outliers >= nu - 10 / 300


def test_one_iteration_at_a_time_never_crosses():
    X = rows(400, 60, 0.2)
    wanted = optimum(X, 0.2)
    for max_iter in range(1, 12):
        with pytest.warns(Warning, match="max_iter"):
            model = LinearOneClassSVM(nu=0.2, tol=1e-12, max_iter=max_iter).fit(X)
        assert model.certificate_.dual <= wanted <= model.certificate_.primal
        assert certify(model, X) == model.certificate_


def test_corners_are_merged():
    X = rows(300, 80, 0.2)
    whole = LinearOneClassSVM(nu=0.3, tol=1e-5).fit(X).certificate_
    from widemargin.estimators.one_class_svm import OneClassProblem
    from widemargin.monitor import Monitor
    from widemargin.problem import State
    from widemargin.solvers.one_class import OneClassPlanes
    from widemargin.solvers.settings import OneClassSettings

    problem = OneClassProblem(LinearOneClassSVM(nu=0.3), one_class_svm.as_rows(X), None)[0]
    monitor = Monitor(1e-5, 10_000)
    solver = OneClassPlanes(settings=OneClassSettings(most_corners=20))
    solver.solve(problem, State.zero(problem), monitor)
    assert monitor.status == "converged"
    assert monitor.certificate.primal == pytest.approx(whole.primal, rel=2e-5)


def test_an_origin_among_the_rows():
    X = rows(200, 3, 0.0)
    model = LinearOneClassSVM(nu=0.5).fit(X)
    assert model.status_ == "converged"
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert "no direction" in str(model.certificate_)
    assert (model.predict(X) == 1).all()


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
def test_any_scale(scale):
    X = rows()
    plain = LinearOneClassSVM(nu=0.3).fit(X).certificate_
    found = LinearOneClassSVM(nu=0.3).fit(scale * X).certificate_
    assert found.relative_gap <= 1e-3
    assert found.primal == pytest.approx(plain.primal * scale * scale, rel=2e-3)


def test_rows_on_disk_and_features_of_kernels(tmp_path):
    X, path = rows(80, 3).astype(np.float32), tmp_path / "rows.svm"
    lines = [" ".join(f"{j + 1}:{v:.9g}" for j, v in enumerate(row)) for row in X]
    path.write_text("".join(f"1 {line}\n" for line in lines))
    wanted = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(X)
    for budget in (None, 1):
        found = LinearOneClassSVM(nu=0.2, tol=1e-8, memory_budget=budget).fit(open_rows(path))
        assert found.certificate_.primal == pytest.approx(wanted.certificate_.primal, rel=1e-7)
    features = FourierFeatures(n_components=50, random_state=0, memory_budget=100).fit(X)
    model = LinearOneClassSVM(nu=0.2).fit(features.transform(X))
    kernel = OneClassSVM(nu=0.2, gamma=features.gamma_).fit(X)
    agree = model.predict(features.transform(X)) == kernel.predict(X)
    assert agree.mean() >= 0.85


def test_a_warm_start_ends_at_once():
    X = rows(500, 30, 0.3)
    model = LinearOneClassSVM(nu=0.3, tol=1e-6, warm_start=True).fit(X)
    before = model.n_iter_
    again = model.fit(X)
    assert again.n_iter_ < before
    assert model.fit(rows(40, 30)).status_ == "converged"  # other rows: no start


def test_the_same_after_loading(tmp_path):
    X, path = rows(), tmp_path / "m.wm"
    model = LinearOneClassSVM(nu=0.2).fit(X)
    save_model(model, path)
    loaded = load_model(path)
    assert type(loaded) is LinearOneClassSVM
    assert loaded.certificate_ == model.certificate_
    assert loaded.certificate_.relative_gap == model.certificate_.relative_gap
    assert certify(loaded, X) == model.certificate_
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.offset_ == model.offset_
    twin = loaded.to_sklearn()
    assert type(twin) is SGDOneClassSVM
    scores = model.decision_function(X)
    np.testing.assert_allclose(twin.decision_function(X), scores, atol=1e-14)
    clear = np.abs(scores) > 1e-12  # of rows on the plane rounding decides
    np.testing.assert_array_equal(twin.predict(X)[clear], model.predict(X)[clear])
    assert "proved" in str(model)


def test_an_impossible_certificate_is_refused(tmp_path):
    X, path = rows(), tmp_path / "m.wm"
    model = LinearOneClassSVM().fit(X)
    for name, value in [("primal", -math.inf), ("dual", 1.0), ("floor", -1.0)]:
        certificate = model.certificate_
        object.__setattr__(certificate, name, value)
        save_model(model, path)
        with pytest.raises(ModelFileError, match="the header"):
            load_model(path)
        model.fit(X)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nu": 0}, "nu must be"),
        ({"nu": 1.1}, "nu must be"),
        ({"nu": True}, "nu must be"),
        ({"solver": "dcd"}, "solver must be one of 'auto', 'ocas'"),
        ({"tol": 0}, "tol must be"),
    ],
)
def test_bad_parameters(wrong, message):
    with pytest.raises(ValueError, match=message):
        LinearOneClassSVM(**wrong).fit(rows())


def test_bad_rows(monkeypatch):
    X = rows()
    with pytest.raises(ValueError, match="trained on 60 rows, and X has 59"):
        certify(LinearOneClassSVM().fit(X), X[1:])
    with pytest.raises(ValueError, match="knows no groups"):
        certify(LinearOneClassSVM().fit(X), X, qid=np.ones(60))
    with pytest.raises(ValueError, match="y is missing"):
        certify(LinearSVC().fit(X, X[:, 0] > 1), X)
    with pytest.raises(ValueError, match="zero for every row"):
        LinearOneClassSVM().fit(X, sample_weight=np.zeros(60))
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match="row 3, column 2"):
        LinearOneClassSVM().fit(X)
    monkeypatch.setattr(one_class_svm, "is_on_gpu", lambda X: True)
    with pytest.raises(ValueError, match="solved on the host"):
        LinearOneClassSVM().fit(rows())
