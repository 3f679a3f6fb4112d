"""`widemargin tune`: checks and summary of a search for C."""

import shlex
from typing import Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import StratifiedGroupKFold

from widemargin import LinearSVCCV
from widemargin.cli.errors import BadInput
from widemargin.cli.inputs import Data
from widemargin.cli.options import given_options
from widemargin.curves import score_name
from widemargin.words import count, percent_at_most, shape_in_words

# Options that `tune` and `train` share.
_SHARED = (
    "loss",
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


def check_scoring(name: str) -> None:
    """Refuse the name of an unknown scorer."""
    if name not in get_scorer_names():
        raise BadInput(
            f"--scoring {name}: not a scorer of scikit-learn, such as accuracy, "
            "balanced_accuracy, f1, f1_macro, roc_auc or average_precision"
        )


def make_model(data: Data, folds: int, **parameters: Any) -> LinearSVCCV:
    """Return the estimator of the search; rows of one group stay in one fold."""
    cv = folds if data.qid is None else StratifiedGroupKFold(folds)
    return LinearSVCCV(cv=cv, **parameters)


def summarise(model: LinearSVCCV, data: Data) -> dict[str, Any]:
    """Return a summary of a search."""
    parameters = model.best_estimator_.get_params()
    return {
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        "classes": model.classes_.tolist(),
        "scoring": model.scoring,
        "folds": len(model.scores_),
        "Cs": model.Cs_.tolist(),
        "scores": model.scores_.T.tolist(),
        "mean_scores": model.scores_.mean(axis=0).tolist(),
        "relative_gaps": model.relative_gaps_.T.tolist(),
        "best_C": model.C_,
        "best_score": float(np.nanmax(model.scores_.mean(axis=0))),
        "parameters": parameters,
        "solver": model.solver_,
        "status": model.status_,
        "certificate": model.certificate_.as_dict(),
    }


def train_command(context: typer.Context, model: LinearSVCCV, out: str | None) -> str:
    """Return the command that trains the best model."""
    command = ["widemargin", "train", context.params["data"], "-C", repr(model.C_)]
    return shlex.join([*command, *given_options(context, _SHARED), "--out", out or "model.wm"])


def show(model: LinearSVCCV) -> None:
    """Print the score of each C as a table."""
    console = Console(highlight=False)
    block = "█" if console.encoding.startswith("utf") else "#"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("C", score_name(model), "std. dev.", "largest gap"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    mean, deviation = model.scores_.mean(axis=0), model.scores_.std(axis=0)
    low, high = np.nanmin(mean), np.nanmax(mean)
    largest_gap = np.maximum(0.0, model.relative_gaps_.max(axis=0))  # rounding
    for place in np.argsort(model.Cs_, kind="stable"):
        cost = f"{model.Cs_[place]:.4g}"
        if np.isnan(mean[place]):
            table.add_row(cost, "", "", "", "not tried", style="dim")
            continue
        length = (mean[place] - low) / (high - low) if high > low else 1.0
        bar = block * max(1, round(_BAR_WIDTH * length))
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


def as_text(summary: dict[str, Any], model: LinearSVCCV) -> dict[str, str]:
    """Return named lines of text with what the table does not show."""
    size = shape_in_words(summary["rows"], summary["features"], len(summary["classes"]))
    return {
        "data": f"{size}, read in {summary['read_seconds']:.2f} s",
        "search": f"{count(len(summary['Cs']), 'value')} of C, {summary['folds']} folds, "
        f"{model.loss} loss, {summary['fit_seconds']:.2f} s",
        "best": f"C = {model.C_:.6g}, {score_name(model)} {summary['best_score']:.4f}",
        "result": str(model.certificate_),
        "repeat": summary["train_command"],
    }
