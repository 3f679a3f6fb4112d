"""What `widemargin train` does around a fit: its checks, its warnings, the account it gives."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearRanker, LinearSVC, OrdinalSVC
from widemargin.cli.errors import BadInput, reading, shown
from widemargin.cli.inputs import Data, stays_on_disk
from widemargin.cli.options import SolverName, TaskName, as_option, given_options
from widemargin.curves import iteration_unit
from widemargin.estimators.checkpoint import CheckpointError
from widemargin.estimators.validation import check_bytes
from widemargin.report.proof import why_it_stopped
from widemargin.solvers.registry import Place, only_for
from widemargin.words import count, listed, shape_in_words

# From the next whole number on, floating point has one number for several of them.
_LARGEST_LABEL = 2**53 - 1
# A coefficient, and the best one so far.
_COEFFICIENT_BYTES = 16


def check_disk_options(
    context: typer.Context, path: str, solver: SolverName, memory_budget: str | None
) -> None:
    """Refuse what is for rows on disk, where they will be in memory; and no number of bytes."""
    with reading(path):
        if stays_on_disk(path):
            try:
                check_bytes("--memory-budget", memory_budget)
            except ValueError as error:
                raise BadInput(str(error)) from error
            return
    words = given_options(context, ("memory_budget", "checkpoint"))
    if solver in only_for(Place.DISK):
        words += ["--solver", solver]
    if words:
        raise BadInput(
            f"{shown(path)}: text is read into memory, and {' '.join(words)} is for rows on disk: "
            "convert it first (see widemargin convert --help)"
        )


def check_data(task: TaskName, data: Data) -> None:
    """Refuse labels and groups that the task can make nothing of, and what memory cannot hold."""
    labels = np.unique(data.y)
    _check_room(data.X.shape[1], labels.size if task is TaskName.classify else 1)
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


def _check_room(n_features: int, n_classes: int) -> None:
    """Refuse coefficients for which there is no memory: one mistyped index makes them so many.

    Systems promise more than they have, and end the process when it is used.
    """
    facts = Path("/proc/meminfo")
    found = facts.exists() and re.search(r"MemAvailable: +(\d+) kB", facts.read_text())
    if not found:  # a system that does not say
        return
    available = 1024 * int(found[1])
    n_outputs = n_classes if n_classes > 2 else 1
    needed = _COEFFICIENT_BYTES * n_features * n_outputs
    if needed > available:
        raise ValueError(
            f"the largest index makes {count(n_features, 'feature')}: to train takes at least "
            f"{needed / 1e9:,.0f} GB, and {available / 1e9:,.0f} GB of memory are free"
        )


def _check_whole(y: np.ndarray) -> None:
    """Refuse labels that are measurements rather than names of classes."""
    strange = np.flatnonzero((y != np.trunc(y)) | (np.abs(y) > _LARGEST_LABEL))
    if strange.size:
        first = strange[0]
        size = f" up to {_LARGEST_LABEL:,}" if abs(y[first]) > _LARGEST_LABEL else ""
        raise ValueError(
            f"row {first}, counted from 0, has the label {y[first]}; class labels must be whole "
            f"numbers{size}"
        )


def make_model(task: TaskName, shared: dict, classify: dict, rank: dict):
    """Return the task's estimator, from the options of all tasks and those of single ones."""
    if task is TaskName.classify:
        return LinearSVC(**shared, **classify)
    if task is TaskName.ordinal:
        return OrdinalSVC(**shared)
    return LinearRanker(**shared, **rank)


def fit(model, data: Data, **more) -> None:
    """Fit, without the warning about stopping early, which `early_stop` words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            if isinstance(model, LinearRanker):
                model.fit(data.X, data.y, qid=data.qid, sample_weight=data.weight)
            else:
                model.fit(data.X, data.y, sample_weight=data.weight, **more)
        except CheckpointError as error:
            raise BadInput(str(error)) from error


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
