"""The picture that `widemargin tune --plot` draws: the score by C."""

import importlib.util
import os

import numpy as np

from widemargin.cli.errors import BadInput
from widemargin.model_io import atomic_write

FORMATS = ("png", "svg", "pdf")


def check(path: str) -> None:
    """Refuse a picture that could not be drawn."""
    if _format(path) not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise BadInput(f"--plot {path}: its name must end in one of {endings}")
    if importlib.util.find_spec("matplotlib") is None:
        raise BadInput("--plot needs matplotlib: pip install 'widemargin[plot]'")


def draw(model, path: str) -> None:
    """Draw the mean score of each C, with a band of one standard deviation over the folds.

    Parameters
    ----------
    model : fitted LinearSVCCV
    path : str
        Its ending is one of `FORMATS`.
    """
    from matplotlib.figure import Figure

    tried = np.flatnonzero(~np.isnan(model.scores_[0]))
    tried = tried[np.argsort(model.Cs_[tried], kind="stable")]
    costs, scores = model.Cs_[tried], model.scores_[:, tried]
    mean, deviation = scores.mean(axis=0), scores.std(axis=0)
    best = mean[costs == model.C_][0]

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    band = f"± one standard deviation over {len(scores)} folds"
    axes.fill_between(
        costs, mean - deviation, mean + deviation, color="C0", alpha=0.2, lw=0, label=band
    )
    axes.plot(costs, mean, "o-", color="C0", markersize=4, label="mean over folds")
    chosen = f"best: C = {model.C_:.4g}, {best:.4f}"
    axes.plot(model.C_, best, "o", color="C3", markersize=8, label=chosen)
    axes.set(xscale="log", xlabel="C", ylabel=score_name(model))
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False)
    with atomic_write(path) as file:
        figure.savefig(file, format=_format(path), dpi=150)


def score_name(model) -> str:
    """Return what the scores of a search are called, in words."""
    return (model.scoring or "accuracy").replace("_", " ")


def _format(path: str) -> str:
    return os.path.splitext(path)[1].lower().removeprefix(".")
