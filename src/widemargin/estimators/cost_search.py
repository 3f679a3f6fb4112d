"""Classifiers that choose C by cross-validation: the search, whatever is minimised."""

import copy
import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, Vector, move_to, on_host
from widemargin.data import Rows
from widemargin.data.devices import is_on_gpu, placed
from widemargin.data.memory import RowsInMemory
from widemargin.estimators.callbacks import CallbackContext, with_callbacks
from widemargin.estimators.fitting import Account, load_if_fits
from widemargin.estimators.folds import Fold, check_folds, fold_weights
from widemargin.estimators.linear_classifier import LinearClassifier
from widemargin.estimators.path import CostPath, pick
from widemargin.estimators.validation import (
    check_costs,
    check_flag,
    check_labels,
    check_level,
    check_matrix,
    check_same_length,
    check_weights,
    classes_of,
)
from widemargin.progress import ProgressBar
from widemargin.solvers.settings import CheckSettings


class CostSearch(LinearClassifier):
    """A classifier whose C is chosen by cross-validation: fits folds at each C, and the best C.

    Subclasses have the parameters of `LinearSVCCV`.
    """

    Cs: Vector
    cv: Any
    scoring: str | Callable | None
    probability: bool
    device: str
    verbose: int

    @abstractmethod
    def _model(self) -> Any:
        """Return an unfitted classifier with the parameters that both classes have."""

    @with_callbacks
    @threads.one_for_blas()
    def fit(
        self,
        X: Matrix,
        y: Vector,
        sample_weight: Vector | None = None,
        groups: Vector | None = None,
    ) -> Self:
        """Choose C by cross-validation, and fit the model with that C to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `LinearSVC`, rows on disk included.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Used in training and, if the scorer supports it, in scoring. Rows of weight zero are
            in no fold.
        groups : array-like of shape (n_samples,), default=None
            For splitters that keep groups together.

        Returns
        -------
        self : fitted estimator
        """
        model = self._model()
        model._check_parameters()
        check_flag("probability", self.probability)
        check_level("verbose", self.verbose)
        # Imported when needed: commands that read models import this module.
        from sklearn.model_selection import check_cv

        costs = check_costs("Cs", self.Cs)
        came_on_gpu = is_on_gpu(X)
        X = check_matrix(self, X, reset=True)
        y = on_host(check_labels(y))  # for splitters and scorers
        check_same_length(X, y)
        weights = check_weights(sample_weight, X)
        scorer = check_scorer(model, self.scoring, weights)
        splitter = check_cv(self.cv, y, classifier=True)
        in_place_of_X = np.zeros((y.size, 1)) if isinstance(X, Rows) else X
        folds = check_folds(splitter.split(in_place_of_X, y, groups), y, weights)
        if self.probability:
            from widemargin.estimators.calibration import check_held_out

            check_held_out(y[np.concatenate([held_out for _, held_out in folds])], np.unique(y))
        model.n_features_in_ = self.n_features_in_
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        n_problems = len(folds) * np.unique(y).size
        rows = load_if_fits(placed(X, self.device), self, n_problems)
        search = _Search(self, model, rows, y, weights, folds, scorer, costs, data)
        best = search.run()
        if came_on_gpu:
            best.coef_ = move_to(best.coef_, rows.like)
            best.intercept_ = move_to(best.intercept_, rows.like)
        search.path.warn(stacklevel=5)  # past two decorators
        self.Cs_, self.scores_, self.relative_gaps_ = costs, search.scores, search.gaps
        self.C_, self.best_estimator_ = best.C, best
        self.__dict__.pop("sigmoids_", None)  # of an earlier fit
        for name, value in _learned(best).items():
            setattr(self, name, value)
        return self

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain scikit-learn model that predicts the same; see `LinearSVC.to_sklearn`."""
        check_is_fitted(self)
        return self.best_estimator_.to_sklearn()

    def score(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> float:
        """Return the score of the model on these rows, by the scorer `scoring`."""
        if self.scoring is None:
            return super().score(X, y, sample_weight)
        check_is_fitted(self)
        from sklearn.metrics import check_scoring

        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return check_scoring(self, scoring=self.scoring)(self, X, y, **weights)


@dataclass
class _Search:
    """Trains and scores all folds for each C, and trains the best C on all rows."""

    estimator: CostSearch
    model: Any  # a classifier with the parameters that both have, and the number of features
    rows: Rows
    y: np.ndarray
    weights: np.ndarray | None
    folds: list[Fold]
    scorer: Callable  # (model, X, y, weights) -> float
    costs: np.ndarray
    data: dict[str, Any]  # X, y and metadata, as callbacks receive them

    def __post_init__(self) -> None:
        n_folds, n_costs = len(self.folds), self.costs.size
        self.data = {"estimator": self.estimator, **self.data}
        self.classes, self.codes = classes_of(self.y)
        self.present = [np.unique(self.codes[train]) for train, _ in self.folds]  # classes
        self.fold_weights = fold_weights(self.folds, self.weights, self.y.size)
        self.order = np.argsort(self.costs, kind="stable")
        self.path = CostPath(
            self.model,
            self.rows,
            self.classes,
            self.codes,
            self.fold_weights,
            n_costs=n_costs + 1,
            ahead=self.costs[self.order],
            single=self.model.tol >= CheckSettings.single_precision_tol,
        )
        self.scores = np.full((n_folds, n_costs), np.nan)
        self.gaps = np.full((n_folds, n_costs), np.nan)
        self.best = -1  # index of the best C so far
        self.start: Any = self.model  # the mean of the folds' models at the best C
        self.held_out: list = []  # scores of held-out rows at the best C, one array per fold
        self.callback_stopped = False

    def run(self) -> Any:
        """Return the model trained on all rows at the best C."""
        context = self.estimator._init_callback_context(
            max_subtasks=self.costs.size + 1
        ).call_on_fit_task_begin(**self.data)
        with ExitStack() as stack:
            bar = None
            if self.estimator.verbose:
                total = self.costs.size * len(self.folds) + 1
                bar = stack.enter_context(ProgressBar(total, "trainings"))
            stack.enter_context(self.path)
            stack.enter_context(self.path.interruption.watching())
            self._choose(context, bar)
            if self.best < 0:
                raise ValueError(
                    f"scoring={self.estimator.scoring!r} is undefined for every C: some fold's "
                    "held-out rows have no such score"
                )
            refit = context.subcontext(task_name="refit").call_on_fit_task_begin(**self.data)
            best = self._refit()
            if bar is not None:
                bar.advance(1, f"C = {best.C:.3g}, all rows")
            for task in (refit, context):
                self._end(task, best)
        return best

    def _choose(self, context: CallbackContext, bar: ProgressBar | None) -> None:
        """Train and score the folds for each C, until a callback or Ctrl-C stops it."""
        for place in self.order:
            step = context.subcontext(task_name="C").call_on_fit_task_begin(**self.data)
            self._try(place)
            if bar is not None:
                mean = self.scores[:, place].mean()
                bar.advance(len(self.folds), f"C = {self.costs[place]:.3g}: {mean:.4f}")
            if self._end(step, self.start):
                self.callback_stopped = True
                break
            if self.path.interruption.requested:
                break

    def _end(self, task: CallbackContext, model: Any) -> bool:
        """Tell callbacks that a task is done; return whether one of them asks to stop."""
        fitted = {"best_estimator_": model, "classes_": self.classes, **_learned(model)}
        return task.call_on_fit_task_end(reconstruction_attributes=fitted, **self.data)

    def _try(self, place: int) -> None:
        self.path.advance(self.costs[place])
        if self.path.interruption.requested and self.best >= 0:
            return  # these models are unfinished, and their scores would mean little
        for which in range(len(self.folds)):
            self.gaps[which, place] = self.path.certificate(which).relative_gap
            self.scores[which, place] = self._score(which)
        mean = self.scores[:, place].mean()
        if mean > (self.scores[:, self.best].mean() if self.best >= 0 else -np.inf):
            self.best = place
            self._remember()

    def _score(self, which: int) -> float:
        _, held_out = self.folds[which]
        weights = None if self.weights is None else self.weights[held_out]
        present = self.present[which]
        if self.estimator.scoring is None and present.size == self.classes.size:
            # The same as scikit-learn's accuracy, which takes longer to check its input than this.
            scores = self.path.scores(which, held_out)
            found = scores[:, 0] > 0.0 if scores.shape[1] == 1 else scores.argmax(axis=1)
            return float(np.average(found == self.codes[held_out], weights=weights))
        model = self._fitted(self.path.attributes(which))
        if present.size < self.classes.size:
            forget_other_classes(model, present)
        rows = pick(self.rows, held_out)
        X = rows.matrix if isinstance(rows, RowsInMemory) else rows
        return self.scorer(model, X, self.y[held_out], weights)

    def _fitted(self, attributes: dict[str, np.ndarray]) -> Any:
        """Return a model with these attributes and the present C of the path."""
        model = copy.copy(self.model)
        model.C, model.classes_ = float(self.path.C), self.classes
        for name, value in attributes.items():
            setattr(model, name, value)
        return model

    def _remember(self) -> None:
        """Keep the warm start of the training on all rows, and the scores for calibration."""
        path, which_ones = self.path, range(len(self.folds))
        self.start = None  # frees the memory of the last best model
        self.start = self._fitted(path.mean_attributes())
        # Each row's dual variable is its mean over the folds that were trained on the row.
        seen = np.maximum(1, np.sum([weights > 0.0 for weights in self.fold_weights], axis=0))
        dual = sum(path.sets[which].dual(path.states[which]) for which in which_ones)
        self.start.dual_variables_ = dual.multiply(1.0 / seen).tocsr()
        if self.estimator.probability:
            self.held_out = [
                path.scores(which, held_out) for which, (_, held_out) in enumerate(self.folds)
            ]

    def _refit(self) -> Any:
        """Return the best model, trained on all rows."""
        path, start = self.path, self.start
        self.start, path.states, C = None, [], start.C  # frees their memory
        states = path.sets[0].states(start.coef_, start.intercept_, start.dual_variables_)
        del start
        path.go_over_to(C, [states], [self.weights])
        del states
        path.advance(C)
        best = self._fitted(path.attributes(0))
        best.dual_variables_ = path.sets[0].dual(path.states[0])
        if hasattr(self.estimator, "feature_names_in_"):
            best.feature_names_in_ = self.estimator.feature_names_in_
        Account(path.monitors[0]).record(best, path.solver)
        if path.interruption.requested:
            best.status_ = "interrupted"
        elif self.callback_stopped:
            best.status_ = "callback"
        if self.estimator.probability:
            best.sigmoids_ = self._sigmoids()
            best.probability = True
        return best

    def _sigmoids(self) -> np.ndarray:
        from widemargin.estimators.calibration import fit_sigmoids

        index = np.concatenate([held_out for _, held_out in self.folds])
        weights = None if self.weights is None else self.weights[index]
        return fit_sigmoids(np.concatenate(self.held_out), self.y[index], self.classes, weights)


def _learned(model: Any) -> dict[str, Any]:
    """Return what `fit` has set."""
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def forget_other_classes(model: Any, present: np.ndarray) -> None:
    """Remove the classes that a fold's model was not trained on.

    `present` are the places in `model.classes_` of at least two that it was trained on, in order.
    """
    model.classes_ = model.classes_[present]
    coef, intercept = model.coef_[present], model.intercept_[present]
    if present.size == 2:
        # Two classes have one score; after training them jointly, the difference of their scores.
        together = float(model.multi_class != "ovr")
        coef = coef[1:] - together * coef[:1]
        intercept = intercept[1:] - together * intercept[:1]
    model.coef_, model.intercept_ = coef, intercept


def check_scorer(
    model: BaseEstimator, scoring: str | Callable | None, weights: np.ndarray | bool | None
) -> Callable:
    """Return a callable(model, X, y, weights) that scores a fitted model on rows."""
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise ValueError(f"scoring must be one scorer or its name, not {scoring!r}")
    from sklearn.metrics import check_scoring

    scorer = check_scoring(model, scoring=scoring)
    takes_weights = getattr(scorer, "_accept_sample_weight", None)
    if scoring is None or takes_weights is None:
        takes = model.score if scoring is None else scorer
        weighted = "sample_weight" in inspect.signature(takes).parameters
    else:
        weighted = takes_weights()
    if weights is not None and not weighted:
        warnings.warn(
            f"scoring={scoring!r} takes no sample_weight: held-out rows count alike, those of "
            "weight zero left out",
            stacklevel=6,  # past two decorators, to the caller of fit
        )

    def score(model: BaseEstimator, X: Matrix, y: np.ndarray, weights: np.ndarray | None) -> float:
        try:
            if weights is None or not weighted:
                return scorer(model, X, y)
            return scorer(model, X, y, sample_weight=weights)
        except AttributeError as error:
            if "predict_proba" not in str(error):
                raise
            raise ValueError(
                f"scoring={scoring!r} wants probabilities, and there are none before C is "
                "chosen: use a scorer that takes labels or scores"
            ) from error

    return score
