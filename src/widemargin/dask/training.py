"""What estimators on a cluster have in common: parts, problems one by one, predictions."""

import time

import numpy as np
from dask import delayed
from sklearn.base import BaseEstimator

from widemargin.dask import tasks
from widemargin.dask.tasks import Part
from widemargin.data import as_rows
from widemargin.data.partitions import Partitions, Shard, delayed_parts
from widemargin.estimators.fitting import Account, like
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.validation import (
    check_grades,
    check_labels,
    check_matrix,
    check_same_length,
    check_weights,
)
from widemargin.monitor import Interruption, Monitor
from widemargin.progress import ProgressLine
from widemargin.solvers.cutting_plane import CuttingPlanes

SOLVERS = ("ocas", "cpa")


class ClusterModel(BaseEstimator):
    """A linear model that is trained on a cluster."""

    #: the class of one machine
    local_class: type

    def _local(self):
        """Return a model of one machine with the parameters that it shares with this."""
        return like(self.local_class, self)

    def to_local(self):
        """Return the model of one machine that predicts the same."""
        raise NotImplementedError

    def decision_function(self, X):
        """Return scores of the rows; of a Dask collection, lazily."""
        return self._map("decision_function", X)

    def predict(self, X):
        """Return what the model predicts for each row; of a Dask collection, lazily."""
        return self._map("predict", X)

    def _map(self, name, X):
        method = getattr(self.to_local(), name)
        if isinstance(X, list | tuple):
            return [delayed(method)(part) for part in X]
        if hasattr(X, "to_dask_array"):
            X = X.to_dask_array()
        if not hasattr(X, "map_blocks"):
            return method(X)
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        like = method(np.zeros((1, self.n_features_in_)))
        if like.ndim == 1:
            return X.map_blocks(method, dtype=like.dtype, drop_axis=1, meta=like[:0])
        return X.map_blocks(
            method, dtype=like.dtype, chunks=(X.chunks[0], like.shape[1:]), meta=like[:0]
        )

    def _train(self, problems):
        """Solve problems one after the other; what was reached is kept, whatever happens."""
        monitors, states = [], []
        try:
            with Interruption().watching() as interruption:
                self._solve(problems, monitors, states, interruption)
        finally:
            for monitor in monitors:
                if monitor.status == "running":
                    monitor.status = "interrupted"
            if states:
                self.n_features_in_ = problems.n_features
                self.n_samples_fit_ = problems.n_rows
                self._record(problems, states)
                account = Account([m for m in monitors if m.certificate is not None])
                account.record(self, self.solver)
            problems.forget()
        account.warn(self, stacklevel=4)  # to the caller of fit
        return self

    def _solve(self, problems, monitors, states, interruption):
        started = time.perf_counter()
        line = ProgressLine(len(problems), self.tol) if self.verbose else None
        for index in range(len(problems)):
            left = self.max_time
            if left is not None:
                spent = time.perf_counter() - started
                left = max(0.0, self.max_time - spent) / (len(problems) - index)

            def on_check(record, state, index=index):
                states[index:] = [state]
                if line is not None:
                    line.show(record)
                return False

            monitor = Monitor(
                self.tol, self.max_iter, left, interruption, on_check, index, started
            )
            monitors.append(monitor)
            oracle, start = problems.oracle(index, monitor), problems.start(index)
            states[index:] = [CuttingPlanes(self.solver).ask(oracle, start)]


class Problems:
    """Problems over parts of the rows.

    Parameters
    ----------
    client : distributed.Client or None
    describe : callable(Part) -> (name, rows, features, ...)
    vectors : X, y, sample_weight, qid
    """

    def __init__(self, client, make_part, describe, *vectors):
        self.parts = Partitions(client or _current_client(), delayed_parts(make_part, *vectors))
        each = self.parts.each(describe, list)
        described = [part for group in each for part in self.parts.result(group)]
        order = {name: place for place, name in enumerate(self.parts.names)}
        described.sort(key=lambda part: order[part[0]])
        self.names, self.sizes, widths, *self.described = zip(*described, strict=True)
        if len(set(widths)) > 1:
            raise ValueError(
                f"parts of X have different numbers of features: {sorted(set(widths))}"
            )
        self.n_rows, self.n_features = sum(self.sizes), widths[0]

    def forget(self):
        """Have workers forget what they kept for this fit."""
        client = self.parts.client
        if client.status == "running":
            client.run(tasks.forget, self.names)


def _current_client():
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "there is no Dask client: make one first, distributed.Client(), or pass one"
        ) from None


def labelled_part(X, y, weights, name) -> Part:
    """Return a part of rows that have classes, checked; runs on a worker."""
    return _part(check_labels, X, y, weights, None, name)


def graded_part(X, y, weights, qid, name) -> Part:
    """Return a part of rows that have grades, checked; runs on a worker."""
    return _part(check_grades, X, y, weights, qid, name)


def _part(check_y, X, y, weights, qid, name):
    try:
        if isinstance(X, Shard):
            from widemargin.data.disk import open_rows

            path, X = X.path, open_rows(X.path).resized(X.n_features)
            y = X.labels if y is None else y
            weights = X.weights if weights is None else weights
            qid = X.qid if qid is None else qid
            if y is None:
                raise ValueError(f"{path} has no labels, and y is None")
        X = check_matrix(LinearSVC(), X, reset=True)
        y = check_y(y)
        check_same_length(X, y)
        if qid is not None:
            qid = np.asarray(qid)
            check_same_length(X, qid)
        return Part(as_rows(X), y, check_weights(weights, X), qid, name)
    except ValueError as error:
        raise ValueError(f"part {name.rpartition('-')[2]} of X: {error}") from error
