"""Training on a cluster of processes: the same answer as on one machine, whoever dies."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse
from dask import array, dataframe, delayed
from distributed import Client, LocalCluster
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import widemargin
from widemargin.dask import ClusterError, LinearRanker, LinearSVC, certify
from widemargin.data.convert import convert

QUIET = {"dashboard_address": None, "worker_dashboard_address": None}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            worker_dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def rows(n_classes=2, n=1200):
    X, y = make_classification(
        n, 15, n_informative=8, n_classes=n_classes, flip_y=0.1, random_state=0
    )
    return X, y


def collections(X, y, size=350):
    return array.from_array(X, chunks=(size, -1)), array.from_array(y, chunks=size)


def test_no_client():
    X, y = rows()
    with pytest.raises(ValueError, match="there is no Dask client"):
        LinearSVC().fit(*collections(X, y))


def assert_same(model, twin, most_more=0.1):
    """Both are proved to be within their tolerance of the same optimum, in about the same time."""
    assert model.status_ == "converged"
    for one, other in ((model, twin), (twin, model)):
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)
    assert model.n_iter_ <= (1.0 + most_more) * twin.n_iter_ + 2


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
    X, y = rows(3 if "multi_class" in parameters else 2)
    model = LinearSVC(C=0.1, **parameters).fit(*collections(X, y))
    local = {"solver": "ocas"} | parameters
    twin = widemargin.LinearSVC(C=0.1, **local).fit(X, y)
    assert_same(model, twin)
    again = certify(model, *collections(X, y))
    np.testing.assert_allclose(again.primal, model.certificate_.primal, rtol=1e-12)
    np.testing.assert_allclose(again.dual, model.certificate_.dual, rtol=1e-9)


def test_weights_of_rows(client):
    X, y = rows()
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    model = LinearSVC(C=0.1, tol=1e-4).fit(*collections(X, y), sample_weight=weight)
    twin = widemargin.LinearSVC(C=0.1, tol=1e-4, solver="ocas").fit(X, y, sample_weight=weight)
    assert_same(model, twin, most_more=0.3)


def test_forms_of_rows(client, tmp_path):
    X, y = rows()
    parts = range(0, y.size, 300)
    twin = widemargin.LinearSVC(C=0.1, solver="ocas").fit(X, y)
    sparse = [delayed(scipy.sparse.csr_matrix)(X[j : j + 300]) for j in parts]
    assert_same(LinearSVC(C=0.1).fit(sparse, [y[j : j + 300] for j in parts]), twin)

    blocks = array.from_array(X, chunks=(300, -1)).map_blocks(scipy.sparse.csr_matrix)
    assert_same(LinearSVC(C=0.1).fit(blocks, y), twin)

    import pandas

    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(label=y)
    frame = dataframe.from_pandas(frame, npartitions=3)
    model = LinearSVC(C=0.1).fit(frame.drop(columns="label"), frame["label"])
    assert_same(model, twin)
    assert model.predict(frame.drop(columns="label")).compute().shape == y.shape

    text = tmp_path / "rows.svm"
    values = "\n".join(
        f"{label} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(row.tolist(), 1))
        for row, label in zip(X, y, strict=True)
    )
    text.write_text(values + "\n")
    convert(text, tmp_path / "shards")
    model = LinearSVC(C=0.1).fit(str(tmp_path / "shards"))
    assert_same(model, twin)


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
    model = LinearSVC(C=0.1).fit(*collections(X, y))
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


def test_workers_die(client):
    """Killed five times in one run: it ends where it would have, and loses nothing."""
    X, y = rows(n=3000)
    undisturbed = LinearSVC(C=0.1, loss="hinge", solver="cpa").fit(*collections(X, y))
    stop, killed = threading.Event(), []

    def kill():
        while len(killed) < 5 and not stop.wait(0.6):
            pids = list(client.run(os.getpid).values())
            killed.append(pids[len(killed) % len(pids)])
            os.kill(killed[-1], signal.SIGKILL)
            client.wait_for_workers(2, timeout=30)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        while len(killed) < 5:
            model = LinearSVC(C=0.1, loss="hinge", solver="cpa").fit(*collections(X, y))
    finally:
        stop.set()
        killer.join()
    assert len(killed) == 5
    assert model.status_ == "converged"
    assert model.n_iter_ == undisturbed.n_iter_
    np.testing.assert_allclose(model.coef_, undisturbed.coef_, rtol=1e-6, atol=1e-9)
    client.wait_for_workers(2, timeout=30)


def test_a_worker_is_added_in_the_middle(client):
    X, y = rows()
    cluster = client.cluster
    timer = threading.Timer(0.5, lambda: cluster.scale(3))
    timer.start()
    model = LinearSVC(C=0.1, loss="hinge", solver="cpa").fit(*collections(X, y))
    timer.join()
    assert model.status_ == "converged"
    cluster.scale(2)
    client.wait_for_workers(2, timeout=30)


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


def test_the_scheduler_is_gone():
    """An error at once; what was reached stays."""
    X, y = rows()
    with LocalCluster(n_workers=1, processes=False, **QUIET) as cluster:
        client = Client(cluster)
        model = LinearSVC(C=0.1, loss="hinge", solver="cpa", tol=1e-9, client=client)
        timer = threading.Timer(1.5, client.close)
        timer.start()
        began = time.monotonic()
        with pytest.raises(ClusterError, match="connection to the scheduler is lost"):
            model.fit(*collections(X, y))
        assert time.monotonic() - began < 30.0
        assert model.status_ == "interrupted"
        assert model.certificate_.primal > 0.0
        timer.join()
