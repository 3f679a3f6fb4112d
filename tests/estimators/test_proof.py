"""What is proved of the optimum holds for optima that are solved far more precisely."""

import numpy as np
import pytest
import scipy.sparse as sp
from exact import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import scale

from widemargin import LinearRanker, LinearSVC, LinearSVCCV, LinearSVR, certify, prove
from widemargin.data import as_rows
from widemargin.losses import LOSSES, TARGET_LOSSES, Shape
from widemargin.problem import Intercept

INTERCEPTS = {
    Intercept.FREE: {},
    Intercept.PENALIZED: {"penalized_intercept": True},
    Intercept.NONE: {"fit_intercept": False},
}
SCALED = {"penalized_intercept": True, "intercept_scaling": 3.0}


def classes(seed, n=40, d=4, k=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    X = rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((k, d))[y] + 1.0
    return X, y, rng.integers(0, 3, n) + (np.arange(n) < k)


def fitted(kind, X, y, weight, tol, **parameters):
    return kind(tol=tol, random_state=0, max_iter=100_000, **parameters).fit(X, y, weight)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from(sorted(LOSSES)),
    intercept=st.sampled_from([*INTERCEPTS.values(), SCALED]),
    C=st.sampled_from([0.01, 1.0]),
    tol=st.sampled_from([0.1, 1e-2, 1e-4]),
    k=st.sampled_from([2, 3]),
    sparse=st.booleans(),
)
def test_what_is_proved_holds_for_the_optimum(seed, loss, intercept, C, tol, k, sparse):
    X, y, weight = classes(seed, k=k)
    X_new = np.random.default_rng(seed).standard_normal((50, X.shape[1])) + 1.0
    X, X_new = (sp.csr_matrix(X), sp.csr_matrix(X_new)) if sparse else (X, X_new)
    ways = {"loss": loss, "C": C, **intercept}
    rough = fitted(LinearSVC, X, y, weight, tol, **ways)
    exact = fitted(LinearSVC, X, y, weight, 1e-12, **ways)
    proof = prove(rough, X, y, weight)
    slip = 1e-4 * (1.0 + np.abs(exact.coef_).max())
    low, high = proof.weight_bounds()
    assert np.all((low <= exact.coef_ + slip) & (exact.coef_ <= high + slip))
    scores = exact.decision_function(X_new)
    low, high = proof.score_bounds(X_new)
    assert np.all((low <= scores + 5 * slip) & (scores <= high + 5 * slip))
    clear = np.abs(scores) > 5 * slip if k == 2 else np.ptp(scores, axis=1) > 10 * slip
    settled = proof.settled_mask(X_new) & clear
    assert np.array_equal(rough.predict(X_new)[settled], exact.predict(X_new)[settled])
    alpha, bounds = exact.dual_variables_.toarray(), proof.dual_bounds
    near = np.sqrt(max(exact.certificate_.gap, 0.0)) + 1e-6
    if exact.certificate_.relative_gap <= 1e-11 and loss != "hinge":  # else no single optimum
        error = 20 * near * (1 + C) * (1 + weight)
        assert np.all((bounds.low <= alpha + error) & (alpha <= bounds.high + error))


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from(sorted(LOSSES)),
    intercept=st.sampled_from(list(INTERCEPTS)),
    C=st.sampled_from([0.01, 1.0]),
    tol=st.sampled_from([1e-2, 1e-4, 1e-6]),
    sparse=st.booleans(),
)
def test_a_reduced_problem_has_the_same_optimum(seed, loss, intercept, C, tol, sparse):
    X, y, weight = classes(seed)
    X = sp.csr_matrix(X) if sparse else X
    ways = {"loss": loss, "C": C, **INTERCEPTS[intercept]}
    proof = prove(fitted(LinearSVC, X, y, weight, tol, **ways), X, y, weight)
    X_less, y_less, weight_less = proof.reduced_problem()
    assert len(y_less) <= len(y)
    assert X_less.shape[0] == len(y_less) == len(weight_less)
    ours = {"loss": LOSSES[loss], "intercept": intercept}
    whole = optimum(X, 2 * y - 1, C * weight, **ours)
    less = optimum(X_less, 2 * y_less - 1, C * weight_less, **ours)
    assert less == pytest.approx(whole, rel=1e-6, abs=1e-8)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from(sorted(TARGET_LOSSES)),
    intercept=st.sampled_from(list(INTERCEPTS)),
    tol=st.sampled_from([1e-2, 1e-4, 1e-6]),
)
def test_regression(seed, loss, intercept, tol):
    X, y, weight = classes(seed)
    y = y + np.random.default_rng(seed).standard_normal(len(y))
    ways = {"loss": loss, "C": 0.5, "epsilon": 0.3, **INTERCEPTS[intercept]}
    proof = prove(fitted(LinearSVR, X, y, weight, tol, **ways), X, y, weight)
    exact = fitted(LinearSVR, X, y, weight, 1e-12, **ways)
    low, high = proof.score_bounds(X)
    assert np.all((low <= exact.predict(X) + 1e-3) & (exact.predict(X) <= high + 1e-3))
    shape = TARGET_LOSSES[loss](Shape(epsilon=0.3))
    less = proof.reduced_problem()
    whole, reduced = (
        optimum(X, np.ones(len(y)), 0.5 * weight, loss=shape, intercept=intercept, target=y)
        for X, y, weight in ((X, y, weight), less)
    )
    assert reduced == pytest.approx(whole, rel=1e-6, abs=1e-8)
    assert proof.weight_bounds().low.shape == exact.coef_.shape


def test_a_closer_model_settles_more_and_screens_more():
    X, y = load_breast_cancer(return_X_y=True)
    X, names = scale(X), np.array(["bad", "good"])[y]
    shares = []
    for tol in (1e-2, 1e-4, 1e-6):
        model = LinearSVC(loss="hinge", tol=tol, random_state=0).fit(X, names)
        proof = prove(model, X, names)
        rows = proof.irrelevant_rows.mean(), proof.bounded_rows.mean()
        shares.append([proof.settled_mask(X).mean(), *rows])
    assert np.all(np.diff(shares, axis=0) >= 0.0)
    assert shares[-1][0] > 0.99
    assert shares[-1][1] > 0.8
    assert shares[-1][2] > 0.01
    X_less, y_less, weight = proof.reduced_problem()
    assert len(y_less) < 0.2 * len(y)
    less = LinearSVC(loss="hinge", tol=1e-8, random_state=0).fit(X_less, y_less, weight)
    np.testing.assert_allclose(less.coef_, model.coef_, atol=1e-2)
    assert less.score(X, names) == pytest.approx(model.score(X, names), abs=0.002)


def test_rows_that_matter_to_some_class_stay():
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(tol=1e-7, random_state=0).fit(X, y)
    proof = prove(model, X, y)
    assert 0.05 < proof.irrelevant_rows.mean() < 0.9
    X_less, y_less, weight = proof.reduced_problem()
    less = LinearSVC(tol=1e-7, random_state=0).fit(X_less, y_less, weight)
    np.testing.assert_allclose(less.coef_, model.coef_, atol=1e-3)
    low, high = proof.score_bounds(X)
    assert low.shape == (150, 3)
    assert np.all(low <= high)


def test_class_weights_are_in_the_reduced_problem():
    X, y, weight = classes(3)
    ways = {"loss": "hinge", "C": 0.1, "tol": 1e-8, "random_state": 0}
    model = LinearSVC(class_weight="balanced", **ways).fit(X, y, weight)
    less = LinearSVC(**ways).fit(*prove(model, X, y, weight).reduced_problem())
    np.testing.assert_allclose(less.coef_, model.coef_, atol=1e-3)


def test_a_search_has_the_proof_of_its_best_model():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    search = LinearSVCCV(Cs=[0.01, 0.1], cv=3, random_state=0).fit(X, y)
    assert prove(search, X, y).model is search.best_estimator_


def test_bad_input():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="crammer_singer"):
        prove(LinearSVC(multi_class="crammer_singer").fit(X, y), X, y)
    with pytest.raises(TypeError, match="not for widemargin's LinearRanker"):
        prove(LinearRanker().fit(X, y), X, y)
    with pytest.raises(TypeError, match="not for sklearn's LinearSVC; of models that"):
        prove(svm.LinearSVC().fit(X, y), X, y)
    model = LinearSVC().fit(X, y)
    with pytest.raises(ValueError, match="150 rows"):
        prove(model, X[:50], y[:50])
    with pytest.raises(ValueError, match="features"):
        prove(model, X, y).settled_mask(X[:, :2])
    with pytest.raises(TypeError, match="within is for regression"):
        prove(model, X, y).settled_mask(X, within=1.0)
    for remove in (["a"], [150], [-1], [0.5], [True]):
        with pytest.raises(ValueError, match="remove must be row numbers from 0 to 149"):
            prove(model, X, y).influence_bounds(remove)
    with pytest.raises(ValueError, match="row 0 has label 7"):
        prove(model, X, y).influence_bounds(add=(X[:1], [7]))
    balanced = LinearSVC(class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        prove(balanced, X, y).influence_bounds(add=(X[:1], y[:1]))
    del model.dual_variables_
    with pytest.raises(ValueError, match="no dual variables"):
        prove(model, X, y)
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(TypeError, match="no labels"):
        prove(LinearSVR().fit(X, y), X, y).settled_mask(X)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from(sorted(LOSSES)),
    intercept=st.sampled_from([*INTERCEPTS.values(), SCALED]),
    C=st.sampled_from([0.01, 1.0]),
    tol=st.sampled_from([1e-2, 1e-6]),
    k=st.sampled_from([2, 3]),
    sparse=st.booleans(),
)
def test_rows_that_are_removed_and_added(seed, loss, intercept, C, tol, k, sparse):
    X, y, weight = classes(seed, k=k)
    weight[-6:] = [0, 1, 2, 1, 3, 1]
    ways = {"loss": loss, "C": C, "class_weight": {1: 2.0}, **intercept}
    remove, old = np.random.default_rng(seed).integers(k, 34, 3), slice(0, 34)
    after = weight.copy()
    after[remove] = 0
    exact = fitted(LinearSVC, X, y, after, 1e-12, **ways)
    form = sp.csr_matrix if sparse else np.asarray
    rough = fitted(LinearSVC, form(X[old]), y[old], weight[old], tol, **ways)
    proof = prove(rough, form(X[old]), y[old], weight[old])
    found = proof.influence_bounds(remove, (form(X[34:]), y[34:], weight[34:]))
    slip = 1e-4 * (1.0 + np.abs(exact.coef_).max())
    low, high = found.weight_bounds()
    assert np.all((low <= exact.coef_ + slip) & (exact.coef_ <= high + slip))
    scores, (low, high) = exact.decision_function(X), found.score_bounds(X)
    assert np.all((low <= scores + 5 * slip) & (scores <= high + 5 * slip))
    parts = exact.certificate_.parts or (exact.certificate_,)
    for low, high, part in zip(*found.objective_bounds, parts, strict=True):
        assert low <= part.primal
        assert part.dual <= high
    rough.update(X, y, weight, remove=remove)
    left = ~np.isin(np.arange(len(y)), remove)
    assert rough.dual_variables_.shape[1] == left.sum()
    again = certify(rough, X[left], y[left], weight[left])
    assert again.primal == pytest.approx(rough.certificate_.primal)
    assert max(p.relative_gap for p in again.parts or (again,)) <= tol * (1 + 1e-9)
    assert not rough.warm_start


def test_a_row_that_is_added_changes_little():
    """Bounds after one more row are nearly as close as before."""
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = LinearSVC(C=0.01, loss="hinge", tol=1e-7, random_state=0).fit(X[1:], y[1:])
    proof = prove(model, X[1:], y[1:])
    assert proof.influence_bounds(add=(X[:1], y[:1])).settled_mask(X).mean() > 0.9
    assert proof.influence_bounds(remove=[5]).settled_mask(X).mean() > 0.9
    again = proof.influence_bounds()
    assert again.regions[0].radius == proof.regions[0].radius


def test_regression_is_settled_within_a_distance():
    X, y = load_diabetes(return_X_y=True)
    y = np.column_stack([y, y[::-1]])
    model, exact = (LinearSVR(tol=tol, random_state=0).fit(X, y) for tol in (1e-5, 1e-10))
    proof = prove(model, X, y)
    shares = []
    for within in (1e-9, 0.3, 3.0):
        settled = proof.settled_mask(X, within=within)
        shares.append(settled.mean())
        apart = np.abs(model.predict(X) - exact.predict(X))[settled]
        assert np.all(apart <= within + 1e-6)
    assert shares[0] == 0.0
    assert shares[2] == 1.0
    new = X[:1] + 0.01, [[100.0, 120.0]]
    exact = LinearSVR(tol=1e-9).fit(np.vstack([X[1:], new[0]]), np.vstack([y[1:], new[1]]))
    low, high = proof.influence_bounds([0], new).score_bounds(X)
    assert np.all((low <= exact.predict(X) + 1e-2) & (exact.predict(X) <= high + 1e-2))


def test_rows_of_weight_zero_are_not_left_out():
    X, y, _ = classes(5)
    weight = np.r_[np.zeros(20), np.ones(20)]
    ways = {"C": 0.1, "tol": 1e-9, "random_state": 0}
    found = prove(LinearSVC(**ways).fit(X, y, weight), X, y, weight).leave_one_out()
    less = prove(LinearSVC(**ways).fit(X[20:], y[20:]), X[20:], y[20:]).leave_one_out()
    assert found[2:] == less[2:]


def test_two_classes_of_crammer_and_singer_are_reduced():
    X, y = load_breast_cancer(return_X_y=True)
    ways = {"multi_class": "crammer_singer", "C": 0.1, "tol": 1e-8, "random_state": 0}
    model = LinearSVC(**ways).fit(scale(X), y)
    smaller = prove(model, scale(X), y).reduced_problem()
    assert len(smaller.y) < 200
    np.testing.assert_allclose(LinearSVC(**ways).fit(*smaller).coef_, model.coef_, atol=1e-3)


def test_updates_of_frames_and_of_classes():
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LinearSVC(random_state=0).fit(frame[:120], y[:120])
    model.update(frame, pd.Series(y), remove=np.arange(150) < 10)
    assert list(model.feature_names_in_) == list("abcd")
    assert model.dual_variables_.shape == (3, 140)
    model.update(frame[10:], y[10:], remove=np.flatnonzero(y[10:] == 2))  # two classes are left
    assert model.coef_.shape == (1, 4)
    two = y < 2
    fresh = LinearSVC(random_state=0).fit(frame[two][10:], y[two][10:])
    assert model.certificate_.primal == pytest.approx(fresh.certificate_.primal, rel=2e-3)
    with pytest.raises(ValueError, match="trained on 90"):
        model.update(X[:80], y[:80])
    before = model.dual_variables_
    with pytest.raises(ValueError, match="no rows are left"):
        model.update(X[:90], y[:90], remove=np.arange(90))
    with pytest.raises(ValueError, match="row numbers from 0 to 89"):
        model.update(X[:90], y[:90], remove=[90])
    with pytest.raises(ValueError, match="NaN"):
        model.update(np.full((95, 4), np.nan), np.resize([0, 1], 95))
    assert model.dual_variables_ is before
    rows = as_rows(X)
    with pytest.raises(TypeError, match="in memory"):
        model.update(rows, y)


def test_settled_is_what_bounds_say():
    X, y = load_iris(return_X_y=True)
    shares = []
    for tol in (0.3, 1e-2, 1e-4):
        model = LinearSVC(loss="hinge", solver="dcd", tol=tol, random_state=0).fit(X, y)
        proof = prove(model, X, y)
        low, high = proof.score_bounds(X)
        found = proof.settled_mask(X)
        for i, label in enumerate(model.predict(X)):
            assert found[i] == (low[i, label] > np.delete(high[i], label).max())
        shares.append(found.mean())
    assert shares[0] < shares[-1]
    X, y = load_diabetes(return_X_y=True)
    model = LinearSVR(tol=1e-3, random_state=0).fit(X, y)
    proof, at = prove(model, X, y), model.predict(X)
    low, high = proof.score_bounds(X)
    far = np.maximum(high - at, at - low)
    within = float(np.median(far))
    assert np.array_equal(proof.settled_mask(X, within=within), far <= within)
    assert np.ptp(high - at + low - at) > 0.0  # not the same on both sides
