"""`widemargin train`: checks, warnings and summary of a fit."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import scipy.sparse
import typer

from widemargin import (
    LinearOneClassSVM,
    LinearRanker,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    MeasureSVC,
    OrdinalSVC,
    progress,
)
from widemargin.cli import compiling, fitting, output, reporting, tables
from widemargin.cli.errors import complain, naming, reading
from widemargin.cli.given import as_option
from widemargin.cli.inputs import Data, Loaded
from widemargin.cli.options import TaskName
from widemargin.curves import iteration_unit, iterations, stopped_early
from widemargin.fitted import Classifier, Ordering
from widemargin.model_io import liblinear_labels, write_liblinear
from widemargin.words import count, shape_in_words

# Training with so many iterations is slow, and features whose deviations differ by this factor
# may be why.
_MANY_ITERATIONS = 1000
_LARGE_RATIO = 1e3


def run(context: typer.Context) -> None:
    """Train a model as the options say, write its files and print a summary."""
    given = context.params
    task, data = given["task"], given["data"]
    fitting.check(context)
    compiling.listen()
    started = time.perf_counter()
    rows, preparation, names = fitting.read(context)
    read_seconds = time.perf_counter() - started
    liblinear = given["liblinear"]
    if liblinear is not None:
        with reading(liblinear):
            # Fail before the training rather than after it.
            if task in (TaskName.classify, TaskName.logistic):
                labels = liblinear_labels(np.unique(rows.y))
                if task is TaskName.logistic and len(labels) > 2:
                    raise ValueError(
                        "LIBLINEAR's logistic regression is one versus rest, and --task logistic "
                        f"trains all {len(labels)} classes together"
                    )
            if preparation is not None:
                raise ValueError("LIBLINEAR's format holds neither tables nor scales; see export")

    model = make_model(context, rows)
    started = time.perf_counter()
    summarised = not (given["json"] or given["quiet"] or given["out"] == "-")
    with reading(data[0]), progress.told_elsewhere() if summarised else nullcontext():
        fitting.fit(model, rows)
    fit_seconds = time.perf_counter() - started

    output.save_model(Loaded(preparation, model).whole, given["out"])
    if liblinear is not None:
        with naming(liblinear):
            write_liblinear(model, liblinear)
    if stopped_early(model):
        complain(f"warning: {early_stop(model)}")
    warn_of_scales(model, rows)
    if given["report"] is not None:
        reporting.write(context, model, rows, given["report"], names)
    seconds = {"read_seconds": read_seconds, "fit_seconds": fit_seconds}
    summary = summarise(task, model, rows) | seconds
    if given["json"]:
        files = {"model": given["out"], "liblinear": liblinear, "report": given["report"]}
        output.print_json({"data": output.one_or_all(data), **summary, **files})
    elif summarised:
        saved = " and ".join(filter(None, [given["out"], liblinear, given["report"]]))
        lines = as_text(summary, model, rows) | tables.left_out(preparation)
        output.print_lines(lines | {"saved": saved})


def make_model(context: typer.Context, data: Data) -> Any:
    """Return the estimator that the options of `train` describe."""
    kinds: dict[TaskName, type] = {
        TaskName.classify: LinearSVC,
        TaskName.logistic: LogisticRegression,
        TaskName.ordinal: OrdinalSVC,
        TaskName.regress: LinearSVR,
        TaskName.measure: MeasureSVC,
        TaskName.oneclass: LinearOneClassSVM,
    }
    kind = kinds.get(context.params["task"].kind, LinearRanker)
    return fitting.estimator(context, kind, data, **fitting.own_values(kind))


def early_stop(model: Any) -> str:
    """Return a warning that says why a fit stopped before `tol` and what its model proves."""
    # Imported when needed, as the templates of the report come with it.
    from widemargin.report.proof import why_it_stopped

    return (
        f"{why_it_stopped(model, as_option)} before --tol {model.tol:g}; "
        f"the model is saved, {model.certificate_.bound_in_words()}"
    )


def warn_of_scales(model: Any, data: Data) -> None:
    """Say if training was slow and the scales of the features may be why."""
    if model.status_ == "converged" and iterations(model) < _MANY_ITERATIONS:
        return
    if not isinstance(data.X, np.ndarray) and not scipy.sparse.issparse(data.X):
        return
    squares = data.X.power(2) if scipy.sparse.issparse(data.X) else np.square(data.X)
    means = np.asarray(data.X.mean(axis=0), dtype=np.float64).ravel()
    spread = np.sqrt(np.maximum(np.asarray(squares.mean(axis=0)).ravel() - means**2, 0.0))
    spread = spread[spread > 0.0]
    if spread.size and spread.max() > _LARGE_RATIO * spread.min():
        work = count(iterations(model), iteration_unit(model))
        complain(
            f"warning: training took {work}; the standard "
            f"deviations of the features differ by a factor of {spread.max() / spread.min():.1g}, "
            "which makes it slow: --scale evens them out"
        )


def summarise(task: TaskName, model: Any, data: Data) -> dict[str, Any]:
    """Return a summary of a fit."""
    size = {"rows": data.X.shape[0], "features": data.X.shape[1]}
    if isinstance(model, Classifier):
        size["classes"] = model.classes_.tolist()
    if task is TaskName.rank or (task.kind is TaskName.measure and data.qid is not None):
        size["groups"] = 1 if data.qid is None else len(np.unique(data.qid))
    if isinstance(model, Ordering):
        size["pairs"] = model.n_pairs_
    quality = {"roc_area": model.score(data.X, data.y)} if task is TaskName.roc else {}
    return {
        "task": task.value,
        **size,
        "parameters": model.get_params(),
        "solver": model.solver_,
        "status": model.status_,
        "iterations": iterations(model),
        "certificate": model.certificate_.as_dict(),
        **quality,
    }


def as_text(summary: dict[str, Any], model: Any, data: Data) -> dict[str, str]:
    """Return the summary as named lines of text."""
    one_class = isinstance(model, LinearOneClassSVM)
    strength = f"nu = {model.nu:g}" if one_class else f"C = {model.C:g}"
    lines = {
        "task": summary["task"],
        "data": f"{_size(summary, data)}, read in {summary['read_seconds']:.2f} s",
        "training": f"{fitting.loss_of(model)}, {strength}, solver {model.solver_}, "
        f"{count(iterations(model), iteration_unit(model))}, {summary['fit_seconds']:.2f} s"
        + (", ended by its paper's rule" if model.status_ == "published" else ""),
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
