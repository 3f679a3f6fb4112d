"""How training went, in charts: gap and objective, phases, and the scores of each C."""

from typing import Any

import numpy as np

from widemargin.curves import (
    HistoryCurve,
    cost_curve,
    doubts,
    history_curves,
    iteration_unit,
    phase_seconds,
    score_name,
    total_curve,
)
from widemargin.report.charts import REFERENCE, Chart, Curve, bar, line_chart, series_class
from widemargin.report.proof import share
from widemargin.report.scales import linear, logarithmic, plain
from widemargin.words import duration, percent, percent_at_most

# Beyond so many curves all look alike, and are told apart by pointing at them.
MOST_CURVES = 12
# Points that say what they are, over all curves.
_MOST_MARKS = 400
# A scale is logarithmic where its numbers span more than this.
_WIDE = 5.0


def training(model) -> dict[str, Any]:
    """Return the charts of a fit; none for a model that has no history."""
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
                "share": percent(took / total) if total else "",
            }
            for name, took in seconds.items()
        ],
        "several": len(curves) > 1,
    }


def _gap_chart(model, curves: list[HistoryCurve]) -> Chart:
    seconds = np.concatenate([curve.time for curve in curves])
    factor, unit = (1000.0, "milliseconds") if seconds.max() < 0.1 else (1.0, "seconds")
    # What came before, such as a search for C, would only press the curves against the edge.
    from_zero = seconds.min() < 0.6 * seconds.max()
    x = linear(factor * seconds, low=0.0 if from_zero else None)
    gaps = np.concatenate([curve.relative_gap for curve in curves])
    many = len(curves) > MOST_CURVES
    marked = sum(min(curve.time.size, 60) for curve in curves) <= _MOST_MARKS
    lines = []
    for number, curve in enumerate(curves):
        who = f"{curve.name}: " if curve.name else ""

        def words(at, gap, who=who):
            return f"{who}{percent_at_most(gap)} after {duration(at / factor)}"

        style = "many" if many else series_class(number)
        name = curve.name if not many else ""
        marks = words if marked else None
        lines.append(Curve(factor * curve.time, curve.relative_gap, name, style, marks))
    ends = np.array([x.low, x.high])
    aim = Curve(ends, np.full(2, model.tol), f"tolerance, {percent(model.tol)}", REFERENCE)
    last = max(curve.relative_gap[-1] for curve in curves)
    return line_chart(
        "Relative duality gap",
        [aim, *lines],
        x,
        logarithmic(gaps, [model.tol]),
        x_label=_since(model, unit),
        y_label="gap, part of the objective",
        y_text=percent,
        summary=f"Against {unit}, on a logarithmic scale; it ends at {percent_at_most(last)}.",
        note="One curve for each class." if many else "",
    )


def _objective_chart(model, curves: list[HistoryCurve]) -> Chart:
    several = len(curves) > 1
    # Classes trained one after another are side by side in iterations only.
    by = "iteration" if several else "time"
    curve = total_curve(curves, by) if several else curves[0]
    moments, unit = getattr(curve, by), _unit(model)
    if by == "time":
        short = moments.max() < 0.1
        moments, unit = (1000.0 * moments, "milliseconds") if short else (moments, "seconds")
    # Bounds from far below the end would only press the rest against the other edge.
    wide = curve.primal.max() > _WIDE * curve.primal.min() > 0.0
    floor = (0.1 if wide else 0.5) * curve.dual[-1]
    shown = [curve.primal, curve.dual[curve.dual > floor]]
    y = logarithmic(*shown) if wide else linear(*shown)
    x = linear(moments, low=0.0 if moments.min() < 0.6 * moments.max() else None)

    def words(what):
        return lambda at, value: f"{what} {value:,.6g} at {at:.3g} {unit}"

    inside = np.maximum(curve.dual, y.low), curve.primal
    bounded = curve.dual >= y.low
    lines = [Curve(moments, curve.primal, "objective", "s1", words("objective"), band=inside)]
    if bounded.any():
        said = words("lower bound")
        bound = moments[bounded], curve.dual[bounded]
        lines.append(Curve(*bound, "proved lower bound", "s2", said))
    return line_chart(
        "Objective and lower bound",
        lines,
        x,
        y,
        x_label=unit if several else _since(model, unit),
        y_label="objective, all classes together" if several else "objective",
        summary=f"Against {unit}; the objective ends at {curve.primal[-1]:,.6g}, the bound at "
        f"{curve.dual[-1]:,.6g}.",
        note="The optimum lies in between.",
    )


def _since(model, unit) -> str:
    return f"{unit} since {'the search' if hasattr(model, 'Cs_') else 'training'} began"


def _unit(model) -> str:
    return "passes over the rows" if iteration_unit(model) == "pass" else "iterations"


def search(model) -> dict[str, Any] | None:
    """Return what the page says of a search for C; None for a model that made none."""
    if not hasattr(model, "Cs_"):
        return None
    curve, name = cost_curve(model), score_name(model)
    mean, deviation, worst = curve.mean, curve.deviation, curve.relative_gaps.max(axis=0)

    def words(C, score):
        return f"C = {C:.4g}: {score:.4f}"

    low, high = mean - deviation, mean + deviation
    best = np.array([curve.best_C]), np.array([curve.best_score])
    chosen = f"best: C = {curve.best_C:.4g}, {curve.best_score:.4f}"
    band = f"mean of {len(curve.scores)} folds, ± one standard deviation"
    chart = line_chart(
        f"{name[0].upper()}{name[1:]} by C",
        [
            Curve(curve.Cs, mean, band, "s1", words, band=(low, high)),
            Curve(*best, chosen, "s2 best", words),
        ],
        logarithmic(curve.Cs),
        linear(low, high),
        x_label="C",
        y_label=name,
        x_text=plain,
        summary=f"The best, {curve.best_score:.4f}, is at C = {curve.best_C:.4g}.",
    )
    n_untried = model.Cs_.size - curve.Cs.size
    return {
        "chart": chart,
        "best_C": f"{curve.best_C:.6g}",
        "best_score": f"{curve.best_score:.4f}",
        "name": name,
        "n_untried": n_untried,
        "doubts": [doubt[0].upper() + doubt[1:] for doubt in doubts(model)],
        "rows": [
            {
                "C": f"{curve.Cs[i]:.4g}",
                "mean": f"{mean[i]:.4f}",
                "deviation": f"{deviation[i]:.4f}",
                "gap": share(worst[i]),
                "best": curve.Cs[i] == curve.best_C,
            }
            for i in range(curve.Cs.size)
        ],
    }
