"""The arguments and options of the commands, with the checks that need nothing but a value."""

import math
from enum import StrEnum
from typing import Annotated

import typer


class LossName(StrEnum):
    """What a row on the wrong side of its margin costs."""

    hinge = "hinge"
    squared_hinge = "squared_hinge"


class SolverName(StrEnum):
    """How the optimum is approached."""

    auto = "auto"
    dcd = "dcd"
    acf = "acf"
    cpa = "cpa"
    ocas = "ocas"
    gca = "gca"
    gca2 = "gca2"
    tca = "tca"


class MultiClassName(StrEnum):
    """How more than two classes are told apart."""

    ovr = "ovr"
    crammer_singer = "crammer_singer"


class ClassWeightName(StrEnum):
    """How classes are weighed against each other."""

    balanced = "balanced"


def _positive(value: float | None) -> float | None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"{value:g} is not a positive number.")
    return value


def _not_zero(value: int | None) -> int | None:
    if value == 0:
        raise typer.BadParameter("0 threads cannot train; -1 means one per core.")
    return value


def _version(wanted: bool) -> None:
    if wanted:
        from widemargin import __version__

        typer.echo(f"widemargin {__version__}")
        raise typer.Exit


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="svmlight text (label index:value ...), plain or compressed; - for standard input.",
    ),
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model that `widemargin train` wrote.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
]

# Of `train`.
Out = Annotated[str, typer.Option("--out", metavar="MODEL", help="Where to write the model.")]
Cost = Annotated[
    float,
    typer.Option(
        "-C",
        callback=_positive,
        metavar="NUMBER",
        help="Cost of errors: larger fits the rows closer, smaller keeps the margin wider.",
    ),
]
Loss = Annotated[LossName, typer.Option(help="How a row inside or beyond its margin counts.")]
MultiClass = Annotated[
    MultiClassName,
    typer.Option(help="One class against the rest, or all in one problem (with the hinge loss)."),
]
Solver = Annotated[SolverName, typer.Option(help="auto chooses by the shape of the data and C.")]
Tol = Annotated[
    float,
    typer.Option(
        callback=_positive, metavar="NUMBER", help="Stop at this proved relative duality gap."
    ),
]
MaxIter = Annotated[
    int, typer.Option(min=1, metavar="N", help="Stop after this many passes over the rows.")
]
MaxTime = Annotated[
    float | None,
    typer.Option(callback=_positive, metavar="SECONDS", help="Stop after this time."),
]
NoIntercept = Annotated[
    bool, typer.Option("--no-intercept", help="Fit a plane through the origin.")
]
PenalizedIntercept = Annotated[
    bool,
    typer.Option(
        "--penalized-intercept",
        help="Pull the intercept towards 0 like a weight, as LIBLINEAR and scikit-learn do.",
    ),
]
ClassWeight = Annotated[
    ClassWeightName | None,
    typer.Option(help="balanced: errors in rare classes cost more, in frequent ones less."),
]
NJobs = Annotated[
    int | None,
    typer.Option(
        callback=_not_zero, metavar="N", help="Threads; -1 for one per core.  [default: 1]"
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0, max=2**32 - 1, metavar="N", help="The same seed and data give the same model."
    ),
]
Liblinear = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Also write the model as LIBLINEAR's text."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but warnings and errors.")]

# Of `predict`.
LabelsOut = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="Write to a file instead of standard output."),
]
Scores = Annotated[
    bool, typer.Option("--scores", help="Write the decision values behind each label too.")
]
