"""The plot of `widemargin tune --plot`: score against C."""

import importlib.util
import os
from typing import Any

from widemargin import plot
from widemargin.cli.errors import BadInput
from widemargin.model_io import atomic_write

FORMATS = ("png", "svg", "pdf")


def check(path: str) -> None:
    """Refuse a file format or an installation that cannot draw the plot."""
    if _format(path) not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise BadInput(f"--plot {path}: the name must end in one of {endings}")
    if importlib.util.find_spec("matplotlib") is None:
        raise BadInput("--plot needs matplotlib: pip install 'widemargin[plot]'")


def draw(model: Any, path: str) -> None:
    """Draw the mean score of each C.

    Parameters
    ----------
    model : fitted LinearSVCCV or OrderSearch
    path : str
        With one of the endings `FORMATS`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    plot.scores(model, ax=figure.subplots())
    with atomic_write(path) as file:
        figure.savefig(file, format=_format(path), dpi=150)


def _format(path: str) -> str:
    return os.path.splitext(path)[1].lower().removeprefix(".")
