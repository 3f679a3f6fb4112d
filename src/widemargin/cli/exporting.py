"""`widemargin export`: models for other programs."""

from enum import StrEnum
from typing import Annotated

import typer

from widemargin.cli import options, output
from widemargin.cli.errors import BadInput, check_output


class ExportName(StrEnum):
    """Formats of other programs."""

    onnx = "onnx"
    liblinear = "liblinear"
    sklearn = "sklearn"
    json = "json"
    c = "c"


Format = Annotated[
    ExportName,
    typer.Option(
        help="onnx: a graph for ONNX runtimes (needs the package onnx); liblinear: LIBLINEAR's "
        "model file; sklearn: a pickle of scikit-learn's own classes, by joblib; json: weights by "
        "the names of features; c: one C function without dependencies."
    ),
]
Out = Annotated[
    str, typer.Option("--out", metavar="FILE", help="File to write; - is standard output.")
]


def export(
    model: options.Model, format: Format, out: Out = "-", json: options.Json = False
) -> None:
    """Write a model for other programs.

    A model that was trained on a table takes the columns of the table in ONNX and C: numbers,
    true and false, categories, and dates as several numbers each. ONNX and C do not take text;
    take sklearn, whose pipeline needs widemargin for its first step. LIBLINEAR takes no tables.

    \b
    Examples:
      widemargin export model.wm --format liblinear --out model.txt
      widemargin export wine.wm --format c > wine.c
      widemargin export wine.wm --format onnx --out wine.onnx
    """
    check_output(out, model, stdout=True)
    if out == "-" and json:
        raise BadInput("--json needs --out: both would write to standard output")

    from widemargin.cli.inputs import read_model
    from widemargin.model_io.exports import ExportError, exported

    loaded = read_model(model)
    try:
        data = exported(loaded.preparation, loaded.model, format.value)
    except ExportError as error:
        raise BadInput(f"{model}: {error}") from error
    output.write_file(data, out)
    if json:
        summary = {"model": model, "format": format.value, "out": out, "bytes": len(data)}
        output.print_json(summary)
