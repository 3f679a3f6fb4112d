"""Ranking metrics over queries, and of the best labels of rows that may have several.

scikit-learn has those of queries for a single query. They take targets and scores, (n,) each, and
`qid`, the query of each row: whole numbers, strings or other hashable values, in any order.
Without `qid` all rows are one query.
"""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from widemargin.kernels.pair_counts import pair_weights

_MAX_GRADE = 1000  # largest y of a gain 2^y; sums of such gains are finite


def pairwise_accuracy(
    y_true: ArrayLike,
    y_score: ArrayLike,
    qid: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    normalization: str = "pairs",
) -> float:
    """Return the fraction of pairs that the scores rank correctly.

    A pair is two rows i, j of one query with y_i > y_j. It counts 1 if s_i > s_j, and 1/2 if
    s_i = s_j. With two distinct targets and one query this is the area under the ROC curve.
    ValueError if there is no pair of rows of positive weight.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets: real numbers, ties allowed.
    y_score : array-like of shape (n,)
    qid : array-like of shape (n,), optional
        Query of each row. Default: all rows are one query.
    sample_weight : array-like of shape (n,), optional
        A pair has the weight w_i w_j. Default: 1 for each row.
    normalization : {"pairs", "queries"}, default="pairs"
        "pairs": fraction over the pairs of all queries. "queries": mean over the queries that
        have pairs of the fraction of each; the weight of a query is the mean weight of its rows
        of positive weight.
    """
    if normalization not in ("pairs", "queries"):
        raise ValueError(f"normalization must be 'pairs' or 'queries', not {normalization!r}")
    y, scores, query = _checked(y_true, y_score, qid)
    weights = _checked_weights(sample_weight, y.size)

    order = np.lexsort((scores, query))
    query_ends = np.cumsum(np.bincount(query))
    ordered, pairs = np.empty(query_ends.size), np.empty(query_ends.size)
    ranks = _ranks_in_query(y, query)
    pair_weights(ranks[order], scores[order], weights[order], query_ends, ordered, pairs)
    kept = pairs > 0.0
    if not np.any(kept):
        raise ValueError(
            "there is no pair: no query has two rows of positive weight with different y_true"
        )
    if normalization == "pairs":
        fraction = ordered.sum() / pairs.sum()
    else:
        rows = np.bincount(query[weights > 0.0], minlength=query_ends.size)
        query_weights = np.bincount(query, weights)[kept] / rows[kept]
        fraction = np.average(ordered[kept] / pairs[kept], weights=query_weights)
    return min(float(fraction), 1.0)  # rounding may exceed 1


def ndcg(
    y_true: ArrayLike,
    y_score: ArrayLike,
    qid: ArrayLike | None = None,
    k: int | None = 10,
    gain: str = "exponential",
) -> float:
    """Return the mean over queries of the normalised discounted cumulative gain at k.

    The rows of a query are sorted by decreasing score. DCG@k is the sum over the positions
    p = 1 .. k of gain / log2(p + 1), and NDCG@k is DCG@k divided by its value for the best
    order. Rows with equal scores get the mean of their discounts, as in scikit-learn's
    `ndcg_score`. Queries without a positive grade are left out; ValueError if all are.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Grades, at least zero.
    y_score : array-like of shape (n,)
    qid : array-like of shape (n,), optional
        Query of each row. Default: all rows are one query.
    k : int or None, default=10
        Number of positions; None for all.
    gain : {"exponential", "linear"}, default="exponential"
        2^y - 1, as in LETOR, or y, as in scikit-learn.
    """
    if gain not in ("exponential", "linear"):
        raise ValueError(f"gain must be 'exponential' or 'linear', not {gain!r}")
    if k is not None and (isinstance(k, bool) or not isinstance(k, Integral) or k < 1):
        raise ValueError(f"k must be None or a whole number of at least 1, not {k!r}")
    y, scores, query = _checked(y_true, y_score, qid)
    _refuse("y_true must not be negative", y, y < 0.0)
    if gain == "exponential":
        limit = f"y_true must not exceed {_MAX_GRADE} where the gain is exponential"
        _refuse(limit, y, y > _MAX_GRADE)
        gains = np.exp2(y) - 1.0
    else:
        gains = y

    lists = _sorted_lists(scores, query)
    position = lists.positions()
    discount = 1.0 / np.log2(position + 2.0)
    if k is not None:
        discount[position >= k] = 0.0
    tie_sizes = np.diff(lists.tie_starts, append=y.size)
    shared = np.repeat(np.add.reduceat(discount, lists.tie_starts) / tie_sizes, tie_sizes)
    reached = np.add.reduceat(gains[lists.order] * shared, lists.query_starts)
    best_order = np.lexsort((-gains, query))
    best = np.add.reduceat(gains[best_order] * discount, lists.query_starts)
    kept = best > 0.0
    if not np.any(kept):
        raise ValueError("y_true is zero in every row: NDCG is undefined")
    return float(np.mean(reached[kept] / best[kept]))


def mean_average_precision(
    y_true: ArrayLike, y_score: ArrayLike, qid: ArrayLike | None = None
) -> float:
    """Return the mean over queries of the average precision; rows with y > 0 are relevant.

    The average precision of a query is the mean, over its relevant rows, of the precision among
    the rows that score at least as high, as in scikit-learn's `average_precision_score`. Queries
    without a relevant row are left out; ValueError if all are.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_score : array-like of shape (n,)
    qid : array-like of shape (n,), optional
        Query of each row. Default: all rows are one query.
    """
    y, scores, query = _checked(y_true, y_score, qid)
    lists = _sorted_lists(scores, query)
    relevant = (y > 0.0)[lists.order].astype(np.float64)
    if not np.any(relevant):
        raise ValueError("no row is relevant: y_true is never positive")
    last_of_tie = np.append(lists.tie_starts[1:], y.size) - 1
    relevant_in_tie = np.add.reduceat(relevant, lists.tie_starts)
    totals = np.add.reduceat(relevant, lists.query_starts)
    before_query = np.cumsum(totals) - totals

    query_of_tie = query[lists.order][last_of_tie]
    found = np.cumsum(relevant)[last_of_tie] - before_query[query_of_tie]
    precision = found / (lists.positions()[last_of_tie] + 1)
    sums = np.bincount(query_of_tie, relevant_in_tie * precision)
    kept = totals > 0.0
    return float(np.mean(sums[kept] / totals[kept]))


def precision_at_k(y_true: Any, y_score: ArrayLike, k: int = 5) -> float:
    """Return the mean over rows of the fraction of the k best labels that are a row's own.

    Parameters
    ----------
    y_true : {array, sparse matrix} of shape (n, n_labels)
        Zeros and ones.
    y_score : array of shape (n, n_labels) or (n, m)
        Real numbers are scores, one per label. Whole numbers are the columns of the best labels
        of each row, best first, at least k of them.
    k : int, default=5
    """
    hits, _ = _label_hits(y_true, y_score, k)
    return float(hits.mean())


def ndcg_at_k(y_true: Any, y_score: ArrayLike, k: int = 5) -> float:
    """Return the mean over rows of the normalised discounted cumulative gain of the k best labels.

    A row's own label at position p counts 1 / log2(p + 1). The sum is divided by its largest
    possible value, for as many labels as the row has. Rows without labels are left out.

    Parameters
    ----------
    y_true, y_score, k
        As for `precision_at_k`.
    """
    hits, Y = _label_hits(y_true, y_score, k)
    own = np.diff(Y.indptr)
    if not own.any():
        raise ValueError("y_true has no labels: NDCG is undefined")
    discount = 1.0 / np.log2(np.arange(2.0, k + 2.0))
    best = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(own, k)]
    kept = own > 0
    return float(np.mean((hits @ discount)[kept] / best[kept]))


def propensity_scored_precision_at_k(
    y_true: Any, y_score: ArrayLike, propensity: ArrayLike, k: int = 5
) -> float:
    """Return precision at k where a label counts one over its propensity.

    Propensities are how likely it is that a label which a row should have was observed, so rare
    labels count more. The sum over all rows is divided by that of the best predictions (Jain,
    Prabhu & Varma, KDD 2016).

    Parameters
    ----------
    y_true, y_score, k
        As for `precision_at_k`.
    propensity : array-like of shape (n_labels,)
        Positive, for example of `label_propensities`.
    """
    hits, Y = _label_hits(y_true, y_score, k)
    chances = _checked_vector("propensity", propensity)
    if chances.size != Y.shape[1]:
        raise ValueError(f"propensity has {chances.size} labels, y_true has {Y.shape[1]}")
    if np.any(chances <= 0.0):
        raise ValueError("propensity must be positive")
    top = _top_columns(y_score, Y.shape, k)
    reached = float((hits / chances[top]).sum())
    worth = 1.0 / chances[Y.indices]
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    order = np.lexsort((-worth, row))  # the rows stay where they are
    place = np.arange(worth.size) - Y.indptr[row]
    best = float(worth[order][place < k].sum())
    if best == 0.0:
        raise ValueError("y_true has no labels: the best predictions count nothing")
    return reached / best


def label_propensities(y_train: Any, A: float = 0.55, B: float = 1.5) -> np.ndarray:
    """Return the propensity of each label by the number of its rows in training, (n_labels,).

    It is 1 / (1 + C exp(-A log(rows + B))) with C = (log n - 1) (B + 1)^A, of Jain, Prabhu &
    Varma, whose A and B of most sets are the defaults.
    """
    Y = _label_rows("y_train", y_train)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    C = (np.log(Y.shape[0]) - 1.0) * (B + 1.0) ** A
    return 1.0 / (1.0 + C * (counts + B) ** -A)


class _Lists(NamedTuple):
    """Rows sorted by query, then by decreasing score."""

    order: np.ndarray  # row at each position
    query_starts: np.ndarray  # positions where a query starts
    tie_starts: np.ndarray  # positions where a run of equal scores in a query starts

    def positions(self) -> np.ndarray:
        """Return the position within the query, from 0, at each position of the order, (n,)."""
        n = self.order.size
        sizes = np.diff(self.query_starts, append=n)
        return np.arange(n) - np.repeat(self.query_starts, sizes)


def _sorted_lists(scores: np.ndarray, query: np.ndarray) -> _Lists:
    order = np.lexsort((-scores, query))
    new_query = _changes(query[order])
    new_score = _changes(scores[order])
    return _Lists(order, np.flatnonzero(new_query), np.flatnonzero(new_query | new_score))


def _ranks_in_query(y: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the rank of each row among the distinct targets of its query, from 0, int64."""
    order = np.lexsort((y, query))
    new_query = _changes(query[order])
    number = np.cumsum(new_query | _changes(y[order]))
    ranks = np.empty(y.size, dtype=np.int64)
    ranks[order] = number - number[new_query][query[order]]
    return ranks


def _changes(values: np.ndarray) -> np.ndarray:
    """Return whether each value differs from the one before it, (n,); True for the first."""
    return np.append(True, values[1:] != values[:-1])


def _checked(
    y_true: ArrayLike, y_score: ArrayLike, qid: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets and scores as float64 and the query numbers of the rows, (n,) each.

    Queries are numbered 0, 1, 2, ...
    """
    y, scores = _checked_vector("y_true", y_true), _checked_vector("y_score", y_score)
    _check_length("y_score", scores, y.size)
    if qid is None:
        return y, scores, np.zeros(y.size, dtype=np.int64)
    qid = np.asarray(qid)
    if qid.ndim != 1:
        raise ValueError(f"qid must have one dimension, not {qid.ndim}")
    _check_length("qid", qid, y.size)
    return y, scores, _numbered(qid)


def _numbered(qid: np.ndarray) -> np.ndarray:
    if qid.dtype == object:
        numbers: dict[Any, int] = {}
        for row, query in enumerate(qid):
            if query is None or query != query:
                raise ValueError(f"qid has no query in row {row}")
            numbers.setdefault(query, len(numbers))
        return np.array([numbers[query] for query in qid], dtype=np.int64)
    if qid.dtype.kind == "f" and np.any(np.isnan(qid)):
        raise ValueError(f"qid has no query in row {np.argmax(np.isnan(qid))}")
    return np.unique(qid, return_inverse=True)[1].astype(np.int64, copy=False)


def _checked_weights(sample_weight: ArrayLike | None, n_rows: int) -> np.ndarray:
    """Return weights as float64 (n,), scaled by a power of two to avoid overflow."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = _checked_vector("sample_weight", sample_weight)
    _check_length("sample_weight", weights, n_rows)
    _refuse("sample_weight must not be negative", weights, weights < 0.0)
    return np.ldexp(weights, -np.frexp(weights.max())[1])


def _checked_vector(name: str, values: ArrayLike) -> np.ndarray:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if vector.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {vector.ndim}")
    if vector.size == 0:
        raise ValueError(f"{name} has no rows")
    _refuse(f"{name} must be finite", vector, ~np.isfinite(vector))
    return vector


def _check_length(name: str, values: np.ndarray, n_rows: int) -> None:
    if values.size != n_rows:
        raise ValueError(f"{name} has {values.size} rows, y_true has {n_rows}")


def _refuse(rule: str, values: np.ndarray, bad: np.ndarray) -> None:
    """Raise ValueError, naming the first row that breaks the rule."""
    if np.any(bad):
        row = int(np.argmax(bad))
        raise ValueError(f"{rule}: row {row} has {values[row]:g}")


def _label_hits(y_true: Any, y_score: ArrayLike, k: int) -> tuple[np.ndarray, Any]:
    """Return whether each of the k best labels is a row's own, (n, k), and y_true as CSR."""
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be a whole number of at least 1, not {k!r}")
    Y = _label_rows("y_true", y_true)
    top = _top_columns(y_score, Y.shape, int(k))
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    own = row * Y.shape[1] + Y.indices  # increases
    asked = np.arange(Y.shape[0])[:, None] * Y.shape[1] + top
    place = np.minimum(np.searchsorted(own, asked), max(0, own.size - 1))
    return (own[place] == asked if own.size else np.zeros(top.shape, bool)), Y


def _label_rows(name: str, y: Any) -> Any:
    """Return a matrix of zeros and ones as CSR whose columns increase along rows."""
    if not scipy.sparse.issparse(y):
        y = np.asarray(y)
        if y.dtype.kind not in "biuf":
            raise ValueError(f"{name} must be a matrix of zeros and ones")
    if y.ndim != 2 or 0 in y.shape:
        raise ValueError(f"{name} must have rows and columns; its shape is {y.shape}")
    Y = scipy.sparse.csr_array(y)
    Y.sum_duplicates()
    Y.eliminate_zeros()
    if not np.all(Y.data == 1):
        raise ValueError(f"{name} must be a matrix of zeros and ones, and has {Y.data.max():g}")
    return Y


def _top_columns(y_score: ArrayLike, shape: tuple[int, int], k: int) -> np.ndarray:
    """Return the columns of the k best labels of each row, best first, (n, k)."""
    scores = np.asarray(y_score)
    if scores.ndim != 2 or scores.shape[0] != shape[0]:
        raise ValueError(f"y_score must have {shape[0]} rows; its shape is {scores.shape}")
    if scores.dtype.kind in "iu":
        if scores.shape[1] < k:
            raise ValueError(f"y_score has {scores.shape[1]} labels for each row, not {k}")
        if scores.min() < 0 or scores.max() >= shape[1]:
            raise ValueError(f"y_score has columns outside of 0..{shape[1] - 1}")
        return scores[:, :k].astype(np.int64)
    if scores.shape[1] != shape[1]:
        raise ValueError(f"y_score has {scores.shape[1]} columns, y_true has {shape[1]}")
    if k > shape[1]:
        raise ValueError(f"there are {shape[1]} labels, fewer than k={k}")
    if not np.all(np.isfinite(scores)):
        raise ValueError("y_score must be finite")
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]
