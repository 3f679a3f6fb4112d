"""Thresholds per label: each the best of all, on the rows that it is tuned on."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score

from widemargin import LinearSVC, tune_threshold


def _fitted(sparse):
    rng = np.random.default_rng(0)
    X = sp.random(150, 20, 0.3, format="csr", random_state=0)
    Y = (X[:, :5].toarray() + 0.5 * rng.random((150, 5)) > 0.6).astype(int)
    Y[75:, 3] = 0  # none of the rows that thresholds are tuned on has it
    Y[:75, 3] |= rng.random(75) < 0.2
    model = LinearSVC(C=0.1, sparse_coef=sparse).fit(X[:75], Y[:75])
    return model, X[75:], Y[75:]


@pytest.mark.parametrize("sparse", [True, False])
def test_no_threshold_of_a_label_is_better(sparse):
    model, X, Y = _fitted(sparse)
    tuned = tune_threshold(model, X, Y)
    scores, predicted = model.decision_function(X), tuned.predict(X)
    for j in (0, 1, 2, 4):
        every = [f1_score(Y[:, j], scores[:, j] >= t, zero_division=0) for t in scores[:, j]]
        assert f1_score(Y[:, j], predicted[:, j]) == pytest.approx(max(every))
    assert tuned.intercept_[3] == model.intercept_[3]
    assert np.array_equal(
        tuned.coef_.toarray() if sparse else tuned.coef_,
        np.asarray(model.coef_.toarray() if sparse else model.coef_),
    )


def test_labels_below_the_floor_are_predicted_above_the_largest_score_only():
    model, X, Y = _fitted(False)
    tuned = tune_threshold(model, X, Y, floor=1.0)
    plain = tune_threshold(model, X, Y)
    for j in range(5):
        reached = f1_score(Y[:, j], plain.predict(X)[:, j], zero_division=0)
        if reached < 1.0:
            assert not tuned.predict(X)[:, j].any()
            assert tuned.decision_function(X)[:, j].max() <= 1e-12
        else:
            assert np.array_equal(tuned.predict(X)[:, j], Y[:, j])


def test_what_cannot_be_tuned_is_refused():
    model, X, Y = _fitted(False)
    with pytest.raises(ValueError, match="does not depend on a threshold"):
        tune_threshold(model, X, Y, measure="precision@5")
    with pytest.raises(ValueError, match="floor must be"):
        tune_threshold(model, X, Y, floor=2.0)
    with pytest.raises(ValueError, match="5 labels"):
        tune_threshold(model, X, Y[:, :4])
    with pytest.raises(ValueError, match="trained on a matrix of labels"):
        tune_threshold(model, X, Y[:, 0])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        tune_threshold(model, X, Y[:-1])
    binary = LinearSVC().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="floor is for"):
        tune_threshold(binary, X, Y[:, 0], floor=0.1)
