"""What `widemargin train` and `tune` share: checks, training data and the fit itself."""

import warnings
from enum import StrEnum
from typing import Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearOneClassSVM, LinearRanker, LinearSVC, LinearSVR, MeasureSVC
from widemargin.cli import options, reporting
from widemargin.cli.errors import BadInput, check_output, reading, shown
from widemargin.cli.given import (
    check_device,
    check_intercept,
    check_names,
    check_task,
    given_options,
    loss_in_words,
)
from widemargin.cli.inputs import Data, Loaded, read_training, stays_on_disk
from widemargin.cli.memory import free_bytes
from widemargin.cli.options import TaskName
from widemargin.cli.table_options import TableOptions, given_for_tables
from widemargin.estimators.checkpoint import CheckpointError
from widemargin.estimators.logistic_regression import LogisticClassifier
from widemargin.estimators.validation import check_bytes
from widemargin.solvers.registry import Place, only_for
from widemargin.words import count, listed

# Above it, float64 does not represent every whole number.
_LARGEST_LABEL = 2**53 - 1
# Two float64 values per coefficient: the current and the best one.
_COEFFICIENT_BYTES = 16


def check(context: typer.Context) -> None:
    """Refuse options that contradict each other, and files that cannot be written."""
    given = context.params
    check_task(context, given["task"], given["solver"])
    check_intercept(given["no_intercept"], given["penalized_intercept"])
    check_device(given["device"])
    others = list(given["data"])
    for name in ("out", "liblinear", "plot", "report", "checkpoint"):
        if name not in given:  # tune has no LIBLINEAR model, and train has no plot
            continue
        check_output(given[name], *others, stdout=name == "out")
        others.append(given[name])
    check_names(given["report"], given["feature_names"])
    if given["out"] == "-" and given["json"]:
        raise BadInput("--json and --out - would both write to standard output")


def read(context: typer.Context) -> tuple[Data, Any, list[str] | None]:
    """Return training data, what is done to rows before, and the names of the features."""
    given = context.params
    task, data = given["task"], given["data"]
    table = TableOptions.of(context)
    if table.target is None:
        check_disk_options(context, data, given["solver"], given["memory_budget"])
    rows, preparation = read_training(data, task, table, given_for_tables(context))
    with reading(data[0]):
        check_data(task, rows)
    names = Loaded(preparation, None).names
    return rows, preparation, reporting.read_names(given["feature_names"], names, rows.X.shape[1])


def check_disk_options(
    context: typer.Context, paths: list[str], solver: str, memory_budget: str | None
) -> None:
    """Refuse options for rows on disk if the rows are in memory, and a malformed budget."""
    path = paths[0]
    with reading(path):
        if stays_on_disk(path):
            try:
                check_bytes("--memory-budget", memory_budget)
            except ValueError as error:
                raise BadInput(str(error)) from error
            return
    words = given_options(context, ("memory_budget", "checkpoint"))
    if solver in only_for(Place.DISK, published=True):
        words += ["--solver", solver]
    if words:
        raise BadInput(
            f"{shown(path)}: {' '.join(words)} is for rows on disk, and text is read into memory; "
            "convert it first (see widemargin convert --help)"
        )


def check_data(task: TaskName, data: Data) -> None:
    """Refuse labels and groups that do not fit the task, and models larger than memory."""
    labels = np.unique(data.y)
    one_each = task in (TaskName.classify, TaskName.logistic)
    _check_room(data.X.shape[1], labels.size if one_each else 1)
    if task.has_classes:
        _check_whole(data.y)
    elif task is TaskName.regress:
        _check_numbers(data.y)
    elif task is TaskName.ordinal and labels.size < 2:
        raise ValueError(f"every row has the label {labels[0]}; --task ordinal needs two or more")
    if task.kind in (TaskName.roc, TaskName.measure) and labels.size != 2:
        raise ValueError(
            f"--task {task.value} needs exactly two labels, not {labels.size:,} "
            f"({listed(labels.tolist())})"
        )
    if task is TaskName.roc and data.qid is not None:
        raise ValueError("it has groups (qid), which --task roc cannot use; use --task rank")


def _check_room(n_features: int, n_classes: int) -> None:
    """Refuse a model larger than the free memory; one mistyped index can make it so large.

    Without this check, the operating system may kill the process when it uses the memory.
    """
    available = free_bytes()
    if available is None:
        return
    n_outputs = n_classes if n_classes > 2 else 1
    needed = _COEFFICIENT_BYTES * n_features * n_outputs
    if needed > available:
        raise ValueError(
            f"the largest index means {count(n_features, 'feature')}: training needs at least "
            f"{needed / 1e9:,.0f} GB, and {available / 1e9:,.0f} GB of memory are free"
        )


def _check_whole(y: np.ndarray) -> None:
    """Refuse labels that are numbers, but not whole."""
    if y.dtype.kind not in "iuf":
        return
    bad = np.flatnonzero((y != np.trunc(y)) | (np.abs(y) > _LARGEST_LABEL))
    if bad.size:
        first = bad[0]
        size = f" up to {_LARGEST_LABEL:,}" if abs(y[first]) > _LARGEST_LABEL else ""
        raise ValueError(
            f"row {first} (counted from 0) has the label {y[first]}; class labels must be whole "
            f"numbers{size}"
        )


def _check_numbers(y: np.ndarray) -> None:
    """Refuse targets that are no finite numbers."""
    if y.dtype.kind not in "iuf":
        raise ValueError(f"row 0 (counted from 0) has the target {y[0]!s}, which is no number")
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise ValueError(f"row {bad[0]} (counted from 0) has the target {y[bad[0]]}")


def estimator(context: typer.Context, kind: type, data: Data, **others: Any) -> Any:
    """Return an estimator of a kind whose parameters are the options of the same names.

    `others` are parameters that no option spells, or that another value has to replace.
    """
    given = context.params
    quiet = given["quiet"] or given["json"]
    values = {name: _plain(value) for name, value in given.items()} | {
        "measure": given["task"].value,
        "fit_intercept": not given["no_intercept"],
        "class_weight": class_weight(given["class_weight"], data.y),
        "random_state": given["seed"],
        "verbose": 0 if quiet else 1,
        **others,
    }
    if values["loss"] is None:
        del values["loss"]  # the default is the estimator's own
    if values["penalty"] != "elasticnet":
        del values["l1_ratio"]  # the default is the estimator's own
    wanted = kind().get_params(deep=False)
    return kind(**{name: values[name] for name in wanted if name in values})


def own_values(kind: type) -> dict[str, Any]:
    """Return the values of options that mean something else to this kind of estimator."""
    # Logistic regression has classes together by default, and --multi-class is not for it.
    return {"multi_class": "auto"} if issubclass(kind, LogisticClassifier) else {}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


def class_weight(text: str | None, y: np.ndarray) -> str | dict[Any, float] | None:
    """Return the weights of classes that an option spells, by the labels of the data."""
    if text is None:
        return None
    weights = options.class_weights(text)
    if isinstance(weights, str):
        return weights
    labels = {str(label): label for label in np.unique(y).tolist()}
    for name in weights:
        if name not in labels:
            raise BadInput(
                f"--class-weight: no row has the label {name!r}; there are {listed(list(labels))}"
            )
    return {labels[name]: weight for name, weight in weights.items()}


def fit(model: Any, data: Data, **more: Any) -> None:
    """Fit without scikit-learn's ConvergenceWarning; see `early_stop`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            if isinstance(model, LinearRanker | MeasureSVC):
                model.fit(data.X, data.y, qid=data.qid, sample_weight=data.weight)
            else:
                model.fit(data.X, data.y, sample_weight=data.weight, **more)
        except CheckpointError as error:
            raise BadInput(str(error)) from error


def loss_of(model: Any) -> str:
    """Return in words what the training of a model minimises besides its weights."""
    if isinstance(model, MeasureSVC):
        return f"bound on the loss in {model.measure}"
    if isinstance(model, LogisticClassifier):
        return "logistic loss"
    if isinstance(model, LinearOneClassSVM):
        return "one class"
    if not isinstance(model, LinearSVC | LinearSVR):
        return "pairwise hinge loss"
    if isinstance(model, LinearSVC) and model.multi_class == "crammer_singer":
        return "crammer_singer loss"
    return loss_in_words(model.get_params())
