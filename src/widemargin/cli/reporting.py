"""The page that `--report` writes."""

import os

import typer

from widemargin.cli.errors import BadInput, naming, reading, shown
from widemargin.cli.inputs import Data
from widemargin.cli.options import command_line
from widemargin.data.formats import TEXT, format_of
from widemargin.report import JudgedRows, write_report
from widemargin.report.measures import Judged, judge


def read_names(path: str | None, n_features: int) -> list[str] | None:
    """Return the names of the features, from a file with one on each line; None without one.

    It may name more than there are: a file of rows ends at the last feature that occurs in it.
    """
    if path is None:
        return None
    with naming(path):
        try:
            with open(path, encoding="utf-8") as file:
                names = file.read().splitlines()
        except UnicodeDecodeError as error:
            raise BadInput(f"{path}: not UTF-8 text") from error
    if len(names) < n_features:
        raise BadInput(f"{path}: {len(names):,} names, and there are {n_features:,} features")
    return names[:n_features]


def write(context: typer.Context, model, rows: Data, path: str, names: list[str] | None) -> None:
    """Write the page about a model that a command has just trained on rows."""
    with reading(context.params["data"]):
        judged = judge(model, rows.X, rows.y, rows.qid)
    write_judged(context, model, judged, path, names, trained_on=True)


def write_judged(
    context: typer.Context,
    model,
    judged: Judged,
    path: str,
    names: list[str] | None,
    *,
    trained_on: bool,
) -> None:
    """Write the page about a model and the rows that a command was given.

    Parameters
    ----------
    context : of a command with the parameter `data`
    judged : Judged
        Those rows.
    names : list of str or None
        Of the features; None numbers them as the rows do: svmlight text from 1, others from 0.
    trained_on : bool
        Whether the model was trained on them.
    """
    data = context.params["data"]
    with naming(path):
        write_report(
            model,
            path,
            JudgedRows(judged, shown(data), trained_on),
            feature_names=names,
            first_feature=1 if _is_text(data) else 0,
            command=command_line(context),
            data_name=shown(data) if trained_on else shown(context.params["model"]),
        )


def _is_text(data: str) -> bool:
    return data == "-" or (os.path.isfile(data) and format_of(data) == TEXT)
