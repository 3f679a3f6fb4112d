"""Training on a cluster of processes: the same answer as on one machine."""

from itertools import pairwise

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from clusters import assert_same, collections, rows
from dask import array, dataframe, delayed
from data.on_disk import as_table
from distributed import get_worker
from sklearn.exceptions import ConvergenceWarning

import widemargin
from widemargin.dask import LinearRanker, LinearSVC, certify
from widemargin.dask.partitions import Partitions
from widemargin.dask.settings import ClusterSettings
from widemargin.data.convert import convert


def test_no_client():
    X, y = rows()
    with pytest.raises(ValueError, match="there is no Dask client"):
        LinearSVC().fit(*collections(X, y))


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "hinge"},
        {"penalized_intercept": True, "class_weight": "balanced"},
        {"loss": "hinge", "fit_intercept": False, "solver": "cpa", "tol": 1e-2},
        {"multi_class": "crammer_singer"},
    ],
    ids=["hinge", "squared", "cpa", "together"],
)
def test_same_as_on_one_machine(client, parameters):
    X, y = rows(3 if "multi_class" in parameters else 2, n=700)
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    model = LinearSVC(C=0.1, **parameters).fit(*collections(X, y), sample_weight=weight)
    local = {"solver": "ocas"} | parameters
    twin = widemargin.LinearSVC(C=0.1, **local).fit(X, y, sample_weight=weight)
    assert_same(model, twin, most_more=0.2)
    again = certify(model, *collections(X, y), sample_weight=weight)
    np.testing.assert_allclose(again.primal, model.certificate_.primal, rtol=1e-12)
    np.testing.assert_allclose(again.dual, model.certificate_.dual, rtol=1e-9)


def test_forms_of_rows(client, tmp_path):
    X, y = rows()
    parts = range(0, y.size, 300)
    settings = {"C": 0.1, "tol": 1e-2, "solver": "ocas", "fit_intercept": False}
    twin = widemargin.LinearSVC(**settings).fit(X, y)
    sparse = [delayed(scipy.sparse.csr_matrix)(X[j : j + 300]) for j in parts]
    assert_same(LinearSVC(**settings).fit(sparse, [y[j : j + 300] for j in parts]), twin)

    blocks = array.from_array(X, chunks=(300, -1)).map_blocks(scipy.sparse.csr_matrix)
    assert_same(LinearSVC(**settings).fit(blocks, y), twin)

    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(label=y)
    frame = dataframe.from_pandas(frame, npartitions=3)
    model = LinearSVC(**settings).fit(frame.drop(columns="label"), frame["label"])
    assert_same(model, twin)
    assert model.predict(frame.drop(columns="label")).compute().shape == y.shape

    text = tmp_path / "rows.svm"
    values = "\n".join(
        f"{label} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(row.tolist(), 1))
        for row, label in zip(X, y, strict=True)
    )
    text.write_text(values + "\n")
    convert(text, tmp_path / "shards")
    model = LinearSVC(**settings).fit(str(tmp_path / "shards"))
    assert_same(model, twin)


def test_parts_without_rows_or_weight(client, tmp_path):
    """As filters leave them, and writers of many files."""
    X, y = rows(3, n=700)
    weight = np.where(np.arange(y.size) < 200, 0.0, 1.0)
    settings = {"C": 0.1, "tol": 1e-2}
    twin = widemargin.LinearSVC(solver="ocas", **settings).fit(X, y, sample_weight=weight)
    cuts = [0, 0, 200, 200, 500, 700]
    begins_and_ends = list(pairwise(cuts))
    parts = [delayed(X[begin:end]) for begin, end in begins_and_ends]
    labels, weights = ([v[begin:end] for begin, end in begins_and_ends] for v in (y, weight))
    labels[0] = np.empty(0)  # of no type in particular
    for form in (parts, [delayed(scipy.sparse.csr_matrix)(part) for part in parts]):
        model = LinearSVC(**settings).fit(form, labels, sample_weight=weights)
        assert_same(model, twin, most_more=0.3)
        assert model.classes_.dtype == y.dtype
        np.testing.assert_allclose(
            certify(model, form, labels, weights).primal, model.certificate_.primal, rtol=1e-9
        )
        predicted = np.concatenate([part.compute() for part in model.predict(form)])
        np.testing.assert_array_equal(predicted, model.to_local().predict(X))

    frame = pandas.DataFrame(X).assign(label=y.astype(float), weight=weight)
    frame = dataframe.from_pandas(frame, npartitions=4)
    frame = frame[frame["weight"] > 0.0]
    features = frame.drop(columns=["label", "weight"])
    model = LinearSVC(**settings).fit(features, frame["label"])
    assert_same(model, twin, most_more=0.3)
    assert model.decision_function(features).compute().shape == (500, 3)

    for j, (begin, end) in enumerate(begins_and_ends):
        table = as_table(scipy.sparse.csr_matrix(X[begin:end]), y[begin:end])
        pq.write_table(table, tmp_path / f"{j}.parquet")
    model = LinearSVC(**settings, average_first=True).fit(
        tmp_path, None, weights[1:2] + weights[3:]
    )
    assert_same(model, twin, most_more=0.3)

    grades, qid = y.astype(float), np.arange(y.size) // 50
    graded = [part.astype(float) for part in labels]
    groups = [qid[begin:end] for begin, end in begins_and_ends]
    ranker = LinearRanker(normalization="queries", **settings)
    ranker.fit(parts, graded, qid=groups, sample_weight=weights)
    other = widemargin.LinearRanker(normalization="queries", **settings)
    assert_same(ranker, other.fit(X, grades, qid=qid, sample_weight=weight), most_more=0.3)
    LinearRanker(**settings).fit(parts[:3], graded[:3])  # the one part that has rows is one group


@pytest.mark.parametrize("on_disk", [False, True])
def test_averaging_first(client, tmp_path, on_disk):
    X, y = rows(n=700)
    parts = [delayed(X[:300]), delayed(X[300:])], [y[:300], y[300:]]
    if on_disk:
        for j, some in enumerate((slice(0, 300), slice(300, None))):
            table = as_table(scipy.sparse.csr_matrix(X[some]), y[some])
            pq.write_table(table, tmp_path / f"{j}.parquet")
        parts = tmp_path, None
    settings = {"C": 0.01, "loss": "hinge"}
    model = LinearSVC(average_first=True, **settings).fit(*parts)
    from_zero = LinearSVC(**settings).fit(*parts)
    assert_same(model, from_zero)
    assert model.history_[0].primal < 0.9 * from_zero.history_[0].primal


def test_each_worker_makes_as_many_parts(client):
    """Where parts are as soon made by one as by another."""
    make = delayed(np.zeros, pure=False)
    parts = Partitions(client, {f"{j}": make(1 + j) for j in range(9)}, anywhere=True)
    workers = sorted(client.scheduler_info()["workers"])
    where = client.who_has(parts.futures)
    assert [where[future.key] for future in parts.futures] == [(workers[j % 2],) for j in range(9)]
    assert [len(group) for _, group in parts.groups] == [5, 4]


def test_tasks_go_where_parts_are(client):
    """Even if another worker has a larger argument already."""
    make = delayed(np.zeros, pure=False)
    parts = Partitions(client, {f"{j}": make(1) for j in range(2)}, anywhere=True)
    large = parts.do(np.ones, 10**6)
    large.result()
    each = parts.each(lambda part, large: get_worker().address, list, large)
    assert client.gather(each) == [[worker] for worker, _ in parts.groups]


@pytest.mark.parametrize("normalization", ["pairs", "queries"])
def test_ranking(client, normalization):
    X, y = rows(3)
    y = y.astype(float)
    qid = np.arange(y.size) // 50
    weight = np.random.default_rng(0).random(y.size)
    lazy = array.from_array(X, chunks=(300, -1))
    model = LinearRanker(C=0.1, normalization=normalization)
    model.fit(lazy, y, qid=qid, sample_weight=weight)
    twin = widemargin.LinearRanker(C=0.1, normalization=normalization)
    twin.fit(X, y, qid=qid, sample_weight=weight)
    assert_same(model, twin, most_more=0.3)
    assert model.n_pairs_ == twin.n_pairs_
    local = model.to_local()
    again = widemargin.certify(local, X, y, weight, qid)
    np.testing.assert_allclose(again.primal, model.certificate_.primal, rtol=1e-9)
    np.testing.assert_allclose(again.dual, model.certificate_.dual, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(lazy).compute(), local.predict(X))
    tied = np.where(np.arange(y.size) < 300, 1.0, y)  # the first part has no pairs
    model.fit(lazy, tied, qid=qid, sample_weight=weight)
    with pytest.warns(UserWarning, match="6 groups have no two rows of different grades"):
        twin.fit(X, tied, qid=qid, sample_weight=weight)
    assert_same(model, twin, most_more=0.3)
    with pytest.raises(ValueError, match="qid 7 has rows in parts 0 and 1 of X"):
        LinearRanker().fit(
            lazy, y, qid=np.where(np.isin(np.arange(y.size), [3, 310]), 7, qid + 100)
        )
    with pytest.raises(ValueError, match="without qid all rows are one group"):
        LinearRanker().fit(lazy, y)


@pytest.mark.parametrize("lazily", [False, True], ids=["one column", "a column in parts"])
def test_ranking_by_ordered_categories(client, lazily):
    X, y = rows(3)
    qid = np.arange(y.size) // 50
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    grades = pandas.Series(pandas.Categorical.from_codes(y, ["low", "fair", "high"], ordered=True))
    lazy, groups = array.from_array(X, chunks=(300, -1)), qid
    if lazily:
        frame = dataframe.from_pandas(frame.assign(grade=grades, qid=qid), npartitions=4)
        lazy, groups = frame.drop(columns=["grade", "qid"]), frame["qid"]
    model = LinearRanker(C=0.1).fit(lazy, frame["grade"] if lazily else grades, qid=groups)
    twin = widemargin.LinearRanker(C=0.1).fit(X, y, qid=qid)
    assert_same(model, twin, most_more=0.3)
    with pytest.raises(ValueError, match="part 0 of X: y has labels that are no numbers"):
        LinearRanker().fit(array.from_array(X, chunks=(300, -1)), grades.astype(str), qid=qid)


def test_predictions_are_lazy(client):
    X, y = rows(3)
    model = LinearSVC(C=0.01, tol=0.1).fit(*collections(X, y))
    lazy, local = collections(X, y)[0], model.to_local()
    assert isinstance(local, widemargin.LinearSVC)
    np.testing.assert_array_equal(model.predict(lazy).compute(), local.predict(X))
    np.testing.assert_array_equal(
        model.decision_function(lazy).compute(), local.decision_function(X)
    )
    (part,) = model.predict([delayed(X)])
    np.testing.assert_array_equal(part.compute(), local.predict(X))
    np.testing.assert_array_equal(model.predict(X), local.predict(X))


def test_what_is_sent(client):
    """A vector and a half to each worker, and one back, besides some numbers."""
    X = scipy.sparse.random(600, 5000, 0.01, format="csr", random_state=0)
    total = X.toarray().sum(axis=1)
    y = (total > np.median(total)).astype(int)
    parts = [delayed(X[:300]), delayed(X[300:])]
    model = LinearSVC(loss="hinge").fit(parts, [y[:300], y[300:]])
    first, last = model.history_[1], model.history_[-2]
    per_iteration = (last.network_bytes - first.network_bytes) / (last.iteration - first.iteration)
    workers = 2
    assert per_iteration / workers <= 2.5 * 8 * X.shape[1] + 2000


def test_classes_share_rounds(client):
    X, y = rows(4, n=700)
    settings = {"C": 0.01, "tol": 1e-2}
    model = LinearSVC(**settings).fit(*collections(X, y))
    assert model.n_rounds_ <= model.n_iter_ + 3  # one to begin with, and one or two to certify
    one_by_one = LinearSVC(**settings)
    one_by_one.settings = ClusterSettings(most_together=1)
    one_by_one.fit(*collections(X, y))
    assert one_by_one.n_rounds_ > 2 * model.n_rounds_
    for part, other in zip(model.certificate_.parts, one_by_one.certificate_.parts, strict=True):
        assert part.primal == pytest.approx(other.primal, rel=1e-6)
        assert part.dual == pytest.approx(other.dual, rel=1e-6)
    again = certify(model, *collections(X, y))
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-9)


def test_limits(client):
    X, y = rows(3)
    with pytest.warns(ConvergenceWarning, match="training stopped at max_iter=3"):
        model = LinearSVC(C=10.0, loss="hinge", max_iter=3).fit(*collections(X, y))
    assert model.status_ == "max_iter"
    assert model.certificate_.relative_gap > 1e-3
    with pytest.warns(ConvergenceWarning, match="training stopped at max_time=1"):
        model = LinearSVC(C=10.0, loss="hinge", tol=1e-12, max_time=1.0).fit(*collections(X, y))
    assert model.status_ == "max_time"


def test_what_is_wrong(client):
    X, y = rows()
    lazy, labels = collections(X, y)
    with pytest.raises(TypeError, match="give what is in memory to"):
        LinearSVC().fit(X, y)
    with pytest.raises(ValueError, match="X has 4 parts, and a vector beside it 1"):
        LinearSVC().fit(lazy, labels.rechunk(-1))
    with pytest.raises(ValueError, match="X has 1200 rows, and a vector beside it 1199"):
        LinearSVC().fit(lazy, y[:-1])
    with pytest.raises(ValueError, match="contains only one class"):
        LinearSVC().fit(lazy, np.zeros(y.size))
    spoiled = X.copy()
    spoiled[800, 3] = np.nan
    with pytest.raises(ValueError, match="part 2 of X: Input X contains NaN"):
        LinearSVC().fit(collections(spoiled, y)[0], y)
    with pytest.raises(ValueError, match="different numbers of features"):
        LinearSVC().fit([delayed(X), delayed(X[:, :3])], [y, y])
    with pytest.raises(ValueError, match="solver must be one of 'cpa', 'ocas'"):
        LinearSVC(solver="acf").fit(lazy, labels)
    with pytest.raises(ValueError, match="contains only one class"):
        LinearSVC(class_weight={0: 0.0}).fit(lazy, labels)
    with pytest.raises(ValueError, match="contains only one class"):
        LinearSVC().fit(lazy, labels, sample_weight=np.zeros(y.size))
    with pytest.raises(ValueError, match="X has no rows in any of its parts"):
        LinearSVC().fit([delayed(X[:0]), delayed(X[:0])], [y[:0], y[:0]])
    qid = np.arange(y.size) // 50
    with pytest.raises(ValueError, match="part 1 of X: qid is missing in row 5"):
        LinearRanker().fit(lazy, y, qid=np.where(np.arange(y.size) == 355, np.nan, qid))
