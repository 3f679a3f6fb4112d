"""How well a model predicts labelled rows: measures, curves, and what is taken for what."""

from typing import Any

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from widemargin.metrics import ndcg
from widemargin.report.charts import REFERENCE, Chart, Curve, heat_map, line_chart, series_class
from widemargin.report.measures import Judged, if_defined, in_words, measure
from widemargin.report.progress import MOST_CURVES
from widemargin.report.scales import Scale, linear, logarithmic
from widemargin.words import count

# Beyond so many classes a table of the commonest mistakes says more than a grid of all.
_MOST_CELLS = 30
_MOST_MISTAKES = 15
_DEPTHS = (1, 2, 3, 5, 10, 20, 50)
_UNIT = Scale(0.0, 1.0)


def quality(model, judged: Judged) -> dict[str, Any]:
    """Return what the page says of a model's predictions.

    Parameters
    ----------
    model : fitted estimator
    judged : Judged
    """
    charts: list[Chart] = []
    sides = _sides(judged)
    if sides:
        charts += _curves(sides)
    elif judged.predicted is None:
        charts += _by_depth(judged)
    mistakes = None
    if judged.predicted is not None:
        if len(judged.names) <= _MOST_CELLS:
            charts.append(_confusion(judged))
        else:
            mistakes = _commonest_mistakes(judged)
    n_unknown = int(np.isin(judged.true, judged.known, invert=True).sum())
    return {
        "measures": in_words(measure(model, judged)),
        "positive": judged.positive_name,
        "charts": charts,
        "mistakes": mistakes,
        "unknown": count(n_unknown, "row") if n_unknown and judged.known.size else None,
        "n_rows": count(judged.true.size, "row"),
    }


def _sides(judged: Judged) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return names, positive rows and scores of what is told from the rest.

    Those without positive or without other rows are left out: they have no curve.
    """
    if judged.positive is not None:
        assert judged.positive_name is not None
        sides = [(judged.positive_name, judged.positive, judged.scores)]
    elif judged.scores.ndim == 2:
        sides = [
            (judged.names[place], judged.true == place, judged.scores[:, j])
            for j, place in enumerate(judged.known)
        ]
    else:
        return []
    return [side for side in sides if 0 < side[1].sum() < side[1].size]


def _curves(sides) -> list[Chart]:
    """Return ROC and precision-recall curves, those of the hardest classes first."""
    areas = [roc_auc_score(positive, scores) for _, positive, scores in sides]
    hardest = np.argsort(areas, kind="stable")[:MOST_CURVES]
    several = len(sides) > 1
    roc, recall, averages = [], [], []
    for number, place in enumerate(hardest):
        name, positive, scores = sides[place]
        style = series_class(number)
        averages.append(average_precision_score(positive, scores))
        false_share, true_share, _ = roc_curve(positive, scores)
        precise, recalled, _ = precision_recall_curve(positive, scores, drop_intermediate=True)
        legends = [
            f"{name}, {value:.4f}" if several else "" for value in (areas[place], averages[-1])
        ]
        roc.append(Curve(false_share, true_share, legends[0], style))
        recall.append(Curve(recalled[::-1], precise[::-1], legends[1], style))
    if not several:
        note = f"Positive: {sides[0][0]}."
    elif len(sides) > len(hardest):
        note = f"The {len(hardest)} hardest of {len(sides)} classes, each against the rest."
    else:
        note = "One class against the rest, the hardest first."
    chance = Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "by chance", REFERENCE)
    area = _span("Area", [areas[place] for place in hardest])
    average = _span("Average precision", averages)
    return [
        line_chart(
            "ROC curves" if several else "ROC curve",
            [chance, *roc],
            _UNIT,
            _UNIT,
            x_label="share of other rows that score higher",
            y_label="share of positive rows found",
            summary=area,
            note=f"{note} {area}",
        ),
        line_chart(
            "Precision and recall",
            recall,
            _UNIT,
            _UNIT,
            x_label="recall",
            y_label="precision",
            summary=average,
            note=f"{note} {average}",
        ),
    ]


def _span(what: str, values: list[float]) -> str:
    if len(values) == 1:
        return f"{what} {values[0]:.4f}."
    return f"{what} from {min(values):.4f} to {max(values):.4f}."


def _by_depth(judged) -> list[Chart]:
    """Return NDCG by how many positions count, if these grades have one."""
    grades = judged.labels[judged.true]
    values = [if_defined(ndcg, grades, judged.scores, judged.qid, k) for k in _DEPTHS]
    if values[0] is None:
        return []
    depths, gains = np.array(_DEPTHS, dtype=float), np.array(values, dtype=float)
    return [
        line_chart(
            "NDCG by depth",
            [Curve(depths, gains, "", "s1", lambda k, value: f"NDCG@{k:.0f}: {value:.4f}")],
            logarithmic(depths),
            linear(gains, high=1.0),
            x_label="positions that count",
            y_label="NDCG, mean over groups",
            summary=f"From {gains[0]:.4f} at 1 to {gains[-1]:.4f} at {_DEPTHS[-1]}.",
            note="Gains are 2^grade - 1.",
        )
    ]


def _confusion(judged) -> Chart:
    k = len(judged.names)
    counts = np.bincount(judged.true * k + judged.predicted, minlength=k * k).reshape(k, k)
    right = int(np.trace(counts))
    return heat_map(
        "What is taken for what",
        counts,
        judged.names,
        summary=f"{right:,} of {judged.true.size:,} rows are given their own class.",
        note="Rows are true classes, columns predicted ones.",
    )


def _commonest_mistakes(judged) -> list[dict[str, Any]]:
    k = len(judged.names)
    wrong = judged.true != judged.predicted
    pairs, times = np.unique(judged.true[wrong] * k + judged.predicted[wrong], return_counts=True)
    totals = np.bincount(judged.true, minlength=k)
    worst = np.argsort(-times, kind="stable")[:_MOST_MISTAKES]
    return [
        {
            "true": judged.names[pairs[i] // k],
            "predicted": judged.names[pairs[i] % k],
            "times": f"{times[i]:,}",
            "total": f"{totals[pairs[i] // k]:,}",
        }
        for i in worst
    ]
