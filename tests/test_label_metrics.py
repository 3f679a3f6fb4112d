"""Metrics of the best labels of each row, against sums written out."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from widemargin.metrics import (
    label_propensities,
    ndcg_at_k,
    precision_at_k,
    propensity_scored_precision_at_k,
)


def _case(seed, n=7, n_labels=9):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < 0.3).astype(int)
    Y[0, 0] = 1
    return Y, rng.permutation(n * n_labels).reshape(n, n_labels).astype(float), rng


@given(seed=st.integers(0, 10_000), k=st.integers(1, 9))
def test_metrics_are_their_sums(seed, k):
    Y, scores, rng = _case(seed)
    propensity = rng.uniform(0.1, 1.0, Y.shape[1])
    precision, ndcgs, reached, best = [], [], 0.0, 0.0
    for own, row in zip(Y, scores):
        top = sorted(range(len(row)), key=lambda j: -row[j])[:k]
        precision.append(sum(own[j] for j in top) / k)
        gain = sum(own[j] / math.log2(p + 2) for p, j in enumerate(top))
        if own.any():
            ndcgs.append(gain / sum(1 / math.log2(p + 2) for p in range(min(k, own.sum()))))
        reached += sum(own[j] / propensity[j] for j in top)
        worth = sorted((1 / propensity[j] for j in np.flatnonzero(own)), reverse=True)
        best += sum(worth[:k])
    for labels in (Y, sp.csc_matrix(Y), sp.csr_array(Y.astype(float))):
        for ranking in (scores, np.argsort(-scores, axis=1)):
            assert precision_at_k(labels, ranking, k) == pytest.approx(np.mean(precision))
            assert ndcg_at_k(labels, ranking, k) == pytest.approx(np.mean(ndcgs))
            found = propensity_scored_precision_at_k(labels, ranking, propensity, k)
            assert found == pytest.approx(reached / best)
    kept = Y.any(axis=1)
    assert ndcg_at_k(Y, scores, k) == pytest.approx(ndcg_score(Y[kept], scores[kept], k=k))


def test_propensities_are_those_of_the_paper():
    Y = np.zeros((1000, 3), int)
    Y[:10, 1], Y[:, 2] = 1, 1
    C = (math.log(1000) - 1) * 2.5**0.55
    expected = [1 / (1 + C * math.exp(-0.55 * math.log(count + 1.5))) for count in (0, 10, 1000)]
    assert label_propensities(sp.csr_matrix(Y)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be"),
        ({"k": 4}, "fewer than k=4"),
        ({"Y": [[0, 2, 1]]}, "zeros and ones, and has 2"),
        ({"Y": [["a", "b", "c"]]}, "zeros and ones"),
        ({"Y": [0, 1, 1]}, "rows and columns"),
        ({"S": [[1.0, 2.0]]}, "2 columns, y_true has 3"),
        ({"S": [[1.0, np.nan, 0.0]]}, "finite"),
        ({"S": [[0, 3, 1]]}, "outside of 0..2"),
        ({"S": [[0]], "k": 2}, "1 labels for each row, not 2"),
        ({"S": [[0.5] * 3] * 2}, "must have 1 rows"),
    ],
)
def test_bad_input_is_refused(change, message):
    case = {"Y": [[0, 1, 1]], "S": [[0.3, 0.2, 0.1]], "k": 1} | change
    with pytest.raises(ValueError, match=message):
        precision_at_k(case["Y"], case["S"], case["k"])


def test_what_is_undefined_is_refused():
    nothing, scores = np.zeros((2, 3), int), np.ones((2, 3))
    assert precision_at_k(nothing, scores, 2) == 0.0
    with pytest.raises(ValueError, match="NDCG is undefined"):
        ndcg_at_k(nothing, scores, 2)
    with pytest.raises(ValueError, match="best predictions count nothing"):
        propensity_scored_precision_at_k(nothing, scores, np.ones(3), 2)
    with pytest.raises(ValueError, match="propensity must be positive"):
        propensity_scored_precision_at_k(nothing, scores, np.zeros(3), 2)
    with pytest.raises(ValueError, match="propensity has 2 labels"):
        propensity_scored_precision_at_k(nothing, scores, np.ones(2), 2)
