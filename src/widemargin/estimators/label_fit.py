"""Training of one problem for each label, for few labels and for thousands."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator

from widemargin.arrays import Matrix, Vector
from widemargin.certificate import Certificate
from widemargin.data import as_rows
from widemargin.data.devices import is_on_gpu
from widemargin.data.memory import CsrRows, RowsInMemory
from widemargin.estimators.callbacks import GapLevels
from widemargin.estimators.fitting import Fit, check_checkpoint, choose_solver, seeds_of
from widemargin.estimators.label_problems import PerLabel, label_problems, unpacked
from widemargin.estimators.label_sets import LabelMatrix
from widemargin.estimators.validation import (
    check_finite,
    check_matrix,
    check_weights,
    count_rows,
)
from widemargin.problem import Intercept, Problem, SparseCoef, SparseDual, State
from widemargin.solvers import auto
from widemargin.solvers.compact import compacted
from widemargin.solvers.settings import WorkingRowsSettings
from widemargin.solvers.working_rows import Sample, Task, WorkingRows

# From so many labels on, coefficients are sparse by default.
_MANY = 100
# The part of the tolerance that training takes, where coefficients are left out afterwards.
_OF_TOL = 0.5
# So many labels of few rows are one task of a thread.
_PER_GROUP = 64
# Solvers that need no other rows than those of a working set.
_OVER_WORKING_ROWS = ("acf", "dcd")


def fit_labels(
    model: BaseEstimator, X: Matrix, y: Vector, labels: LabelMatrix, sample_weight: Vector | None
) -> "LabelFit":
    """Train `model` for a matrix of labels, set its attributes, and return the training."""
    if is_on_gpu(X) or model.device != "cpu":
        raise ValueError("a matrix of labels needs rows on the host: X in memory, device='cpu'")
    for name, wanted in {"multi_class": "ovr", "probability": False, "checkpoint": None}.items():
        if getattr(model, name) != wanted:
            raise ValueError(
                f"{name}={getattr(model, name)!r} is not offered for a matrix of labels: its "
                "labels are trained one by one"
            )
    previous = _previous(model, labels)
    X = check_matrix(model, X, reset=True, finite=False)
    rows = as_rows(X)
    if not isinstance(rows, RowsInMemory):
        raise ValueError("a matrix of labels needs X in memory: an array or a sparse matrix")
    check_finite(model, X, rows)
    if count_rows(X) != labels.n_rows:
        raise ValueError(
            f"X and y have inconsistent numbers of samples: {count_rows(X)} and {labels.n_rows}"
        )
    problems = label_problems(model, rows, labels, check_weights(sample_weight, X))
    starts: list[State | None] = [None] * len(labels)
    shape = rows.n_rows, rows.n_features
    if previous is not None and (previous[2].shape[1], previous[0].shape[1]) == shape:
        starts = list(problems.states(*previous))
    typical = int(np.argmax(labels.counts))
    solver = choose_solver(model, problems[typical])
    check_checkpoint(model, solver)
    data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
    seeds = seeds_of(model.random_state, len(problems))
    fit = LabelFit(model, problems, solver, seeds, starts, data)
    fit.train()
    for name, value in problems.attributes(fit.states).items():
        setattr(model, name, value)
    model.dual_variables_ = problems.dual(fit.states)
    model.classes_, model.multilabel_ = labels.classes, True
    model.sparse_output_ = labels.is_sparse
    vars(model).pop("sigmoids_", None)
    return fit


def _previous(model: BaseEstimator, labels: LabelMatrix) -> tuple | None:
    """Return (coef, intercept, dual) of the last fit, if this one starts there."""
    fitted = vars(model)
    if not (model.warm_start and fitted.get("multilabel_") and "dual_variables_" in fitted):
        return None
    if not np.array_equal(model.classes_, labels.classes):
        return None
    return model.coef_, model.intercept_, model.dual_variables_


@dataclass(eq=False)
class LabelFit(Fit):
    """The training of a multi-label classifier.

    Labels of few rows are trained in groups, the others one by one.
    """

    problems: PerLabel
    settings: WorkingRowsSettings = field(default_factory=WorkingRowsSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = self.estimator.sparse_coef
        self.is_sparse = len(self.problems) >= _MANY if wanted == "auto" else bool(wanted)
        self.allowed = self.limits.tol
        in_groups = self._rare()
        cuts = range(0, in_groups.size, _PER_GROUP)
        groups = [in_groups[begin : begin + _PER_GROUP] for begin in cuts]
        others = np.setdiff1d(np.arange(len(self.problems)), in_groups)
        # What takes long comes first, so that no thread is alone with it at the end.
        self.units = [*others[np.argsort(-self.problems.labels.counts[others])], *groups]
        self.n_problems, self.unsolved = len(self.units), set(range(len(self.units)))
        if groups:
            rows = self.problems.rows
            assert isinstance(rows, CsrRows)
            self.sample = Sample(rows, self.problems.cost, self.settings, self.seeds[0])

    def _rare(self) -> np.ndarray:
        """Return the labels that are trained over working sets of rows."""
        problems, rows, settings = self.problems, self.problems.rows, self.settings
        whole = not isinstance(rows, CsrRows) or self.solver not in _OVER_WORKING_ROWS
        counted = int(np.count_nonzero(problems.cost))
        if whole or problems.intercept is Intercept.NONE or counted < settings.fewest_rows:
            return np.empty(0, dtype=np.intp)
        few = problems.labels.counts <= settings.most_positives * counted
        few &= (problems.counted * problems.factors > 0.0).all(axis=1)
        few &= [start is None for start in self.starts]
        return np.flatnonzero(few)

    def solve(self, unit: int, seconds: float | None) -> None:
        if isinstance(self.units[unit], np.ndarray):
            self._solve_group(self.units[unit], seconds)
            return
        index = int(self.units[unit])
        monitor, levels = self._begin(index, seconds)
        sign = self.problems.only_sign(index)
        if sign is None:
            start = self.starts[index]
            problem = self.problems[index]
            start = State.zero(problem) if start is None else unpacked(start)
            self._solve_over_all(index, problem, start)
        else:
            rows = self.problems.rows
            nothing = SparseDual(np.empty(0, np.uint32), np.empty(0), rows.n_rows)
            self.states[index] = State(np.zeros(rows.n_features), sign, nothing)
            monitor.check(Certificate(0.0, 0.0), self.states[index], 0)
        self._end(index, levels)

    def _solve_over_all(self, index: int, problem: Problem, start: State) -> None:
        """Solve a problem by the solver for all rows, and leave out small coefficients."""
        monitor = self.monitors[index]
        if self.is_sparse:
            monitor.tol = _OF_TOL * self.allowed
        solver = auto.make(self.solver, problem.risk, int(self.seeds[index]))
        state = solver.solve(problem, start, monitor)
        if self.is_sparse:
            coef, certificate = compacted(problem, state, monitor.certificate, self.allowed)
            state = State(coef, state.offset, state.dual)
            monitor.settle(certificate)
        self.states[index] = state.packed()

    def _end(self, index: int, levels: GapLevels | None) -> None:
        """Keep a solution in little memory, and tell callbacks."""
        state = self.states[index]
        if self.is_sparse and not isinstance(state.coef, SparseCoef):
            used = np.flatnonzero(state.coef)
            coef = SparseCoef.of(state.coef[used], used, state.coef.size)
            self.states[index] = State(coef, state.offset, state.dual)
        elif not self.is_sparse and isinstance(state.coef, SparseCoef):
            self.states[index] = State(state.coef.dense(), state.offset, state.dual)
        if levels is not None:
            levels.end(unpacked(self.states[index]))

    def _solve_group(self, labels: np.ndarray, seconds: float | None) -> None:
        """Solve the problems of some labels together, over working sets."""
        begun = {int(index): self._begin(int(index), seconds) for index in labels}
        positives = self.problems.labels.positives
        tasks = {
            index: Task(
                partial(self.problems.__getitem__, index),
                positives(index),
                monitor,
                int(self.seeds[index]),
                self.is_sparse,
            )
            for index, (monitor, _) in begun.items()
        }
        rows = self.problems.rows
        assert isinstance(rows, CsrRows)
        WorkingRows(rows, self.sample, self.solver, self.settings).solve(tasks.values())
        for index, (_, levels) in begun.items():
            task = tasks[index]
            self.states[index] = task.state
            if not task.is_done:
                problem = self.problems[index]
                start = State.zero(problem) if task.state is None else unpacked(task.state)
                self._solve_over_all(index, problem, start)
            self._end(index, levels)
