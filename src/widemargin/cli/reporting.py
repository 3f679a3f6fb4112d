"""The HTML report of `--report`."""

from typing import TYPE_CHECKING, Any

import typer

from widemargin.cli.errors import BadInput, naming, reading, shown
from widemargin.cli.given import command_line
from widemargin.cli.inputs import Data, is_text

if TYPE_CHECKING:
    from widemargin.report.measures import Forecast, Judged


def read_names(path: str | None, of_table: list[str] | None, n_features: int) -> list[str] | None:
    """Return feature names from a file with one name per line, else those of a table's features.

    The file may have more names than `n_features`: a data file has no features after the last one
    that occurs in it.
    """
    if path is None:
        return of_table
    with naming(path):
        try:
            with open(path, encoding="utf-8") as file:
                names = file.read().splitlines()
        except UnicodeDecodeError as error:
            raise BadInput(f"{path}: not UTF-8 text") from error
    if len(names) < n_features:
        raise BadInput(f"{path}: {len(names):,} names for {n_features:,} features")
    return names[:n_features]


def write(
    context: typer.Context, model: Any, rows: Data, path: str, names: list[str] | None
) -> None:
    """Write the report on a model that a command has trained on rows."""
    from widemargin.report.measures import judge

    with reading(context.params["data"][0]):
        judged = judge(model, rows.X, rows.y, rows.qid)
    write_judged(context, model, judged, path, names, trained_on=True)


def write_judged(
    context: typer.Context,
    model: Any,
    judged: "Judged | Forecast",
    path: str,
    names: list[str] | None,
    *,
    trained_on: bool,
) -> None:
    """Write the report on a model and the rows that a command was given.

    Parameters
    ----------
    context : Context of a command with the parameter `data`
    judged : Judged or Forecast
        Those rows.
    names : list of str or None
        Feature names. None numbers the features from 1 for svmlight text, else from 0.
    trained_on : bool
        Whether the model was trained on them.
    """
    # Imported when needed: templates take time.
    from widemargin.report import JudgedRows, write_report

    data = context.params["data"]
    name = ", ".join(map(shown, data))
    with naming(path):
        write_report(
            model,
            path,
            JudgedRows(judged, name, trained_on),
            feature_names=names,
            first_feature=1 if is_text(data) else 0,
            command=command_line(context),
            data_name=name if trained_on else shown(context.params["model"]),
        )
