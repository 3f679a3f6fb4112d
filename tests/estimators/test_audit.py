"""Models of other libraries are audited against exact optima of their own problems."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from exact import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import linear_model, svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from widemargin import LinearSVC, LinearSVR, LogisticRegression, audit, certify
from widemargin.losses import LOSSES, TARGET_LOSSES, Shape
from widemargin.problem import Intercept

SGD = linear_model.SGDClassifier


@pytest.fixture(autouse=True)
def others_need_not_converge():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@st.composite
def data(draw):
    n, d = draw(st.integers(4, 20)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d)) * draw(st.sampled_from([0.3, 1.0, 3.0]))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    weight = rng.integers(1, 4, n).astype(float)
    return (sp.csr_array(X) if draw(st.booleans()) else X), y, weight


def with_constant(X, value):
    X = X.toarray() if sp.issparse(X) else X
    return np.column_stack([X, np.full(len(X), value)])


def value(X, y, cost, loss, coef, offset, target=1.0, penalty=0.0):
    """The objective, by the plain formula."""
    residual = target - y * (X @ np.ravel(coef) + offset)
    terms = {
        "hinge": lambda r: np.maximum(0, r),
        "squared_hinge": lambda r: np.maximum(0, r) ** 2,
        "epsilon_insensitive": lambda r: np.maximum(0, abs(r) - 0.1),
        "squared_epsilon_insensitive": lambda r: np.maximum(0, abs(r) - 0.1) ** 2,
    }[loss](residual)
    return 0.5 * np.sum(np.square(coef)) + penalty + cost @ terms


def check(found, primal, best):
    """The audit knows the objective, and its bound holds and is as close as promised."""
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    slip = 1e-6 * max(1.0, abs(best))
    assert found.certificate.dual <= best + slip <= found.better.certificate_.primal + 2 * slip
    ratio = primal / best
    assert found.excess >= ratio * (1 - 1e-6) - 1.0
    assert found.least_excess <= ratio * (1 + 1e-6) - 1.0
    assert found.better.certificate_.relative_gap <= 1e-3
    assert 1.0 + found.excess <= 1.00102 * ratio


@settings(deadline=None, max_examples=25)
@given(
    data=data(),
    loss=st.sampled_from(["hinge", "squared_hinge"]),
    C=st.sampled_from([0.1, 1.0, 10.0]),
    scaling=st.sampled_from([None, 1.0, 4.0]),
    max_iter=st.sampled_from([1, 3, 1000]),
)
def test_linear_svc(data, loss, C, scaling, max_iter):
    X, y, weight = data
    intercept = {"fit_intercept": scaling is not None, "intercept_scaling": scaling or 1.0}
    theirs = svm.LinearSVC(loss=loss, C=C, max_iter=max_iter, random_state=0, **intercept)
    theirs.fit(X, y, weight)
    found = audit(theirs, X, y, weight)
    b = float(np.ravel(theirs.intercept_)[0])
    rows = with_constant(X, scaling or 0.0)
    best = optimum(rows, y, C * weight, loss=LOSSES[loss], intercept=Intercept.NONE)
    penalty = 0.5 * (b / (scaling or 1.0)) ** 2
    check(found, value(X, y, C * weight, loss, theirs.coef_, b, penalty=penalty), best)


@settings(deadline=None, max_examples=15)
@given(data=data(), C=st.sampled_from([0.1, 1.0, 10.0]), steps=st.sampled_from([1, 5, -1]))
def test_svc_has_a_free_intercept(data, C, steps):
    X, y, weight = data
    theirs = svm.SVC(kernel="linear", C=C, max_iter=steps).fit(X, y, weight)
    b = float(theirs.intercept_[0])
    coef = theirs.coef_.toarray() if sp.issparse(theirs.coef_) else theirs.coef_
    best = optimum(X, y, C * weight, loss=LOSSES["hinge"], intercept=Intercept.FREE)
    check(audit(theirs, X, y, weight), value(X, y, C * weight, "hinge", coef, b), best)


@settings(deadline=None, max_examples=15)
@given(data=data(), loss=st.sampled_from(["hinge", "squared_hinge"]), alpha=st.floats(1e-3, 1.0))
def test_sgd_minimises_a_mean(data, loss, alpha):
    X, y, weight = data
    theirs = SGD(loss=loss, alpha=alpha, random_state=0, max_iter=3).fit(
        X, y, sample_weight=weight
    )
    cost = weight / (alpha * len(y))
    b = float(theirs.intercept_[0])
    best = optimum(X, y, cost, loss=LOSSES[loss], intercept=Intercept.FREE)
    check(audit(theirs, X, y, weight), value(X, y, cost, loss, theirs.coef_, b), best)


@settings(deadline=None, max_examples=15)
@given(
    data=data(),
    loss=st.sampled_from(["epsilon_insensitive", "squared_epsilon_insensitive"]),
    max_iter=st.sampled_from([1, 1000]),
)
def test_regression(data, loss, max_iter):
    X, y, weight = data
    target = y + np.linspace(0, 2, len(y))
    theirs = svm.LinearSVR(loss=loss, epsilon=0.1, C=2.0, max_iter=max_iter, random_state=0)
    theirs.fit(X, target, weight)
    b, ones = float(np.ravel(theirs.intercept_)[0]), np.ones(len(y))
    shape = {"loss": TARGET_LOSSES[loss](Shape(epsilon=0.1)), "target": target}
    best = optimum(with_constant(X, 1.0), ones, 2 * weight, intercept=Intercept.NONE, **shape)
    primal = value(X, ones, 2 * weight, loss, theirs.coef_, b, target, 0.5 * b * b)
    check(audit(theirs, X, target, weight), primal, best)


def test_svr_and_plain_coefficients_are_of_the_same_problem():
    X, y = load_diabetes(return_X_y=True)
    theirs = svm.SVR(kernel="linear", C=10.0, epsilon=5.0).fit(X, y)
    found = audit(theirs, X, y, random_state=0)
    assert found.excess < 0.01
    plain = audit(
        (theirs.coef_[0], theirs.intercept_),
        X,
        y,
        C=10.0,
        loss="epsilon_insensitive",
        epsilon=5.0,
        random_state=0,
    )
    assert plain.certificate == found.certificate


def test_plain_coefficients_without_an_intercept():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    found = audit((np.zeros(X.shape[1]), None), X, y, C=2.0, loss="hinge")
    assert found.certificate.primal == pytest.approx(2.0 * len(y))
    assert not found.better.fit_intercept
    ours = LinearSVC(C=2.0, loss="hinge", fit_intercept=False, tol=1e-6).fit(X, y)
    assert found.excess == pytest.approx(2.0 * len(y) / ours.certificate_.primal - 1, rel=2e-3)


def test_several_classes_have_parts():
    X, y = load_iris(return_X_y=True)
    names = np.array(["c", "a", "b"])[y]  # the classes are in another order
    theirs = svm.LinearSVC(max_iter=2, random_state=0, class_weight={"a": 3.0}).fit(X, names)
    found = audit(theirs, X, names)
    ours = LinearSVC(penalized_intercept=True, class_weight={"a": 3.0}, tol=1e-6).fit(X, names)
    assert len(found.certificate.parts) == 3
    for part, exact in zip(found.certificate.parts, ours.certificate_.parts):
        assert part.dual <= exact.primal <= 1.0011 * part.dual
    assert found.excess > 0.01
    assert "here is one proved within" in str(found)


def test_all_classes_in_one_problem():
    X, y = load_iris(return_X_y=True)
    theirs = svm.LinearSVC(multi_class="crammer_singer", random_state=0).fit(X, y)
    found = audit(theirs, X, y)
    assert 0.0 <= found.excess < 0.01


def test_certify_audits_what_has_no_dual_variables():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    theirs = svm.LinearSVC(random_state=0).fit(X, y)
    assert certify(theirs, X, y, random_state=0) == audit(theirs, X, y, random_state=0).certificate
    ours = LinearSVC().fit(X, y)
    again = certify(ours, X, y)  # sums of other kernels: other roundings on some processors
    assert again.primal == pytest.approx(ours.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(ours.certificate_.dual, rel=1e-12)
    with pytest.raises(TypeError, match="parameters of its own: C"):
        certify(ours, X, y, C=3)


def test_our_own_models_are_polished_from_where_they_are():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    rough = LinearSVC(loss="hinge", tol=0.2, random_state=0).fit(X, y)
    found = audit(rough, X, y, tol=1e-6)
    assert found.certificate.primal == pytest.approx(rough.certificate_.primal, rel=1e-9)
    assert found.better.certificate_.relative_gap <= 1e-6
    assert found.excess < 0.25
    assert rough.tol == 0.2
    assert not found.better.warm_start


def test_a_time_limit_is_no_warning_and_leaves_a_true_bound():
    X, y = load_breast_cancer(return_X_y=True)
    theirs = svm.SVC(kernel="linear", max_iter=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = audit(theirs, X, y, max_time=1e-6)
    assert found.better.status_ == "max_time"
    best = LinearSVC(loss="hinge", tol=1e-6).fit(X, y).certificate_
    assert found.certificate.dual <= best.primal


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (SGD(loss="modified_huber"), "minimises another objective"),
        (SGD(penalty="l1"), "minimises another objective"),
        (svm.SVC(kernel="rbf"), "only kernel='linear'"),
    ],
)
def test_other_objectives_are_refused(model, words):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        audit(model.fit(X[:60], y[:60]), X[:60], y[:60])


def test_bad_input():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="pair of classes"):
        audit(svm.SVC(kernel="linear").fit(X, y), X, y)
    with pytest.raises(TypeError, match="RidgeClassifier is none of the models"):
        audit(linear_model.RidgeClassifier().fit(X, y), X, y)
    with pytest.raises(ValueError, match="C is needed"):
        audit((np.zeros(4), 0.0), X, y, loss="hinge")
    with pytest.raises(ValueError, match="loss must be one of"):
        audit((np.zeros(4), 0.0), X, y, C=1.0, loss="log")
    with pytest.raises(ValueError, match="3 classes need 3 rows"):
        audit((np.zeros(4), 0.0), X, y, C=1.0, loss="hinge")
    with pytest.raises(ValueError, match="features"):
        audit((np.zeros((3, 5)), 0.0), X, y, C=1.0, loss="hinge")
    with pytest.raises(ValueError, match="not finite"):
        audit((np.full((3, 4), np.nan), 0.0), X, y, C=1.0, loss="hinge")
    with pytest.raises(TypeError, match="no parameter epsilon"):
        audit(svm.LinearSVC().fit(X, y), X, y, epsilon=1.0)
    with pytest.raises(ValueError, match="3 things"):
        audit((1, 2, 3), X, y, C=1.0, loss="hinge")
    with pytest.raises(FloatingPointError):
        audit((np.full((3, 4), 1e200), 0.0), X, y, C=1.0, loss="hinge")
    ours = LinearSVR(C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="1 targets, and y has 2"):
        audit(ours, X, np.column_stack([y, y]))


@settings(deadline=None, max_examples=12)
@given(
    data=data(),
    C=st.sampled_from([0.1, 1.0, 10.0]),
    solver=st.sampled_from(["lbfgs", "liblinear", "sgd"]),
    steps=st.sampled_from([1, 5, 1000]),
    k=st.sampled_from([2, 3]),
)
def test_logistic_regression(data, C, solver, steps, k):
    """Against our own, solved to 1e-9 and without a start, and the plain formula."""
    X, y, weight = data
    if k > 2:
        y = np.resize([0, 1, 2], len(y))
        solver = "lbfgs" if solver == "liblinear" else solver
    ours = {"C": C, "tol": 1e-9}
    theirs = linear_model.LogisticRegression(C=C, solver=solver, max_iter=steps, random_state=0)
    if solver == "sgd":
        theirs = SGD(loss="log_loss", alpha=1 / (C * len(y)), max_iter=steps, random_state=0)
        ours["multi_class"] = "ovr"
    elif solver == "liblinear":
        ours["penalized_intercept"] = True
    theirs.fit(X, y, sample_weight=weight)
    found = audit(theirs, X, y, weight, random_state=0)
    best = LogisticRegression(**ours).fit(X, y, weight).certificate_
    scores = np.asarray(X @ theirs.coef_.T + theirs.intercept_)
    penalty = 0.5 * np.sum(theirs.coef_**2)
    penalty += 0.5 * np.sum(theirs.intercept_**2) * (solver == "liblinear")
    if k == 2:
        loss = np.logaddexp(0.0, -np.where(y == theirs.classes_[1], 1, -1) * scores[:, 0])
    elif solver == "sgd":
        loss = np.logaddexp(0.0, np.where(y[:, None] == np.arange(3), -1, 1) * scores).sum(axis=1)
    else:
        own = np.take_along_axis(scores, y[:, None], axis=1)
        loss = np.logaddexp.reduce(scores - own, axis=1)
    primal = penalty + C * weight @ loss
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.certificate.dual <= best.primal
    assert found.excess >= primal / best.primal - 1.0 - 1e-9
    assert found.least_excess <= primal / best.dual - 1.0 + 1e-9
    assert 1.0 + found.excess <= 1.0011 * primal / best.dual
    assert certify(theirs, X, y, weight, random_state=0) == found.certificate


def test_other_logistic_regressions_are_refused():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    fitted = linear_model.LogisticRegression(solver="saga", l1_ratio=0.5, max_iter=2)
    if "l1_ratio" in fitted.get_params() and fitted.penalty == "deprecated":
        with pytest.raises(ValueError, match="not l2"):
            audit(fitted.fit(X, y), X, y)
    endless = linear_model.LogisticRegression(C=np.inf, max_iter=2)
    with pytest.raises(ValueError, match="infinite C"):
        audit(endless.fit(X, y), X, y)
    plain = linear_model.LogisticRegression(max_iter=3).fit(X, y)
    coef = plain.coef_, plain.intercept_
    found = audit(coef, X, y, C=1.0, loss="logistic", random_state=0)
    assert found.certificate == audit(plain, X, y, random_state=0).certificate
    assert isinstance(found.better, LogisticRegression)
    less = found.better.update(X, y, remove=np.arange(10))
    assert less.certificate_.relative_gap <= less.tol
