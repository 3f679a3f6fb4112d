"""LogisticRegressionCV: the same search as LinearSVCCV, with probabilities."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import scale

from widemargin import LogisticRegressionCV, certify, load_model, save_model

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
Cs = [0.01, 0.1, 1.0, 10.0]


@pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
def test_scores_are_those_of_single_fits(scoring, multi_class):
    many = multi_class == "multinomial"
    data = load_iris(return_X_y=True) if many else (X, y)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = LogisticRegressionCV(
        Cs=Cs, cv=folds, scoring=scoring, multi_class=multi_class, tol=1e-8
    ).fit(*data)
    for j, C in enumerate(Cs):
        peer = linear_model.LogisticRegression(C=C, tol=1e-9, max_iter=10000)
        scores = cross_val_score(peer, *data, cv=folds, scoring=scoring)
        np.testing.assert_allclose(
            model.scores_[:, j], scores, atol=0.02 if scoring is None else 1e-4
        )
    assert model.scores_.mean(axis=0).max() == model.scores_.mean(axis=0)[Cs.index(model.C_)]
    assert model.relative_gaps_.max() <= 1e-8
    assert certify(model, *data).relative_gap <= 1e-8
    np.testing.assert_allclose(model.predict_proba(data[0]).sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        model.predict_proba(data[0]), model.best_estimator_.predict_proba(data[0])
    )


def test_it_is_saved_and_has_a_twin(tmp_path):
    model = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(X, y)
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(
        load_model(tmp_path / "m").predict_proba(X), model.predict_proba(X)
    )
    np.testing.assert_allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X))


def test_a_fold_without_a_class_knows_no_probability_of_it():
    X, y = load_iris(return_X_y=True)
    folds = [(np.flatnonzero(y != 2), np.flatnonzero(y != 2)), (np.arange(150), np.arange(150))]
    model = LogisticRegressionCV(Cs=[1.0], cv=folds).fit(X, y)
    peer = linear_model.LogisticRegression(max_iter=10000).fit(X[y != 2], y[y != 2])
    assert model.scores_[0, 0] == peer.score(X[y != 2], y[y != 2])
