"""`widemargin predict`: labels, scores and probabilities."""

from typing import Any

import typer
from sklearn.base import is_regressor

from widemargin import LinearRanker, LinearSVC, LogisticRegression
from widemargin.cli.errors import BadInput, reading
from widemargin.cli.inputs import read_model, read_rows
from widemargin.cli.table_options import TableOptions
from widemargin.labels import whole_labels
from widemargin.report.measures import scores_of


def predict_rows(context: typer.Context) -> tuple[int, dict[str, list[Any]]]:
    """Return the number of rows, and what the options ask for, by name."""
    given = context.params
    name, scores, probability = given["model"], given["scores"], given["probability"]
    loaded = read_model(name)
    model = loaded.model
    ranks = isinstance(model, LinearRanker)
    if ranks and scores:
        raise BadInput(f"--scores: {name} ranks; it predicts scores without this option")
    if is_regressor(model) and scores:
        raise BadInput(f"--scores: {name} predicts numbers, and has no other scores")
    if probability and scores:
        raise BadInput("--probability and --scores exclude each other")
    has_own = isinstance(model, LogisticRegression)
    if probability and not (has_own or (isinstance(model, LinearSVC) and model.probability)):
        raise BadInput(f"--probability: {name} was trained without --probability")
    rows = read_rows(given["data"], loaded, TableOptions.of(context), labelled=False)
    results = {}
    with reading(given["data"][0]):  # rows on disk are read here
        if is_regressor(model):
            results["predictions"] = model.predict(rows.X).tolist()
        elif not ranks:
            results["labels"] = whole_labels(model.predict(rows.X)).tolist()
        if ranks or scores:
            results["scores"] = scores_of(model, rows.X).tolist()
        if probability:
            results["probabilities"] = model.predict_proba(rows.X).tolist()
    return rows.X.shape[0], results
