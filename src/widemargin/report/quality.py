"""Metrics, ROC and precision-recall curves, NDCG and the confusion matrix of a model."""

from typing import Any, TypeAlias

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from widemargin.fitted import Fitted
from widemargin.metrics import ndcg
from widemargin.report.charts import (
    REFERENCE,
    Axis,
    Chart,
    Curve,
    heat_map,
    line_chart,
    series_class,
)
from widemargin.report.measures import Judged, as_text, if_defined, measure
from widemargin.report.progress import MOST_CURVES
from widemargin.report.scales import Scale, linear, logarithmic
from widemargin.words import count

# With more classes, a table of the most frequent errors replaces the confusion matrix.
_MAX_MATRIX_CLASSES = 30
_MAX_ERRORS = 15
_DEPTHS = (1, 2, 3, 5, 10, 20, 50)
_UNIT = Scale(0.0, 1.0)
#: positive class, mask of positive rows, scores
BinaryProblem: TypeAlias = tuple[str, np.ndarray, np.ndarray]


def quality(model: Fitted, judged: Judged) -> dict[str, Any]:
    """Return what the template shows of a model's predictions.

    Parameters
    ----------
    model : fitted estimator
    judged : Judged
    """
    charts: list[Chart] = []
    problems = _binary_problems(judged)
    if problems:
        charts += _curves(problems)
    elif judged.predicted is None:
        charts += _ndcg_by_depth(judged)
    errors = None
    if judged.predicted is not None:
        if len(judged.names) <= _MAX_MATRIX_CLASSES:
            charts.append(_confusion_matrix(judged))
        else:
            errors = _most_frequent_errors(judged)
    n_unknown = int(np.isin(judged.true, judged.known, invert=True).sum())
    return {
        "measures": as_text(measure(model, judged)),
        "positive": judged.positive_name,
        "charts": charts,
        "errors": errors,
        "unknown": count(n_unknown, "row") if n_unknown and judged.known.size else None,
        "n_rows": count(judged.true.size, "row"),
    }


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


def _curves(problems: list[BinaryProblem]) -> list[Chart]:
    """Return ROC and precision-recall curves, lowest ROC AUC first."""
    areas = [roc_auc_score(positive, scores) for _, positive, scores in problems]
    hardest = np.argsort(areas, kind="stable")[:MOST_CURVES]
    several = len(problems) > 1
    roc_curves, pr_curves, averages = [], [], []
    for number, place in enumerate(hardest):
        name, positive, scores = problems[place]
        style = series_class(number)
        averages.append(average_precision_score(positive, scores))
        fpr, tpr, _ = roc_curve(positive, scores)
        precision, recall, _ = precision_recall_curve(positive, scores, drop_intermediate=True)
        legends = [
            f"{name}, {value:.4f}" if several else "" for value in (areas[place], averages[-1])
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
    area = _span("ROC AUC", [areas[place] for place in hardest])
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


def _span(what: str, values: list[float]) -> str:
    if len(values) == 1:
        return f"{what} {values[0]:.4f}."
    return f"{what} from {min(values):.4f} to {max(values):.4f}."


def _ndcg_by_depth(judged: Judged) -> list[Chart]:
    """Return NDCG@k for several k, if it is defined for these grades."""
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


def _confusion_matrix(judged: Judged) -> Chart:
    k = len(judged.names)
    counts = np.bincount(judged.true * k + judged.predicted, minlength=k * k).reshape(k, k)
    correct = int(np.trace(counts))
    return heat_map(
        "Confusion matrix",
        counts,
        judged.names,
        summary=f"{correct:,} of {judged.true.size:,} rows are classified correctly.",
        note="Rows: true class. Columns: predicted class.",
    )


def _most_frequent_errors(judged: Judged) -> list[dict[str, Any]]:
    k = len(judged.names)
    assert judged.predicted is not None
    wrong = judged.true != judged.predicted
    pairs, counts = np.unique(judged.true[wrong] * k + judged.predicted[wrong], return_counts=True)
    support = np.bincount(judged.true, minlength=k)
    most_frequent = np.argsort(-counts, kind="stable")[:_MAX_ERRORS]
    return [
        {
            "true": judged.names[pairs[i] // k],
            "predicted": judged.names[pairs[i] % k],
            "count": f"{counts[i]:,}",
            "support": f"{support[pairs[i] // k]:,}",
        }
        for i in most_frequent
    ]
