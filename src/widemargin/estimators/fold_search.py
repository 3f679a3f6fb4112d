"""Choice of C by cross-validation, for any estimator that starts from its last fit."""

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from widemargin.certificate import Certificate
from widemargin.estimators.folds import Fold
from widemargin.progress import ProgressBar


@dataclass
class FoldSearch:
    """Trains a model for each C and fold, and then the best C on all rows.

    Each fold is trained from the smallest C to the largest, each time from the solution at the
    last C. Ctrl-C ends the search with the best C so far. Fitted attributes are those of
    `LinearSVCCV`.

    Parameters
    ----------
    model : LinearRanker, OrdinalSVC, LinearSVR or MeasureSVC
        What to train; its C is set.
    Cs : ndarray of shape (n_Cs,)
    take : callable
        take(rows, index) returns some rows, of whatever type.
    train : callable
        train(model, rows) fits a model.
    score : callable
        score(model, rows) is the score of a fitted model on held-out rows; NaN if it is undefined.
    scoring : str
        The name of the score.
    max_time : float or None
        For all trainings together.
    verbose : int
    """

    model: Any
    Cs: np.ndarray
    take: Callable[[Any, np.ndarray], Any]
    train: Callable[[Any, Any], Any]
    score: Callable[[Any, Any], float]
    scoring: str
    max_time: float | None = None
    verbose: int = 0

    def fit(self, rows: Any, folds: Sequence[Fold]) -> Self:
        """Search for the best C, and train it on all rows."""
        self.Cs_ = np.asarray(self.Cs, dtype=float)
        self.scores_ = np.full((len(folds), self.Cs_.size), np.nan)
        self.relative_gaps_ = np.full_like(self.scores_, np.nan)
        self._end = None if self.max_time is None else time.perf_counter() + self.max_time
        self._left = self.scores_.size + 1
        shown = ProgressBar(self._left, "trainings") if self.verbose else nullcontext()
        with shown as bar, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # small C make small weights
            stopped = self._try_all(rows, folds, bar)
        means = self.scores_.mean(axis=0)
        if np.isnan(means).all():
            if stopped:
                raise ValueError("stopped before one value of C was tried")
            raise ValueError("a fold holds out rows of one class only: it has no such score")
        # The smallest one with the highest score.
        best = min(np.flatnonzero(means == np.nanmax(means)), key=lambda j: self.Cs_[j])
        self.C_ = float(self.Cs_[best])
        self.best_estimator_ = self._trained(copy.deepcopy(self.model), self.C_, rows)
        self.certificate_: Certificate = self.best_estimator_.certificate_
        self.solver_, self.tol = self.best_estimator_.solver_, self.model.tol
        self.status_ = "interrupted" if stopped else self.best_estimator_.status_
        return self

    def _try_all(self, rows: Any, folds: Sequence[Fold], bar: Any) -> bool:
        """Fill in the scores, from the smallest C on; return whether Ctrl-C stopped it."""
        models = [copy.deepcopy(self.model).set_params(warm_start=True) for _ in folds]
        for place in np.argsort(self.Cs_, kind="stable"):
            C = float(self.Cs_[place])
            found = []
            for which, (train, held_out) in enumerate(folds):
                # Taken anew each time, so that memory holds the rows of one fold.
                model = self._trained(models[which], C, self.take(rows, train))
                if model.status_ == "interrupted":
                    return True
                score = self.score(model, self.take(rows, held_out))
                found.append((score, model.certificate_.relative_gap))
            self.scores_[:, place], self.relative_gaps_[:, place] = zip(*found)
            if bar is not None:
                bar.advance(len(folds), f"C = {C:.3g}: {self.scores_[:, place].mean():.4f}")
        return False

    def _trained(self, model: Any, C: float, rows: Any) -> Any:
        model.set_params(C=C)
        if self._end is not None:
            seconds_left = self._end - time.perf_counter()
            model.set_params(max_time=max(1e-3, seconds_left / self._left))
        self._left -= 1
        self.train(model, rows)
        return model
