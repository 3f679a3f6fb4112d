"""Cross-validation on a cluster: the same choice as on one machine, and no row moves."""

import numpy as np
import pytest
import scipy.sparse
from clusters import collections, rows
from dask import array, delayed
from sklearn.datasets import make_classification
from sklearn.metrics import make_scorer
from sklearn.model_selection import PredefinedSplit, StratifiedKFold

import widemargin
from widemargin.dask import LinearSVCCV, certify, folds
from widemargin.dask.questions import Part
from widemargin.dask.settings import ClusterSettings
from widemargin.data import as_rows
from widemargin.data.shards import ShardWriter

COSTS = [0.1, 0.001]


def few_rows(n_classes=2):
    """Of few features, so that it does not take many planes to tell them apart for good."""
    return make_classification(
        240, 5, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1, random_state=0
    )


def numbers(n, n_folds=3):
    return np.random.default_rng(1).integers(0, n_folds, n)


@pytest.mark.parametrize(
    ("n_classes", "scoring", "parameters"),
    [
        (2, None, {"loss": "hinge"}),
        (2, "roc_auc", {"class_weight": "balanced"}),
        (3, None, {"penalized_intercept": True}),
        (3, "f1_macro", {"multi_class": "crammer_singer"}),
    ],
)
def test_same_as_on_one_machine(client, n_classes, scoring, parameters):
    X, y = few_rows(n_classes)
    fold = numbers(y.size)
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    settings = {"Cs": COSTS, "scoring": scoring, "cv": PredefinedSplit(fold), **parameters}
    model = LinearSVCCV(tol=1e-7, **settings)
    model.fit(*collections(X, y, 100), sample_weight=weight)
    twin = widemargin.LinearSVCCV(tol=1e-7, random_state=0, **settings)
    twin.fit(X, y, sample_weight=weight)
    assert model.C_ == twin.C_
    np.testing.assert_array_equal(model.Cs_, twin.Cs_)
    np.testing.assert_allclose(model.scores_, twin.scores_, atol=1e-12)
    assert np.all(model.relative_gaps_ <= 1e-7)
    assert model.certificate_.relative_gap <= 1e-7
    assert model.certificate_.primal == pytest.approx(twin.certificate_.primal, rel=2e-7)
    again = certify(model, *collections(X, y, 100), sample_weight=weight)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    lazy, local = collections(X, y, 100)[0], model.to_local()
    assert isinstance(local, widemargin.LinearSVCCV)
    assert local.C_ == model.C_
    np.testing.assert_array_equal(model.predict(lazy).compute(), local.predict(X))


def test_planes_go_from_one_cost_to_the_next(client):
    """In fewer rounds than from nothing, and to the same end."""
    X, y = rows(n=400)
    settings = {"Cs": [0.01, 0.02, 0.04], "cv": 2, "loss": "hinge", "tol": 1e-2}
    model = LinearSVCCV(**settings).fit(*collections(X, y, 150))
    forgetful = LinearSVCCV(**settings)
    forgetful.settings = ClusterSettings(keeps_planes=False)
    forgetful.fit(*collections(X, y, 150))
    assert model.n_rounds_ < forgetful.n_rounds_
    for gaps in (model.relative_gaps_, forgetful.relative_gaps_):
        assert np.all((gaps >= 0.0) & (gaps <= 1e-2))
    np.testing.assert_allclose(model.scores_, forgetful.scores_, atol=0.03)


def test_forms_of_rows_and_folds(client, tmp_path):
    X, y = rows(n=400)
    fold = numbers(y.size)
    settings = {"Cs": [0.01], "tol": 1e-2, "fit_intercept": False}
    lazy, labels = collections(X, y, 150)
    expected = LinearSVCCV(cv=PredefinedSplit(fold), **settings).fit(lazy, labels).scores_
    beside = array.from_array(fold, chunks=150)
    np.testing.assert_array_equal(
        LinearSVCCV(cv=beside, **settings).fit(lazy, labels).scores_, expected
    )
    cuts = [150, 300]
    parts = [delayed(scipy.sparse.csr_matrix)(some) for some in np.split(X, cuts)]
    model = LinearSVCCV(cv=np.split(fold, cuts), **settings).fit(parts, np.split(y, cuts))
    np.testing.assert_array_equal(model.scores_, expected)
    with ShardWriter(tmp_path / "shards") as writer:
        writer.add(scipy.sparse.csr_matrix(X, dtype=np.float32), y)
    model = LinearSVCCV(cv=3, random_state=0, **settings).fit(tmp_path / "shards")
    again = LinearSVCCV(cv=3, random_state=0, **settings).fit(lazy, labels)
    np.testing.assert_allclose(model.scores_, again.scores_, atol=0.01)


def test_limits_and_what_fits_into_memory(client):
    X, y = rows(3, n=400)
    model = LinearSVCCV(Cs=[0.01, 0.1], cv=2, loss="hinge", max_iter=3)
    model.settings = ClusterSettings(most_together=2)
    with pytest.warns(UserWarning, match="of 15 trainings stopped at a limit, the worst at"):
        model.fit(*collections(X, y, 150))
    assert model.status_ == "max_iter"
    assert not np.any(np.isnan(model.scores_))


# --- folds --------------------------------------------------------------------------------------


def dealt(y, cuts, n_folds, seed):
    """Folds of rows that come in parts, each of which knows its own rows only."""
    classes, totals = np.unique(y, return_counts=True)
    found, seen = [], np.zeros(classes.size, dtype=int)
    for some in np.split(y, cuts):
        part = Part(as_rows(np.zeros((some.size, 1))), some, None, None, "")
        how = folds.Deal(classes, seen.copy(), np.cumsum(totals) - totals, n_folds, seed)
        found.append(folds.deal(part, how).folds)
        seen += [(some == label).sum() for label in classes]
    return np.concatenate(found)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("n_folds", [2, 5, 9])
def test_rows_are_dealt_out_evenly_whatever_the_parts(seed, n_folds):
    y = np.random.default_rng(0).choice(3, 503, p=[0.9, 0.07, 0.03])
    whole = dealt(y, [], n_folds, seed)
    for cuts in ([1, 2, 500], [100, 101, 250], range(20, 500, 20)):
        np.testing.assert_array_equal(dealt(y, cuts, n_folds, seed), whole)
    for label in range(3):
        assert np.ptp(np.bincount(whole[y == label], minlength=n_folds)) <= 1
    if seed is None:
        assert np.ptp(np.bincount(whole)) <= 1
    else:
        assert not np.array_equal(whole, dealt(y, [], n_folds, seed + 1))
        together = whole[1:][whole[1:] == whole[:-1]].size / whole.size
        assert together < 2.0 / n_folds  # neighbours do not keep together


def test_what_is_wrong(client):
    X, y = rows(n=400)
    lazy, labels = collections(X, y, 150)

    def fit(**parameters):
        return LinearSVCCV(Cs=[0.01], tol=0.1, **parameters).fit(lazy, labels)

    with pytest.raises(ValueError, match=r"cv must be a number .* not StratifiedKFold"):
        fit(cv=StratifiedKFold(3))
    with pytest.raises(ValueError, match="cv must be a number of folds, or"):
        fit(cv=[(np.arange(9), np.arange(9, 20))])
    with pytest.raises(ValueError, match="cv must be at least 2 folds, not 1"):
        fit(cv=1)
    with pytest.raises(ValueError, match=r"part 0 of X: cv must have the number of a fold"):
        fit(cv=array.from_array(numbers(y.size) / 2, chunks=150))
    with pytest.raises(ValueError, match="X has 400 rows, and a vector beside it 399"):
        fit(cv=PredefinedSplit(numbers(399)))
    with pytest.raises(ValueError, match="cv has no folds"):
        fit(cv=array.from_array(np.full(400, -1), chunks=150))
    with pytest.raises(ValueError, match="fold 0 of cv trains on rows of one class only"):
        fit(cv=array.from_array(np.where(y == 0, 1, 0), chunks=150))
    with pytest.raises(ValueError, match="may want to see rows, which stay on the workers"):
        fit(scoring=lambda model, X, y: 0.0)
    with pytest.raises(ValueError, match="wants probabilities"):
        fit(scoring="neg_log_loss")
    with pytest.raises(ValueError, match="is undefined for every C"):
        fit(scoring=make_scorer(lambda y, predicted: np.nan))
    with pytest.raises(ValueError, match="Cs must be a whole number or a list of numbers"):
        LinearSVCCV(Cs="many").fit(lazy, labels)


def test_a_class_that_a_fold_lacks(client):
    """A fold's classifier knows the classes that it was trained on only, as on one machine."""
    X, y = few_rows(3)
    fold = np.where(y == 2, 0, 1 + numbers(y.size, 2))
    settings = {"Cs": [0.01], "cv": PredefinedSplit(fold), "tol": 1e-7}
    model = LinearSVCCV(**settings).fit(*collections(X, y, 100))
    twin = widemargin.LinearSVCCV(**settings).fit(X, y)
    assert twin.scores_[0, 0] == 0.0
    np.testing.assert_allclose(model.scores_, twin.scores_, atol=1e-12)
