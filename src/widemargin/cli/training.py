"""`widemargin train`: checks, warnings and summary of a fit."""

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

# Above it, float64 does not represent every whole number.
_LARGEST_LABEL = 2**53 - 1
# Two float64 values per coefficient: the current and the best one.
_COEFFICIENT_BYTES = 16


def check_disk_options(
    context: typer.Context, path: str, solver: SolverName, memory_budget: str | None
) -> None:
    """Refuse options for rows on disk if the rows are in memory, and a malformed budget."""
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
            f"{shown(path)}: {' '.join(words)} is for rows on disk, and text is read into memory; "
            "convert it first (see widemargin convert --help)"
        )


def check_data(task: TaskName, data: Data) -> None:
    """Refuse labels and groups that do not fit the task, and models larger than memory."""
    labels = np.unique(data.y)
    _check_room(data.X.shape[1], labels.size if task is TaskName.classify else 1)
    if task is TaskName.classify:
        _check_whole(data.y)
    elif task is TaskName.ordinal and labels.size < 2:
        raise ValueError(f"every row has the label {labels[0]}; --task ordinal needs two or more")
    elif task is TaskName.roc and labels.size != 2:
        raise ValueError(
            f"--task roc needs exactly two labels, not {labels.size:,} ({listed(labels.tolist())})"
        )
    elif task is TaskName.roc and data.qid is not None:
        raise ValueError("it has groups (qid), which --task roc cannot use; use --task rank")


def _check_room(n_features: int, n_classes: int) -> None:
    """Refuse a model larger than the free memory; one mistyped index can make it so large.

    Without this check, the operating system may kill the process when it uses the memory.
    """
    meminfo = Path("/proc/meminfo")
    found = meminfo.exists() and re.search(r"MemAvailable: +(\d+) kB", meminfo.read_text())
    if not found:  # not Linux
        return
    available = 1024 * int(found[1])
    n_outputs = n_classes if n_classes > 2 else 1
    needed = _COEFFICIENT_BYTES * n_features * n_outputs
    if needed > available:
        raise ValueError(
            f"the largest index means {count(n_features, 'feature')}: training needs at least "
            f"{needed / 1e9:,.0f} GB, and {available / 1e9:,.0f} GB of memory are free"
        )


def _check_whole(y: np.ndarray) -> None:
    """Refuse labels that are not whole numbers."""
    bad = np.flatnonzero((y != np.trunc(y)) | (np.abs(y) > _LARGEST_LABEL))
    if bad.size:
        first = bad[0]
        size = f" up to {_LARGEST_LABEL:,}" if abs(y[first]) > _LARGEST_LABEL else ""
        raise ValueError(
            f"row {first} (counted from 0) has the label {y[first]}; class labels must be whole "
            f"numbers{size}"
        )


def make_model(
    task: TaskName, shared: dict[str, Any], classify: dict[str, Any], rank: dict[str, Any]
) -> Any:
    """Return the estimator of a task, from options shared by all tasks and options of one task."""
    if task is TaskName.classify:
        return LinearSVC(**shared, **classify)
    if task is TaskName.ordinal:
        return OrdinalSVC(**shared)
    return LinearRanker(**shared, **rank)


def fit(model: Any, data: Data, **more: Any) -> None:
    """Fit without scikit-learn's ConvergenceWarning; see `early_stop`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            if isinstance(model, LinearRanker):
                model.fit(data.X, data.y, qid=data.qid, sample_weight=data.weight)
            else:
                model.fit(data.X, data.y, sample_weight=data.weight, **more)
        except CheckpointError as error:
            raise BadInput(str(error)) from error


def early_stop(model: Any) -> str:
    """Return a warning that says why a fit stopped before `tol` and what its model proves."""
    return (
        f"{why_it_stopped(model, as_option)} before --tol {model.tol:g}; "
        f"the model is saved, {model.certificate_.bound_in_words()}"
    )


def summarise(task: TaskName, model: Any, data: Data) -> dict[str, Any]:
    """Return a summary of a fit."""
    size = {"rows": data.X.shape[0], "features": data.X.shape[1]}
    if not isinstance(model, LinearRanker):
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


def as_text(summary: dict[str, Any], model: Any, data: Data) -> dict[str, str]:
    """Return the summary as named lines of text."""
    lines = {
        "task": summary["task"],
        "data": f"{_size(summary, data)}, read in {summary['read_seconds']:.2f} s",
        "training": f"{_loss(model)} loss, C = {model.C:g}, solver {model.solver_}, "
        f"{count(model.n_iter_, iteration_unit(model))}, {summary['fit_seconds']:.2f} s",
        "result": str(model.certificate_),
    }
    if "roc_area" in summary:
        lines["ROC AUC"] = f"{summary['roc_area']:.4f} on the training set"
    return lines


def _size(summary: dict[str, Any], data: Data) -> str:
    n_classes = len(summary["classes"]) if "classes" in summary else None
    words = [shape_in_words(summary["rows"], summary["features"], n_classes)]
    if "groups" in summary:
        note = " (no qid: all rows are one group)" if data.qid is None else ""
        words.append(count(summary["groups"], "group") + note)
    if "pairs" in summary:
        words.append(count(summary["pairs"], "pair"))
    return ", ".join(words)


def _loss(model: Any) -> str:
    if not isinstance(model, LinearSVC):
        return "pairwise hinge"
    return "crammer_singer" if model.multi_class == "crammer_singer" else model.loss
