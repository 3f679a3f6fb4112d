"""Folds and scores of a search for C: models that order rows, predict numbers or find rows."""

from collections.abc import Callable
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

from widemargin import OrdinalSVC
from widemargin.cli.inputs import Data
from widemargin.data import Rows
from widemargin.estimators.folds import Fold
from widemargin.estimators.path import pick
from widemargin.metrics import mean_average_precision, ndcg, pairwise_accuracy

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


def folds_of(task: str, folds: int, rows: Data) -> list[Fold]:
    """Return the rows to train on and the held-out rows of each fold."""
    splitter = _splitter(task, folds, rows)
    return list(splitter.split(np.zeros((rows.y.size, 1)), rows.y, rows.qid))


def _splitter(task: str, folds: int, rows: Data) -> BaseCrossValidator:
    if task in ("rank", "regress"):
        return (
            KFold(folds, shuffle=True, random_state=0) if rows.qid is None else GroupKFold(folds)
        )
    if rows.qid is not None:
        return StratifiedGroupKFold(folds)
    return StratifiedKFold(folds)


def taken(rows: Data, index: np.ndarray) -> Data:
    """Return some of the rows."""
    return Data(
        pick(rows.X, index) if isinstance(rows.X, Rows) else rows.X[index],
        rows.y[index],
        None if rows.qid is None else rows.qid[index],
        None if rows.weight is None else rows.weight[index],
    )
