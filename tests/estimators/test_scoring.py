"""Scores for predictions, against products in Fractions and by NumPy."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from widemargin import LinearRanker, LinearSVC
from widemargin.estimators.scoring import linear_scores, model_scores

KINDS = {
    "dense": lambda X: X,
    "single precision": lambda X: X.astype(np.float32),
    "csr_matrix": scipy.sparse.csr_matrix,
    "csr_array": scipy.sparse.csr_array,
    "csc_matrix": scipy.sparse.csc_matrix,
    "single, sparse": lambda X: scipy.sparse.csr_matrix(X.astype(np.float32)),
    "list": lambda X: X.tolist(),
}


def model_of(n_features, n_classes, seed=0):
    """Return a fitted model with coefficients of few digits, so that products are exact."""
    rng = np.random.default_rng(seed)
    n_outputs = 1 if n_classes == 2 else n_classes
    model = LinearSVC()
    model.coef_ = rng.integers(-8, 9, size=(n_outputs, n_features)) / 4.0
    model.intercept_ = rng.integers(-8, 9, size=n_outputs) / 2.0
    model.classes_, model.n_features_in_ = np.arange(n_classes), n_features
    return model


@given(
    n_rows=st.integers(1, 40),
    n_features=st.integers(1, 30),
    n_classes=st.sampled_from([2, 3, 9]),
    kind=st.sampled_from(sorted(KINDS)),
    seed=st.integers(0, 99),
)
def test_scores_are_exact_where_products_are(n_rows, n_features, n_classes, kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-9, 10, size=(n_rows, n_features)) / 8.0
    X[rng.random(X.shape) < 0.6] = 0.0
    model = model_of(n_features, n_classes, seed)
    scores = model.decision_function(KINDS[kind](X))
    exact = [
        [
            sum((Fraction(x) * Fraction(w) for x, w in zip(row, weights)), Fraction(offset))
            for weights, offset in zip(model.coef_, model.intercept_)
        ]
        for row in X
    ]
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores.reshape(n_rows, -1), np.array(exact, dtype=np.float64))


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"list"}))
def test_threads_change_no_score(kind, n_classes):
    X = np.random.default_rng(0).normal(size=(6000, 60))
    rows, model = KINDS[kind](X), model_of(60, n_classes)
    alone = model.decision_function(rows)
    together = model.set_params(n_jobs=2).decision_function(rows)
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        np.squeeze(X @ model.coef_.T + model.intercept_), alone, rtol=1e-5, atol=1e-4
    )


def test_no_score_depends_on_the_other_rows_of_a_sparse_matrix():
    X = scipy.sparse.random(500, 90, 0.2, "csr", random_state=0)
    for n_classes in (2, 4):
        model = model_of(90, n_classes)
        one_by_one = np.concatenate([model.decision_function(X[i]) for i in range(X.shape[0])])
        np.testing.assert_allclose(one_by_one, model.decision_function(X), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["dense", "single precision", "csr_matrix", "csr_array"])
@pytest.mark.parametrize("sparse_weights", [False, True])
def test_a_missing_value_is_named_even_where_its_weight_is_zero(kind, bad, sparse_weights):
    X = np.ones((70, 6))
    X[41, 3] = bad
    model = model_of(6, 3)
    model.coef_[:, 3] = 0.0
    if sparse_weights:
        model.sparsify()
    with pytest.raises(ValueError, match=r"\(row 41, column 3"):
        model.decision_function(KINDS[kind](X))


def test_a_score_that_overflows_is_not_a_missing_value():
    model = model_of(2, 2)
    model.coef_ = np.array([[1e300, 1e300]])
    scores = model.decision_function(np.array([[1e300, 0.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(scores, [np.inf, 1e300 + model.intercept_[0]])


def test_entries_in_any_order_and_entries_that_repeat_a_place():
    X = scipy.sparse.csr_matrix(([1.0, 2.0, 4.0], [2, 0, 2], [0, 3]), shape=(1, 3))
    model = model_of(3, 2)
    expected = 2.0 * model.coef_[0, 0] + 5.0 * model.coef_[0, 2] + model.intercept_[0]
    assert model.decision_function(X) == expected
    assert X.nnz == 3  # what users pass stays as it is


def test_an_index_outside_is_refused_before_it_is_read():
    X = scipy.sparse.csr_matrix(([1.0, 2.0], [0, 2], [0, 2]), shape=(1, 3))
    X.indices[1] = 7
    with pytest.raises(ValueError, match="row 0 has column index 7"):
        model_of(3, 2).decision_function(X)


def test_the_number_of_features_is_checked():
    for rows in (np.ones((2, 4)), scipy.sparse.csr_matrix(np.ones((2, 4)))):
        with pytest.raises(ValueError, match="4 features, but LinearSVC is expecting 3 features"):
            model_of(3, 2).decision_function(rows)


def test_a_ranker_scores_as_its_coefficients_say():
    X = np.random.default_rng(1).normal(size=(30, 4))
    model = LinearRanker().fit(X, np.arange(30) % 3)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_, rtol=1e-12)
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 7, column 2"):
        model.decision_function(X)


def test_large_calls_are_made_in_pieces():
    X = np.random.default_rng(2).normal(size=(30_000, 20)).astype(np.float32)
    W = np.random.default_rng(3).normal(size=(20, 3))
    for rows in (X, scipy.sparse.csr_matrix(X)):
        for coef in (W, W[:, 0]):
            np.testing.assert_allclose(linear_scores(rows, coef), X @ coef, rtol=1e-5, atol=1e-5)


def test_sparse_coefficients_score_the_same():
    X = np.random.default_rng(4).normal(size=(20, 6))
    model = model_of(6, 4)
    expected = model.decision_function(X)
    coef = scipy.sparse.csr_matrix(model.coef_.T)
    np.testing.assert_allclose(model_scores(model, X, coef, model.intercept_), expected)
