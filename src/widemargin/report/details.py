"""How to train a model again: size of the data, work, parameters, code, versions."""

import ast
import importlib.metadata
import os
import platform
from typing import Any

import numpy as np

import widemargin
from widemargin.curves import iteration_unit, iterations
from widemargin.fitted import Classifier, Counted, Fitted, Ordering, Separating
from widemargin.report.measures import Judged, JudgedRows
from widemargin.words import duration

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def facts(model: Fitted) -> dict[str, str]:
    """Return the size of the problem and the work done."""
    facts = {"rows": f"{n_rows(model):,}", "features": f"{model.n_features_in_:,}"}
    if isinstance(model, Classifier):
        facts["classes"] = f"{len(model.classes_):,}"
    if isinstance(model, Ordering):
        facts["pairs"] = f"{model.n_pairs_:,}"
    facts["solver"] = model.solver_
    passes = iteration_unit(model) == "pass"
    facts["passes over the rows" if passes else "iterations"] = f"{iterations(model):,}"
    history = model.history_
    if history:
        facts["duality gap checks"] = f"{len(history):,}"
        ends = {record.problem: record for record in history}.values()
        n_reads = max(record.disk_passes for record in history)  # summed over problems
        if n_reads:
            facts["passes over the disk"] = f"{n_reads:,}"
        facts["time until the last check"] = duration(max(end.time for end in ends))
    return facts


def n_rows(model: Fitted) -> int:
    if isinstance(model, Counted):
        return model.n_samples_fit_
    assert isinstance(model, Separating)
    return model.dual_variables_.shape[1]


def parameters(model: Fitted) -> list[tuple[str, str, bool]]:
    """Return (name, value, whether it differs from the default) of each parameter."""
    defaults = type(model)().get_params(deep=False)
    return [
        (name, _shortened(repr(value)), not _same(value, defaults[name]))
        for name, value in model.get_params(deep=False).items()
        if name != "verbose"  # does not change the model
    ]


def code(
    model: Fitted, rows: JudgedRows | None, path: str | os.PathLike[str] | None, named: bool
) -> str:
    """Return Python code that trains the model and writes the report."""
    kind = type(model).__name__
    values = model.get_params(deep=False)
    arguments = ", ".join(
        f"{name}={_as_code(name, values[name])}" for name, _, given in parameters(model) if given
    )
    data = ["X", "y"]
    judged = None if rows is None else rows.judged
    if isinstance(judged, Judged) and judged.qid is not None:
        data.append("qid=qid")
    shown = [] if path is None else [repr(os.fspath(path))]
    if rows is not None:
        given_path = path is not None
        shown += data if given_path else ["X=X", "y=y", *data[2:]]
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


def versions() -> str:
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES]
    system = f"{platform.system()} {platform.machine()}"
    own = f"widemargin {widemargin.__version__}"
    return ", ".join([own, f"Python {platform.python_version()}", *libraries, system])
