"""Common parts of estimators on a cluster: parts, problems side by side, predictions."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask import delayed
from distributed import Client, get_client
from sklearn.base import BaseEstimator

from widemargin.certificate import Certificate
from widemargin.dask import tasks
from widemargin.dask.oracle import ClusterOracle
from widemargin.dask.partitions import NoWorkers, Partitions, Shard, delayed_parts
from widemargin.dask.questions import Part, RankingRecipe, Recipe
from widemargin.dask.rounds import Rounds
from widemargin.dask.settings import ClusterSettings
from widemargin.data import as_rows
from widemargin.estimators.batch import Batch, Limits, Plan
from widemargin.estimators.fitting import Account, like
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.order import check_grades
from widemargin.estimators.validation import (
    check_labels,
    check_matrix,
    check_qid,
    check_same_length,
    check_some_weights,
    count_rows,
)
from widemargin.monitor import Interruption, Monitor, Record
from widemargin.problem import Intercept, State
from widemargin.progress import ProgressLine
from widemargin.solvers import auto
from widemargin.solvers.base import AsksOracle
from widemargin.solvers.bundle import Bundle
from widemargin.solvers.cutting_plane import no_planes


def fitted(model: BaseEstimator) -> dict[str, Any]:
    """Return the attributes that a fit has set."""
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


class ClusterModel(BaseEstimator):
    """A linear model that is trained on a cluster."""

    #: the class of the same model on one machine
    local_class: type
    settings = ClusterSettings()

    def _local(self) -> Any:
        """Return a model for one machine with the same parameters, where it has them."""
        return like(self.local_class, self)

    def to_local(self) -> Any:
        """Return a model for one machine that makes the same predictions."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> Any:
        """Return the scores of the rows; lazily for a Dask collection."""
        return self._map("decision_function", X)

    def predict(self, X: Any) -> Any:
        """Return the predictions for the rows; lazily for a Dask collection."""
        return self._map("predict", X)

    def _map(self, name: str, X: Any) -> Any:
        method = getattr(self.to_local(), name)
        nothing = method(np.zeros((1, self.n_features_in_)))[:0]

        def of_part(X: Any) -> np.ndarray:
            return method(X) if count_rows(X) else nothing  # parts may be empty, matrices may not

        if isinstance(X, list | tuple):
            return [delayed(of_part)(part) for part in X]
        if hasattr(X, "to_dask_array"):
            X = X.to_dask_array()
        if not hasattr(X, "map_blocks"):
            return method(X)
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        shape: dict = {"drop_axis": 1}
        if nothing.ndim == 2:
            shape = {"chunks": (X.chunks[0], nothing.shape[1:])}
        return X.map_blocks(of_part, dtype=nothing.dtype, meta=nothing, **shape)

    def _train(self, problems: "Problems") -> Any:
        """Solve all problems; the states reached are kept, whatever happens."""
        jobs, account = [], None
        try:
            with ExitStack() as stack:
                interruption = stack.enter_context(Interruption().watching())
                training = Training(problems, self, interruption)
                jobs += problems.jobs()
                show = None
                if self.verbose:
                    show = stack.enter_context(ProgressLine(len(jobs), self.tol)).show
                training.solve(jobs, self.max_time, show)
        finally:
            if any(job.certificate is not None for job in jobs):
                account = self._conclude(problems, jobs, training)
            problems.forget()
        assert account is not None
        account.warn(self, stacklevel=5)  # above a decorator, for the caller of fit
        return self

    def _conclude(self, problems: "Problems", jobs: list["Job"], training: "Training") -> Account:
        """Set the attributes of a fitted model, from the states that were reached."""
        self.n_features_in_ = problems.n_features
        self.n_samples_fit_ = problems.n_rows
        self.n_rounds_ = training.rounds.count
        self._record(problems, [job.state for job in jobs])
        account = Account(
            [
                job.monitor
                for job in jobs
                if job.monitor is not None and job.certificate is not None
            ]
        )
        account.record(self, self.solver)
        return account

    def _record(self, problems: Any, states: Sequence[State]) -> None:
        raise NotImplementedError


@dataclass
class Job:
    """A problem over the parts, and its present state."""

    recipe: Recipe | RankingRecipe
    state: State  # the starting point; then, the best point so far
    bundle: Bundle | None = None  # known planes below its risk
    monitor: Monitor | None = None  # of its last training

    @property
    def certificate(self) -> Certificate | None:
        return None if self.monitor is None else self.monitor.certificate


class Training:
    """Solves problems side by side; several problems share rounds.

    Parameters
    ----------
    model : estimator
        With solver, tol, max_iter and max_time.
    """

    def __init__(self, problems: "Problems", model: Any, interruption: Interruption):
        self.problems, self.model = problems, model
        self.rounds = Rounds(problems.parts)
        self.limits = Limits.of(model)
        self.limits.interruption = interruption
        problems.parts.is_interrupted = lambda: interruption.requested
        problems.parts.deadline = self.limits.deadline

    def room(self, job: Job) -> int:
        """Return how many problems such as `job` may share rounds."""
        settings = self.model.settings
        of_planes = settings.planes * 2 * job.state.coef.nbytes
        return int(np.clip(settings.plane_bytes // of_planes, 1, settings.most_together))

    def solve(
        self,
        jobs: list[Job],
        seconds: float | None,
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        """Solve all jobs from their present states in so many seconds; errors keep the states."""
        _SharedRounds(self, jobs, seconds, on_record).run()

    def oracle(self, job: Job) -> ClusterOracle:
        """Return the oracle for a job."""
        return ClusterOracle(
            self.rounds,
            job.recipe,
            self.problems.n_features,
            self.problems.intercept,
            job.monitor or Monitor(self.model.tol, 1),
        )

    def keep_planes(self, job: Job) -> None:
        """Keep a job's planes from one training to the next."""
        job.bundle = no_planes(self.oracle(job), job.state)


class _SharedRounds(Batch):
    """Jobs that share round trips to the workers."""

    def __init__(
        self,
        training: Training,
        jobs: list[Job],
        seconds: float | None,
        on_record: Callable[[Record], None] | None,
    ):
        name = training.model.solver
        super().__init__(len(jobs), Plan(name, 1, 1, training.room(jobs[0])), seconds)
        self.training, self.jobs, self.on_record = training, jobs, on_record
        self.solver = auto.make(name, None, seed=0)  # only workers have the risks

    def solve(self, index: int, seconds: float | None) -> None:
        job, training = self.jobs[index], self.training

        def on_check(record: Record, state: State) -> bool:
            job.state = state
            if self.on_record is not None:
                self.on_record(record)
            return False

        job.monitor = training.limits.monitor(index, seconds, on_check)
        # All of those that share rounds begin together.
        training.problems.parts.deadline = job.monitor.deadline
        assert isinstance(self.solver, AsksOracle)
        job.state = self.solver.ask(training.oracle(job), job.state, job.bundle)

    def meet(self, places: Sequence[int], functions: Sequence[Callable]) -> None:
        jobs = [self.jobs[place] for place in places]
        for job in jobs:
            job.monitor = None
        try:
            self.training.rounds.run(functions)
        except NoWorkers:
            # If all were asked to stop, they have states to return; else there is nothing.
            for job in jobs:
                if job.monitor is None or job.certificate is None or not job.monitor.must_stop():
                    raise
        finally:
            self.training.problems.parts.deadline = self.training.limits.deadline
            for job in jobs:
                if job.monitor is not None and job.monitor.status == "running":
                    job.monitor.status = "interrupted"


class Problems:
    """Problems over parts of the rows.

    `model` is an estimator with client and max_time. `describe` is a task, Part -> (name, rows,
    features, ...). `vectors` are X, y, sample_weight, and further arguments of `make_part`.
    """

    #: how the offset of scores is treated
    intercept = Intercept.NONE

    def __init__(self, model: Any, make_part: Callable, describe: Callable, *vectors: Any) -> None:
        self.parts = Partitions(
            model.client or _current_client(),
            delayed_parts(make_part, *vectors),
            anywhere=isinstance(vectors[0], str | os.PathLike),
            max_time=model.max_time,
            patience=model.settings.seconds_without_workers,
        )
        self.names, sizes, widths, *self.described = zip(*self.each(describe), strict=True)
        if len(set(widths)) > 1:
            raise ValueError(
                f"parts of X have different numbers of features: {sorted(set(widths))}"
            )
        self.n_rows, self.n_features = sum(sizes), widths[0]
        if self.n_rows == 0:
            raise ValueError("X has no rows in any of its parts")

    def each(self, describe: Callable) -> list:
        """Return the results of a task (part -> name, ...) for all parts, in their order."""
        described = self.parts.result(
            lambda: self.parts.total(tasks.join, self.parts.each(describe, list))
        )
        order = {name: place for place, name in enumerate(self.parts.names)}
        return sorted(described, key=lambda part: order[part[0]])

    def jobs(self) -> list[Job]:
        """Return the problems, at their starting points."""
        raise NotImplementedError

    def forget(self) -> None:
        """Clear the workers' caches for this fit."""
        client = self.parts.client
        if client.status == "running":
            client.run(tasks.forget, self.names)


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "there is no Dask client: make one first, distributed.Client(), or pass one"
        ) from None


def labelled_part(X: Any, y: Any, weights: Any, name: str) -> Part:
    """Return a checked part of rows with classes; runs on a worker."""
    return _part(check_labels, X, y, weights, None, None, name)


def split_part(X: Any, y: Any, weights: Any, folds: Any, name: str) -> Part:
    """Return a checked part of rows with classes and, maybe, folds; runs on a worker."""
    return _part(check_labels, X, y, weights, None, folds, name)


def graded_part(X: Any, y: Any, weights: Any, qid: Any, name: str) -> Part:
    """Return a checked part of rows with grades; runs on a worker."""
    return _part(check_grades, X, y, weights, qid, None, name)


def _part(
    check_y: Callable, X: Any, y: Any, weights: Any, qid: Any, folds: Any, name: str
) -> Part:
    try:
        if isinstance(X, Shard):
            from widemargin.data.disk import open_rows

            path, X = X.path, open_rows(X.path).resized(X.n_features)
            y = X.labels if y is None else y
            weights = X.weights if weights is None else weights
            qid = X.qid if qid is None else qid
            if y is None:
                raise ValueError(f"{path} has no labels, and y is None")
        X = check_matrix(LinearSVC(), X, reset=True, at_least=0)
        y = check_y(y)
        check_same_length(X, y)
        if qid is not None:
            qid = check_qid(qid, count_rows(X))
        if folds is not None:
            folds = _check_fold_numbers(folds, y.size)
        return Part(as_rows(X), y, check_some_weights(weights, X), qid, name, folds)
    except ValueError as error:
        raise ValueError(f"part {name.rpartition('-')[2]} of X: {error}") from error


def _check_fold_numbers(folds: Any, n_rows: int) -> np.ndarray:
    folds = np.asarray(folds)
    if folds.dtype.kind not in "iu" or folds.shape != (n_rows,) or folds.min(initial=0) < -1:
        raise ValueError(
            f"cv must have the number of a fold, or -1, for each of {n_rows} rows, not "
            f"{folds.dtype} of shape {folds.shape}"
        )
    return folds.astype(np.int64, copy=False)
