"""The problems of a classifier, over parts of the rows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from widemargin.dask import tasks
from widemargin.dask.questions import Recipe
from widemargin.dask.training import Job, Problems
from widemargin.estimators.problems import class_weights
from widemargin.problem import Intercept, State, Tangents

# How many sweeps a worker makes over its own part, if the start is to be computed by the workers.
_SWEEPS_ALONE = 5


class ClassProblems(Problems):
    """One problem for two classes, or for all of them together; else one for each class.

    Parameters
    ----------
    model : estimator
        With client, max_time, and the parameters of `widemargin.dask.LinearSVC` that define the
        objective.

    Attributes
    ----------
    classes : ndarray of shape (k,)
    counts : ndarray of shape (p, k)
        Rows of each class in each part.
    weights : ndarray of shape (k,)
        Weights of the rows of each class.
    weighted : bool
        Whether rows have weights.
    together : bool
        Whether all classes are one problem.
    """

    def __init__(self, model: Any, make_part: Callable, *vectors: Any) -> None:
        super().__init__(model, make_part, tasks.describe_classes, *vectors)
        self.model = model
        labels, counts_of, weights_of, weighted = self.described
        self.weighted = any(weighted)
        self.classes = np.unique(np.concatenate([found for found in labels if found.size]))
        self.counts = np.zeros((len(labels), len(self.classes)), dtype=np.int64)
        self.weights = np.zeros(len(self.classes))
        for part, found in enumerate(labels):
            places = np.searchsorted(self.classes, found)
            self.counts[part, places] = counts_of[part]
            self.weights[places] += weights_of[part]
        if np.count_nonzero(self.are_counted(self.weights)) < 2:
            raise ValueError(
                "a classifier needs rows of at least 2 classes, but the data (rows of weight "
                "zero not counted) contains only one class"
            )
        self.together = model.multi_class == "crammer_singer" and len(self.classes) > 2
        self.loss = model.loss
        if model.multi_class == "crammer_singer":
            self.loss = "crammer_singer" if self.together else "hinge"
        self.intercept = Intercept.of(model)

    def __len__(self) -> int:
        return 1 if self.together or len(self.classes) == 2 else len(self.classes)

    def recipe(
        self, index: int, C: float, fold: int | None = None, weights: np.ndarray | None = None
    ) -> Recipe:
        """Return the recipe for the risk of a problem, in training without a held-out fold.

        `weights` (k,) are those of each class without the fold.
        """
        model = self.model
        costs = C * self._factors(self.weights if weights is None else weights)
        if model.multi_class == "crammer_singer" and not self.together:
            costs *= 2.0
        positive = 1 if len(self.classes) == 2 else index
        return Recipe(self.classes, costs, self.loss, positive, f"{fold} {index}", fold)

    def are_counted(self, weights: np.ndarray) -> np.ndarray:
        """Return which classes, (k,), have weight."""
        return weights * self._factors(weights) > 0.0

    def _factors(self, weights: np.ndarray) -> np.ndarray:
        """Return the weight that the model gives each class, (k,)."""
        if self.model.class_weight is None:
            return np.ones(len(self.classes))
        codes = np.arange(len(self.classes))
        return class_weights(self.model.class_weight, self.classes, codes, weights)

    def jobs(self) -> list[Job]:
        recipes = [self.recipe(index, self.model.C) for index in range(len(self))]
        return [Job(recipe, self._start(recipe)) for recipe in recipes]

    def zero(self) -> State:
        """Return the starting point without earlier solutions."""
        outputs = (len(self.classes),) if self.together else ()
        coef = np.zeros((self.n_features, *outputs))
        dual = Tangents(np.empty(0), coef[None][:0])
        return State(coef, np.zeros(outputs) if outputs else 0.0, dual)

    def arrays(self, states: Sequence[State]) -> tuple[np.ndarray, np.ndarray]:
        """Return coef (m, d) and intercept (m,) of the classifier of these states."""
        if self.together:
            (state,) = states
            return np.ascontiguousarray(state.coef.T), np.array(state.offset)
        coef = np.stack([state.coef for state in states])
        return coef, np.array([state.offset for state in states])

    def _start(self, recipe: Recipe) -> State:
        """Return the starting point: zero, or the mean of the workers' own solutions."""
        start = self.zero()
        if self.model.average_first and not self.together:
            how = recipe, self.intercept, self.n_rows, _SWEEPS_ALONE
            start.coef, start.offset = self.parts.result(
                lambda: self.parts.sum(tasks.solve_alone, tasks.add_solutions, *how)
            )
        return start
