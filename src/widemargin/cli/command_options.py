"""Options that only one command has: `tune`, `audit`, `convert` and `predict`."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from widemargin.cli.options import positive


class FormatName(StrEnum):
    """File format of rows on disk."""

    arrow = "arrow"
    parquet = "parquet"


def _costs(text: str) -> "int | list[float]":
    """Parse the number of values of C, or a list of values."""
    try:
        if text.strip().isdigit():
            count = int(text)
            if count == 0:
                raise typer.BadParameter("There must be at least one value of C.")
            return count
        values = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        raise typer.BadParameter(
            f"{text!r} is neither a whole number nor a list of numbers such as 0.1,1,10."
        )
    for value in values:
        positive(value)
    return values


# Of `tune`.
Costs = Annotated[
    Any,  # int or list[float]
    typer.Option(
        "--Cs",
        parser=_costs,
        metavar="N or LIST",
        help="Values of C to try: how many from 0.001 to 1000, or a list such as 0.1,1,10.",
    ),
]
Folds = Annotated[
    int,
    typer.Option(
        min=2,
        metavar="N",
        help="Number of cross-validation folds; rows of one group (qid) stay in one fold.",
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Score to maximise. classify: a scorer of scikit-learn, such as accuracy (the "
        "default), balanced_accuracy, f1, f1_macro, roc_auc or average_precision. rank: "
        "pairwise_accuracy (the default), ndcg or mean_average_precision. ordinal: "
        "neg_mean_absolute_error (the default), accuracy or pairwise_accuracy. roc: roc_auc. "
        "regress: r2 (the default), neg_mean_absolute_error, neg_root_mean_squared_error or "
        "neg_mean_pinball_loss (the default with --loss pinball). Measures: themselves.",
    ),
]
BestOut = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="MODEL",
        help="File to write the model of the best C to; - is standard output.",
    ),
]
Plot = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Plot score against C: a .png, .svg or .pdf file to write."),
]
AllTime = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        callback=positive,
        metavar="SECONDS",
        help="Stop the whole search after this time, without compilation.",
    ),
]

# Of `audit`.
GivenCost = Annotated[
    float | None,
    typer.Option(
        "-C",
        callback=positive,
        metavar="NUMBER",
        help="C of the training, which LIBLINEAR's model files do not hold.",
    ),
]
GivenEpsilon = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="NUMBER", help="regression: epsilon (-p) of the training."),
]
Polish = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Write the model that training from there until --tol finds; - is standard output.",
    ),
]

# Of `convert`.
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="svmlight text (label [qid:N] index:value ...), plain or compressed; - is "
        "standard input.",
    ),
]
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="New or empty folder to write to.")]
Format = Annotated[
    FormatName,
    typer.Option(help="arrow is faster to read; parquet is read by more programs."),
]

# Of `predict`.
PredictionsOut = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="File to write to instead of standard output."),
]
Scores = Annotated[bool, typer.Option("--scores", help="Also write the scores of each row.")]
Probabilities = Annotated[
    bool,
    typer.Option("--probability", help="Also write the probability of each class."),
]
