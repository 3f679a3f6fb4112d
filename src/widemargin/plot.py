"""Plots of fitted models with matplotlib.

Each function draws into `ax`, or into new axes if `ax` is None, and returns the axes. They need
matplotlib: ``pip install 'widemargin[plot]'``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from widemargin.curves import (
    cost_curve,
    history_curves,
    iteration_unit,
    phase_seconds,
    score_name,
    total_curve,
)
from widemargin.estimators.validation import check_choice
from widemargin.fitted import Fitted, Search

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from widemargin.estimators.path import SVMPath

# With more curves, the legend would hide them.
_MAX_LEGEND_ENTRIES = 12


def history(
    model: Fitted,
    *,
    y: Literal["gap", "objective"] = "gap",
    x: Literal["time", "iteration"] = "time",
    total: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the convergence of training: duality gap, or objective and lower bound.

    Parameters
    ----------
    model : fitted LinearSVC, LinearSVCCV, LinearRanker or OrdinalSVC
        A model loaded from a file has no history.
    y : {"gap", "objective"}, default="gap"
        The relative duality gap, with a line at `tol`; or the objective and, dashed, its lower
        bound.
    x : {"time", "iteration"}, default="time"
        Seconds since the start of the fit; or passes over the rows or iterations.
    total : bool, default=False
        Whether to draw one curve with the sum over one-versus-rest problems, from the first
        point at which all have been checked, rather than one curve per class.
    ax : matplotlib Axes or None, default=None
    """
    check_choice("y", y, ("gap", "objective"))
    check_choice("x", x, ("time", "iteration"))
    curves = history_curves(model)
    if not curves:
        raise ValueError("the model has no history: model files do not store it")
    if total:
        curves = [total_curve(curves, x)]
    ax = _axes(ax)
    named = 1 < len(curves) <= _MAX_LEGEND_ENTRIES
    for number, curve in enumerate(curves):
        color = f"C{number % 10}"
        moments = getattr(curve, x)
        if y == "gap":
            label = curve.name if named else None
            ax.plot(moments, curve.relative_gap, ".-", color=color, label=label)
        else:
            first = number == 0
            label = curve.name if named else ("objective" if first else None)
            ax.plot(moments, curve.primal, ".-", color=color, label=label)
            label = "lower bound" if first else None
            ax.plot(moments, curve.dual, ".--", color=color, label=label)
    if y == "gap":
        ax.axhline(model.tol, color="0.5", ls=":", label=f"tol = {model.tol:g}")
        ax.set(yscale="log", ylabel="relative duality gap")
    else:
        ax.set(ylabel="objective")
    unit = {"pass": "passes over the rows", "iteration": "iterations"}[iteration_unit(model)]
    ax.set(xlabel="seconds" if x == "time" else unit)
    return _finished(ax)


def phases(model: Fitted, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the time spent in each phase of training, summed over classes.

    A model loaded from a file has no history.
    """
    seconds = phase_seconds(model)
    if not seconds:
        raise ValueError("the model has no history: model files do not store it")
    ax = _axes(ax)
    ax.barh(list(seconds), list(seconds.values()))
    ax.invert_yaxis()  # the longest on top
    ax.set(xlabel="seconds")
    return _finished(ax, legend=False)


def scores(search: Search, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the mean score against C, with a band of one standard deviation over the folds.

    Parameters
    ----------
    search : fitted LinearSVCCV
    ax : matplotlib Axes or None, default=None
    """
    curve = cost_curve(search)
    mean, deviation = curve.mean, curve.deviation
    ax = _axes(ax)
    band = f"± one standard deviation over {len(curve.scores)} folds"
    ax.fill_between(
        curve.Cs, mean - deviation, mean + deviation, color="C0", alpha=0.2, lw=0, label=band
    )
    ax.plot(curve.Cs, mean, "o-", color="C0", markersize=4, label="mean over folds")
    chosen = f"best: C = {curve.best_C:.4g}, {curve.best_score:.4f}"
    ax.plot(curve.best_C, curve.best_score, "o", color="C3", markersize=8, label=chosen)
    ax.set(xscale="log", xlabel="C", ylabel=score_name(search))
    return _finished(ax)


def path(
    path: "SVMPath",
    *,
    n_weights: int = 10,
    label: object = None,
    feature_names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the largest weights against C.

    Parameters
    ----------
    path : SVMPath
        Result of `widemargin.svm_path`.
    n_weights : int, default=10
        Number of features, those with the largest absolute weights.
    label : class label or None, default=None
        Class whose weights to plot, for more than two classes; None is the first class.
    feature_names : sequence of str of length n_features or None, default=None
        None numbers the columns from 0.
    ax : matplotlib Axes or None, default=None
    """
    problem = 0
    if label is not None:
        check_choice("label", label, path.classes.tolist())
        problem = path.classes.tolist().index(label) if len(path.classes) > 2 else 0
    order = np.argsort(path.Cs, kind="stable")
    weights = path.coefs[order, problem]
    if feature_names is not None and len(feature_names) != weights.shape[1]:
        raise ValueError(
            f"feature_names must be {weights.shape[1]} names, not {len(feature_names)}"
        )
    ax = _axes(ax)
    for feature in np.argsort(-np.abs(weights).max(axis=0), kind="stable")[:n_weights]:
        name = f"x{feature}" if feature_names is None else str(feature_names[feature])
        ax.plot(path.Cs[order], weights[:, feature], ".-", label=name)
    ax.axhline(0.0, color="0.5", lw=0.8)
    whose = f" of class {path.classes[problem]}" if len(path.classes) > 2 else ""
    ax.set(xscale="log", xlabel="C", ylabel=f"weight{whose}")
    return _finished(ax)


def _axes(ax: "Axes | None") -> "Axes":
    """Return `ax`, or new axes."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "widemargin.plot needs matplotlib: pip install 'widemargin[plot]'"
        ) from error
    return pyplot.subplots(layout="constrained")[1]


def _finished(ax: "Axes", legend: bool = True) -> "Axes":
    ax.grid(alpha=0.3)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if legend and ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False)
    return ax
