"""Arguments and options of the commands, and checks of their values."""

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from widemargin.losses import LOSSES, TARGET_LOSSES
from widemargin.solvers.registry import SOLVERS, Place, RiskKind, names, only_for


class TaskName(StrEnum):
    """What a model learns from the labels: one of these, or a measure, by its name."""

    classify = "classify"
    logistic = "logistic"
    rank = "rank"
    ordinal = "ordinal"
    roc = "roc"
    regress = "regress"
    oneclass = "oneclass"
    measure = "f1|prbep|..."

    @classmethod
    def _missing_(cls, value: object) -> "TaskName":
        """Return the task of a measure, such as "precision@100"; ValueError for other words."""
        from widemargin.estimators.measuring import measure_called

        measure_called(str(value))
        task = str.__new__(cls, value)
        task._name_, task._value_ = "measure", str(value)
        return task

    @property
    def kind(self) -> "TaskName":
        """The task; `measure` for each measure."""
        return TaskName[self.name]

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes without an order."""
        return self.kind in (TaskName.classify, TaskName.logistic, TaskName.measure)

    @property
    def trains_on_host(self) -> bool:
        """Whether no GPU is used."""
        on_gpu = TaskName.classify, TaskName.rank, TaskName.ordinal, TaskName.roc
        return self.kind not in on_gpu


class DeviceName(StrEnum):
    """Device to train on."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"


#: loss of a row
LossName = StrEnum(  # type: ignore[misc]
    "LossName", {name: name for name in (*LOSSES, *TARGET_LOSSES)}
)


if TYPE_CHECKING:
    SolverName = str
else:  # of names that mypy does not see
    SolverName = StrEnum(
        "SolverName", {name: name for name in ("auto", *names(published=True, penalty=None))}
    )


class PenaltyName(StrEnum):
    l2 = "l2"
    l1 = "l1"
    elasticnet = "elasticnet"


class MultiClassName(StrEnum):
    """Strategy for more than two classes."""

    ovr = "ovr"
    crammer_singer = "crammer_singer"


class NormalizationName(StrEnum):
    """How groups of rows are weighted."""

    pairs = "pairs"
    queries = "queries"


def positive(value: float | None) -> float | None:
    """Return the value if it is a positive number."""
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"{value:g} is not a positive number.")
    return value


def _task(text: str) -> TaskName:
    """Return the task of this name, or of this measure."""
    try:
        return TaskName(text)
    except ValueError as error:
        tasks = ", ".join(task.value for task in TaskName if task is not TaskName.measure)
        raise typer.BadParameter(f"{text!r} is none of {tasks}, and {error}.") from error


def _fraction(value: float) -> float:
    if not 0.0 < value < 1.0:
        raise typer.BadParameter(f"{value:g} is not a number between 0 and 1.")
    return value


def _part(value: float) -> float:
    if not 0.0 < value <= 1.0:
        raise typer.BadParameter(f"{value:g} is not a number above 0 and at most 1.")
    return value


def class_weights(text: str) -> str | dict[str, float]:
    """Parse "balanced", or labels and weights such as spam=5,ham=1."""
    if text == "balanced":
        return text
    weights = {}
    for pair in text.split(","):
        label, equals, number = pair.rpartition("=")
        try:
            weights[label] = float(number)
        except ValueError:
            equals = ""
        if not equals or not 0.0 <= weights[label] < math.inf:
            raise typer.BadParameter(
                f"{text!r} is neither balanced nor labels with weights such as spam=5,ham=1."
            )
    return weights


def _class_weights(text: str | None) -> str | None:
    if text is not None:
        class_weights(text)
    return text


def _not_zero(value: int | None) -> int | None:
    if value == 0:
        raise typer.BadParameter("0 threads cannot train; -1 uses all cores.")
    return value


def _version(wanted: bool) -> None:
    if wanted:
        from widemargin import __version__

        typer.echo(f"widemargin {__version__}")
        raise typer.Exit


_CLASSES, _WITH_LOSS = (TaskName.classify,), (TaskName.classify, TaskName.regress)
_ROW_BY_ROW = (*_WITH_LOSS, TaskName.logistic)
_INTERCEPT = (*_ROW_BY_ROW, TaskName.measure)
_ONE_CLASS = (TaskName.oneclass,)

#: options of `train` that do not apply to all tasks, and those tasks
ONLY_FOR = {
    "C": tuple(task for task in TaskName if task not in _ONE_CLASS),
    "nu": _ONE_CLASS,
    "loss": _WITH_LOSS,
    "epsilon": (TaskName.regress,),
    "delta": (TaskName.regress,),
    "quantile": (TaskName.regress,),
    "penalty": _ROW_BY_ROW,
    "l1_ratio": _ROW_BY_ROW,
    "multi_class": _CLASSES,
    "no_intercept": _INTERCEPT,
    "penalized_intercept": _INTERCEPT,
    "class_weight": (*_CLASSES, TaskName.logistic, TaskName.measure),
    "seed": _ROW_BY_ROW,
    "memory_budget": (*_ROW_BY_ROW, *_ONE_CLASS),
    "checkpoint": _ROW_BY_ROW,
    "probability": _CLASSES,
    "liblinear": _ROW_BY_ROW,
    "normalization": (TaskName.rank,),
    "report": tuple(task for task in TaskName if task not in _ONE_CLASS),
}

#: losses of each task that has several; the first is the default
LOSSES_OF = {
    TaskName.classify: ("squared_hinge", *(name for name in LOSSES if name != "squared_hinge")),
    TaskName.regress: tuple(TARGET_LOSSES),
}

#: options that go with some losses only
LOSSES_WITH = {
    "epsilon": ("epsilon_insensitive", "squared_epsilon_insensitive"),
    "delta": ("huber",),
    "quantile": ("pinball",),
}


Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Rows as svmlight text (label [qid:N] index:value ...), plain or compressed; - is "
        "standard input. Or rows on disk: a folder written by `widemargin convert`, or Arrow or "
        "Parquet files. Or a table, for which train and tune need --target: .csv, .json, .jsonl, "
        ".parquet, .arrow or .feather files, patterns such as 'day*.csv', or folders of them.",
    ),
]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Model that `widemargin train` or `tune` wrote; or LIBLINEAR's, but for certify.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object on standard output.")
]
Version = Annotated[
    bool,
    typer.Option(
        "--version", "-V", callback=_version, is_eager=True, help="Show the version and exit."
    ),
]

# Of `train`.
Task = Annotated[
    Any,  # TaskName
    typer.Option(
        parser=_task,
        metavar=f"{'|'.join(task for task in TaskName if task is not TaskName.measure)}|MEASURE",
        help="Meaning of the labels: see `widemargin train --help`.",
    ),
]
Out = Annotated[
    str,
    typer.Option("--out", metavar="MODEL", help="Model file to write; - is standard output."),
]
Cost = Annotated[
    float,
    typer.Option(
        "-C",
        callback=positive,
        metavar="NUMBER",
        help="Inverse regularisation strength: a larger C fits the training set more closely.",
    ),
]
Nu = Annotated[
    float,
    typer.Option(
        callback=_part,
        metavar="FRACTION",
        help="oneclass: at most this fraction of the rows are outliers.",
    ),
]
Loss = Annotated[
    LossName | None,
    typer.Option(
        help=f"Loss of a row. classify: {', '.join(LOSSES)}; squared_hinge by default. regress: "
        f"{', '.join(TARGET_LOSSES)}; epsilon_insensitive by default.",
        show_choices=False,
        metavar="NAME",
    ),
]
Epsilon = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="NUMBER",
        help="regress, the insensitive losses: errors up to this size have no loss.",
    ),
]
Delta = Annotated[
    float,
    typer.Option(
        callback=positive,
        metavar="NUMBER",
        help="regress, loss huber: errors up to this size are squared, larger ones are not.",
    ),
]
Quantile = Annotated[
    float,
    typer.Option(
        callback=_fraction,
        metavar="FRACTION",
        help="regress, loss pinball: the part of the rows that shall be below the prediction.",
    ),
]
Penalty = Annotated[
    PenaltyName,
    typer.Option(
        help="classify, logistic, regress: what is minimised besides the losses: half of |w|^2 "
        "(l2), the sum of |w_j| (l1), or both (elasticnet). The last two make most weights zero."
    ),
]
L1Ratio = Annotated[
    float,
    typer.Option(
        metavar="FRACTION",
        help="elasticnet: the part of the sum of |w_j|, from 0 to 1.",
        min=0.0,
        max=1.0,
    ),
]
MultiClass = Annotated[
    MultiClassName,
    typer.Option(
        help="classify: one-versus-rest (ovr), or all classes in one problem, with the hinge loss "
        "(crammer_singer)."
    ),
]
Normalization = Annotated[
    NormalizationName,
    typer.Option(
        help="rank: weight all pairs equally, so that large groups dominate, or all groups "
        "(queries) equally."
    ),
]
Solver = Annotated[
    SolverName,
    typer.Option(
        help="auto chooses by the data, the task and C. "
        + "; ".join(f"{name}: {SOLVERS[name].summary}" for name in names(penalty=None))
        + f". {', '.join(only_for(Place.DISK))} are for rows on disk. rank, ordinal, roc and "
        f"measures have {', '.join(names(risk=RiskKind.ANY))} only. A name with -paper at its "
        "end is the algorithm as published, for classify, which stops by the paper's own rule at "
        "--tol."
    ),
]
Tol = Annotated[
    float,
    typer.Option(
        callback=positive, metavar="NUMBER", help="Stop at this certified relative duality gap."
    ),
]
MaxIter = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Stop after this many passes over the rows, or iterations of Newton's method or "
        "cutting planes.",
    ),
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        callback=positive, metavar="SECONDS", help="Stop after this time, without compilation."
    ),
]
Device = Annotated[
    DeviceName,
    typer.Option(
        help="Device to train on: cuda is a GPU (needs CuPy); auto takes a GPU if there is one. "
        "logistic, regress, oneclass and measures train on the host."
    ),
]
MemoryBudget = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES",
        help="classify, logistic and regress, rows on disk: memory for training, such "
        "as 512MB.  [default: 1GiB]",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="classify and regress, rows on disk: file to save the state of the run in; if it "
        "exists, training resumes from it.",
    ),
]
NoIntercept = Annotated[
    bool,
    typer.Option(
        "--no-intercept", help="classify, logistic, regress, measures: fit no intercept."
    ),
]
PenalizedIntercept = Annotated[
    bool,
    typer.Option(
        "--penalized-intercept",
        help="classify, logistic, regress, measures: penalise the intercept like a weight, as "
        "LIBLINEAR and scikit-learn's LinearSVC and LinearSVR do.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        callback=_class_weights,
        metavar="balanced or LABEL=WEIGHT,...",
        help="classify, logistic and error: factors on the weights of the classes, such as "
        "spam=5,ham=1; balanced takes the inverse of their frequencies.",
    ),
]
NJobs = Annotated[
    int | None,
    typer.Option(
        callback=_not_zero, metavar="N", help="Number of threads; -1 uses all cores.  [default: 1]"
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0,
        max=2**32 - 1,
        metavar="N",
        help="classify, logistic and regress: random seed. The same seed and data give the "
        "same model, except with --solver stream, which depends on the speed of the disk.",
    ),
]
Probability = Annotated[
    bool,
    typer.Option(
        "--probability",
        help="classify: calibrate probabilities by cross-validation, for predict --probability.",
    ),
]
Liblinear = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="classify, logistic (two classes), regress: also write a LIBLINEAR model file.",
    ),
]
Report = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Also write an HTML report on the model.",
    ),
]
FeatureNames = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="For --report: file with the feature names, one per line, in order.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only warnings and errors.")]
