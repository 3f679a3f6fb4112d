"""OrdinalSVC: an order, and the best thresholds in it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes
from sklearn.metrics import accuracy_score, mean_absolute_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import LinearRanker, OrdinalSVC, certify
from widemargin.estimators.thresholds import best_thresholds


def stages(n_stages=5):
    X, y = load_diabetes(return_X_y=True)
    edges = np.quantile(y, np.linspace(0, 1, n_stages + 1)[1:-1])
    return X, np.digitize(y, edges) + 3


@pytest.mark.parametrize("error", ["absolute", "zero_one"])
def test_the_order_is_the_rankers_and_the_thresholds_are_the_best(error):
    X, y = stages()
    model = OrdinalSVC(C=10, error=error).fit(X, y)
    ranker = LinearRanker(C=10).fit(X, y)
    np.testing.assert_array_equal(model.coef_, ranker.coef_)
    assert model.certificate_ == ranker.certificate_
    scores = model.score_samples(X)
    np.testing.assert_array_equal(model.thresholds_, best_thresholds(scores, y - 3, 5, loss=error))
    assert model.thresholds_.shape == (4,)
    assert np.all(np.diff(model.thresholds_) >= 0)
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted, 3 + np.searchsorted(model.thresholds_, scores))
    assert set(predicted) <= set(model.classes_)


def test_each_error_is_least_where_it_was_asked_for():
    X, y = stages()
    by_distance = OrdinalSVC(C=10, error="absolute").fit(X, y).predict(X)
    by_count = OrdinalSVC(C=10, error="zero_one").fit(X, y).predict(X)
    assert mean_absolute_error(y, by_distance) <= mean_absolute_error(y, by_count)
    assert accuracy_score(y, by_count) >= accuracy_score(y, by_distance)


def test_labels_may_be_words_and_weights_count():
    X, y = stages(3)
    words = np.array(["a: well", "b: so-so", "c: ill"])[y - 3]
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    again = np.repeat(np.arange(len(y)), weight)
    model = OrdinalSVC(C=10, tol=1e-6).fit(X, words, sample_weight=weight)
    repeated = OrdinalSVC(C=10, tol=1e-6).fit(X[again], words[again])
    assert model.classes_.tolist() == sorted(set(words))
    assert np.mean(model.predict(X) == repeated.predict(X)) > 0.99
    certificate = certify(model, X, words, sample_weight=weight)
    assert certificate.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


def test_half_stars():
    X, y = stages()
    model = OrdinalSVC(C=10).fit(X, y / 2)
    np.testing.assert_array_equal(model.classes_, np.arange(3, 8) / 2)
    np.testing.assert_array_equal(model.predict(X), OrdinalSVC(C=10).fit(X, y).predict(X) / 2)


def test_sparse_rows_and_single_precision():
    X, y = stages()
    expected = OrdinalSVC(C=10, tol=1e-5).fit(X, y)
    for form in (sp.csr_matrix(X), X.astype(np.float32)):
        model = OrdinalSVC(C=10, tol=1e-5).fit(form, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0.02, atol=0.02)
        error = mean_absolute_error(y, model.predict(form))
        assert error == pytest.approx(mean_absolute_error(y, expected.predict(X)), abs=0.01)


def test_it_searches_in_a_pipeline():
    X, y = stages()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), OrdinalSVC()),
        {"ordinalsvc__C": [0.001, 0.1, 10]},
        scoring="neg_mean_absolute_error",
    ).fit(X, y)
    assert -search.best_score_ < 1.0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones(442), "only one class: .*1"),
        (np.r_[np.ones(441), np.nan], r"no label in row 441 \(NaN\)"),
        (np.array([None] + [1.0] * 441), "no label in row 0"),
    ],
)
def test_bad_labels_are_named(y, message):
    X, _ = stages()
    with pytest.raises(ValueError, match=message):
        OrdinalSVC().fit(X, y)


def test_bad_parameters_and_unknown_labels_are_named():
    X, y = stages()
    with pytest.raises(ValueError, match="error must be one of 'absolute', 'zero_one'"):
        OrdinalSVC(error="squared").fit(X, y)
    model = OrdinalSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"row 0 has label .*99"):
        certify(model, X, np.full(442, 99))


def test_groups_are_for_rankings():
    X, y = load_diabetes(return_X_y=True)
    model = OrdinalSVC().fit(X, np.digitize(y, [100.0, 200.0]))
    with pytest.raises(ValueError, match="qid is for LinearRanker; OrdinalSVC knows no groups"):
        certify(model, X, np.digitize(y, [100.0, 200.0]), qid=np.arange(y.size))
