"""Options for tables."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated

import typer

from widemargin.cli.given import given_options

_PANEL = "Tables"


class TextEncodingName(StrEnum):
    """Features of text."""

    tfidf = "tfidf"
    hash = "hash"


def _column(option: str, words: str) -> typer.models.OptionInfo:
    return typer.Option(option, metavar="COLUMN", rich_help_panel=_PANEL, help=words)


Target = Annotated[str | None, _column("--target", "tables: column to predict.")]
Drop = Annotated[list[str] | None, _column("--drop", "tables: column to leave out; repeatable.")]
Categorical = Annotated[
    list[str] | None,
    _column("--categorical", "tables: column of numbers that are categories; repeatable."),
]
Text = Annotated[list[str] | None, _column("--text", "tables: column of text; repeatable.")]
TextEncoding = Annotated[
    TextEncodingName,
    typer.Option(
        help="tables: text as words by TF-IDF, or as hashed words, which need no vocabulary."
    ),
]
Ngrams = Annotated[
    int, typer.Option(min=1, metavar="N", help="tables: text as runs of up to N words.")
]
MinCount = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="tables: categories that fewer rows have are rare."),
]
Group = Annotated[str | None, _column("--group", "tables: column that names a row's group.")]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight",
        metavar="COLUMN or FILE",
        help="Weights of the rows: a column of the table; for svmlight text a file with one "
        "number per line.",
    ),
]
Scale = Annotated[
    bool | None,
    typer.Option(
        "--scale/--no-scale",
        help="Standardise numbers of tables (the default); divide features of svmlight text by "
        "their standard deviation (not the default). The model keeps the scales.",
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option(
        "--no-header", help="CSV: the first line is data; the columns are named 1, 2, 3, ..."
    ),
]
Encoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="CSV: encoding of the text.")
]


@dataclass(frozen=True)
class TableOptions:
    """The options of a command that say what is in a table, by the names of its parameters."""

    target: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    text_encoding: str = "tfidf"
    ngrams: int = 1
    min_count: int = 2
    group: str | None = None
    weight: str | None = None
    scale: bool | None = None
    no_header: bool = False
    encoding: str = "utf-8"
    memory_budget: str | None = None

    @classmethod
    def of(cls, context: typer.Context) -> "TableOptions":
        """Return the options of a command; those that it does not have are at their defaults."""
        given = {
            field.name: context.params.get(field.name, field.default) for field in fields(cls)
        }
        for name in ("drop", "categorical", "text"):
            given[name] = tuple(given[name] or ())
        given["text_encoding"] = str(given["text_encoding"])
        return cls(**given)


#: options that go with tables only
FOR_TABLES = (
    "drop",
    "categorical",
    "text",
    "text_encoding",
    "ngrams",
    "min_count",
    "group",
    "no_header",
    "encoding",
)


def given_for_tables(context: typer.Context) -> list[str]:
    """Return the options for tables that were given, as words."""
    return given_options(context, FOR_TABLES)
