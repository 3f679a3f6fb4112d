"""Render the report: one self-contained HTML file, which a notebook can show as well."""

import base64
import datetime
import hashlib
import html
import os
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from sklearn.base import is_regressor

from widemargin.atomic import atomic_write
from widemargin.fitted import Classifier, Fitted, Named, Ordinal, class_names
from widemargin.report import details
from widemargin.report.measures import JudgedRows
from widemargin.report.progress import search, training
from widemargin.report.proof import proof
from widemargin.report.quality import quality
from widemargin.report.weights import FeatureNames, NamesOfFeatures, weights
from widemargin.words import shape_in_words

# Height of a report in a notebook, which can be dragged.
_NOTEBOOK_HEIGHT = 640


class Report:
    """A report on a fitted model.

    As the last expression of a notebook's cell, it shows itself.

    Attributes
    ----------
    html : str
        The page.
    summary : str
        What it says, in one line.
    """

    def __init__(self, html: str, summary: str):
        self.html = html
        self.summary = summary

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file. An existing file is replaced atomically."""
        with atomic_write(path) as file:
            file.write(self.html.encode())

    def __repr__(self) -> str:
        return f"<Report: {self.summary}>"

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, so that no styles mix."""
        return (
            f'<iframe title="{html.escape(self.summary)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {_NOTEBOOK_HEIGHT}px; border: 0; resize: vertical" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def write_report(
    model: Fitted,
    path: str | os.PathLike[str] | None,
    rows: JudgedRows | None = None,
    *,
    feature_names: NamesOfFeatures = None,
    first_feature: int = 0,
    command: str | None = None,
    data_name: str | None = None,
) -> Report:
    """Make a report on a fitted model.

    Parameters
    ----------
    model : fitted LinearSVC, LinearSVCCV, LinearSVR, LinearRanker or OrdinalSVC
    path : path-like or None
        Output file. An existing file is replaced atomically. None writes no file.
    rows : JudgedRows or None
        Rows to evaluate the model on. None leaves out the section on predictions.
    feature_names : mapping from name to column, sequence of n_features names, or None
        None takes the names the model was trained with, or else numbers the features.
    first_feature : int
        Number of the first feature, if features have no names.
    command : str or None
        Command that reproduces the report. None shows Python code instead.
    data_name : str or None
        Name of the data.
    """
    code = details.code(model, rows, path, feature_names is not None)
    if feature_names is None and isinstance(model, Named):
        feature_names = model.feature_names_in_
    names = FeatureNames(feature_names, model.n_features_in_, first_feature)
    script = files("widemargin.report").joinpath("templates/page.js").read_text("utf-8")
    about = _about(model, rows)
    page = _template().render(
        about,
        data_name=data_name,
        rows=rows,
        weights=weights(model, names),
        command=command,
        code=code,
        script=script,
        script_hash=_hash(script),
    )
    # File names may contain bytes that are not UTF-8.
    page = page.encode("utf-8", "backslashreplace").decode()
    report = Report(page, f"{about['kind']}, {about['title']}; {model.certificate_}")
    if path is not None:
        report.save(path)
    return report


def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("widemargin.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _hash(script: str) -> str:
    """Return what the page's security policy knows the script by: no other one may run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _whole_kind(model: Fitted) -> str:
    """Return what the lower bound is about: all models of this kind."""
    if is_regressor(model):
        return "linear function"
    separates = isinstance(model, Classifier) and not isinstance(model, Ordinal)
    return "linear classifier" if separates else "linear ranking"


def _about(model: Fitted, rows: JudgedRows | None) -> dict[str, Any]:
    """Return what the template shows of the model itself and of its training."""
    n_classes = len(class_names(model)) or None
    shown_quality = None if rows is None else quality(model, rows.judged)
    shown_search, shown_proof = search(model), proof(model)
    title = shown_proof["headline"]
    if shown_quality is not None:
        title = shown_quality["headline"]["title"]
    elif shown_search is not None:
        title = shown_search["headline"]
    return {
        "kind": type(model).__name__,
        "title": title,
        "size": shape_in_words(details.n_rows(model), model.n_features_in_, n_classes),
        "proof": shown_proof,
        "training": training(model),
        "search": shown_search,
        "quality": shown_quality,
        "repeatable": model.get_params(deep=False).get("random_state", 0) is not None,
        "facts": details.facts(model),
        "parameters": details.parameters(model),
        "versions": details.versions(),
        "ordinal": isinstance(model, Ordinal),
        "regresses": is_regressor(model),
        "whole_kind": _whole_kind(model),
        "date": datetime.datetime.now(datetime.UTC).strftime("%d %B %Y").lstrip("0"),
    }
