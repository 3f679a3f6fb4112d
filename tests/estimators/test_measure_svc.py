"""`MeasureSVC`, `MeasureSVCCV` and `tune_threshold`."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from data.on_disk import write
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    fbeta_score,
    roc_auc_score,
)
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.fixes import parse_version

from widemargin import (
    LinearRanker,
    LinearSVC,
    LinearSVCCV,
    MeasureSVC,
    MeasureSVCCV,
    OrdinalSVC,
    certify,
    load_model,
    open_rows,
    save_model,
    tune_threshold,
)
from widemargin.model_io import read_liblinear, write_liblinear

MEASURES = ["f1", "f2", "prbep", "precision@20", "recall@400", "recall@precision=0.95"]
MEASURES += ["error", "average_precision", "roc_auc@0.1"]
X, y = load_breast_cancer(return_X_y=True)
X = X / X.std(axis=0)
#: its score is the only feature
AS_IT_IS = LinearSVC().fit([[-1.0], [1.0]], [0, 1])
AS_IT_IS.coef_, AS_IT_IS.intercept_ = np.array([[1.0]]), np.zeros(1)


def overlapping(n=600, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 4))
    return rows, (rows[:, 0] + 1.5 * rng.normal(size=n) > 1.8).astype(int)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
def test_fits_are_certified(measure, fit_intercept):
    model = MeasureSVC(measure, C=0.1, fit_intercept=fit_intercept).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-3
    again = certify(model, X, y)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)
    assert 0.0 < model.score(X, y) <= 1.0
    assert fit_intercept or model.intercept_ == 0.0


def test_the_error_rate_is_the_hinge_loss():
    costs = {0: 3.0, 1: 0.5}
    weight = np.random.default_rng(0).random(y.size)
    model = MeasureSVC("error", C=0.1, class_weight=costs, tol=1e-6).fit(X, y, weight)
    hinge = LinearSVC(C=0.1, loss="hinge", class_weight=costs, tol=1e-6).fit(X, y, weight)
    for mine, its in ((model, hinge), (hinge, model)):
        assert mine.certificate_.dual <= its.certificate_.primal
    assert model.score(X, y, weight) == pytest.approx(
        np.average(model.predict(X) == y, weights=weight)
    )


def test_scores_are_those_of_scikit_learn():
    model = MeasureSVC(C=0.1).fit(X, y)
    scores = model.decision_function(X)
    assert model.score(X, y) == f1_score(y, model.predict(X))
    model.measure = "f0.5"
    assert model.score(X, y) == pytest.approx(fbeta_score(y, model.predict(X), beta=0.5))
    model.measure = "average_precision"
    assert model.score(X, y) == average_precision_score(y, scores)
    model.measure = "roc_auc@1.0"
    assert model.score(X, y) == pytest.approx(roc_auc_score(y, scores))
    top = np.argsort(-scores)
    for measure, expected in (
        ("precision@9", y[top[:9]].mean()),
        ("recall@50", y[top[:50]].sum() / y.sum()),
        ("prbep", y[top[: y.sum()]].mean()),
    ):
        model.measure = measure
        assert model.score(X, y) == pytest.approx(expected)


@pytest.mark.parametrize("measure", ["f1", "precision@50", "average_precision", "roc_auc@0.5"])
def test_whole_weights_repeat_rows(measure):
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    model = MeasureSVC(measure, C=0.1, tol=1e-6).fit(X, y, weight)
    repeated = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    twin = MeasureSVC(measure, C=0.1, tol=1e-6).fit(*repeated)
    assert model.certificate_.dual <= twin.certificate_.primal
    assert twin.certificate_.dual <= model.certificate_.primal
    assert model.score(X, y, weight) == pytest.approx(model.score(*repeated))


@pytest.mark.parametrize("measure", ["precision@5", "f1", "average_precision", "roc_auc@0.3"])
def test_groups(measure):
    queries = np.random.default_rng(0).permutation(np.arange(y.size) % 20)
    model = MeasureSVC(measure, C=0.1).fit(X, y, qid=queries)
    assert certify(model, X, y, qid=queries).relative_gap <= 1e-3
    alone = [model.score(X[queries == q], y[queries == q]) for q in range(20)]
    assert model.score(X, y, qid=queries) == pytest.approx(np.mean(alone))
    assert model.score(X, y, qid=queries) > 0.9


def test_rows_on_disk_and_sparse(tmp_path):
    rows, labels = sp.csr_matrix(X.astype(np.float32)), np.where(y, 1, -1)
    write(tmp_path / "rows", rows, labels)
    for measure in ("f1", "prbep"):
        memory = MeasureSVC(measure, C=0.1).fit(rows, labels)
        disk = MeasureSVC(measure, C=0.1, solver="ocas").fit(open_rows(tmp_path / "rows"), labels)
        assert disk.certificate_.primal == pytest.approx(memory.certificate_.primal, rel=1e-3)
        np.testing.assert_array_equal(disk.predict(rows), memory.predict(rows))
    on_disk = open_rows(tmp_path / "rows")
    search = MeasureSVCCV(Cs=[0.01, 0.1], cv=2).fit(on_disk, labels)
    twin = MeasureSVCCV(Cs=[0.01, 0.1], cv=2).fit(rows, labels)
    np.testing.assert_allclose(search.scores_, twin.scores_, atol=0.02)


def test_starts():
    cold = MeasureSVC(C=1.0).fit(X, y)
    start = LinearSVC(C=1.0).fit(X, y)
    assert MeasureSVC(C=1.0).fit(X, y, start=start).n_iter_ < cold.n_iter_
    n_iter = cold.n_iter_
    assert cold.set_params(warm_start=True, C=1.1).fit(X, y).n_iter_ < n_iter / 2
    for measure in ("average_precision", "error", "prbep"):  # the proof is of another kind
        assert cold.set_params(measure=measure).fit(X, y).status_ == "converged"


def test_limits():
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = MeasureSVC(C=10.0, max_iter=2).fit(X, y)
    assert model.status_ == "max_iter"
    assert certify(model, X, y).dual <= certify(model, X, y).primal


def test_bounds_that_nothing_makes_small():
    """The mean positive row is below the highest negative ones."""
    rows, labels = overlapping(seed=3)
    why = r"zero weights are as good .* 'precision@5'.* the mean of all 110 positive rows"
    with pytest.warns(UserWarning, match=why):
        model = MeasureSVC("precision@5", C=1.0).fit(rows, labels)
    assert np.abs(model.coef_).max() < 1e-3
    with pytest.warns(UserWarning, match="too much for this bound: take LinearSVC"):
        MeasureSVC("roc_auc@0.01").fit(rows, labels)


def test_thresholds_are_the_best_of_all():
    rows, labels = overlapping()
    model = LinearSVC(loss="hinge").fit(rows, labels)
    scores = np.unique(model.decision_function(rows))
    cuts = np.concatenate([[scores[0] - 1], 0.5 * (scores[1:] + scores[:-1]), [scores[-1] + 1]])
    for measure, judge in (
        ("f1", f1_score),
        ("f2", lambda y, found: fbeta_score(y, found, beta=2)),
        ("error", lambda y, found: np.mean(y == found)),
    ):
        tuned = tune_threshold(model, rows, labels, measure)
        best = max(judge(labels, (model.decision_function(rows) > cut) * 1) for cut in cuts)
        assert judge(labels, tuned.predict(rows)) == pytest.approx(best)
    judged = TunedThresholdClassifierCV(
        model, scoring="f1", cv="prefit", refit=False, thresholds=cuts
    ).fit(rows, labels)
    tuned = tune_threshold(model, rows, labels)
    assert f1_score(labels, tuned.predict(rows)) == pytest.approx(judged.best_score_)
    assert model.intercept_ != tuned.intercept_


def test_thresholds_of_ties_and_extremes():
    rows = np.array([[0.0], [0.0], [1.0], [1.0]])
    model = LinearSVC().fit(rows, [0, 0, 1, 1])
    for labels, accepted in (([0, 1, 1, 1], 4), ([0, 0, 0, 1], 2)):
        assert (tune_threshold(model, rows, labels).predict(rows) == 1).sum() == accepted
    assert tune_threshold(model, rows, [1, 1, 0, 0], "error").predict(rows).tolist() == [0] * 4
    with pytest.raises(ValueError, match="rows of one class only"):
        tune_threshold(model, rows, [1, 1, 1, 1])
    for other in (LinearRanker(), OrdinalSVC()):
        with pytest.raises(TypeError, match=f"{type(other).__name__} is no classifier of two"):
            tune_threshold(other.fit(rows, [0, 0, 1, 1]), rows, [0, 0, 1, 1])
    with pytest.raises(ValueError, match="two classes"):
        tune_threshold(LinearSVC().fit(rows, [0, 1, 2, 2]), rows, [0, 1, 2, 2])


@pytest.mark.parametrize("measure", ["f1", "f2", "error", "prbep", "precision@20", "recall@30"])
@settings(max_examples=25)
@given(data=st.data())
def test_no_threshold_is_better(measure, data):
    """Against each cut, written out: ties, weights, scores of any size."""
    n, scale = data.draw(st.integers(2, 12)), 10.0 ** data.draw(st.integers(-30, 30))
    near = st.integers(-3, 3).map(float)
    rows = scale * np.array(data.draw(st.lists(near, min_size=n, max_size=n)))[:, None]
    labels = np.array(
        [0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))]
    )
    weight = np.array(data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)))
    found = tune_threshold(AS_IT_IS, rows, labels, measure, weight).predict(rows) == 1
    positive, scores = labels == 1, rows[:, 0]

    def value(accepted):
        if measure == "error":
            return weight[accepted == positive].sum()
        t, f = weight[accepted & positive].sum(), weight[accepted & ~positive].sum()
        if measure in ("f1", "f2"):
            beta2 = float(measure[1:]) ** 2
            return (1 + beta2) * t / (t + f + beta2 * weight[positive].sum())
        size = weight[positive].sum() if measure == "prbep" else int(measure.split("@")[1])
        return -abs(t + f - size)

    best = max(value(scores > cut) for cut in [-np.inf, *scores])
    assert value(found) == pytest.approx(best, rel=1e-12)


def test_tuned_models_keep_probabilities_and_can_be_saved(tmp_path):
    model = LinearSVC(probability=True, random_state=0).fit(X, y)
    tuned = tune_threshold(model, X, y, "f2")
    assert abs(tuned.intercept_ - model.intercept_) > 1e-3
    np.testing.assert_allclose(tuned.predict_proba(X), model.predict_proba(X), rtol=1e-9)
    without = tune_threshold(LinearSVC(fit_intercept=False).fit(X, y), X, y, "f2")
    write_liblinear(without, tmp_path / "m.txt")
    np.testing.assert_array_equal(
        read_liblinear(tmp_path / "m.txt").predict(X), without.predict(X)
    )
    for search in (LinearSVCCV(Cs=[0.1], cv=2), MeasureSVCCV("prbep", Cs=[0.1], cv=2)):
        tuned = tune_threshold(search.fit(X, y), X, y, "f2")
        save_model(tuned, tmp_path / "m.wm")
        np.testing.assert_array_equal(load_model(tmp_path / "m.wm").predict(X), tuned.predict(X))
        assert not np.array_equal(search.best_estimator_.predict(X), tuned.predict(X))


def test_the_threshold_of_groups_accepts_the_sum_of_them():
    queries = np.arange(y.size) % 20
    model = MeasureSVC("precision@5", C=0.1).fit(X, y, qid=queries)
    assert (model.predict(X) == 1).sum() == pytest.approx(100, abs=3)


@pytest.mark.parametrize("qid", [None, np.arange(y.size) % 10])
def test_reports(qid):
    model = MeasureSVC("recall@precision=0.9", C=0.1).fit(X, y, qid=qid)
    report = model.report(None, X, y, qid=qid)
    score = model.score(X, y, qid=qid)
    assert f"Recall@precision=0.9 {score:.3f}" in report.html
    assert ("qid=qid" in report.html) == (qid is not None)
    assert "ocas" in str(model)
    assert np.isnan(model.score(X[y == 1], y[y == 1]))
    with pytest.raises(ValueError, match="knows no groups"):
        LinearSVC().fit(X, y).report(None, X, y, qid=y)


def test_rows_that_are_elsewhere():
    array = pytest.importorskip("dask.array").from_array(X)
    for model in (MeasureSVC(), MeasureSVCCV()):
        with pytest.raises(TypeError, match=r"X is Dask's: .* one round trip cannot do"):
            model.fit(array, y)


def test_cross_validation_is_a_loop():
    rows, labels = overlapping()
    folds = list(StratifiedKFold(3).split(rows, labels))
    search = MeasureSVCCV(Cs=[1.0, 0.01, 0.1], cv=folds).fit(rows, labels)
    expected = np.array(
        [
            [
                MeasureSVC(C=C).fit(rows[train], labels[train]).score(rows[test], labels[test])
                for C in search.Cs_
            ]
            for train, test in folds
        ]
    )
    np.testing.assert_allclose(search.scores_, expected, atol=0.03)
    means = search.scores_.mean(axis=0)
    assert means[search.Cs_ == search.C_] == means.max()
    assert search.score(rows, labels) == f1_score(labels, search.predict(rows))
    tuned = tune_threshold(search, rows, labels)
    assert f1_score(labels, tuned.predict(rows)) >= search.score(rows, labels)
    assert search.status_ == "converged"
    queries = np.arange(labels.size) % 30
    grouped = MeasureSVCCV("precision@3", Cs=[0.1], cv=3).fit(rows, labels, qid=queries)
    assert 0.0 < grouped.scores_.min() <= 1.0


def test_searches_that_are_wrong():
    rows, labels = overlapping(60)
    weights = np.ones(60)
    weights[50] = 0.5
    with pytest.raises(ValueError, match=r"whole numbers, and row 50 has 0\.5"):
        MeasureSVCCV(cv=2).fit(rows, labels, weights)
    in_order = np.argsort(labels, kind="stable")
    with pytest.raises(ValueError, match="fold 1 of cv trains on rows of one class only"):
        MeasureSVCCV(cv=[(in_order[:30], in_order[30:])]).fit(rows, labels)
    with pytest.raises(ValueError, match="holds out rows of one class only"):
        MeasureSVCCV(cv=[(in_order[30:], in_order[:30])], Cs=[1.0]).fit(rows, labels)
    with pytest.raises(ValueError, match="max_iter must be"):
        MeasureSVCCV(parameters={"max_iter": 0}).fit(rows, labels)


def test_what_is_wrong():
    with pytest.raises(ValueError, match="measure must be one of f1"):
        MeasureSVC("accuracy").fit(X, y)
    with pytest.raises(ValueError, match="needs 2 classes, and y has 3"):
        MeasureSVC().fit(X[:3], [1, 2, 3])
    with pytest.raises(ValueError, match=r"row 1 has 0\.5"):
        MeasureSVC().fit(X, y, np.where(np.arange(y.size) == 1, 0.5, 1.0))
    with pytest.raises(ValueError, match=r"1e\+30 rows are too many"):
        MeasureSVC().fit(X, y, np.where(np.arange(y.size) == 1, 1e30, 1.0))
    with pytest.raises(
        ValueError, match="'precision@600' accepts all rows, of which there are 569"
    ):
        MeasureSVC("precision@600").fit(X, y)
    with pytest.raises(ValueError, match="accepts all rows of each group, of which there are 57"):
        MeasureSVC("recall@57").fit(X, y, qid=np.arange(y.size) % 10)
    with pytest.raises(ValueError, match="class_weight is for measure='error'"):
        MeasureSVC(class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="knows no groups"):
        MeasureSVC("error").fit(X, y, qid=y)
    with pytest.raises(ValueError, match=r"start must .* 30 features; its coef_ has .* \(3, 4\)"):
        MeasureSVC().fit(X, y, start=LinearSVC().fit(*load_iris(return_X_y=True)))
    with pytest.raises(NotFittedError):
        MeasureSVC().fit(X, y, start=LinearSVC())
    with pytest.raises(ValueError, match="one class only in each group"):
        MeasureSVC().fit(X, y, qid=y)
    with pytest.raises(ValueError, match=r"solver must be one of 'auto', 'cpa', 'ocas'"):
        MeasureSVC(solver="dcd").fit(X, y)
    for measure in ("f1", "error"):
        with pytest.raises(ValueError, match="contains only one class: 1"):
            MeasureSVC(measure).fit(X, y, (y == 1) * 1.0)
    assert clone(MeasureSVC("prbep", C=3.0)).get_params()["measure"] == "prbep"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("measure", ["f1", "prbep"])
def test_scikit_learn_agrees(measure):
    excused = {"check_class_weight_classifiers": "costs are for measure='error'"}
    if parse_version(sklearn.__version__) < parse_version("1.7"):
        why = "scikit-learn before 1.7 gives weighted rows other labels than repeated ones"
        excused["check_sample_weight_equivalence_on_dense_data"] = why
        excused["check_sample_weight_equivalence_on_sparse_data"] = why
    check_estimator(MeasureSVC(measure), expected_failed_checks=excused)
