"""What `widemargin train` does around a fit: its checks, its warnings, the account it gives."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearRanker, LinearSVC, OrdinalSVC
from widemargin.cli.errors import complain
from widemargin.cli.inputs import Data
from widemargin.cli.options import TaskName, as_option
from widemargin.curves import iteration_unit
from widemargin.report.proof import why_it_stopped
from widemargin.words import count, listed, shape_in_words


def check_data(task: TaskName, data: Data) -> None:
    """Refuse labels and groups that the task can make nothing of."""
    labels = np.unique(data.y)
    if task is TaskName.classify:
        _check_whole(data.y)
    elif task is TaskName.ordinal and labels.size < 2:
        raise ValueError(f"every row has the label {labels[0]}: there is no order to learn")
    elif task is TaskName.roc and labels.size != 2:
        raise ValueError(
            f"--task roc needs exactly two labels, not {labels.size:,} ({listed(labels.tolist())})"
        )
    elif task is TaskName.roc and data.qid is not None:
        raise ValueError(
            "it has groups (qid), and --task roc knows none; --task rank orders rows by group"
        )


def _check_whole(y: np.ndarray) -> None:
    """Refuse labels that are measurements rather than names of classes."""
    fractions = np.flatnonzero(y != np.trunc(y))
    if fractions.size:
        first = fractions[0]
        raise ValueError(
            f"row {first + 1} has the label {y[first]}; class labels must be whole numbers"
        )


def make_model(task: TaskName, shared: dict, classify: dict, rank: dict):
    """Return the task's estimator, from the options of all tasks and those of single ones."""
    if task is TaskName.classify:
        return LinearSVC(**shared, **classify)
    if task is TaskName.ordinal:
        return OrdinalSVC(**shared)
    return LinearRanker(**shared, **rank)


def fit(model, data: Data, **more) -> None:
    """Fit, with warnings as one line each; `early_stop` words the one about stopping early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.showwarning = lambda message, *_: complain(f"warning: {message}")
        if isinstance(model, LinearRanker):
            model.fit(data.X, data.y, qid=data.qid, sample_weight=data.weight)
        else:
            model.fit(data.X, data.y, sample_weight=data.weight, **more)


def early_stop(model) -> str:
    """Say why a fit stopped before its tolerance, and what it reached nevertheless."""
    return (
        f"{why_it_stopped(model, as_option)} before --tol {model.tol:g}; "
        f"the model is saved, {model.certificate_.bound_in_words()}"
    )


def account(task: TaskName, model, data: Data) -> dict[str, Any]:
    """Collect what is worth knowing about a fit."""
    size = {"rows": data.X.shape[0], "features": data.X.shape[1]}
    if hasattr(model, "classes_"):
        size["classes"] = model.classes_.tolist()
    if task is TaskName.rank:
        size["groups"] = 1 if data.qid is None else len(np.unique(data.qid))
    if task is not TaskName.classify:
        size["pairs"] = model.n_pairs_
    quality = {"roc_area": model.score(data.X, data.y)} if task is TaskName.roc else {}
    return {
        "task": task.value,
        **size,
        "parameters": model.get_params(),
        "solver": model.solver_,
        "status": model.status_,
        "iterations": model.n_iter_,
        "certificate": model.certificate_.as_dict(),
        **quality,
    }


def in_words(account: dict[str, Any], model, data: Data) -> dict[str, str]:
    """Say the same, with the times it took, in a few lines."""
    lines = {
        "task": account["task"],
        "data": f"{_size(account, data)}, read in {account['read_seconds']:.2f} s",
        "training": f"{_loss(model)} loss, C = {model.C:g}, solver {model.solver_}, "
        f"{count(model.n_iter_, iteration_unit(model))}, {account['fit_seconds']:.2f} s",
        "result": str(model.certificate_),
    }
    if "roc_area" in account:
        lines["ROC area"] = f"{account['roc_area']:.4f} on the training rows"
    return lines


def _size(account: dict[str, Any], data: Data) -> str:
    n_classes = len(account["classes"]) if "classes" in account else None
    words = [shape_in_words(account["rows"], account["features"], n_classes)]
    if "groups" in account:
        whole = " (no qid: all rows together)" if data.qid is None else ""
        words.append(count(account["groups"], "group") + whole)
    if "pairs" in account:
        words.append(count(account["pairs"], "pair"))
    return ", ".join(words)


def _loss(model) -> str:
    if not isinstance(model, LinearSVC):
        return "pairwise hinge"
    return "crammer_singer" if model.multi_class == "crammer_singer" else model.loss
