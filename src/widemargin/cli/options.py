"""The arguments and options of the commands, with the checks that need nothing but a value."""

import math
import shlex
from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from widemargin.cli.errors import BadInput
from widemargin.solvers.registry import SOLVERS, Place, RiskKind, names, only_for


class TaskName(StrEnum):
    """What a model is to learn from the labels."""

    classify = "classify"
    rank = "rank"
    ordinal = "ordinal"
    roc = "roc"


class DeviceName(StrEnum):
    """Where training happens."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"


class LossName(StrEnum):
    """What a row on the wrong side of its margin costs."""

    hinge = "hinge"
    squared_hinge = "squared_hinge"


if TYPE_CHECKING:
    SolverName = str
else:  # of names that mypy does not see
    SolverName = StrEnum("SolverName", {name: name for name in ("auto", *names())})


class MultiClassName(StrEnum):
    """How more than two classes are told apart."""

    ovr = "ovr"
    crammer_singer = "crammer_singer"


class NormalizationName(StrEnum):
    """How groups of rows are weighed against each other."""

    pairs = "pairs"
    queries = "queries"


class ClassWeightName(StrEnum):
    """How classes are weighed against each other."""

    balanced = "balanced"


def _positive(value: float | None) -> float | None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"{value:g} is not a positive number.")
    return value


def _costs(text: str) -> "int | list[float]":
    """Parse a whole number, of costs, or a list of costs."""
    try:
        if text.strip().isdigit():
            count = int(text)
            if count == 0:
                raise typer.BadParameter("0 values of C leave none to choose from.")
            return count
        values = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        raise typer.BadParameter(
            f"{text!r} is neither a whole number nor a list of numbers such as 0.1,1,10."
        )
    for value in values:
        _positive(value)
    return values


def _not_zero(value: int | None) -> int | None:
    if value == 0:
        raise typer.BadParameter("0 threads cannot train; -1 means one per core.")
    return value


def _version(wanted: bool) -> None:
    if wanted:
        from widemargin import __version__

        typer.echo(f"widemargin {__version__}")
        raise typer.Exit


def check_device(device: DeviceName) -> None:
    """Refuse a GPU that is not there, before anything is read."""
    if device is DeviceName.cuda:
        from widemargin.data.devices import NoGpuError, check_gpu

        try:
            check_gpu()
        except NoGpuError as error:
            raise BadInput(str(error).replace("device='cuda'", "--device cuda")) from error


# Options of `train` that only one task has a use for.
_ONLY_FOR = {
    "loss": TaskName.classify,
    "multi_class": TaskName.classify,
    "no_intercept": TaskName.classify,
    "penalized_intercept": TaskName.classify,
    "class_weight": TaskName.classify,
    "seed": TaskName.classify,
    "memory_budget": TaskName.classify,
    "checkpoint": TaskName.classify,
    "probability": TaskName.classify,
    "liblinear": TaskName.classify,
    "normalization": TaskName.rank,
}


def given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, rather than left at its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def as_option(name: str) -> str:
    """Return what an estimator's parameter is called here: --max-iter for max_iter."""
    return "--" + name.replace("_", "-")


def given_options(context: typer.Context, names: Collection[str] | None = None) -> list[str]:
    """Return the options that were given, as they would be typed; of those names, if not all."""
    words = []
    for option in context.command.params:
        wanted = names is None or option.name in names
        if option.param_type_name == "option" and wanted and given(context, option.name):
            value = context.params[option.name]
            words.append(option.opts[0])
            if isinstance(value, list):
                words.append(",".join(map(repr, value)))
            elif value is not True:
                words.append(str(value))
    return words


def command_line(context: typer.Context) -> str:
    """Return the command that was given, as it would be typed into a shell."""
    arguments = [
        str(context.params[argument.name])
        for argument in context.command.params
        if argument.param_type_name == "argument"
    ]
    return shlex.join(["widemargin", str(context.info_name), *arguments, *given_options(context)])


def check_task(context: typer.Context, task: TaskName, solver: SolverName) -> None:
    """Refuse options that were given but mean nothing to the task."""
    spelled = {option.name: option.opts[0] for option in context.command.params}
    for name, only_task in _ONLY_FOR.items():
        if given(context, name) and task is not only_task:
            raise _wrong_task(spelled[name], only_task, task)
    if task is not TaskName.classify and solver not in ("auto", *names(risk=RiskKind.ANY)):
        raise _wrong_task(f"--solver {solver}", TaskName.classify, task)


def check_intercept(no_intercept: bool, penalized_intercept: bool) -> None:
    """Refuse an intercept that is to be there and not to be there."""
    if no_intercept and penalized_intercept:
        raise BadInput("--no-intercept and --penalized-intercept contradict each other")


def check_names(report: str | None, feature_names: str | None) -> None:
    """Refuse names of features that nobody asked to see."""
    if feature_names is not None and report is None:
        raise BadInput("--feature-names goes with --report only")


def _wrong_task(option: str, only_task: TaskName, task: TaskName) -> BadInput:
    return BadInput(
        f"{option} goes with --task {only_task.value} only, not with --task {task.value}"
    )


class FormatName(StrEnum):
    """How rows are kept on disk."""

    arrow = "arrow"
    parquet = "parquet"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="svmlight text (label [qid:N] index:value ...), plain or compressed; - for "
        "standard input. Or rows on disk: a folder that `widemargin convert` wrote, Arrow or "
        "Parquet.",
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
Task = Annotated[TaskName, typer.Option(help="What to learn from the labels; see above.")]
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
Loss = Annotated[
    LossName, typer.Option(help="classify: how a row inside or beyond its margin counts.")
]
MultiClass = Annotated[
    MultiClassName,
    typer.Option(
        help="classify: one class against the rest, or all in one problem (with the hinge loss)."
    ),
]
Normalization = Annotated[
    NormalizationName,
    typer.Option(
        help="rank: all pairs count alike, so large groups count for most, or all groups "
        "(queries) do."
    ),
]
Solver = Annotated[
    SolverName,
    typer.Option(
        help="auto chooses by the data, the task and C. "
        + "; ".join(f"{name}: {solver.summary}" for name, solver in SOLVERS.items())
        + f". {', '.join(only_for(Place.DISK))} are for rows on disk. Tasks other than classify "
        f"have {', '.join(names(risk=RiskKind.ANY))} only."
    ),
]
Tol = Annotated[
    float,
    typer.Option(
        callback=_positive, metavar="NUMBER", help="Stop at this proved relative duality gap."
    ),
]
MaxIter = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Stop after this many passes over the rows, or iterations of cutting planes.",
    ),
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        callback=_positive, metavar="SECONDS", help="Stop after this time, compilation aside."
    ),
]
Device = Annotated[
    DeviceName,
    typer.Option(
        help="Where to train: cuda is a GPU, by CuPy; auto is one if there is one, and else cpu."
    ),
]
MemoryBudget = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES",
        help="classify, rows on disk: what training may use, such as 512MB.  [default: 1GiB]",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="classify, rows on disk: where to keep the state of the run; if the file is there, "
        "go on from it.",
    ),
]
NoIntercept = Annotated[
    bool, typer.Option("--no-intercept", help="classify: fit a plane through the origin.")
]
PenalizedIntercept = Annotated[
    bool,
    typer.Option(
        "--penalized-intercept",
        help="classify: pull the intercept towards 0 like a weight, as LIBLINEAR and "
        "scikit-learn do.",
    ),
]
ClassWeight = Annotated[
    ClassWeightName | None,
    typer.Option(
        help="classify: with balanced, errors in rare classes cost more, in frequent ones less."
    ),
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
        min=0,
        max=2**32 - 1,
        metavar="N",
        help="classify: the same seed and data give the same model, but with --solver stream, "
        "whose visits depend on when rows arrive. Other tasks need no seed.",
    ),
]
Probability = Annotated[
    bool,
    typer.Option(
        "--probability",
        help="classify: also calibrate scores, on held-out rows, for predict --probability.",
    ),
]
Liblinear = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="classify: also write the model as LIBLINEAR's text."),
]
Report = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Also write a page about the model: one .html file, for any browser.",
    ),
]
FeatureNames = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="With --report: names of the features, one per line, the first feature's first.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but warnings and errors.")]

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
        help="Parts of the rows, of which one at a time is held out; rows of one group (qid) "
        "stay together.",
    ),
]
Scoring = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What to make large: a scorer of scikit-learn's, such as accuracy, "
        "balanced_accuracy, f1, f1_macro, roc_auc or average_precision.",
    ),
]
BestOut = Annotated[
    str | None,
    typer.Option("--out", metavar="MODEL", help="Where to write the model of the best C."),
]
Plot = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Draw the curve: a .png, .svg or .pdf file."),
]
AllTime = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        callback=_positive,
        metavar="SECONDS",
        help="Stop all trainings in time, compilation aside.",
    ),
]

# Of `convert`.
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="svmlight text (label [qid:N] index:value ...), plain or compressed; - for "
        "standard input.",
    ),
]
Folder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Where to write the rows: a new or empty folder.")
]
Format = Annotated[
    FormatName,
    typer.Option(help="arrow is read fastest; parquet is known to more programs."),
]

# Of `predict`.
PredictionsOut = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="Write to a file instead of standard output."),
]
Scores = Annotated[bool, typer.Option("--scores", help="Write the scores behind each label too.")]
Probabilities = Annotated[
    bool,
    typer.Option("--probability", help="Write the probability of each class behind each label."),
]
