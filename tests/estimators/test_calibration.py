"""Probabilities: scikit-learn's calibration of scores of held-out rows."""

import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, StratifiedKFold, train_test_split
from sklearn.svm import LinearSVC as SklearnLinearSVC

from widemargin import LinearSVC, LinearSVCCV
from widemargin.estimators.calibration import fit_sigmoids
from widemargin.estimators.fitting import Fit
from widemargin.estimators.path import CostPath
from widemargin.sigmoids import probabilities

TIGHT = {"tol": 1e-10, "random_state": 0}


def data(classes=2, n=200, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.normal(size=(classes, d))[y] + 1.5 * rng.normal(size=(n, d))
    return X, np.array(["a", "b", "c", "d"])[y]


def test_none_unless_asked_for():
    X, y = data()
    for model in (LinearSVC(), LinearSVCCV(Cs=[1.0])):
        model.fit(X, y)
        assert not hasattr(model, "predict_proba")
        assert not hasattr(model, "sigmoids_")
        with pytest.raises(AttributeError, match="predict_proba") as caught:
            _ = model.predict_proba
        assert "probability=True" in caught.value.__notes__[0]
        model.probability = True
        with pytest.raises(NotFittedError, match="fitted with probability=False"):
            model.predict_proba(X)
        assert model.fit(X, y).predict_proba(X).shape == (200, 2)
        model.set_params(probability=False).fit(X, y)
        assert not hasattr(model, "sigmoids_")


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "CSR"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("classes", "parameters"),
    [
        (2, {}),
        (3, {"penalized_intercept": True, "class_weight": "balanced"}),
        (3, {"fit_intercept": False, "C": 0.01}),
    ],
)
def test_the_same_as_scikit_learns(classes, parameters, weighted, make):
    """It trains every fold anew, from nothing, and knows nothing of warm starts."""
    X, y = data(classes)
    weights = np.random.default_rng(1).integers(1, 4, y.size) * 1.0 if weighted else None
    ours = LinearSVC(probability=True, **parameters, **TIGHT).fit(make(X), y, weights)
    theirs = CalibratedClassifierCV(
        LinearSVC(**parameters, **TIGHT), cv=StratifiedKFold(5), ensemble=False
    ).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_the_search_calibrates_on_its_own_folds():
    X, y = data(3)
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    search = LinearSVCCV(Cs=[0.01, 0.1], cv=folds, probability=True, **TIGHT).fit(X, y)
    theirs = CalibratedClassifierCV(LinearSVC(C=search.C_, **TIGHT), cv=folds, ensemble=False)
    expected = theirs.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(search.predict_proba(X), expected, atol=1e-4)
    assert search.best_estimator_.probability
    np.testing.assert_array_equal(search.predict_proba(X), search.best_estimator_.predict_proba(X))


def test_rows_held_out_never_or_often():
    X, y = data(3)
    weights = np.random.default_rng(0).integers(0, 3, y.size)
    folds = ShuffleSplit(3, test_size=0.4, random_state=0)
    model = LinearSVCCV(Cs=[0.1], cv=folds, probability=True, **TIGHT).fit(X, y, weights)
    scores, names = [], []
    for train, held_out in folds.split(X):
        held_out = held_out[weights[held_out] > 0]
        fold = LinearSVC(C=0.1, **TIGHT).fit(X[train], y[train], weights[train])
        scores.append(fold.decision_function(X[held_out]))
        names.append(held_out)
    names = np.concatenate(names)
    expected = fit_sigmoids(np.concatenate(scores), y[names], model.classes_, weights[names])
    np.testing.assert_allclose(model.sigmoids_, expected, atol=1e-4)


def brier_score(y, probabilities):
    """scikit-learn has it for more than two classes from version 1.7 on."""
    return np.mean((probabilities - (y[:, None] == np.unique(y))) ** 2)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_as_good_as_scikit_learns_on_other_rows(classes, multi_class):
    X, y = data(classes, n=900)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    ours = LinearSVC(probability=True, multi_class=multi_class, random_state=0).fit(X, y)
    theirs = CalibratedClassifierCV(SklearnLinearSVC(random_state=0)).fit(X, y)
    for loss in (log_loss, brier_score):
        mine = loss(y_test, ours.predict_proba(X_test))
        assert mine == pytest.approx(loss(y_test, theirs.predict_proba(X_test)), rel=0.03)


def test_a_weight_of_zero_is_a_row_left_out():
    X, y = data(3)
    weights = np.random.default_rng(1).integers(0, 2, y.size)
    weighted = LinearSVC(probability=True, **TIGHT).fit(X, y, weights)
    left_out = LinearSVC(probability=True, **TIGHT).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(weighted.sigmoids_, left_out.sigmoids_, atol=1e-4)


def test_no_warning_that_means_nothing():
    X, y = data(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearSVC(probability=True, random_state=0).fit(X, y, np.full(y.size, 2.0))
        LinearSVCCV(Cs=[0.1], probability=True, random_state=0).fit(X, y, np.full(y.size, 2.0))


def test_weights_need_not_be_asked_for():
    """Who routes metadata routes it to our models, not to what is inside them."""
    X, y = data(3)
    weights = np.random.default_rng(1).random(y.size)
    for model in (LinearSVC(probability=True), LinearSVCCV(Cs=[0.1], probability=True)):
        plain = clone(model).fit(X, y, weights)
        with config_context(enable_metadata_routing=True):
            routed = clone(model).fit(X, y, weights)
        np.testing.assert_array_equal(routed.sigmoids_, plain.sigmoids_)


def test_rare_classes():
    X, y = data(2)
    y[:] = "a"
    y[:3] = "b"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # three folds then, and no more is to be said
        model = LinearSVC(probability=True, **TIGHT).fit(X, y)
    folds = StratifiedKFold(3)
    theirs = CalibratedClassifierCV(LinearSVC(**TIGHT), cv=folds, ensemble=False).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    y[1:3] = "a"
    with pytest.raises(ValueError, match=r"probability=True .* class 'b' has only one row"):
        LinearSVC(probability=True).fit(X, y.astype(object))


def test_what_cannot_be_calibrated_is_refused_before_training(monkeypatch):
    def train(*arguments):
        raise AssertionError("training has begun")

    monkeypatch.setattr(Fit, "run", train)
    monkeypatch.setattr(CostPath, "advance", train)
    X, y = data(3)
    one = np.where(np.arange(y.size) == 5, "d", y)
    weights = np.where(y == "a", 0.0, 1.0)
    for model in (LinearSVC(probability=True), LinearSVC(probability=True, warm_start=True)):
        with pytest.raises(ValueError, match="class 'd' has only one row"):
            model.fit(X, one)
        with pytest.raises(ValueError, match="class 'a' has no row of positive weight"):
            model.fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="none of them are of class 'a'"):
        LinearSVCCV(Cs=[0.1], probability=True).fit(X, y, sample_weight=weights)
    folds = [(np.flatnonzero(y == "c"), np.flatnonzero(y != "c"))]
    folds[0][0][0] = folds[0][1][0]
    with pytest.raises(ValueError, match="none of them are of class 'c'"):
        LinearSVCCV(Cs=[0.1], cv=folds, probability=True).fit(X, y)


def test_a_class_that_is_never_held_out():
    X, y = data(3)
    first, second = np.flatnonzero(y != "c")[:60], np.flatnonzero(y != "c")[60:]
    rest = np.flatnonzero(y == "c")
    folds = [(np.r_[first, rest], second), (np.r_[second, rest], first)]
    model = LinearSVCCV(Cs=[0.1], cv=folds).fit(X, y)
    assert model.scores_.shape == (2, 1)
    with pytest.raises(ValueError, match="none of them are of class 'c'"):
        model.set_params(probability=True).fit(X, y.astype(object))


def test_rows_on_disk():
    X, y = data(3)
    X = np.float32(X)
    on_disk = LinearSVC(probability=True, tol=1e-6, random_state=0).fit(Blocks(X, 50), y)
    in_memory = LinearSVC(probability=True, tol=1e-6, random_state=0).fit(X, y)
    np.testing.assert_allclose(on_disk.sigmoids_, in_memory.sigmoids_, atol=0.01)
    np.testing.assert_allclose(
        on_disk.predict_proba(Blocks(X, 50)), in_memory.predict_proba(X), atol=0.01
    )


def test_who_is_stopped_calibrates_no_better_than_that(monkeypatch):
    """Folds are trained to the gap the model has reached, not to a tol it did not."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 50), dtype=np.float32), rng.integers(0, 2, 2000)
    slow = {"C": 1e4, "tol": 1e-12, "solver": "dcd", "max_iter": 20, "random_state": 0}
    tols, advance = [], CostPath.advance

    def note_and_advance(self, C):
        tols.append(self.model.tol)
        advance(self, C)

    monkeypatch.setattr(CostPath, "advance", note_and_advance)
    model = LinearSVC(probability=True, **slow)
    with pytest.warns(match="max_iter"):
        model.fit(X, y)
    assert model.certificate_.relative_gap > 1e-3
    assert tols == [model.certificate_.relative_gap]
    assert np.isfinite(model.predict_proba(X)).all()


def test_ctrl_c_ends_calibration_too(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    X, y = data(3)
    try:
        advance = CostPath.advance

        def press_and_advance(self, C):
            signal.raise_signal(signal.SIGINT)
            assert self.interruption.requested
            advance(self, C)
            statuses = {monitor.status for of_one in self.monitors for monitor in of_one}
            assert statuses <= {"interrupted", "converged"}

        monkeypatch.setattr(CostPath, "advance", press_and_advance)
        model = LinearSVC(probability=True, **TIGHT).fit(X, y)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@given(
    st.integers(1, 4).map(lambda k: 1 if k == 2 else k),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 1e3, 1e300]),
)
def test_probabilities_are_probabilities(m, seed, scale):
    rng = np.random.default_rng(seed)
    found = probabilities(scale * rng.normal(size=(7, m)), rng.normal(size=(m, 2)))
    assert found.shape == (7, max(m, 2))
    assert np.all((found >= 0.0) & (found <= 1.0))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
