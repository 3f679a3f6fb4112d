"""Logistic regression, sparse weights and one class on strange data: proved models, no NaN."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearOneClassSVM, LinearSVC, LinearSVR, LogisticRegression, certify

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
y = (X[:, 0] + 0.5 * RNG.standard_normal(30) > 0).astype(int)


def wide_csr():
    """Return rows with 64-bit indices, more columns than rows."""
    rows = sp.random(30, 2000, 0.01, format="csr", random_state=0)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows


def read_only(rows):
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


ROWS = {
    "constant": np.ones((30, 4)),
    "zero": np.zeros((30, 4)),
    "no entries": sp.csr_matrix((30, 4)),
    "1e30": X * 1e30,
    "1e-30": X * 1e-30,
    "mixed scales": X * [1e30, 1e-30, 1.0, 1e10],
    "repeated": np.repeat(X[:3], 10, axis=0),
    "collinear": np.hstack([X, X, X]),
    "wide": wide_csr(),
    "by columns": np.asfortranarray(X),
    "read only": read_only(X),
    "whole": (10 * X).astype(np.int64),
}
MODELS = [
    LogisticRegression(),
    LogisticRegression(multi_class="ovr", solver="dcd"),
    LogisticRegression(l1_ratio=1.0),
    LogisticRegression(l1_ratio=0.5, tol=1e-10),
    LogisticRegression(C=1e10),
    LinearSVC(penalty="l1"),
    LinearSVC(penalty="elasticnet", C=1e10),
    LinearSVR(loss="huber", penalty="l1"),
    LinearOneClassSVM(),
    LinearOneClassSVM(nu=1.0, tol=1e-10),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_models_are_finite_and_bounds_true(rows, model):
    labels = np.tile([0, 1], 15) if rows.shape[1] > 100 else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_iter=300).fit(rows, labels)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert model.status_ in ("converged", "rounding", "max_iter")
    given = (rows,) if isinstance(model, LinearOneClassSVM) else (rows, labels)
    certificate = certify(model, *given)
    assert certificate.dual <= certificate.primal + certificate.rounding
    assert np.isfinite(model.predict(rows)).all()
    if isinstance(model, LogisticRegression):
        probabilities = model.predict_proba(rows)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
        assert not np.isnan(model.predict_log_proba(rows)).any()


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), LogisticRegression(multi_class="ovr", solver="newton")],
    ids=["multinomial", "ovr"],
)
@pytest.mark.parametrize(("scale", "weight"), [(1e155, 1.0), (1e300, 1.0), (1.0, 1e300)])
def test_what_leaves_the_range_of_numbers_says_so_at_once(model, scale, weight):
    model.set_params(max_iter=20)
    for labels in (y, np.digitize(X[:, 0], [-0.5, 0.5])):
        with pytest.raises(FloatingPointError, match="left the range of float64"):
            model.fit(scale * X, labels, sample_weight=np.full(30, weight))


@pytest.mark.parametrize(
    "model", [LinearSVC(), LinearSVC(penalty="l1"), LinearSVC(solver="newton")], ids=repr
)
@pytest.mark.parametrize("weight", [1e-155, 1e-170, 1e-300])
def test_tiny_weights_have_true_bounds(model, weight):
    model.fit(X, y, sample_weight=np.full(30, weight))
    assert model.status_ == "converged"
    assert model.certificate_.dual <= 30 * weight  # the objective of w = 0


@pytest.mark.parametrize("model", MODELS[:8], ids=repr)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_values_are_named_by_row_and_column(model, value):
    rows = X.copy()
    rows[3, 2] = value
    with pytest.raises(ValueError, match="row 3, column 2"):
        model.fit(rows, y)


@pytest.mark.parametrize("model", MODELS[:7], ids=repr)
def test_one_class_only_is_refused(model):
    with pytest.raises(ValueError, match="only one class: 0"):
        model.fit(X, np.zeros(30, dtype=int))
    with pytest.raises(ValueError, match="nothing to train on"):
        model.fit(X, y, sample_weight=np.zeros(30))
