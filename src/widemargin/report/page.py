"""Render the report: one self-contained HTML file."""

import ast
import datetime
import importlib.metadata
import os
import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

import widemargin
from widemargin.atomic import atomic_write
from widemargin.curves import iteration_unit
from widemargin.fitted import (
    Classifier,
    Fitted,
    Named,
    Ordering,
    Ordinal,
    Separating,
    class_names,
)
from widemargin.report.measures import Judged
from widemargin.report.progress import search, training
from widemargin.report.proof import proof
from widemargin.report.quality import quality
from widemargin.report.weights import FeatureNames, NamesOfFeatures, weights
from widemargin.words import duration, shape_in_words

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class JudgedRows:
    """Rows that the metrics and curves of a report are computed on.

    Attributes
    ----------
    judged : Judged
    origin : str
        Where the rows come from, as text.
    trained_on : bool
        Whether the model was trained on them.
    """

    judged: Judged
    origin: str = "the rows that were passed in"
    trained_on: bool = False


def write_report(
    model: Fitted,
    path: str | os.PathLike[str],
    rows: JudgedRows | None = None,
    *,
    feature_names: NamesOfFeatures = None,
    first_feature: int = 0,
    command: str | None = None,
    data_name: str | None = None,
) -> None:
    """Write a report on a fitted model.

    Parameters
    ----------
    model : fitted LinearSVC, LinearSVCCV, LinearRanker or OrdinalSVC
    path : path-like
        Output file. An existing file is replaced atomically.
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
    code = _code(model, rows, path, feature_names is not None)
    if feature_names is None and isinstance(model, Named):
        feature_names = model.feature_names_in_
    names = FeatureNames(feature_names, model.n_features_in_, first_feature)
    page = _template().render(
        data_name=data_name,
        rows=rows,
        quality=None if rows is None else quality(model, rows.judged),
        weights=weights(model, names),
        command=command,
        code=code,
        **_about(model),
    )
    with atomic_write(path) as file:
        # File names may contain bytes that are not UTF-8.
        file.write(page.encode("utf-8", "backslashreplace"))


def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("widemargin.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _about(model: Fitted) -> dict[str, Any]:
    """Return what the template shows of the model itself and of its training."""
    n_classes = len(class_names(model)) or None
    return {
        "kind": type(model).__name__,
        "size": shape_in_words(_n_rows(model), model.n_features_in_, n_classes),
        "proof": proof(model),
        "training": training(model),
        "search": search(model),
        "repeatable": model.get_params(deep=False).get("random_state", 0) is not None,
        "facts": _facts(model),
        "parameters": _parameters(model),
        "versions": _versions(),
        "ordinal": isinstance(model, Ordinal),
        "ranks": not isinstance(model, Classifier),
        "date": datetime.datetime.now(datetime.UTC).strftime("%d %B %Y").lstrip("0"),
    }


def _facts(model: Fitted) -> dict[str, str]:
    """Return the size of the problem and the work done."""
    facts = {"rows": f"{_n_rows(model):,}", "features": f"{model.n_features_in_:,}"}
    if isinstance(model, Classifier):
        facts["classes"] = f"{len(model.classes_):,}"
    if isinstance(model, Ordering):
        facts["pairs"] = f"{model.n_pairs_:,}"
    facts["solver"] = model.solver_
    passes = iteration_unit(model) == "pass"
    facts["passes over the rows" if passes else "iterations"] = f"{model.n_iter_:,}"
    history = model.history_
    if history:
        facts["duality gap checks"] = f"{len(history):,}"
        ends = {record.problem: record for record in history}.values()
        n_reads = max(record.disk_passes for record in history)  # summed over problems
        if n_reads:
            facts["passes over the disk"] = f"{n_reads:,}"
        facts["time until the last check"] = duration(max(end.time for end in ends))
    return facts


def _n_rows(model: Fitted) -> int:
    if isinstance(model, Separating):
        return model.dual_variables_.shape[1]
    assert isinstance(model, Ordering)
    return model.n_samples_fit_


def _parameters(model: Fitted) -> list[tuple[str, str, bool]]:
    """Return (name, value, whether it differs from the default) of each parameter."""
    defaults = type(model)().get_params(deep=False)
    return [
        (name, _shortened(repr(value)), not _same(value, defaults[name]))
        for name, value in model.get_params(deep=False).items()
        if name != "verbose"  # does not change the model
    ]


def _code(
    model: Fitted, rows: JudgedRows | None, path: str | os.PathLike[str], named: bool
) -> str:
    """Return Python code that trains the model and writes the report."""
    kind = type(model).__name__
    values = model.get_params(deep=False)
    arguments = ", ".join(
        f"{name}={_as_code(name, values[name])}" for name, _, given in _parameters(model) if given
    )
    data = ["X", "y"]
    if rows is not None and rows.judged.qid is not None:
        data.append("qid=qid")
    shown = [repr(os.fspath(path)), *(data if rows is not None else [])]
    if named:
        shown.append("feature_names=feature_names")
    return (
        f"from widemargin import {kind}\n\n"
        f"model = {kind}({arguments})\n"
        f"model.fit({', '.join(data)})\n"
        f"model.report({', '.join(shown)})"
    )


def _as_code(name: str, value: Any) -> str:
    """Return a parameter's value as a Python literal, or its name if it has none."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name
    return text


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _versions() -> str:
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES]
    system = f"{platform.system()} {platform.machine()}"
    own = f"widemargin {widemargin.__version__}"
    return ", ".join([own, f"Python {platform.python_version()}", *libraries, system])
