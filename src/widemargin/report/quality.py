"""How good predictions are: metrics, confusion matrix, classes, thresholds and curves."""

from typing import Any, TypeAlias

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_curve

from widemargin.fitted import Fitted, Measured
from widemargin.metrics import ndcg
from widemargin.report.calibration import calibration
from widemargin.report.charts import (
    REFERENCE,
    Axis,
    Chart,
    Curve,
    heat_map,
    line_chart,
    series_class,
)
from widemargin.report.confusion import Confusion
from widemargin.report.decisions import decisions
from widemargin.report.forecasts import forecast_charts
from widemargin.report.intervals import LEVEL, Interval, intervals
from widemargin.report.measures import (
    Forecast,
    Judged,
    Measures,
    as_text,
    if_defined,
    measure,
    name_of,
    rounded,
)
from widemargin.report.progress import MOST_CURVES
from widemargin.report.scales import Scale, linear, logarithmic
from widemargin.words import count

#: with more classes, the page shows curves on demand and sorts classes by F1
FEW_CLASSES = 10
# With more classes, the cells of the confusion matrix would be too small to see.
_MAX_MATRIX_CLASSES = 300
_MAX_CLASSES = 1000
_MAX_ERRORS = 15
_DEPTHS = (1, 2, 3, 5, 10, 20, 50)
_UNIT = Scale(0.0, 1.0)
#: positive class, mask of positive rows, scores
BinaryProblem: TypeAlias = tuple[str, np.ndarray, np.ndarray]


def quality(model: Fitted, judged: Judged | Forecast) -> dict[str, Any]:
    """Return what the template shows of a model's predictions.

    Parameters
    ----------
    model : fitted estimator
    judged : Judged or Forecast
    """
    measures, found = measure(model, judged), intervals(model, judged)
    own = [model.measure] if isinstance(model, Measured) else []
    if isinstance(judged, Judged) and own and judged.qid is not None:
        found.pop(own[0], None)  # of all rows, and the measure is a mean over groups
    shown: dict[str, Any] = {
        "headline": _headline(judged, measures, found, own),
        "measures": _tiles(measures, found),
        "level": f"{100 * LEVEL:g} %",
        "positive": None,
        "curves": [],
        "calibration": None,
        "decisions": None,
        "matrix": None,
        "classes": None,
        "errors": [],
        "many": False,
        "unknown": None,
        "n_rows": count(judged.true.size, "row"),
    }
    if isinstance(judged, Forecast):
        made, shown["curves"] = "the normal approximation", forecast_charts(judged)
    else:
        by_groups = judged.predicted is None and "ndcg_at_10" in found
        made = f"the bootstrap over {'groups' if by_groups else 'rows'}"
        if judged.positive is not None:
            made += "; of the ROC AUC, by DeLong's method"
        _add_labels(shown, judged)
    return shown | {"intervals": made}


def _add_labels(shown: dict[str, Any], judged: Judged) -> None:
    """Add what the template shows of labels and of a ranking."""
    n_unknown = int(np.isin(judged.true, judged.known, invert=True).sum())
    problems = _binary_problems(judged)
    areas = {name: _roc_area(positive, scores) for name, positive, scores in problems}
    shown["positive"] = judged.positive_name
    shown["curves"] = _curves(problems, areas) if problems else _ndcg_by_depth(judged)
    shown["many"] = len(judged.names) > FEW_CLASSES
    shown["unknown"] = count(n_unknown, "row") if n_unknown and judged.known.size else None
    if judged.predicted is not None:
        confusion = Confusion.of(judged)
        shown["calibration"] = calibration(judged)
        shown["classes"] = _classes(confusion, judged.names, areas)
        if len(judged.names) <= _MAX_MATRIX_CLASSES:
            shown["matrix"] = _confusion_matrix(confusion, judged.names)
        if shown["many"]:
            shown["errors"] = _most_frequent_errors(confusion, judged.names)
        if judged.positive is not None and judged.positive_name is not None:
            shown["decisions"] = decisions(judged.positive, judged.scores, judged.positive_name)


# The first of these that is defined is the headline.
_SPEAKING = (
    "fraction_below",
    "r2",
    "mean_absolute_error",
    "accuracy",
    "ndcg_at_10",
    "pairwise_accuracy",
    "roc_area",
)
_IN_PERCENT = ("accuracy", "fraction_below")


def _headline(
    judged: Judged | Forecast, measures: Measures, found: dict[str, Interval], own: list[str]
) -> dict[str, str | None]:
    """Return the metric that speaks for the model, its interval, and what guessing reaches.

    If the model was trained for one, it is that: `own`.
    """
    for key in (*own, *_SPEAKING):
        value = measures.get(key)
        if value is None:
            continue
        name, ends = name_of(key), found.get(key, ())
        return {
            "title": f"{name[0].upper()}{name[1:]} {_in_words(key, value)}",
            "interval": " to ".join(_in_words(key, end) for end in ends) or None,
            "baseline": _baseline(judged, key),
        }
    return {"title": "No metric is defined for these rows", "interval": None, "baseline": None}


def _in_words(key: str, value: float) -> str:
    """Format with as many digits as keep a value below 1 apart from 1."""
    scale, decimals, unit = (100.0, 1, "\N{NO-BREAK SPACE}%") if key in _IN_PERCENT else (1, 3, "")
    while value < 1.0 and float(f"{scale * value:.{decimals}f}") == scale:
        decimals += 1
    return f"{scale * value:.{decimals}f}{unit}"


def _baseline(judged: Judged | Forecast, key: str) -> str | None:
    """Say what a constant prediction, or a random order, would reach."""
    if isinstance(judged, Forecast):
        if key == "fraction_below" and judged.quantile is not None:
            return f"Asked for: {_in_words(key, judged.quantile)}"
        return f"Predicting the mean of these rows for every row: {_in_words(key, 0.0)}"
    if key == "accuracy":
        most = float(np.bincount(judged.true).max()) / judged.true.size
        return f"Predicting the most frequent class for every row: {_in_words(key, most)}"
    if key == "mean_absolute_error":
        middle = np.sort(judged.true)[judged.true.size // 2]
        error = float(np.abs(judged.true - middle).mean())
        return f"Predicting the middle class for every row: {_in_words(key, error)}"
    if key in ("pairwise_accuracy", "roc_area"):
        return f"A random order: {_in_words(key, 0.5)}"
    return None


def _tiles(measures: Measures, found: dict[str, Interval]) -> list[tuple[str, str, str]]:
    """Return (name, value, interval) of each metric as text."""
    texts = as_text(measures)
    ends = {
        name_of(key): f"{rounded(interval.low, 3)} to {rounded(interval.high, 3)}"
        for key, interval in found.items()
    }
    return [(name, text, ends.get(name, "")) for name, text in texts.items()]


def _binary_problems(judged: Judged) -> list[BinaryProblem]:
    """Return (positive class, mask of positive rows, scores), one versus rest.

    Classes without positive or without negative rows are left out: they have no ROC curve.
    """
    if judged.positive is not None:
        assert judged.positive_name is not None
        problems = [(judged.positive_name, judged.positive, judged.scores)]
    elif judged.scores.ndim == 2:
        problems = [
            (judged.names[place], judged.true == place, judged.scores[:, j])
            for j, place in enumerate(judged.known)
        ]
    else:
        return []
    return [problem for problem in problems if 0 < problem[1].sum() < problem[1].size]


def _curves(problems: list[BinaryProblem], areas: dict[str, float]) -> list[Chart]:
    """Return ROC and precision-recall curves, lowest ROC AUC first."""
    hardest = np.argsort(list(areas.values()), kind="stable")[:MOST_CURVES]
    several = len(problems) > 1
    roc_curves, pr_curves, averages = [], [], []
    for number, place in enumerate(hardest):
        name, positive, scores = problems[place]
        style = series_class(number)
        averages.append(average_precision_score(positive, scores))
        fpr, tpr, _ = roc_curve(positive, scores)
        precision, recall, _ = precision_recall_curve(positive, scores, drop_intermediate=True)
        legends = [
            f"{name}, {value:.4f}" if several else "" for value in (areas[name], averages[-1])
        ]
        roc_curves.append(Curve(fpr, tpr, legends[0], style))
        pr_curves.append(Curve(recall[::-1], precision[::-1], legends[1], style))
    if not several:
        note = f"Positive class: {problems[0][0]}."
    elif len(problems) > len(hardest):
        note = (
            f"One versus rest, the {len(hardest)} of {len(problems)} classes with the lowest "
            "ROC AUC."
        )
    else:
        note = "One versus rest, lowest first."
    chance = Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "chance", REFERENCE)
    area = _span("ROC AUC", [areas[problems[place][0]] for place in hardest])
    average = _span("Average precision", averages)
    return [
        line_chart(
            "ROC curves" if several else "ROC curve",
            [chance, *roc_curves],
            Axis(_UNIT, "false positive rate"),
            Axis(_UNIT, "true positive rate"),
            summary=area,
            note=f"{note} {area}",
        ),
        line_chart(
            "Precision-recall curves" if several else "Precision-recall curve",
            pr_curves,
            Axis(_UNIT, "recall"),
            Axis(_UNIT, "precision"),
            summary=average,
            note=f"{note} {average}",
        ),
    ]


def _roc_area(positive: np.ndarray, scores: np.ndarray) -> float:
    """Return the ROC AUC by one sort, since there may be thousands of classes."""
    n_positive = int(positive.sum())
    rank_sum = rankdata(scores)[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(rank_sum / n_positive / (positive.size - n_positive))


def _span(what: str, values: list[float]) -> str:
    if len(values) == 1:
        return f"{what} {values[0]:.4f}."
    return f"{what} from {min(values):.4f} to {max(values):.4f}."


def _ndcg_by_depth(judged: Judged) -> list[Chart]:
    """Return NDCG@k for several k, for a ranking whose grades define it."""
    if judged.predicted is not None:
        return []
    grades = judged.labels[judged.true]
    values = [if_defined(ndcg, grades, judged.scores, judged.qid, k) for k in _DEPTHS]
    if values[0] is None:
        return []
    depths, gains = np.array(_DEPTHS, dtype=float), np.array(values, dtype=float)
    return [
        line_chart(
            "NDCG@k",
            [Curve(depths, gains, "", "s1", lambda k, value: f"NDCG@{k:.0f}: {value:.4f}")],
            Axis(logarithmic(depths), "k"),
            Axis(linear(gains, high=1.0), "NDCG@k, mean over groups"),
            summary=f"From {gains[0]:.4f} at k = 1 to {gains[-1]:.4f} at k = {_DEPTHS[-1]}.",
            note="Gain of a row: 2^grade - 1.",
        )
    ]


def _confusion_matrix(confusion: Confusion, names: list[str]) -> Chart:
    correct, n_rows = int(confusion.n_correct.sum()), int(confusion.counts.sum())
    return heat_map(
        "Confusion matrix",
        confusion.dense(),
        names,
        summary=f"{correct:,} of {n_rows:,} rows are classified correctly.",
        note="Rows: true class. Columns: predicted class.",
    )


def _classes(confusion: Confusion, names: list[str], areas: dict[str, float]) -> dict[str, Any]:
    """Return metrics and support by class, lowest F1 first if there are many.

    Each class has a ROC AUC of its own if there are more than two.
    """
    order = np.arange(len(names))
    if len(names) > FEW_CLASSES:
        # Classes without rows say nothing about the model: last.
        order = np.lexsort((confusion.f1, confusion.support == 0))
    taken_for: dict[int, str] = {}
    for cell in confusion.errors():
        wrong = f"{names[confusion.predicted[cell]]} ({confusion.counts[cell]:,})"
        taken_for.setdefault(int(confusion.true[cell]), wrong)
    columns = {"Precision": confusion.precision, "Recall": confusion.recall, "F1": confusion.f1}
    if len(areas) > 1:
        columns["ROC AUC"] = np.array([areas.get(name, np.nan) for name in names])
    return {
        "columns": list(columns),
        "rows": [
            {
                "name": names[place],
                "numbers": [_sortable(values[place]) for values in columns.values()],
                "support": f"{confusion.support[place]:,}",
                "n_predicted": f"{confusion.n_predicted[place]:,}",
                "taken_for": taken_for.get(place, ""),
            }
            for place in order[:_MAX_CLASSES].tolist()
        ],
        "n_left_out": max(0, len(names) - _MAX_CLASSES),
    }


def _sortable(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4f}"


def _most_frequent_errors(confusion: Confusion, names: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "true": names[confusion.true[cell]],
            "predicted": names[confusion.predicted[cell]],
            "count": f"{confusion.counts[cell]:,}",
            "support": f"{confusion.support[confusion.true[cell]]:,}",
        }
        for cell in confusion.errors()[:_MAX_ERRORS]
    ]
