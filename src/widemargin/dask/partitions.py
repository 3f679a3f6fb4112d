"""Rows on a Dask cluster: parts in the memory of workers, which can be computed again."""

import os
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import dask
import numpy as np
from dask import delayed
from distributed import CancelledError, Client, KilledWorker, get_worker, wait
from distributed.client import ClosedClientError
from sklearn.utils import _safe_indexing

from widemargin.dask.settings import ClusterSettings
from widemargin.kernels.jit import clock

# How many parts one task of a tree adds up.
_FAN = 8
# How many seconds pass between two checks of the connection to the scheduler.
_LOOK = 0.5
# After how many seconds to ask the scheduler again which worker has which part.
_TRUSTED = 5.0
# How many graphs in a row may fail because a worker was lost.
_PATIENCE = 10


class Shard(NamedTuple):
    """A file of rows, which a worker opens."""

    path: str
    n_features: int


class ClusterError(RuntimeError):
    """The cluster is gone, or has no workers."""


class NoWorkers(ClusterError):
    """The cluster has no workers, and the time to wait for one is over."""


class Partitions:
    """Parts of rows, as futures.

    Parameters
    ----------
    parts : dict of str to Delayed
        Each computes a part. They are kept, so that a part that is lost with its worker can be
        computed again.
    anywhere : bool, default=False
        Whether all workers can compute the parts equally fast. If so, the parts are distributed
        evenly.
    max_time : float or None, default=None
        How many seconds from now to wait at most for a worker if there is none. If it is None,
        wait for `patience` seconds from the moment when there is none.

    Attributes
    ----------
    deadline : float or None
        The end of `max_time`, as a time of `kernels.jit.clock`.
    is_interrupted : callable() -> bool
        Called while there is no worker. It returns whether to stop waiting.
    """

    def __init__(
        self,
        client: Client,
        parts: dict,
        anywhere: bool = False,
        max_time: float | None = None,
        patience: float = ClusterSettings.seconds_without_workers,
    ):
        self.client, self.names, self.parts = client, list(parts), list(parts.values())
        self.deadline = None if max_time is None else clock() + max_time
        self.patience = patience
        self.is_interrupted: Callable[[], bool] = lambda: False
        self.futures = self._in_turn() if anywhere else client.compute(self.parts)
        self.find()

    def _in_turn(self) -> list:
        """Distribute the parts among the workers in turn; other workers may take over."""
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        return [
            self.client.compute(
                part,
                workers=workers[j % len(workers)] if workers else None,
                allow_other_workers=bool(workers),
            )
            for j, part in enumerate(self.parts)
        ]

    def __len__(self) -> int:
        return len(self.parts)

    def replace(self, change: Callable, arguments: Sequence) -> None:
        """Replace each part by change(part, argument), on its worker."""
        change = delayed(change, pure=False)
        self.parts = [change(*pair) for pair in zip(self.parts, arguments, strict=True)]
        # Dask finds the results of the old parts by their keys as long as their futures exist.
        self.futures = self.client.compute(self.parts)
        self.find()

    def find(self) -> None:
        """Ask the scheduler which parts each worker has. `each` sums them up on that worker."""
        self._wait(self.futures)
        for future in self.futures:
            if future.status == "error":
                future.result()  # raises its error
        where = self.client.who_has(self.futures)
        by_worker: dict[str, list] = {}
        for future in self.futures:
            by_worker.setdefault(min(where.get(future.key) or [""]), []).append(future)
        self.groups = sorted(by_worker.items(), key=lambda group: group[0])
        self.found_at = time.monotonic()

    def _recover(self) -> None:
        """Recompute lost parts; raise ClusterError if there are no workers."""
        self._check()
        broken = [future for future in self.futures if future.status in ("error", "lost")]
        if broken:
            self.client.retry(broken)
        if any(future.status == "cancelled" for future in self.futures):
            self.futures = self.client.compute(self.parts)
        self.find()

    @property
    def n_workers(self) -> int:
        return len(self.groups)

    def do(self, task: Callable, *arguments: Any, worker: str = "") -> Any:
        """Return a future of task(*arguments); arguments may be futures or lists of them.

        If possible, the task runs on the worker with this address.
        """
        where = {"workers": [worker], "allow_other_workers": True} if worker else {}
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return self.client.submit(task, *arguments, pure=False, **where)

    def each(self, task: Callable, add: Callable, *arguments: Any) -> list:
        """Return one future for each worker: the sum of task(part, *arguments) over its parts.

        There are few tasks, because each task takes time of the scheduler. A task runs on the
        worker that has the parts, even if another worker has its arguments.
        """
        return [
            self.do(_over_parts, task, add, group, *arguments, worker=worker)
            for worker, group in self.groups
        ]

    def total(self, add: Callable, parts: Sequence) -> Any:
        """Return a future of the sum of futures, added up in a tree."""
        level = list(parts)
        while len(level) > 1:
            level = [self.do(add, level[j : j + _FAN]) for j in range(0, len(level), _FAN)]
        return level[0]

    def sum(self, task: Callable, add: Callable, *arguments: Any) -> Any:
        """Return a future of the sum of task(part, *arguments) over all parts."""
        return self.total(add, self.each(task, add, *arguments))

    def result(self, make_graph: Callable) -> Any:
        """Return the value of the future that `make_graph` returns.

        If workers are lost, call `make_graph` again. Raises ClusterError soon after the connection
        to the scheduler is lost, or if there are no workers for too long.
        """
        for _ in range(_PATIENCE):
            try:
                if time.monotonic() - self.found_at > _TRUSTED:
                    self.find()  # Dask may have recomputed some parts elsewhere
                future = make_graph()
                self._wait(future)
                return future.result()
            except (KilledWorker, CancelledError, ClosedClientError, OSError) as error:
                self._recover()
                last = error
        raise ClusterError(f"the cluster has failed {_PATIENCE} times in a row") from last

    def _wait(self, futures: Any) -> None:
        without_since = None
        while True:
            try:
                wait(futures, timeout=_LOOK)
                return
            except TimeoutError:
                self._check()
                if self._has_workers():
                    without_since = None
                else:
                    without_since = without_since or clock()
                    self._check_patience(without_since)
            except CancelledError:
                self._check()
                raise

    def _has_workers(self) -> bool:
        try:
            return bool(self.client.nthreads())
        except OSError:
            return True  # unknown; the next check tells whether the scheduler is there

    def _check_patience(self, without_since: float) -> None:
        """Raise NoWorkers if there have been none for too long."""
        now = clock()
        if self.is_interrupted():
            raise NoWorkers("interrupted, and the cluster has no workers")
        if self.deadline is not None:
            if now >= self.deadline:
                raise NoWorkers("max_time is over, and the cluster has no workers")
        elif now - without_since >= self.patience:
            raise NoWorkers(
                f"the cluster has had no workers for {self.patience:g} s: start some, "
                "or set max_time to wait for them longer"
            )

    def _check(self) -> None:
        if self.client.status != "running":
            raise ClusterError("the connection to the scheduler is lost")


def _over_parts(task: Callable, add: Callable, parts: Sequence, *arguments: Any) -> Any:
    """Return the sum of a task over parts, computed in as many threads as the worker has."""
    n_threads = min(get_worker().state.nthreads, len(parts))
    if n_threads == 1:
        return add([task(part, *arguments) for part in parts])
    with ThreadPoolExecutor(n_threads) as pool:
        return add(list(pool.map(lambda part: task(part, *arguments), parts)))


def delayed_parts(make_part: Callable, X: Any, *vectors: Any) -> dict:
    """Return a Delayed for each part of X, make_part(X_i, *vectors_i, name), as a dict by name.

    Parameters
    ----------
    vectors : the same, or None
        One value per row: labels, weights, groups.
    """
    run = f"part-{uuid.uuid4().hex}"
    blocks = _blocks(X)
    columns = [_beside(values, X, len(blocks)) for values in vectors]
    make = delayed(make_part, pure=False)
    return {
        f"{run}-{j}": make(*of_one, f"{run}-{j}")
        for j, of_one in enumerate(zip(blocks, *columns, strict=True))
    }


def _blocks(X: Any) -> list:
    if isinstance(X, str | os.PathLike):
        from widemargin.data.disk import open_rows

        rows = open_rows(X)
        return [Shard(path, rows.n_features) for path in rows.paths]
    if isinstance(X, list | tuple):
        return list(X)
    if hasattr(X, "chunks"):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, it has {X.ndim}")
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        return list(X.to_delayed().ravel())
    if hasattr(X, "to_delayed"):
        return list(X.to_delayed())
    raise TypeError(
        f"X must be a Dask array or DataFrame, a list of delayed parts, or a folder of rows, not "
        f"{type(X).__name__}: give what is in memory to widemargin.LinearSVC"
    )


def _beside(values: Any, X: Any, count: int) -> list:
    """Return the parts of a vector that belong to the parts of X."""
    if values is None:
        return [None] * count
    if isinstance(values, list | tuple):
        parts = list(values)
    elif hasattr(values, "to_delayed"):
        parts = list(np.ravel(values.to_delayed()))
    elif hasattr(X, "chunks"):
        sizes = X.chunks[0]
        if np.isnan(sum(sizes)):
            raise ValueError(
                "the sizes of X's blocks are not known: X.compute_chunk_sizes() finds them out"
            )
        if len(values) != sum(sizes):
            raise ValueError(f"X has {sum(sizes)} rows, and a vector beside it {len(values)}")
        ends = np.cumsum(sizes)
        # The values are not converted, because categories would lose their order.
        parts = [_safe_indexing(values, slice(e - n, e)) for e, n in zip(ends, sizes)]
    else:
        raise TypeError("what is beside X must come in parts, as X does")
    if len(parts) != count:
        raise ValueError(f"X has {count} parts, and a vector beside it {len(parts)}")
    return parts
