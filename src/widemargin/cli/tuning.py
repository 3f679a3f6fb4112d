"""`widemargin tune`: checks and summary of a search for C."""

import shlex
import time
from typing import Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import StratifiedGroupKFold

from widemargin import (
    LinearRanker,
    LinearSVCCV,
    LinearSVR,
    LogisticRegressionCV,
    MeasureSVC,
    OrdinalSVC,
)
from widemargin.cli import compiling, fitting, output, plotting, reporting, tables
from widemargin.cli.errors import BadInput, complain, naming, reading
from widemargin.cli.given import as_option, given_options
from widemargin.cli.inputs import Data, Loaded
from widemargin.cli.options import TaskName
from widemargin.cli.search import folds_of, scorers_of, taken
from widemargin.cli.table_options import FOR_TABLES
from widemargin.curves import caveats, score_name
from widemargin.estimators.fold_search import FoldSearch
from widemargin.estimators.validation import check_costs
from widemargin.fitted import Classifier
from widemargin.words import count, percent_at_most, shape_in_words

# Options that `tune` and `train` share.
_SHARED = (
    "task",
    "normalization",
    "target",
    "weight",
    "scale",
    *FOR_TABLES,
    "loss",
    "epsilon",
    "delta",
    "quantile",
    "penalty",
    "l1_ratio",
    "multi_class",
    "solver",
    "tol",
    "max_iter",
    "device",
    "memory_budget",
    "no_intercept",
    "penalized_intercept",
    "class_weight",
    "n_jobs",
    "seed",
    "probability",
)
_BAR_WIDTH = 24
# Of the other columns of its table, without the name of the score.
_OTHER_COLUMNS = 46


def run(context: typer.Context) -> None:
    """Search as the options say, write the files and print a summary."""
    given = context.params
    task, data, out, plot = given["task"], given["data"], given["out"], given["plot"]
    fitting.check(context)
    scoring = check_scoring(task, given["scoring"], given["loss"])
    if plot is not None:
        plotting.check(plot)  # before the training rather than after it
    compiling.listen()
    started = time.perf_counter()
    rows, preparation, names = fitting.read(context)
    read_seconds = time.perf_counter() - started

    started = time.perf_counter()
    with reading(data[0]):
        model = search(context, rows, scoring)
    fit_seconds = time.perf_counter() - started

    if out is not None:
        output.save_model(Loaded(preparation, model.best_estimator_).whole, out)
    if plot is not None:
        with naming(plot):
            plotting.draw(model, plot)
    for caveat in caveats(model, as_option):
        complain(f"warning: {caveat}")
    if given["report"] is not None:
        judged = model if isinstance(model, LinearSVCCV) else model.best_estimator_
        reporting.write(context, judged, rows, given["report"], names)
    seconds = {"read_seconds": read_seconds, "fit_seconds": fit_seconds}
    summary = summarise(task, model, rows) | seconds
    summary["train_command"] = train_command(context, model, out)
    if given["json"]:
        files = {"model": out, "plot": plot, "report": given["report"]}
        output.print_json({"data": output.one_or_all(data), **summary, **files})
    elif not given["quiet"] and out != "-":
        show(model)
        saved = " and ".join(filter(None, [out, plot, given["report"]]))
        lines = as_text(summary, model) | tables.left_out(preparation)
        output.print_lines(lines | ({"saved": saved} if saved else {}))


def check_scoring(task: TaskName, name: str | None, loss: str | None) -> str:
    """Return the name of the score to maximise; refuse that of an unknown scorer."""
    if task is TaskName.oneclass:
        raise BadInput("--task oneclass has no labels to choose by: see train and its --nu")
    if task in (TaskName.classify, TaskName.logistic):
        name = name or "accuracy"
        if name not in get_scorer_names():
            raise BadInput(
                f"--scoring {name}: not a scorer of scikit-learn, such as accuracy, "
                "balanced_accuracy, f1, f1_macro, roc_auc or average_precision"
            )
        return name
    scorers = list(scorers_of(task.value))
    name = name or ("neg_mean_pinball_loss" if loss == "pinball" else scorers[0])
    if name not in scorers:
        raise BadInput(f"--scoring {name}: --task {task.value} has {', '.join(scorers)}")
    return name


def search(context: typer.Context, rows: Data, scoring: str) -> Any:
    """Return the fitted search; rows of one group stay in one fold."""
    given, task = context.params, context.params["task"]
    check_folds(task, given["folds"], rows)
    if task in (TaskName.classify, TaskName.logistic):
        cv = given["folds"] if rows.qid is None else StratifiedGroupKFold(given["folds"])
        choices = {"cv": cv, "scoring": scoring}
        by_svm = task is TaskName.classify
        wanted: type = LinearSVCCV if by_svm else LogisticRegressionCV
        choices |= fitting.own_values(wanted)
        model = fitting.estimator(context, wanted, rows, **choices)
        fitting.fit(model, rows, groups=rows.qid)
        return model
    kinds: dict[TaskName, type] = {
        TaskName.ordinal: OrdinalSVC,
        TaskName.regress: LinearSVR,
        TaskName.measure: MeasureSVC,
    }
    kind = kinds.get(task.kind, LinearRanker)
    # The search itself has the limit of time, and shows its progress.
    model = fitting.estimator(context, kind, rows, max_time=None, verbose=0)
    Cs, score = check_costs("--Cs", given["Cs"]), scorers_of(task.value)[scoring]
    limits = given["max_time"], 0 if given["quiet"] or given["json"] else 1
    found = FoldSearch(model, Cs, taken, fitting.fit, score, scoring, *limits)
    return found.fit(rows, folds_of(task.value, given["folds"], rows))


def check_folds(task: TaskName, folds: int, rows: Data) -> None:
    """Refuse more folds than can get something to score."""
    where = ""
    if rows.qid is not None:
        n, what = np.unique(rows.qid).size, "group"
    elif task in (TaskName.rank, TaskName.regress):
        n, what = rows.y.size, "row"
    else:
        counts, what = np.unique(rows.y, return_counts=True)[1], "row"
        # A measure is undefined for rows of one class.
        small = task.kind is TaskName.measure
        n, where = counts.min() if small else counts.max(), " of its largest class"
        where = where.replace("largest", "smallest") if small else where
    if n < folds:
        raise ValueError(f"--folds {folds}: it has {count(n, what)}{where}, too few for so many")


def summarise(task: TaskName, model: Any, data: Data) -> dict[str, Any]:
    """Return a summary of a search."""
    best = model.best_estimator_
    classes = {"classes": best.classes_.tolist()} if isinstance(best, Classifier) else {}
    return {
        "task": task.value,
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        **classes,
        "scoring": model.scoring,
        "folds": len(model.scores_),
        "Cs": model.Cs_.tolist(),
        "scores": model.scores_.T.tolist(),
        "mean_scores": model.scores_.mean(axis=0).tolist(),
        "relative_gaps": model.relative_gaps_.T.tolist(),
        "best_C": model.C_,
        "best_score": float(np.nanmax(model.scores_.mean(axis=0))),
        "parameters": best.get_params(),
        "solver": model.solver_,
        "status": model.status_,
        "certificate": model.certificate_.as_dict(),
    }


def train_command(context: typer.Context, model: Any, out: str | None) -> str:
    """Return the command that trains the best model."""
    command = ["widemargin", "train", *context.params["data"], "-C", repr(model.C_)]
    return shlex.join([*command, *given_options(context, _SHARED), "--out", out or "model.wm"])


def show(model: Any) -> None:
    """Print the score of each C as a table."""
    console = Console(highlight=False)
    block = "█" if console.encoding.startswith("utf") else "#"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("C", score_name(model), "std. dev.", "largest gap"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    widest = min(_BAR_WIDTH, console.width - _OTHER_COLUMNS - len(score_name(model)))
    mean, deviation = model.scores_.mean(axis=0), model.scores_.std(axis=0)
    low, high = np.nanmin(mean), np.nanmax(mean)
    largest_gap = np.maximum(0.0, model.relative_gaps_.max(axis=0))  # rounding
    for place in np.argsort(model.Cs_, kind="stable"):
        cost = f"{model.Cs_[place]:.4g}"
        if np.isnan(mean[place]):
            table.add_row(cost, "", "", "", "not tried", style="dim")
            continue
        length = (mean[place] - low) / (high - low) if high > low else 1.0
        bar = block * max(1, round(widest * length))
        best = model.Cs_[place] == model.C_
        table.add_row(
            cost,
            f"{mean[place]:.4f}",
            f"{deviation[place]:.4f}",
            percent_at_most(largest_gap[place]),
            f"{bar} best" if best else bar,
            style="bold" if best else None,
        )
    console.print(table)


def as_text(summary: dict[str, Any], model: Any) -> dict[str, str]:
    """Return named lines of text with what the table does not show."""
    n_classes = len(summary["classes"]) if "classes" in summary else None
    size = shape_in_words(summary["rows"], summary["features"], n_classes)
    return {
        "data": f"{size}, read in {summary['read_seconds']:.2f} s",
        "search": f"{count(len(summary['Cs']), 'value')} of C, {summary['folds']} folds, "
        f"{fitting.loss_of(model.best_estimator_)}, {summary['fit_seconds']:.2f} s",
        "best": f"C = {model.C_:.6g}, {score_name(model)} {summary['best_score']:.4f}",
        "result": str(model.certificate_),
        "repeat": summary["train_command"],
    }
