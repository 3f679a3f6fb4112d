"""Ranking metrics against sums over all pairs, and query by query against scikit-learn."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from widemargin.kernels.pair_counts import pair_weights
from widemargin.metrics import mean_average_precision, ndcg, pairwise_accuracy

METRICS = [pairwise_accuracy, ndcg, mean_average_precision]


@st.composite
def rankings(draw, grades=(0, 1, 2, 3), most_rows=40):
    """Targets, scores and queries with many ties, some queries of one row; no order in qid."""
    n = draw(st.integers(1, most_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = rng.choice(np.array(grades, dtype=float), n)
    scores = rng.standard_normal(n).round(draw(st.sampled_from([0, 1, 8])))
    qid = rng.integers(0, draw(st.sampled_from([1, 3, 10])), n)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], n)
    return y, scores, qid, weights


def with_a_pair(ranking):
    """Return targets, scores and queries; the first two rows are a pair of one query."""
    y, scores, qid, _ = ranking
    return np.append([1, 0], y), np.append([0, 0], scores), np.append([0, 0], qid)


def counted(y, scores, weights):
    """Return the weight of the pairs in order and of all pairs, one by one."""
    ordered = pairs = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            if y[i] > y[j]:
                pairs += weights[i] * weights[j]
                ordered += weights[i] * weights[j] * np.heaviside(scores[i] - scores[j], 0.5)
    return ordered, pairs


@given(rankings(grades=(-1.5, 0, 0.25, 7)))
def test_pairwise_accuracy_is_the_share_of_pairs(ranking):
    y, scores, qid, weights = ranking
    by_query = [counted(y[qid == q], scores[qid == q], weights[qid == q]) for q in np.unique(qid)]
    ordered, pairs = np.array(by_query).T
    if pairs.sum() == 0:
        for normalization in ("pairs", "queries"):
            with pytest.raises(ValueError, match="there is no pair"):
                pairwise_accuracy(y, scores, qid, weights, normalization)
        return
    pooled = pairwise_accuracy(y, scores, qid, weights)
    assert pooled == pytest.approx(ordered.sum() / pairs.sum(), abs=1e-12)

    means = [weights[(qid == q) & (weights > 0)].mean() for q in np.unique(qid)[pairs > 0]]
    expected = np.average((ordered / np.where(pairs > 0, pairs, 1))[pairs > 0], weights=means)
    by_query = pairwise_accuracy(y, scores, qid, weights, normalization="queries")
    assert by_query == pytest.approx(expected, abs=1e-12)


@given(rankings())
def test_rows_of_weight_zero_are_as_if_absent(ranking):
    y, scores, qid = with_a_pair(ranking)
    weights = np.append([1, 1], ranking[-1])
    kept = weights > 0
    for normalization in ("pairs", "queries"):
        whole = pairwise_accuracy(y, scores, qid, weights, normalization)
        part = pairwise_accuracy(y[kept], scores[kept], qid[kept], weights[kept], normalization)
        assert whole == pytest.approx(part, abs=1e-12)


@given(rankings(grades=(0, 1)))
def test_two_grades_give_the_roc_area(ranking):
    y, scores, _, weights = ranking
    assume(len(np.unique(y[weights > 0])) == 2)
    expected = roc_auc_score(y, scores, sample_weight=weights)
    assert pairwise_accuracy(y, scores, sample_weight=weights) == pytest.approx(expected)


def test_a_query_counts_once_however_many_pairs_it_has():
    y = [0, 1, 0, 1, 2, 3]
    scores = [1, 0, 0, 1, 2, 3]
    qid = ["a", "a", "b", "b", "b", "b"]
    assert pairwise_accuracy(y, scores, qid) == pytest.approx(6 / 7)
    assert pairwise_accuracy(y, scores, qid, normalization="queries") == pytest.approx(1 / 2)
    weights = [3, 3, 1, 1, 1, 1]
    weighted = pairwise_accuracy(y, scores, qid, weights, normalization="queries")
    assert weighted == pytest.approx(1 / 4)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_weights_of_any_size(scale):
    weights = scale * np.array([1.0, 2.0, 3.0])
    accuracy = pairwise_accuracy([0, 1, 2], [0, 2, 1], sample_weight=weights)
    assert accuracy == pytest.approx(5 / 11)


def test_a_million_rows_are_counted_exactly():
    n = 10**6
    y = np.random.default_rng(0).permutation(n)
    assert pairwise_accuracy(y, y) == 1.0
    assert pairwise_accuracy(y, -y) == 0.0
    assert pairwise_accuracy(y, np.zeros(n)) == 0.5
    ordered, pairs = np.empty(1), np.empty(1)
    # Blocks of a thousand in order, each one reversed inside.
    block, ends = np.arange(n) // 1000, np.array([n])
    ranks = 1000 * block + 999 - np.arange(n) % 1000
    pair_weights(ranks, np.arange(n, dtype=float), np.ones(n), ends, ordered, pairs)
    assert pairs[0] == n * (n - 1) // 2
    assert ordered[0] == n * (n - 1) // 2 - 1000 * (1000 * 999 // 2)
    pair_weights(ranks, block.astype(float), np.ones(n), ends, ordered, pairs)
    assert 2 * ordered[0] == n * (n - 1) - 1000 * (1000 * 999 // 2)


@given(rankings(), st.sampled_from([1, 3, 10, None]))
def test_linear_ndcg_is_scikit_learns_query_by_query(ranking, k):
    y, scores, qid, _ = ranking
    expected = [
        # It takes lists of two rows at least: a row of grade 0, last of all, changes nothing.
        ndcg_score([[*y[qid == q], 0]], [[*scores[qid == q], -100]], k=k)
        for q in np.unique(qid)
        if y[qid == q].any()
    ]
    assume(expected)
    assert ndcg(y, scores, qid, k=k, gain="linear") == pytest.approx(np.mean(expected))
    as_gains = ndcg(np.log2(y + 1), scores, qid, k=k)
    assert as_gains == pytest.approx(np.mean(expected))


def test_ndcg_by_hand():
    y, scores = [1, 0, 3, 2], [4, 3, 2, 1]
    reached = 1 + 7 / 2 + 3 / np.log2(5)
    best = 7 + 3 / np.log2(3) + 1 / 2
    assert ndcg(y, scores) == pytest.approx(reached / best)
    assert ndcg(y, scores, k=1) == pytest.approx(1 / 7)
    assert ndcg(y, [0, 0, 0, 0], k=1) == pytest.approx((11 / 4) / 7)
    assert ndcg(y, scores, k=1, gain="linear") == pytest.approx(1 / 3)


@given(rankings(grades=(-1, 0, 1, 2)))
def test_average_precision_is_scikit_learns_query_by_query(ranking):
    y, scores, qid, _ = ranking
    expected = [
        average_precision_score(y[qid == q] > 0, scores[qid == q])
        for q in np.unique(qid)
        if np.any(y[qid == q] > 0)
    ]
    assume(expected)
    assert mean_average_precision(y, scores, qid) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("metric", METRICS)
@given(ranking=rankings())
def test_queries_may_be_named_by_anything(metric, ranking):
    y, scores, qid = with_a_pair(ranking)
    expected = metric(y, scores, qid)
    names = np.array([f"query {q}" for q in qid])
    tuples = np.empty(qid.size, dtype=object)
    tuples[:] = [("q", int(q)) for q in qid]
    for named in (names, names.tolist(), tuples, qid.astype(float) - 0.5, qid.astype(np.uint8)):
        assert metric(y, scores, named) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@given(ranking=rankings(), seed=st.integers(0, 100))
def test_the_order_of_rows_does_not_matter(metric, ranking, seed):
    y, scores, qid = with_a_pair(ranking)
    shuffled = np.random.default_rng(seed).permutation(y.size)
    result = metric(y[shuffled], scores[shuffled], qid[shuffled])
    assert result == pytest.approx(metric(y, scores, qid), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_scores_of_any_size(metric):
    scores = np.array([np.finfo(float).max, 1e-300, 0.0, -0.0, np.finfo(float).min])
    with np.errstate(all="raise"):
        assert metric([4, 3, 2, 2, 1], scores) == 1.0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 0, np.nan], [1, 2, 3]), "y_true must be finite: row 2 has nan"),
        (([1, 0, 1], [1, -np.inf, 3]), "y_score must be finite: row 1 has -inf"),
        (([[1, 0]], [1, 2]), "y_true must have one dimension, not 2"),
        (([1, 0], [[1], [2]]), "y_score must have one dimension, not 2"),
        (([], []), "y_true has no rows"),
        ((["a", "b"], [1, 2]), "y_true must be numbers"),
        (([1, 0], [1, 2, 3]), "y_score has 3 rows, y_true has 2"),
        (([1, 0], [1, 2], [1]), "qid has 1 rows, y_true has 2"),
        (([1, 0], [1, 2], [[1, 2]]), "qid must have one dimension, not 2"),
        (([1, 0], [1, 2], [1, np.nan]), "qid has no query in row 1"),
        (([1, 0], [1, 2], [None, "a"]), "qid has no query in row 0"),
    ],
)
def test_bad_input(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric(*arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pairwise_accuracy([1, 1], [1, 2]), "there is no pair"),
        (lambda: pairwise_accuracy([1, 2], [1, 2], [1, 2]), "there is no pair"),
        (lambda: pairwise_accuracy([1, 2], [1, 2], None, [0, 1]), "there is no pair"),
        (
            lambda: pairwise_accuracy([1, 2], [1, 2], None, [1, -1]),
            "sample_weight must not be negative: row 1 has -1",
        ),
        (
            lambda: pairwise_accuracy([1, 2], [1, 2], None, [1, np.inf]),
            "sample_weight must be finite: row 1 has inf",
        ),
        (
            lambda: pairwise_accuracy([1, 2], [1, 2], None, [1]),
            "sample_weight has 1 rows, y_true has 2",
        ),
        (
            lambda: pairwise_accuracy([1, 2], [1, 2], normalization="rows"),
            "normalization must be 'pairs' or 'queries', not 'rows'",
        ),
        (lambda: ndcg([1, 2, -1], [1, 2, 3]), "y_true must not be negative: row 2 has -1"),
        (lambda: ndcg([0, 0], [1, 2]), "y_true is zero in every row"),
        (lambda: ndcg([0, 2000], [1, 2]), "y_true must not exceed 1000 .*: row 1 has 2000"),
        (lambda: ndcg([0, 1], [1, 2], gain="log"), "gain must be 'exponential' or 'linear'"),
        (lambda: ndcg([0, 1], [1, 2], k=0), "k must be None or a whole number of at least 1"),
        (lambda: ndcg([0, 1], [1, 2], k=2.0), "k must be None or a whole number"),
        (lambda: ndcg([0, 1], [1, 2], k=True), "k must be None or a whole number"),
        (lambda: mean_average_precision([0, -1], [1, 2]), "no row is relevant"),
    ],
)
def test_what_each_metric_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
