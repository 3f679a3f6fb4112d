"""Linear support vector classification on a Dask cluster that chooses its own C."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from numbers import Integral
from typing import Any

import numpy as np
from distributed import Client
from sklearn.base import ClassifierMixin
from sklearn.model_selection import PredefinedSplit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.certificate import Certificate
from widemargin.dask import tasks
from widemargin.dask.class_problems import ClassProblems
from widemargin.dask.folds import (
    Folds,
    HeldOut,
    Judge,
    Judges,
    count_right,
    deal_out,
    name_held_out,
)
from widemargin.dask.linear_svc import LinearSVC
from widemargin.dask.training import ClusterModel, Job, Training, fitted, split_part
from widemargin.estimators.cost_search import check_scorer, forget_other_classes
from widemargin.estimators.fitting import like
from widemargin.estimators.linear_svc import LinearSVC as LocalLinearSVC
from widemargin.estimators.linear_svc_cv import LinearSVCCV as LocalLinearSVCCV
from widemargin.estimators.path import warn_of_limits
from widemargin.estimators.validation import check_costs, check_level
from widemargin.monitor import FELL_SHORT, Interruption
from widemargin.problem import State
from widemargin.progress import ProgressBar


class LinearSVCCV(ClassifierMixin, ClusterModel):
    """`widemargin.dask.LinearSVC` whose C is chosen by cross-validation.

    As `widemargin.LinearSVCCV`: all folds are trained together from the smallest C to the largest,
    each from its solution at the last C, and the best C is trained on all rows. Folds and classes
    share rounds, and rows: held-out rows have weight zero. Planes below the risk at one C become
    planes at the next one, multiplied by the ratio of the two, and are kept.

    Parameters
    ----------
    Cs : int or array-like of shape (n_Cs,), default=20
        As in `widemargin.LinearSVCCV`.
    cv : int, PredefinedSplit, dask array, or list of parts, default=5
        A number of folds, to which the rows of each class are dealt out where they are: in turn,
        or by `random_state`, and alike whatever the workers and parts. Or which fold holds out
        each row, -1 for none, in parts that match those of X; beside a dask array X, also as
        scikit-learn's `PredefinedSplit`.
    scoring : str, scorer of `sklearn.metrics.make_scorer`, or None, default=None
        None is accuracy, which workers count. For others, the scores and labels of held-out rows
        are sent to the driver: a few numbers per row. A scorer takes labels or scores, not
        probabilities.
    loss, multi_class, solver, tol, fit_intercept, penalized_intercept, class_weight, max_iter, \
    client
        As in `widemargin.dask.LinearSVC`; max_iter is for each training.
    max_time : float or None, default=None
        Seconds for all trainings: each C gets the same time, and so does the last training, on all
        rows. The time in which workers compile kernels counts, too.
    random_state : int, RandomState or None, default=None
        Seed of the folds. None distributes rows in turn.
    verbose : int, default=0
        1 shows the progress of the search, on stderr.

    Attributes
    ----------
    C_, Cs_, scores_, relative_gaps_
        As of `widemargin.LinearSVCCV`; folds are in the order of their numbers. After an error
        they have the results up to then.
    best_estimator_ : LinearSVC
        Trained on all rows at `C_`. Its attributes are also those of this estimator: `classes_`,
        `coef_`, `intercept_`, `certificate_`, `history_`, `dual_points_`, `dual_weights_`,
        `n_iter_`.
    n_rounds_ : int
        Round trips to the workers, of all trainings.
    status_ : {"converged", "max_iter", "max_time", "interrupted"}
        Why the last training stopped; "interrupted" also means that the search was stopped.
    """

    local_class = LocalLinearSVCCV

    def __init__(
        self,
        *,
        Cs: int | np.ndarray = 20,
        cv: Any = 5,
        scoring: Any = None,
        loss: str = "squared_hinge",
        multi_class: str = "ovr",
        solver: str = "ocas",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        class_weight: dict | str | None = None,
        max_iter: int | None = 10000,
        max_time: float | None = None,
        random_state: Any = None,
        client: Client | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.loss = loss
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.client = client
        self.verbose = verbose

    @threads.one_for_blas()
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "LinearSVCCV":
        """Choose C, and fit the model at that C to all rows.

        Parameters
        ----------
        X : dask array or DataFrame, list of Delayed, or path
            As for `widemargin.dask.LinearSVC`.
        y, sample_weight : the same, or array-like of shape (n_samples,)
            Labels and weights, in parts that match those of X. None if the files have them.
            Weights count in training and, if the scorer takes them, in scoring.

        Returns
        -------
        self : LinearSVCCV
        """
        model = like(LinearSVC, self).set_params(verbose=0)
        model.settings = self.settings
        model._check_parameters()
        check_level("verbose", self.verbose)
        costs = check_costs("Cs", self.Cs)
        n_folds, numbers = _check_cv(self.cv)
        _check_scoring(self.scoring)
        problems = ClassProblems(model, split_part, X, y, sample_weight, numbers)
        try:
            if n_folds is not None:
                deal_out(problems, n_folds, self._seed())
            search = _Search(self, model, problems, costs)
            try:
                search.run()
            finally:
                self._keep(search)
        finally:
            problems.forget()
        warn_of_limits(self, search.cut_short, search.n_solved, stacklevel=4)
        return self

    def _seed(self) -> int | None:
        if self.random_state is None:
            return None
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _keep(self, search: "_Search") -> None:
        """Set the attributes that a search has found, however it ended."""
        for name in fitted(self):
            delattr(self, name)  # of an earlier fit
        self.Cs_, self.scores_, self.relative_gaps_ = search.costs, search.scores, search.gaps
        self.n_rounds_, self.status_ = search.training.rounds.count, "interrupted"
        if search.best >= 0:
            self.C_ = float(search.costs[search.best])
        if hasattr(search.model, "coef_"):
            self.best_estimator_ = search.model
            self.__dict__.update(fitted(search.model))

    def to_local(self) -> LocalLinearSVCCV:
        """Return a `widemargin.LinearSVCCV` that makes the same predictions on one machine.

        Its dual variables are zero: the proof by points remains in `certificate_`.
        """
        check_is_fitted(self, "coef_")
        local = self._local()
        local.best_estimator_ = self.best_estimator_.to_local()
        for name in ("C_", "Cs_", "scores_", "relative_gaps_"):
            setattr(local, name, getattr(self, name))
        local.__dict__.update(fitted(local.best_estimator_))
        return local


class _Search:
    """Training and scoring of all folds for each C, and of the best C on all rows.

    `model` has the parameters of `estimator`; at the end it is the best model. The parts of
    `problems` have folds. `costs` are (n_Cs,).
    """

    def __init__(
        self, estimator: LinearSVCCV, model: LinearSVC, problems: ClassProblems, costs: np.ndarray
    ) -> None:
        self.estimator, self.model, self.problems, self.costs = estimator, model, problems, costs
        self.interruption = Interruption()
        self.training = Training(problems, estimator, self.interruption)
        self.folds = Folds(problems)
        self.scorer: Callable | None = None
        if estimator.scoring not in (None, "accuracy"):
            weighted = True if problems.weighted else None
            self.scorer = check_scorer(LocalLinearSVC(), estimator.scoring, weighted)
        self.jobs: list[Job] = []  # those of a fold are neighbours
        self.C = np.nan  # of the jobs
        self.scores = np.full((len(self.folds), costs.size), np.nan)
        self.gaps = np.full((len(self.folds), costs.size), np.nan)
        self.best = -1  # place of the best C so far
        self.starts: list[State] = []  # the mean over the folds at the best C
        self.costs_left = costs.size + 1
        self.n_solved = 0
        self.cut_short: list[tuple[float, str]] = []  # gap and status

    def run(self) -> None:
        """Find the best C, and train the model there."""
        with ExitStack() as stack:
            bar = None
            if self.estimator.verbose:
                total = self.costs.size * len(self.folds) + 1
                bar = stack.enter_context(ProgressBar(total, "trainings"))
            stack.enter_context(self.interruption.watching())
            for place in np.argsort(self.costs, kind="stable"):
                self._try(place)
                if bar is not None:
                    mean = self.scores[:, place].mean()
                    bar.advance(len(self.folds), f"C = {self.costs[place]:.3g}: {mean:.4f}")
                if self.interruption.requested:
                    break
            if self.best < 0:
                raise ValueError(
                    f"scoring={self.estimator.scoring!r} is undefined for every C: some fold's "
                    "held-out rows have no such score"
                )
            self._refit()
            if bar is not None:
                bar.advance(1, f"C = {self.model.C:.3g}, all rows")

    def _try(self, place: int) -> None:
        self._go_to(self.costs[place])
        self._solve(self.jobs)
        if self.interruption.requested and self.best >= 0:
            return  # the training was stopped: its scores would mean little
        for which, jobs in enumerate(self._by_fold()):
            certificate = Certificate.total(job.certificate for job in jobs)
            self.gaps[which, place] = certificate.relative_gap
        self.scores[:, place] = self._score()
        mean = self.scores[:, place].mean()
        if mean > (self.scores[:, self.best].mean() if self.best >= 0 else -np.inf):
            self.best = place
            self.starts = [self._mean(jobs) for jobs in zip(*self._by_fold(), strict=True)]

    def _go_to(self, C: float) -> None:
        """Set the folds' problems to C, each with its present state as start."""
        recipes = [
            self.problems.recipe(index, C, fold, weights)
            for fold, weights in zip(self.folds.numbers, self.folds.weights, strict=True)
            for index in range(len(self.problems))
        ]
        if not self.jobs:
            self.jobs = [Job(recipe, self.problems.zero()) for recipe in recipes]
            room = self.training.room(self.jobs[0])
            if self.estimator.settings.keeps_planes and len(self.jobs) <= room:
                for job in self.jobs:
                    self.training.keep_planes(job)
        for job, recipe in zip(self.jobs, recipes, strict=True):
            if job.recipe is not recipe and job.bundle is not None:
                job.bundle.scale(C / self.C)
            job.recipe = recipe
        self.C = C

    def _solve(self, jobs: list[Job]) -> None:
        """Solve problems in their part of the time that is left."""
        seconds = self.training.limits.seconds_left
        if seconds is not None:
            seconds /= self.costs_left
        self.costs_left -= 1
        self.training.solve(jobs, seconds)
        self.n_solved += len(jobs)
        for job in jobs:
            assert job.monitor is not None
            assert job.certificate is not None
            if job.monitor.status in FELL_SHORT:
                self.cut_short.append((job.certificate.relative_gap, job.monitor.status))

    def _by_fold(self) -> list[list[Job]]:
        """Return the jobs of each fold."""
        size = len(self.problems)
        return [self.jobs[begin : begin + size] for begin in range(0, len(self.jobs), size)]

    def _mean(self, jobs: Sequence[Job]) -> State:
        """Return the mean of the folds' states, for each class."""
        zero = self.problems.zero()
        coef = np.mean([job.state.coef for job in jobs], axis=0)
        offset = np.mean([job.state.offset for job in jobs], axis=0)
        return State(coef, offset if zero.coef.ndim == 2 else float(offset), zero.dual)

    def _score(self) -> np.ndarray | list:
        """Return each fold's score on its held-out rows."""
        judges = Judges([self._judge(which) for which in range(len(self.folds))])
        rounds, parts = self.training.rounds, self.problems.parts

        def graph(task: Callable, add: Callable) -> Any:
            return parts.sum(task, add, rounds.sent(judges, judges.nbytes))

        if self.scorer is None:
            right, total = rounds.result(lambda: graph(count_right, sum)).T
            return right / total
        gathered = dict(rounds.result(lambda: graph(name_held_out, tasks.join)))
        of_parts = [gathered[name] for name in self.problems.names]  # in the rows' order
        return [
            self._scored(judge, HeldOut(*map(np.concatenate, zip(*pieces, strict=True))))
            for judge, pieces in zip(judges.all, zip(*of_parts, strict=True), strict=True)
        ]

    def _judge(self, which: int) -> Judge:
        """Return the present classifier of a fold."""
        coef, intercept = self.problems.arrays([job.state for job in self._by_fold()[which]])
        model = _classifier(self.estimator, self.problems.classes, coef, intercept)
        present = np.flatnonzero(self.folds.weights[which] > 0.0)
        if present.size < model.classes_.size:
            forget_other_classes(model, present)
        return Judge(self.folds.numbers[which], model.classes_, model.coef_, model.intercept_)

    def _scored(self, judge: Judge, rows: HeldOut) -> float:
        """Return the scorer's value for rows with known scores, which take the place of rows."""
        m = judge.intercept.size
        model = _classifier(self.estimator, judge.classes, np.eye(m), np.zeros(m))
        weights = rows.weights if self.problems.weighted else None
        assert self.scorer is not None
        return self.scorer(model, rows.scores, rows.y, weights)

    def _refit(self) -> None:
        """Train the best model on all rows."""
        self.problems.forget()  # the workers' caches for the folds
        C = float(self.costs[self.best])
        self.model.set_params(C=C)
        jobs = [
            Job(self.problems.recipe(index, C), start) for index, start in enumerate(self.starts)
        ]
        self.costs_left = 1
        try:
            self._solve(jobs)
        finally:
            if any(job.certificate is not None for job in jobs):
                self.model._conclude(self.problems, jobs, self.training)
                if self.interruption.requested:
                    self.model.status_ = "interrupted"


def _classifier(
    estimator: LinearSVCCV, classes: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> LocalLinearSVC:
    """Return a model for one machine with these attributes."""
    model = like(LocalLinearSVC, estimator)
    model.classes_, model.coef_, model.intercept_ = classes, coef, intercept
    model.n_features_in_ = coef.shape[1]
    return model


def _check_cv(cv: Any) -> tuple[int | None, Any]:
    """Return how many folds to make, and given numbers of folds: one of them is None."""
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv must be at least 2 folds, not {cv}")
        return int(cv), None
    if isinstance(cv, PredefinedSplit):
        return None, cv.test_fold
    in_parts = isinstance(cv, list) and not any(isinstance(part, tuple) for part in cv)
    if in_parts or hasattr(cv, "to_delayed"):
        return None, cv
    raise ValueError(
        "cv must be a number of folds, or the number of the fold that holds out each row: a "
        f"PredefinedSplit, a dask array, or a list of parts, not {cv!r}. Other splitters would "
        "have to see all rows"
    )


def _check_scoring(scoring: Any) -> None:
    """Raise ValueError if a scorer needs the rows themselves."""
    if callable(scoring) and not hasattr(scoring, "_score_func"):
        raise ValueError(
            f"scoring={scoring!r} may want to see rows, which stay on the workers: use a name of "
            "scikit-learn's, or make_scorer of a function of labels and scores"
        )
