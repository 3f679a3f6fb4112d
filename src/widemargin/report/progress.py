"""Charts of training: duality gap, objective, time per phase, and the scores of a search for C."""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin.curves import (
    HistoryCurve,
    caveats,
    cost_curve,
    history_curves,
    iteration_unit,
    phase_seconds,
    score_name,
    total_curve,
)
from widemargin.fitted import Fitted, Search
from widemargin.report.charts import REFERENCE, Axis, Chart, Curve, bar, line_chart, series_class
from widemargin.report.proof import relative_gap_text
from widemargin.report.scales import linear, logarithmic
from widemargin.words import duration, percent, percent_at_most

# With more curves, all get the same style and names appear as tooltips only.
MOST_CURVES = 12
# Points with a tooltip, over all curves.
_MOST_MARKS = 400
# An axis is logarithmic if the objective falls by more than this factor.
_LOG_RATIO = 5.0


def training(model: Fitted) -> dict[str, Any]:
    """Return the charts of a fit; none for a model without a history."""
    curves = history_curves(model)
    seconds = phase_seconds(model)
    longest, total = max(seconds.values(), default=0.0), sum(seconds.values())
    return {
        "charts": [_gap_chart(model, curves), _objective_chart(model, curves)] if curves else [],
        "phases": [
            {
                "name": name,
                "bar": bar(took / longest if longest else 0.0),
                "seconds": duration(took),
                "fraction": percent(took / total) if total else "",
            }
            for name, took in seconds.items()
        ],
        "several": len(curves) > 1,
    }


def _gap_chart(model: Fitted, curves: list[HistoryCurve]) -> Chart:
    seconds = np.concatenate([curve.time for curve in curves])
    factor, unit = (1000.0, "milliseconds") if seconds.max() < 0.1 else (1.0, "seconds")
    # Start the axis at zero only if little time passed before the first check. A search for C
    # before it would squeeze the curves against the right edge.
    from_zero = seconds.min() < 0.6 * seconds.max()
    x = linear(factor * seconds, low=0.0 if from_zero else None)
    gaps = np.concatenate([curve.relative_gap for curve in curves])
    many = len(curves) > MOST_CURVES
    marked = sum(min(curve.time.size, 60) for curve in curves) <= _MOST_MARKS
    lines = []
    for number, curve in enumerate(curves):
        prefix = f"{curve.name}: " if curve.name else ""

        def tooltip(moment: float, gap: float, prefix: str = prefix) -> str:
            return f"{prefix}{percent_at_most(gap)} after {duration(moment / factor)}"

        style = "many" if many else series_class(number)
        name = curve.name if not many else ""
        marks = tooltip if marked else None
        lines.append(Curve(factor * curve.time, curve.relative_gap, name, style, marks))
    ends = np.array([x.low, x.high])
    tol = Curve(ends, np.full(2, model.tol), f"tol = {percent(model.tol)}", REFERENCE)
    last = max(curve.relative_gap[-1] for curve in curves)
    return line_chart(
        "Relative duality gap",
        [tol, *lines],
        Axis(x, _since(model, unit)),
        Axis(logarithmic(gaps, [model.tol]), "relative duality gap", percent),
        summary=f"Against {unit}, logarithmic scale; the last gap is {percent_at_most(last)}.",
        note="One curve for each class." if many else "",
    )


def _objective_chart(model: Fitted, curves: list[HistoryCurve]) -> Chart:
    several = len(curves) > 1
    # Classes trained one after another can be added up by iteration, but not by time.
    by = "iteration" if several else "time"
    curve = total_curve(curves, by) if several else curves[0]
    moments, unit = getattr(curve, by), _unit(model)
    if by == "time":
        short = moments.max() < 0.1
        moments, unit = (1000.0 * moments, "milliseconds") if short else (moments, "seconds")
    # Early lower bounds far below the last one would squeeze the rest against the top edge.
    wide = curve.primal.max() > _LOG_RATIO * curve.primal.min() > 0.0
    floor = (0.1 if wide else 0.5) * curve.dual[-1]
    shown = [curve.primal, curve.dual[curve.dual > floor]]
    y = logarithmic(*shown) if wide else linear(*shown)
    x = linear(moments, low=0.0 if moments.min() < 0.6 * moments.max() else None)

    def tooltip(what: str) -> Callable[[float, float], str]:
        return lambda moment, value: f"{what} {value:,.6g} at {moment:.3g} {unit}"

    band = np.maximum(curve.dual, y.low), curve.primal
    visible = curve.dual >= y.low
    lines = [Curve(moments, curve.primal, "objective", "s1", tooltip("objective"), band=band)]
    if visible.any():
        bound = moments[visible], curve.dual[visible]
        lines.append(Curve(*bound, "lower bound", "s2", tooltip("lower bound")))
    return line_chart(
        "Objective and lower bound",
        lines,
        Axis(x, unit if several else _since(model, unit)),
        Axis(y, "objective, sum over classes" if several else "objective"),
        summary=f"Against {unit}; the last objective is {curve.primal[-1]:,.6g}, "
        f"the last lower bound {curve.dual[-1]:,.6g}.",
        note="The optimum lies between the two curves.",
    )


def _since(model: Fitted, unit: str) -> str:
    searched = isinstance(model, Search)
    return f"{unit} since the start of {'the search' if searched else 'training'}"


def _unit(model: Fitted) -> str:
    return "passes over the rows" if iteration_unit(model) == "pass" else "iterations"


def search(model: Fitted) -> dict[str, Any] | None:
    """Return what the template shows of a search for C; None for a model without one."""
    if not isinstance(model, Search):
        return None
    curve, name = cost_curve(model), score_name(model)
    mean, deviation, worst = curve.mean, curve.deviation, curve.relative_gaps.max(axis=0)

    def tooltip(C: float, score: float) -> str:
        return f"C = {C:.4g}: {score:.4f}"

    low, high = mean - deviation, mean + deviation
    best = np.array([curve.best_C]), np.array([curve.best_score])
    chosen = f"best: C = {curve.best_C:.4g}, {curve.best_score:.4f}"
    band = f"mean of {len(curve.scores)} folds, ± one standard deviation"
    chart = line_chart(
        f"{name[0].upper()}{name[1:]} by C",
        [
            Curve(curve.Cs, mean, band, "s1", tooltip, band=(low, high)),
            Curve(*best, chosen, "s2 best", tooltip),
        ],
        Axis(logarithmic(curve.Cs), "C"),
        Axis(linear(low, high), name),
        summary=f"The best, {curve.best_score:.4f}, is at C = {curve.best_C:.4g}.",
    )
    n_untried = model.Cs_.size - curve.Cs.size
    return {
        "chart": chart,
        "headline": f"{name[0].upper()}{name[1:]} {curve.best_score:.3f} on held-out folds",
        "best_C": f"{curve.best_C:.6g}",
        "best_score": f"{curve.best_score:.4f}",
        "name": name,
        "n_untried": n_untried,
        "caveats": [caveat[0].upper() + caveat[1:] for caveat in caveats(model)],
        "rows": [
            {
                "C": f"{curve.Cs[i]:.4g}",
                "mean": f"{mean[i]:.4f}",
                "deviation": f"{deviation[i]:.4f}",
                "gap": relative_gap_text(worst[i]),
                "best": curve.Cs[i] == curve.best_C,
            }
            for i in range(curve.Cs.size)
        ],
    }
