"""Bounds on the error between values of C hold for all that are tried there."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

from widemargin import LinearSVC, LinearSVCCV, certify_path
from widemargin.losses import LOSSES
from widemargin.proofs.path import least_over_offsets

INTERCEPTS = [{}, {"penalized_intercept": True}, {"fit_intercept": False}]


def errors_at(C, X, y, weight, folds, **ways):
    """The mean error of the folds, and how much of it might be rounding of the optimum."""
    found = []
    for train, held_out in folds:
        model = LinearSVC(C=C, tol=1e-10, random_state=0, max_iter=10**5, **ways)
        model.fit(X[train], y[train], weight[train])
        scores = model.decision_function(X[held_out])
        if scores.ndim == 1:
            wrong, near = (scores > 0) != (y[held_out] == model.classes_[1]), abs(scores) < 1e-3
        else:
            wrong = model.classes_[scores.argmax(axis=1)] != y[held_out]
            near = np.ptp(np.sort(scores, axis=1)[:, -2:], axis=1) < 1e-3
        shares = weight[held_out] / weight[held_out].sum()
        found.append([shares @ wrong, shares @ (wrong & near)])
    return np.mean(found, axis=0)


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from(sorted(LOSSES)),
    intercept=st.sampled_from(INTERCEPTS),
    k=st.sampled_from([2, 3]),
    eps=st.sampled_from([0.3, 0.05]),
    sparse=st.booleans(),
)
def test_no_C_has_a_lower_error(seed, loss, intercept, k, eps, sparse):
    if k > 2 and not intercept:
        intercept = INTERCEPTS[1]
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.resize(np.arange(k), 60))
    X = rng.standard_normal((60, 3)) + rng.standard_normal((k, 3))[y]
    X, weight = sp.csr_matrix(X) if sparse else X, rng.integers(1, 3, 60)
    ways = {"loss": loss, **intercept}
    search = LinearSVCCV(Cs=[0.003, 3.0, 0.1], cv=3, random_state=0, **ways).fit(X, y, weight)
    found = certify_path(search, X, y, weight, eps=eps, max_added=12)
    assert np.all(np.diff(found.Cs) > 0.0)
    assert set(search.Cs_) <= set(found.Cs)
    assert found.Cs.size == 3 + found.n_added == found.lowest.size + 1
    assert found.certified == bool((found.lowest >= found.errors.min() - eps).all())
    folds = list(StratifiedKFold(3).split(np.zeros((60, 1)), y))
    for place in rng.choice(found.lowest.size, 2):
        low, high = found.Cs[place : place + 2]
        C = float(low * (high / low) ** rng.uniform())
        error, slip = errors_at(C, X, y, weight.astype(float), folds, **ways)
        assert found.lowest[place] <= error + 1e-9 or found.lowest[place] <= error + slip + 1e-9


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_best_offset_is_found(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    first, weights = rng.integers(-5, 5, n).astype(float), rng.random(n)
    last, positive = first + rng.integers(0, 4, n), rng.random(n) < 0.5
    some = np.arange(-8.0, 12.0, 0.5)
    wrong = [weights @ np.where(positive, b <= first, b > last) for b in some]
    best = least_over_offsets(first, last, positive, weights)
    assert best == pytest.approx(min(wrong), abs=1e-12)


def test_a_choice_is_certified():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    ways = {"loss": "hinge", "penalized_intercept": True, "cv": 3, "random_state": 0}
    search = LinearSVCCV(Cs=[0.003, 0.1], **ways).fit(X, y)
    found = certify_path(search, X, y, eps=0.01)
    assert found.certified
    assert found.n_added > 0
    assert found.C in found.Cs
    np.testing.assert_allclose(found.errors[[0, -1]], 1 - search.scores_.mean(axis=0), atol=0.004)
    text = str(found)
    assert "no C from 0.003 to 0.1" in text
    less = certify_path(search, X, y, eps=0.001, max_added=2)
    assert not less.certified
    assert less.n_added == 2


def test_bad_input():
    X, y = load_iris(return_X_y=True)
    search = LinearSVCCV(Cs=[0.1, 1.0], cv=3).fit(X, y)
    with pytest.raises(ValueError, match="penalised, or none"):
        certify_path(search, X, y)
    two = LinearSVCCV(Cs=[0.1, 1.0], cv=3, scoring="f1").fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="scoring=None"):
        certify_path(two, X[:100], y[:100])
    two = LinearSVCCV(Cs=[0.1, 1.0], cv=3).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="eps"):
        certify_path(two, X[:100], y[:100], eps=0.0)
    with pytest.raises(TypeError, match="LinearSVCCV, not LinearSVC"):
        certify_path(LinearSVC().fit(X, y), X, y)
