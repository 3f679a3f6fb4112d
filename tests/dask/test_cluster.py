"""Training on a cluster of processes: the same answer as on one machine."""

import numpy as np
import pytest
import scipy.sparse
from clusters import assert_same, collections, rows
from dask import array, dataframe, delayed
from distributed import get_worker
from sklearn.exceptions import ConvergenceWarning

import widemargin
from widemargin.dask import LinearRanker, LinearSVC, certify
from widemargin.data.convert import convert
from widemargin.data.partitions import Partitions


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

    import pandas

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
    parts.result(large)
    each = parts.each(lambda part, large: get_worker().address, list, large)
    assert [parts.result(one) for one in each] == [[worker] for worker, _ in parts.groups]


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
    with pytest.raises(ValueError, match="qid 7 has rows in parts 0 and 1 of X"):
        LinearRanker().fit(
            lazy, y, qid=np.where(np.isin(np.arange(y.size), [3, 310]), 7, qid + 100)
        )
    with pytest.raises(ValueError, match="without qid all rows are one group"):
        LinearRanker().fit(lazy, y)


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


def test_classes_share_rounds(client, monkeypatch):
    X, y = rows(4, n=700)
    settings = {"C": 0.01, "tol": 1e-2}
    model = LinearSVC(**settings).fit(*collections(X, y))
    assert model.n_rounds_ <= model.n_iter_ + 3  # one to begin with, and one or two to certify
    monkeypatch.setattr("widemargin.dask.training._MOST_TOGETHER", 1)
    one_by_one = LinearSVC(**settings).fit(*collections(X, y))
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
    with pytest.raises(ValueError, match="solver must be one of 'ocas', 'cpa'"):
        LinearSVC(solver="acf").fit(lazy, labels)
