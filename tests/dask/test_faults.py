"""Workers that die, come or are slow, and a scheduler that is gone."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from clusters import QUIET, collections, halves, held, rows, slow_parts
from dask import delayed
from distributed import Client, LocalCluster
from processes import PATIENCE, heeding_ctrl_c
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, make_scorer

from widemargin.dask import ClusterError, LinearSVC, LinearSVCCV, partitions
from widemargin.dask.settings import ClusterSettings
from widemargin.kernels import jit

IMPATIENT = ClusterSettings(seconds_without_workers=0.6)
SETTINGS = {"C": 0.1, "loss": "hinge", "solver": "cpa", "fit_intercept": False}


@contextmanager
def meanwhile(task):
    """Run a task beside what is inside; what it raises is raised."""
    failed = []

    def run():
        try:
            task()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


def kill_one(client):
    """Kill a worker with SIGKILL."""
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


def wait_for_passes(file, more):
    """Wait until slow rows were passed over so many times more."""
    passes = file.stat().st_size + more
    while file.stat().st_size < passes:
        time.sleep(0.02)


def assert_same_end(model, undisturbed):
    """The same iterations, and the same proof at their end."""
    assert model.status_ == "converged"
    assert model.n_iter_ == undisturbed.n_iter_
    for name in ("primal", "dual"):
        wanted = getattr(undisturbed.certificate_, name)
        assert getattr(model.certificate_, name) == pytest.approx(wanted, rel=1e-9)
    np.testing.assert_allclose(model.coef_, undisturbed.coef_, rtol=1e-6, atol=1e-9)


def test_workers_are_killed_five_times_in_one_fit(client, tmp_path):
    X, y = rows(n=600)
    undisturbed = LinearSVC(**SETTINGS).fit([delayed(some) for some in halves(X)], halves(y))
    file, killed, at_the_end = tmp_path / "slow", [], []

    def kill_five():
        for _ in range(5):
            wait_for_passes(file, 4)  # it goes on
            held(file).touch()
            kill_one(client)
            client.wait_for_workers(2, timeout=PATIENCE)
            killed.append(file.stat().st_size)
            held(file).unlink()
        file.unlink()

    parts = slow_parts(X, 0.05, file)
    with meanwhile(kill_five):
        model = LinearSVC(**SETTINGS).fit(parts, halves(y))
        at_the_end += killed
    assert len(at_the_end) == 5, "the fit has ended before all were killed"
    assert_same_end(model, undisturbed)
    client.wait_for_workers(2, timeout=PATIENCE)


def test_a_slow_worker(client, tmp_path):
    X, y = rows(n=600)
    settings = SETTINGS | {"solver": "ocas"}
    parts = [delayed(some) for some in halves(X)]
    undisturbed = LinearSVC(**settings).fit(parts, halves(y))
    parts[1] = slow_parts(X, 0.05, tmp_path / "slow")[1]
    assert_same_end(LinearSVC(**settings).fit(parts, halves(y)), undisturbed)


def test_a_worker_is_added_in_the_middle(client, tmp_path):
    X, y = rows(n=600)
    settings = SETTINGS | {"C": 0.01}
    undisturbed = LinearSVC(**settings).fit([delayed(some) for some in halves(X)], halves(y))
    file, before_the_end = tmp_path / "slow", []

    def add():
        wait_for_passes(file, 4)
        held(file).touch()
        cluster.scale(3)
        own.wait_for_workers(3, timeout=PATIENCE)
        before_the_end.append(not ended.is_set())
        held(file).unlink()
        file.unlink()

    ended = threading.Event()
    parts = slow_parts(X, 0.05, file)
    # A cluster of its own: one that shrinks again may close a worker that a later test has killed.
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **QUIET) as cluster,
        Client(cluster) as own,
        meanwhile(add),
    ):
        model = LinearSVC(**settings).fit(parts, halves(y))
        ended.set()
    assert before_the_end == [True]
    assert_same_end(model, undisturbed)


def test_a_worker_is_killed_while_c_is_chosen(client):
    X, y = rows(n=600)
    search = {"Cs": [0.001, 0.01, 0.1], "cv": 3, "tol": 1e-2, "fit_intercept": False}
    undisturbed = LinearSVCCV(**search).fit(*collections(X, y, 200))
    calls = []

    def kill_then_score(y, predicted):
        calls.append(None)
        if len(calls) == 4:  # the first fold at the second C
            kill_one(client)
        return accuracy_score(y, predicted)

    model = LinearSVCCV(scoring=make_scorer(kill_then_score), **search)
    model.fit(*collections(X, y, 200))
    assert len(calls) == 9
    assert model.C_ == undisturbed.C_
    np.testing.assert_allclose(model.scores_, undisturbed.scores_)
    assert model.certificate_.primal == pytest.approx(undisturbed.certificate_.primal, rel=1e-6)
    client.wait_for_workers(2, timeout=PATIENCE)


def test_the_scheduler_is_killed(tmp_path):
    """An error at once; what was reached stays."""
    X, y = rows(n=600)
    address = tmp_path / "scheduler.json"
    arguments = ["--scheduler-file", str(address), "--no-dashboard"]
    module = [sys.executable, "-m", "distributed.cli.dask_"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def start(name, *options):
        return subprocess.Popen([*module[:-1], module[-1] + name, *arguments, *options], **quiet)

    scheduler = start("scheduler", "--port", "0")
    worker = start("worker", "--no-nanny", "--nthreads", "1")
    try:
        with Client(scheduler_file=str(address), timeout=PATIENCE) as client:
            model = LinearSVC(client=client, **SETTINGS)
            file = tmp_path / "slow"
            parts = slow_parts(X, 0.1, file)

            def kill_after_some_rounds():
                wait_for_passes(file, 20)
                held(file).touch()
                scheduler.kill()

            lost = pytest.raises(ClusterError, match="connection to the scheduler is lost")
            with meanwhile(kill_after_some_rounds), lost:
                model.fit(parts, halves(y))
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    assert model.status_ == "interrupted"
    assert 0.0 < model.certificate_.dual < model.certificate_.primal < np.inf
    assert model.n_iter_ == model.history_[-1].iteration
    assert model.to_local().predict(X).shape == y.shape


def test_the_cluster_is_gone_while_c_is_chosen():
    """What was finished stays: scores of the first C's."""
    X, y = rows(n=600)
    calls = []
    with LocalCluster(n_workers=1, processes=False, **QUIET) as cluster:
        client = Client(cluster)

        def close_then_score(y, predicted):
            calls.append(None)
            if len(calls) == 4:
                client.close()
            return accuracy_score(y, predicted)

        model = LinearSVCCV(
            Cs=[0.1, 0.001, 0.01],
            cv=2,
            scoring=make_scorer(close_then_score),
            tol=1e-2,
            client=client,
        )
        with pytest.raises(ClusterError, match="connection to the scheduler is lost"):
            model.fit(*collections(X, y, 200))
    assert model.status_ == "interrupted"
    np.testing.assert_array_equal(np.isnan(model.scores_), [[True, False, False]] * 2)
    assert model.C_ in (0.001, 0.01)
    assert not hasattr(model, "best_estimator_")


@contextmanager
def small_cluster(n_workers):
    """Yield a cluster of threads, and its client."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=False, **QUIET
        ) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


@contextmanager
def all_workers_leave(cluster, file, then=lambda: None):
    """Have all workers leave once the slow rows of a file were scored some times."""

    def leave():
        while file.stat().st_size < 16:
            time.sleep(0.02)
        cluster.scale(0)
        while cluster.scheduler.workers:
            time.sleep(0.02)
        then()

    with meanwhile(leave):
        yield


def assert_kept(model, y):
    """What was reached before is a model like others."""
    assert 0.0 < model.certificate_.dual < model.certificate_.primal < np.inf
    assert model.n_iter_ == model.history_[-1].iteration
    assert model.to_local().predict(np.zeros((3, model.n_features_in_))).shape == (3,)


def test_a_cluster_that_never_has_workers():
    X, y = rows(n=600)
    parts = [delayed(some) for some in halves(X)]
    with small_cluster(0) as (_, client):
        for model in (LinearSVC(client=client), LinearSVCCV(client=client)):
            model.settings = IMPATIENT
            with pytest.raises(ClusterError, match="start some, or set max_time to wait"):
                model.fit(parts, halves(y))
        with pytest.raises(ClusterError, match="max_time is over, and the cluster has no workers"):
            LinearSVC(client=client, max_time=0.1).fit(parts, halves(y))


def test_a_cluster_that_has_no_workers_yet(monkeypatch):
    X, y = rows(n=600)
    with small_cluster(0) as (cluster, client):
        wait = partitions.Partitions._check_patience

        def start_one(self, since):
            wait(self, since)
            cluster.scale(1)

        monkeypatch.setattr(partitions.Partitions, "_check_patience", start_one)
        model = LinearSVC(client=client, max_time=600.0, **SETTINGS)
        model.settings = ClusterSettings(
            seconds_without_workers=0.0
        )  # a time limit is what counts
        model.fit([delayed(some) for some in halves(X)], halves(y))
    assert model.status_ == "converged"


class Clock:
    """The module `time`, in which an hour may pass at once."""

    monotonic = staticmethod(time.monotonic)
    ahead = 0.0

    def perf_counter(self):
        return time.perf_counter() + self.ahead

    def skip_an_hour(self):
        self.ahead = 3600.0


def test_all_workers_leave_until_the_time_is_over(tmp_path, monkeypatch):
    X, y = rows(n=600)
    file, clock = tmp_path / "slow", Clock()
    monkeypatch.setattr(jit, "time", clock)
    parts = slow_parts(X, 0.02, file)
    with small_cluster(2) as (cluster, client):
        model = LinearSVC(client=client, max_time=3000, **SETTINGS | {"tol": 1e-12})
        with (
            all_workers_leave(cluster, file, clock.skip_an_hour),
            pytest.warns(ConvergenceWarning, match="max_time=3000"),
        ):
            model.fit(parts, halves(y))
    assert model.status_ == "max_time"
    assert_kept(model, y)


def test_all_workers_leave_and_somebody_presses_ctrl_c(tmp_path):
    X, y = rows(n=600)
    file = tmp_path / "slow"
    parts = slow_parts(X, 0.02, file)

    def press():
        os.kill(os.getpid(), signal.SIGINT)

    with small_cluster(2) as (cluster, client):
        model = LinearSVC(client=client, **SETTINGS | {"tol": 1e-12})
        with heeding_ctrl_c(), all_workers_leave(cluster, file, press):
            model.fit(parts, halves(y))
    assert model.status_ == "interrupted"
    assert_kept(model, y)


def test_all_workers_leave_and_none_comes(tmp_path):
    """An error; what was reached stays, as where the scheduler is gone."""
    X, y = rows(n=600)
    file = tmp_path / "slow"
    parts = slow_parts(X, 0.02, file)
    with small_cluster(2) as (cluster, client):
        model = LinearSVC(client=client, **SETTINGS | {"tol": 1e-12})
        model.settings = IMPATIENT
        lost = pytest.raises(ClusterError, match="the cluster has had no workers for")
        with all_workers_leave(cluster, file), lost:
            model.fit(parts, halves(y))
    assert model.status_ == "interrupted"
    assert_kept(model, y)


def test_all_workers_leave_while_c_is_chosen():
    X, y = rows(n=600)
    calls = []
    with small_cluster(1) as (cluster, client):

        def leave_then_score(y, predicted):
            calls.append(None)
            if len(calls) == 4:
                cluster.scale(0)
            return accuracy_score(y, predicted)

        model = LinearSVCCV(
            Cs=[0.1, 0.001, 0.01],
            cv=2,
            scoring=make_scorer(leave_then_score),
            tol=1e-2,
            client=client,
        )
        model.settings = IMPATIENT
        with pytest.raises(ClusterError, match="the cluster has had no workers for"):
            model.fit([delayed(some) for some in halves(X)], halves(y))
    assert model.status_ == "interrupted"
    assert np.isfinite(model.scores_[:, 1:]).all()
    assert model.C_ in (0.001, 0.01)
