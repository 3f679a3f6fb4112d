"""to_sklearn: plain scikit-learn models that predict the same, and need no widemargin."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LinearRegression
from sklearn.svm import LinearSVC as SklearnLinearSVC

from widemargin import (
    LinearRanker,
    LinearSVC,
    LinearSVCCV,
    MeasureSVC,
    MeasureSVCCV,
    OrdinalSVC,
)

X, Y = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[Y]


def twin_of(model):
    """Return the twin, sent through a pickle that names no module of ours."""
    sent = pickle.dumps(model.to_sklearn())
    assert b"widemargin" not in sent
    return pickle.loads(sent)


@pytest.mark.parametrize("labels", [WORDS, Y == 2], ids=["three classes", "two"])
@pytest.mark.parametrize(
    "model",
    [LinearSVC(probability=True), LinearSVCCV(Cs=3, probability=True)],
    ids=["LinearSVC", "LinearSVCCV"],
)
def test_calibrated_classifiers(model, labels):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = model.set_params(random_state=0).fit(frame, labels)
    twin = twin_of(model)
    assert type(twin) is CalibratedClassifierCV
    np.testing.assert_array_equal(twin.classes_, model.classes_)
    np.testing.assert_allclose(twin.predict_proba(frame), model.predict_proba(frame), rtol=1e-12)
    inner = twin.calibrated_classifiers_[0].estimator
    np.testing.assert_array_equal(inner.predict(frame), model.predict(frame))
    assert list(twin.feature_names_in_) == list("abcd")


def test_a_classifier_that_chose_C():
    model = LinearSVCCV(Cs=3, random_state=0).fit(X, WORDS)
    twin = twin_of(model)
    assert type(twin) is SklearnLinearSVC
    assert model.C_ == twin.C
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


@pytest.mark.parametrize("model", [MeasureSVC("f1"), MeasureSVCCV("f1", Cs=3, cv=3)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_measures(model):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model.fit(frame, np.where(Y == 1, "yes", "no"))
    twin = twin_of(model)
    assert type(twin) is SklearnLinearSVC
    np.testing.assert_array_equal(twin.predict(frame), model.predict(frame))
    scores = twin.decision_function(frame)
    np.testing.assert_allclose(scores, model.decision_function(frame), rtol=1e-12, atol=1e-12)


def test_a_ranker():
    data, y = load_diabetes(return_X_y=True)
    model = LinearRanker(C=10).fit(data, y)
    twin = twin_of(model)
    assert type(twin) is LinearRegression
    np.testing.assert_allclose(twin.predict(data), model.predict(data), rtol=1e-12)


@pytest.mark.parametrize("cuts", [[140], [80, 140, 210], [60, 90, 120, 150, 200, 250]])
def test_ordinal_regression(cuts):
    data, y = load_diabetes(return_X_y=True)
    model = OrdinalSVC(C=10).fit(data, np.digitize(y, cuts))
    twin = twin_of(model)
    assert type(twin) is SklearnLinearSVC
    np.testing.assert_array_equal(twin.predict(data), model.predict(data))


@given(
    thresholds=st.lists(
        st.integers(-4, 4).map(float) | st.sampled_from([-np.inf, np.inf]), min_size=1, max_size=6
    ).map(sorted)
)
def test_thresholds_that_meet_or_are_infinite(thresholds):
    """Scores are multiples of one half here, so that ties with thresholds occur, exactly."""
    scores = np.arange(-12, 13)[:, None] / 2.0
    model = OrdinalSVC()
    model.coef_, model.thresholds_ = np.ones(1), np.array(thresholds)
    # Ordered categories need not be in the order of the alphabet.
    model.classes_ = np.array(list("zayxbwv")[: len(thresholds) + 1])
    model.n_features_in_, model.n_iter_ = 1, 1
    np.testing.assert_array_equal(model.to_sklearn().predict(scores), model.predict(scores))
