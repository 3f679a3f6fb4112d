"""`widemargin evaluate`: measures of a model on labelled rows, of single classes too."""

from typing import Any

import numpy as np
import typer
from sklearn.base import is_outlier_detector
from sklearn.metrics import precision_recall_fscore_support

from widemargin.cli import reporting
from widemargin.cli.errors import BadInput, complain, reading, shown
from widemargin.cli.inputs import read_model, read_rows
from widemargin.cli.table_options import TableOptions
from widemargin.fitted import Classifier
from widemargin.labels import whole_labels
from widemargin.report.measures import Forecast, Judged, as_text, judge, measure
from widemargin.words import count, listed

__all__ = ["as_columns", "as_text", "by_class", "check_labels", "evaluate_rows"]


def evaluate_rows(context: typer.Context) -> tuple[dict[str, float | None], Judged | Forecast]:
    """Return the measures of a model on the rows of a command; write a report if it asks so."""
    given = context.params
    name, data, report = given["model"], given["data"], given["report"]
    loaded = read_model(name)
    model = loaded.model
    if report is not None and not loaded.certified:
        raise BadInput(f"--report: {name} is LIBLINEAR's, and has no certificate to report")
    if is_outlier_detector(model):
        raise BadInput(f"{name}: a one-class model knows no labels to be measured by; see predict")
    rows = read_rows(data, loaded, TableOptions.of(context), labelled=True)
    if isinstance(model, Classifier):
        with reading(data[0]):
            problem = check_labels(rows.y, model.classes_)
        if problem:
            complain(f"warning: {shown(data[0])}: {problem}")
    names = reporting.read_names(given["feature_names"], loaded.names, model.n_features_in_)
    with reading(data[0]):
        judged = judge(model, rows.X, rows.y, rows.qid)
    if report is not None:
        reporting.write_judged(context, model, judged, report, names, trained_on=False)
    return measure(model, judged), judged


def check_labels(y: np.ndarray, classes: np.ndarray) -> str:
    """Return a warning about labels unknown to the model, or "".

    Raises
    ------
    ValueError
        No row has a label that the model knows.
    """
    if classes.dtype.kind not in "iufb" and y.dtype.kind in "iuf":
        raise ValueError("its labels are numbers, as always in svmlight text; the model's are not")
    if classes.dtype.kind in "iufb" and y.dtype.kind not in "iufb":
        raise ValueError(f"its labels are text, such as {str(y[0])!r}; the model's are numbers")
    unknown = np.setdiff1d(y, classes)
    n_unknown = int(np.isin(y, unknown).sum())
    if n_unknown == len(y):
        raise ValueError(
            f"the model knows none of its labels ({listed(unknown.tolist())}), only "
            f"{listed(classes.tolist())}"
        )
    if n_unknown:
        rows, labels = count(n_unknown, "row"), listed(unknown.tolist())
        return f"{rows} with labels unknown to the model ({labels}), counted as errors"
    return ""


def by_class(judged: Judged | Forecast) -> list[dict[str, Any]]:
    """Return precision, recall, F1 and support of each class; nothing without classes."""
    if isinstance(judged, Forecast) or judged.predicted is None:
        return []
    places = np.arange(judged.labels.size)
    labels = whole_labels(judged.labels).tolist()
    measures = precision_recall_fscore_support(
        judged.true, judged.predicted, labels=places, zero_division=np.nan
    )
    return [
        {
            "label": label,
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "support": int(support),
        }
        for label, precision, recall, f1, support in zip(labels, *measures)
    ]


def as_columns(classes: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the measures of classes as columns of text."""
    columns = {"class": [str(one["label"]) for one in classes]}
    for name in ("precision", "recall", "f1"):
        values = (one[name] for one in classes)
        columns[name] = ["" if np.isnan(value) else f"{value:.4f}" for value in values]
    columns["support"] = [f"{one['support']:,}" for one in classes]
    return columns
