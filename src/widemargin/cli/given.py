"""Options as they were given on the command line, and checks that they fit together."""

import shlex
from collections.abc import Collection, Mapping
from enum import EnumMeta
from typing import Any, get_args

import typer

from widemargin.cli.errors import BadInput
from widemargin.cli.options import (
    LOSSES_OF,
    LOSSES_WITH,
    ONLY_FOR,
    DeviceName,
    SolverName,
    TaskName,
)
from widemargin.solvers.registry import RiskKind, names


def loss_in_words(parameters: Mapping[str, Any]) -> str:
    """Return the loss among an estimator's parameters, with its own parameter if it has one."""
    loss = parameters["loss"]
    own = [name for name, losses in LOSSES_WITH.items() if loss in losses]
    shown = ", ".join(f"{name} = {parameters[name]:g}" for name in own)
    return f"{loss} loss" + (f" ({shown})" if shown else "")


def check_device(device: DeviceName) -> None:
    """Refuse a GPU that is not available, before any data is read."""
    if device is DeviceName.cuda:
        from widemargin.data.devices import NoGpuError, check_gpu

        try:
            check_gpu()
        except NoGpuError as error:
            raise BadInput(str(error).replace("device='cuda'", "--device cuda")) from error


def in_its_type(value: Any, kind: Any) -> Any:
    """Return the value of a parameter in the type of its annotation: choices and lists."""
    for choices in (each for each in (kind, *get_args(kind)) if isinstance(each, EnumMeta)):
        return None if value is None else choices(value)
    return list(value) if isinstance(value, tuple) else value


def given(context: typer.Context, name: str) -> bool:
    """Return whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def as_option(name: str) -> str:
    """Return the option of an estimator's parameter: --max-iter for max_iter."""
    return "--" + name.replace("_", "-")


def given_options(context: typer.Context, names: Collection[str] | None = None) -> list[str]:
    """Return the options given on the command line (of those in `names`), as words."""
    words: list[str] = []
    for option in context.command.params:
        wanted = names is None or option.name in names
        if option.param_type_name == "option" and wanted and given(context, option.name):
            value = context.params[option.name]
            words.append(option.opts[0])
            if value is False:  # --no-scale, beside --scale
                words[-1] = option.secondary_opts[0]
            elif isinstance(value, list) and isinstance(value[0], str):  # given several times
                words += [str(value[0])]
                words += [word for more in value[1:] for word in (option.opts[0], more)]
            elif isinstance(value, list):
                words.append(",".join(map(repr, value)))
            elif value is not True:
                words.append(str(value))
    return words


def command_line(context: typer.Context) -> str:
    """Return the command line, quoted for a shell."""
    arguments: list[str] = []
    for argument in context.command.params:
        if argument.param_type_name == "argument":
            value = context.params[argument.name]
            arguments += value if isinstance(value, list) else [str(value)]
    return shlex.join(["widemargin", str(context.info_name), *arguments, *given_options(context)])


def check_task(context: typer.Context, task: TaskName, solver: SolverName) -> None:
    """Refuse options that do not apply to the task."""
    spelled = {option.name: option.opts[0] for option in context.command.params}
    for name, tasks in ONLY_FOR.items():
        if given(context, name) and task.kind not in tasks:
            raise _wrong_task(spelled[name], tasks, task)
    fits: dict[TaskName, tuple[str, ...]] = {
        TaskName.classify: names(published=True, penalty=None),
        TaskName.logistic: names(risk=RiskKind.LOGISTIC, penalty=None),
        TaskName.regress: names(penalty=None),
        TaskName.measure: names(risk=RiskKind.ANY),
        TaskName.oneclass: names(risk=RiskKind.ONE_CLASS),
    }
    allowed = {each: fits.get(each, names(risk=RiskKind.ANY, published=True)) for each in TaskName}
    if solver not in ("auto", *allowed[task.kind]):
        tasks = tuple(each for each in TaskName if solver in allowed[each])
        raise _wrong_task(f"--solver {solver}", tasks, task)
    if task.trains_on_host and context.params["device"] is DeviceName.cuda:
        raise BadInput(f"--device cuda: --task {task.value} trains on the host")
    _check_loss(context, task)


def _check_loss(context: typer.Context, task: TaskName) -> None:
    """Refuse a loss of another task, and options of other losses."""
    if task not in LOSSES_OF:
        return
    loss = context.params["loss"] or LOSSES_OF[task][0]
    if loss not in LOSSES_OF[task]:
        tasks = tuple(each for each in LOSSES_OF if loss in LOSSES_OF[each])
        raise _wrong_task(f"--loss {loss}", tasks, task)
    for name, losses in LOSSES_WITH.items():
        if given(context, name) and loss not in losses:
            raise BadInput(
                f"{as_option(name)} goes with --loss {' and '.join(losses)} only, not with {loss}"
            )


def check_intercept(no_intercept: bool, penalized_intercept: bool) -> None:
    """Refuse contradictory options for the intercept."""
    if no_intercept and penalized_intercept:
        raise BadInput("--no-intercept and --penalized-intercept contradict each other")


def check_names(report: str | None, feature_names: str | None) -> None:
    """Refuse feature names without a report."""
    if feature_names is not None and report is None:
        raise BadInput("--feature-names goes with --report only")


def _wrong_task(option: str, tasks: tuple[TaskName, ...], task: TaskName) -> BadInput:
    *most, last = (each.value for each in tasks)
    wanted = f"{', '.join(most)} or {last}" if most else last
    return BadInput(f"{option} goes with --task {wanted} only, not with --task {task.value}")
