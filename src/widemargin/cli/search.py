"""Choice of C by cross-validation for models that order rows or predict numbers."""

import copy
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import (
    mean_absolute_error,
    mean_pinball_loss,
    r2_score,
    root_mean_squared_error,
)
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from widemargin import LinearSVR, MeasureSVC, OrdinalSVC
from widemargin.certificate import Certificate
from widemargin.cli import fitting
from widemargin.cli.inputs import Data
from widemargin.data import Rows
from widemargin.estimators.path import pick
from widemargin.metrics import mean_average_precision, ndcg, pairwise_accuracy
from widemargin.progress import ProgressBar

#: scores of a fitted model on held-out rows, by task; the first is the default
SCORERS: dict[str, dict[str, Callable[[Any, Data], float]]] = {
    "rank": {
        "pairwise_accuracy": lambda model, rows: pairwise_accuracy(
            rows.y, model.predict(rows.X), rows.qid
        ),
        "ndcg": lambda model, rows: ndcg(rows.y, model.predict(rows.X), rows.qid, 10),
        "mean_average_precision": lambda model, rows: mean_average_precision(
            rows.y, model.predict(rows.X), rows.qid
        ),
    },
    "ordinal": {
        "neg_mean_absolute_error": lambda model, rows: -_mean_error(model, rows),
        "accuracy": lambda model, rows: float(np.mean(model.predict(rows.X) == rows.y)),
        "pairwise_accuracy": lambda model, rows: pairwise_accuracy(
            rows.y, model.score_samples(rows.X)
        ),
    },
    "roc": {
        "roc_auc": lambda model, rows: pairwise_accuracy(rows.y, model.predict(rows.X)),
    },
    "regress": {
        "r2": lambda model, rows: r2_score(rows.y, model.predict(rows.X)),
        "neg_mean_absolute_error": lambda model, rows: (
            -mean_absolute_error(rows.y, model.predict(rows.X))
        ),
        "neg_root_mean_squared_error": lambda model, rows: (
            -root_mean_squared_error(rows.y, model.predict(rows.X))
        ),
        "neg_mean_pinball_loss": lambda model, rows: (
            -mean_pinball_loss(rows.y, model.predict(rows.X), alpha=model.quantile)
        ),
    },
}


def scorers_of(task: str) -> dict[str, Callable[[Any, Data], float]]:
    """Return the scores of a task; that of a measure is the measure itself."""
    if task in SCORERS:
        return SCORERS[task]
    return {task: lambda model, rows: model.score(rows.X, rows.y, rows.weight, rows.qid)}


def _mean_error(model: OrdinalSVC, rows: Data) -> float:
    """Return the mean absolute error in ranks."""
    labels = np.union1d(model.classes_, rows.y)
    places = np.searchsorted(labels, model.predict(rows.X)), np.searchsorted(labels, rows.y)
    return float(np.abs(places[0] - places[1]).mean())


@dataclass
class FoldSearch:
    """Trains a model for each C and fold, and then the best C on all rows.

    Its fitted attributes are those of `LinearSVCCV`.

    Parameters
    ----------
    model : LinearRanker, OrdinalSVC, LinearSVR or MeasureSVC
        What to train; its C is set.
    Cs : ndarray of shape (n_Cs,)
    folds : int
    scoring : str
        One of `scorers_of` the task.
    task : str
    max_time : float or None
        For all trainings together.
    verbose : int
    """

    model: Any
    Cs: np.ndarray
    folds: int
    scoring: str
    task: str
    max_time: float | None = None
    verbose: int = 0

    @property
    def loss(self) -> str:
        """Name of the loss of the models."""
        if isinstance(self.model, MeasureSVC):
            return self.model.measure
        return self.model.loss if isinstance(self.model, LinearSVR) else "pairwise hinge"

    def fit(self, rows: Data) -> "FoldSearch":
        """Search for the best C."""
        splitter = _splitter(self.task, self.folds, rows)
        splits = list(splitter.split(np.zeros((rows.y.size, 1)), rows.y, rows.qid))
        self.Cs_ = np.asarray(self.Cs, dtype=float)
        self.scores_ = np.full((len(splits), self.Cs_.size), np.nan)
        self.relative_gaps_ = np.full_like(self.scores_, np.nan)
        self._end = None if self.max_time is None else time.perf_counter() + self.max_time
        self._left = self.scores_.size + 1
        score = scorers_of(self.task)[self.scoring]
        held = [(_taken(rows, train), _taken(rows, test)) for train, test in splits]
        models = [copy.deepcopy(self.model).set_params(warm_start=True) for _ in splits]
        shown = ProgressBar(self._left, "trainings") if self.verbose else nullcontext()
        with shown as bar, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # small C make small weights
            stopped = self._try_all(models, held, score, bar)
        means = self.scores_.mean(axis=0)
        if np.isnan(means).all():
            raise ValueError("stopped before one value of C was tried")
        # The smallest one with the highest score.
        best = min(np.flatnonzero(means == np.nanmax(means)), key=lambda j: self.Cs_[j])
        self.C_ = float(self.Cs_[best])
        self.best_estimator_ = self._train(copy.deepcopy(self.model), self.C_, rows)
        self.certificate_: Certificate = self.best_estimator_.certificate_
        self.solver_, self.tol = self.best_estimator_.solver_, self.model.tol
        self.status_ = "interrupted" if stopped else self.best_estimator_.status_
        return self

    def _try_all(self, models: list[Any], held: list[Any], score: Any, bar: Any) -> bool:
        """Fill in the scores, from the smallest C on; return whether Ctrl-C stopped it."""
        for place in np.argsort(self.Cs_, kind="stable"):
            C = float(self.Cs_[place])
            found = []
            for which, (train, test) in enumerate(held):
                model = self._train(models[which], C, train)
                if model.status_ == "interrupted":
                    return True
                found.append((score(model, test), model.certificate_.relative_gap))
            self.scores_[:, place], self.relative_gaps_[:, place] = zip(*found)
            if bar is not None:
                bar.advance(len(held), f"C = {C:.3g}: {self.scores_[:, place].mean():.4f}")
        return False

    def _train(self, model: Any, C: float, rows: Data) -> Any:
        limit = None
        if self._end is not None:
            limit = max(1e-3, (self._end - time.perf_counter()) / self._left)
        self._left -= 1
        model.set_params(C=C, max_time=limit, verbose=0)
        fitting.fit(model, rows)
        return model


def _splitter(task: str, folds: int, rows: Data) -> BaseCrossValidator:
    if task in ("rank", "regress"):
        return (
            KFold(folds, shuffle=True, random_state=0) if rows.qid is None else GroupKFold(folds)
        )
    if rows.qid is not None:
        return StratifiedGroupKFold(folds)
    return StratifiedKFold(folds)


def _taken(rows: Data, index: np.ndarray) -> Data:
    """Return some of the rows."""
    return Data(
        pick(rows.X, index) if isinstance(rows.X, Rows) else rows.X[index],
        rows.y[index],
        None if rows.qid is None else rows.qid[index],
        None if rows.weight is None else rows.weight[index],
    )
