"""LinearRanker: what it optimises, what it says about it, and what it refuses."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from widemargin import LinearRanker, LinearSVC, certify
from widemargin.solvers.registry import RiskKind, names


def queries(n=300, d=6, n_queries=20, seed=0):
    """Rows of queries that are mixed up, each with its own offset; grades 0 to 3."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    qid = rng.integers(100, 100 + n_queries, n)
    merit = X @ np.arange(1, d + 1) + rng.standard_normal(n)
    return X, np.clip(np.round(merit / 6 + 1.5 + qid % 3 - 1), 0, 3), qid


def objective(model, X, y, qid=None, sample_weight=None):
    """The objective, from a matrix of all pairs; its second term is C times rows times a mean."""
    n = len(y)
    qid = np.zeros(n) if qid is None else qid
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight)
    S = model.decision_function(X)
    pair = (y[:, None] > y) & (qid[:, None] == qid)
    cost = pair * weight[:, None] * weight
    loss = cost * np.maximum(0.0, 1.0 - S[:, None] + S)
    counted = (pair | pair.T).any(axis=1) & (weight > 0)
    if model.normalization == "queries":
        groups = [qid == q for q in np.unique(qid[counted])]
        means = [loss[g][:, g].sum() / cost[g][:, g].sum() for g in groups]
        mean = np.average(means, weights=[weight[g & counted].mean() for g in groups])
    else:
        mean = loss.sum() / cost.sum()
    return 0.5 * model.coef_ @ model.coef_ + model.C * weight[counted].sum() * mean


@pytest.mark.parametrize("normalization", ["pairs", "queries"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_the_one_documented(normalization, weighted):
    X, y, qid = queries()
    weight = np.random.default_rng(1).integers(0, 3, len(y)) if weighted else None
    model = LinearRanker(C=2.0, normalization=normalization).fit(X, y, qid, weight)
    assert model.certificate_.primal == pytest.approx(objective(model, X, y, qid, weight))
    assert model.certificate_.relative_gap <= 1e-3
    assert model.status_ == "converged"
    again = certify(model, X, y, weight, qid)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


def test_the_same_problem_as_a_classifier_of_differences():
    X, y, qid = queries(n=80, n_queries=4)
    model = LinearRanker(tol=1e-6).fit(X, y, qid)
    upper, lower = np.nonzero((y[:, None] > y) & (qid[:, None] == qid))
    assert model.n_pairs_ == upper.size
    differences = X[upper] - X[lower]
    cost = np.union1d(upper, lower).size / upper.size
    # SVC needs two classes; each difference both ways at half the cost makes its intercept 0.
    explicit = SVC(kernel="linear", C=0.5 * cost, tol=1e-6)
    explicit.fit(np.r_[differences, -differences], np.repeat([1, -1], upper.size))
    scores = differences @ explicit.coef_[0]
    value = 0.5 * np.sum(explicit.coef_**2) + cost * np.maximum(0, 1 - scores).sum()
    assert model.certificate_.primal == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("solver", names(risk=RiskKind.ANY))
def test_every_solver_finds_the_same_optimum(solver):
    X, y, qid = queries()
    best = LinearRanker(tol=1e-6).fit(X, y, qid).certificate_
    model = LinearRanker(solver=solver).fit(X, y, qid)
    assert model.solver_ == solver
    assert best.dual <= model.certificate_.primal <= best.primal * (1 + 1.1e-3)


def test_two_grades_are_the_roc_area():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LinearRanker().fit(X, y)
    assert model.score(X, y) == pytest.approx(roc_auc_score(y, model.predict(X)))
    assert model.n_pairs_ == (y == 0).sum() * (y == 1).sum()
    classifier = LinearSVC(loss="hinge").fit(X, y)
    assert model.score(X, y) >= roc_auc_score(y, classifier.decision_function(X)) - 1e-3


def test_grades_may_all_differ_and_only_their_order_counts():
    X, y = load_diabetes(return_X_y=True)
    y = y + 1e-3 * np.arange(len(y))
    model = LinearRanker(C=10).fit(X, y)
    np.testing.assert_array_equal(model.coef_, LinearRanker(C=10).fit(X, np.exp(y / 50)).coef_)
    assert model.score(X, y) > 0.75


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_matrix, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forms_of_rows(form, dtype):
    X, y, qid = queries()
    model = LinearRanker().fit(form(X.astype(dtype)), y, qid)
    scores = model.predict(form(X.astype(dtype)))
    np.testing.assert_allclose(scores, LinearRanker().fit(X, y, qid).predict(X), atol=2e-2)
    assert model.coef_.shape == (6,)


@pytest.mark.parametrize("names", [list("qwertzuiop"), np.arange(10) * 10**12, np.arange(10.0)])
def test_groups_may_have_any_names_and_any_order(names):
    X, y, qid = queries(n_queries=10)
    model = LinearRanker().fit(X, y, qid)
    renamed = LinearRanker().fit(X, y, np.asarray(names)[qid - 100])
    assert renamed.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-3)
    order = np.argsort(qid, kind="stable")
    sorted_rows = LinearRanker().fit(X[order], y[order], qid[order])
    assert sorted_rows.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-3)


def test_all_queries_equal_is_not_all_pairs_equal():
    X, y, qid = queries()
    qid = np.where(np.arange(len(y)) < 200, 100, 101 + qid % 5)  # one query has most rows
    by_pair = LinearRanker(C=0.01).fit(X, y, qid)
    by_query = LinearRanker(C=0.01, normalization="queries").fit(X, y, qid)
    assert by_query.score(X, y, qid) != by_pair.score(X, y, qid)
    assert not np.allclose(by_pair.coef_, by_query.coef_, rtol=0.05)
    # Equal weights within a group are the group's: of weight zero, it is not there.
    weight = np.where(qid == 100, 0.0, 2.0)
    without = LinearRanker(normalization="queries", tol=1e-8).fit(X, y, qid, weight)
    rest = qid != 100
    alone = LinearRanker(C=2.0, normalization="queries", tol=1e-8).fit(X[rest], y[rest], qid[rest])
    np.testing.assert_allclose(without.coef_, alone.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_bits_again(n_jobs):
    X, y, qid = queries(n=3000)
    first, second = (LinearRanker(n_jobs=n_jobs).fit(X, y, qid) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.certificate_ == second.certificate_


def test_a_warm_start_goes_on():
    X, y, qid = queries()
    model = LinearRanker(warm_start=True).fit(X, y, qid)
    cold = model.n_iter_
    assert model.fit(X, y, qid).n_iter_ == 1
    assert model.set_params(C=1.2).fit(X, y, qid).n_iter_ < cold
    model.fit(X[:, :3], y, qid)  # other features: from the beginning
    assert model.certificate_.relative_gap <= 1e-3


def test_limits_warn_and_leave_an_honest_certificate():
    X, y, qid = queries()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = LinearRanker(C=100, max_iter=2).fit(X, y, qid)
    assert model.status_ == "max_iter"
    assert certify(model, X, y, qid=qid).gap == pytest.approx(model.certificate_.gap)


def test_groups_without_pairs_are_left_out_and_said_once():
    X, y, qid = queries()
    y = np.where(qid == 103, 1.0, y)
    qid = np.where(np.arange(len(y)) == 7, 999, qid)  # alone in its group
    with pytest.warns(
        UserWarning, match=r"2 groups have no two rows .*\(qid 103, ...; groups that remain: 19"
    ) as said:
        model = LinearRanker().fit(X, y, qid)
    assert len(said) == 1
    kept = (qid != 103) & (qid != 999)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certify(model, X, y, qid=qid)
        rest = LinearRanker().fit(X[kept], y[kept], qid[kept])
    np.testing.assert_allclose(model.coef_, rest.coef_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.ones(300)}, r"same grade, 1 \(n_samples=300\)"),
        ({"qid": np.arange(300)}, "no group has rows of different grades"),
        ({"y": np.r_[np.nan, np.ones(299)]}, r"y contains NaN \(row 0\)"),
        ({"y": np.r_[1.0, -np.inf, np.ones(298)]}, r"y contains infinity \(row 1\)"),
        ({"y": np.array(["a", "b", "c"] * 100)}, "y has labels that are no numbers"),
        ({"y": np.ones(10)}, "300 and 10"),
        ({"qid": np.ones(10)}, "X and qid have inconsistent numbers of samples: 300 and 10"),
        ({"qid": np.r_[1.0, np.nan, np.ones(298)]}, "qid is missing in row 1"),
        ({"qid": np.array([None] + [1] * 299)}, "qid is missing in row 0"),
        ({"sample_weight": np.r_[-1.0, np.ones(299)]}, "row 0 has -1"),
        ({"sample_weight": np.zeros(300)}, "zero for every row"),
    ],
)
def test_bad_data_is_named(change, message):
    X, y, qid = queries()
    with pytest.raises(ValueError, match=message):
        LinearRanker().fit(X, **{"y": y, "qid": qid, **change})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C must be a positive number"),
        ({"normalization": "rows"}, "normalization must be one of 'pairs', 'queries'"),
        ({"solver": "dcd"}, "solver must be one of 'auto', 'cpa'"),
        ({"tol": -1}, "tol"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y, qid = queries()
    with pytest.raises(ValueError, match=message):
        LinearRanker(**parameters).fit(X, y, qid)


def test_certifying_other_data_is_refused():
    X, y, qid = queries()
    with pytest.raises(NotFittedError):
        certify(LinearRanker(), X, y)
    model = LinearRanker().fit(X, y, qid)
    with pytest.raises(ValueError, match="trained on 300 rows, and X has 299"):
        certify(model, X[1:], y[1:], qid=qid[1:])


def test_tampered_proofs_prove_less():
    X, y, qid = queries()
    model = LinearRanker().fit(X, y, qid)
    honest = model.certificate_.dual
    model.dual_weights_ = model.dual_weights_ * 10.0 - 0.1  # neither positive nor of sum 1
    assert certify(model, X, y, qid=qid).dual <= honest + 1e-3 * model.certificate_.primal
    model.dual_points_ = model.dual_points_ + 1.0
    assert certify(model, X, y, qid=qid).dual < model.certificate_.primal


def test_qid_is_routed():
    X, y, qid = queries()
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = LinearRanker().set_fit_request(qid=True).set_score_request(qid=True)
        params = {"qid": qid, "groups": qid}
        scores = cross_validate(ranker, X, y, params=params, cv=GroupKFold(4))["test_score"]
        for (train, test), score in zip(GroupKFold(4).split(X, y, qid), scores, strict=True):
            fold = LinearRanker().fit(X[train], y[train], qid[train])
            assert score == fold.score(X[test], y[test], qid[test])
        search = GridSearchCV(
            make_pipeline(StandardScaler(), ranker),
            {"linearranker__C": [0.001, 1.0]},
            cv=GroupKFold(3),
        ).fit(X, y, qid=qid, groups=qid)
        assert search.best_score_ > 0.8
