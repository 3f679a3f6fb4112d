"""The command line: `widemargin train`, `tune`, `predict`, `evaluate`, `certify`, ...

Commands import what they need when they run: importing NumPy, scikit-learn and compiled kernels
would make `--help` slow.
"""

import time

import typer

from widemargin.cli import commands, options, output
from widemargin.cli.errors import (
    ClassifyCommand,
    CommandGroup,
    check_output,
    complain,
    naming,
    reading,
)

app = typer.Typer(
    cls=CommandGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line: the `widemargin` script's entry point."""
    app(prog_name="widemargin")


@app.callback(invoke_without_command=True)
def widemargin(context: typer.Context, version: options.Version = False) -> None:
    """Train linear support vector machines and prove how close each is to the optimum.

    \b
    Examples:
      widemargin demo
      widemargin train train.svm -C 1 --out model.wm
      widemargin tune train.svm --out model.wm
      widemargin evaluate model.wm test.svm
      widemargin train queries.txt --task rank --out ranker.wm
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def train(
    context: typer.Context,
    data: options.Data,
    out: options.Out,
    task: options.Task = options.TaskName.classify,
    C: options.Cost = 1.0,
    loss: options.Loss = options.LossName["squared_hinge"],
    multi_class: options.MultiClass = options.MultiClassName.ovr,
    normalization: options.Normalization = options.NormalizationName.pairs,
    solver: options.Solver = "auto",
    tol: options.Tol = 1e-3,
    max_iter: options.MaxIter = 10_000,
    max_time: options.MaxTime = None,
    device: options.Device = options.DeviceName.cpu,
    memory_budget: options.MemoryBudget = None,
    checkpoint: options.Checkpoint = None,
    no_intercept: options.NoIntercept = False,
    penalized_intercept: options.PenalizedIntercept = False,
    class_weight: options.ClassWeight = None,
    n_jobs: options.NJobs = None,
    seed: options.Seed = 0,
    probability: options.Probability = False,
    liblinear: options.Liblinear = None,
    report: options.Report = None,
    feature_names: options.FeatureNames = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Train a model and write it with its certificate.

    \b
    The meaning of the labels in DATA depends on the task:
      classify  class labels, whole numbers
      rank      relevance grades: within a group (the documents of a query),
                rows with higher grades should score higher; qid:N names the
                group of a row, and without qid all rows are one group
      ordinal   ordered classes, such as stars or stages
      roc       two numbers, the larger one is the positive class; maximises
                the area under the ROC curve (ROC AUC)

    The certificate is a lower bound on the objective of every model for this data and C. It
    proves how close the trained model is to the optimum. A run that stops early (--max-iter,
    --max-time, Ctrl-C) still writes its model, with the duality gap it reached.

    \b
    Examples:
      widemargin train train.svm.gz -C 10 --loss hinge --out model.wm
      widemargin train queries.txt --task rank --out ranker.wm
      widemargin train reviews.svm --task ordinal --out stars.wm
      widemargin train clicks.svm --task roc --out clicks.wm
      widemargin train shards/ --memory-budget 512MB --out model.wm
      widemargin train train.svm --out model.wm --report model.html
    """
    options.check_task(context, task, solver)
    options.check_intercept(no_intercept, penalized_intercept)
    options.check_device(device)
    check_output(out, data)
    check_output(liblinear, data, out)
    check_output(report, data, out, liblinear)
    check_output(checkpoint, data, out, liblinear, report)
    options.check_names(report, feature_names)

    from widemargin.cli import reporting, training
    from widemargin.cli.inputs import read_data
    from widemargin.curves import stopped_early
    from widemargin.model_io import liblinear_labels, save_model, write_liblinear

    training.check_disk_options(context, data, solver, memory_budget)
    started = time.perf_counter()
    rows = read_data(data)
    read_seconds = time.perf_counter() - started
    with reading(data):
        training.check_data(task, rows)
    names = reporting.read_names(feature_names, rows.X.shape[1])
    if liblinear is not None:
        with reading(liblinear):
            liblinear_labels(rows.y)  # fail before the training rather than after it

    model = training.make_model(
        task,
        shared={
            "C": C,
            "solver": str(solver),
            "tol": tol,
            "max_iter": max_iter,
            "max_time": max_time,
            "device": device.value,
            "n_jobs": n_jobs,
            "verbose": 0 if quiet or json else 1,
        },
        classify={
            "loss": loss.value,
            "multi_class": multi_class.value,
            "fit_intercept": not no_intercept,
            "penalized_intercept": penalized_intercept,
            "class_weight": class_weight and class_weight.value,
            "random_state": seed,
            "probability": probability,
            "memory_budget": memory_budget,
            "checkpoint": checkpoint,
        },
        rank={"normalization": normalization.value},
    )
    started = time.perf_counter()
    with reading(data):
        training.fit(model, rows)
    fit_seconds = time.perf_counter() - started

    with naming(out):
        save_model(model, out)
    if liblinear is not None:
        with naming(liblinear):
            write_liblinear(model, liblinear)

    if stopped_early(model):
        complain(f"warning: {training.early_stop(model)}")
    if report is not None:
        reporting.write(context, model, rows, report, names)
    seconds = {"read_seconds": read_seconds, "fit_seconds": fit_seconds}
    summary = training.summarise(task, model, rows) | seconds
    if json:
        files = {"model": out, "liblinear": liblinear, "report": report}
        output.print_json({"data": data, **summary, **files})
    elif not quiet:
        saved = " and ".join(filter(None, [out, liblinear, report]))
        output.print_lines(training.as_text(summary, model, rows) | {"saved": saved})


@app.command(cls=ClassifyCommand)
def tune(
    context: typer.Context,
    data: options.Data,
    Cs: options.Costs = "20",
    folds: options.Folds = 5,
    scoring: options.Scoring = "accuracy",
    out: options.BestOut = None,
    plot: options.Plot = None,
    report: options.Report = None,
    feature_names: options.FeatureNames = None,
    loss: options.Loss = options.LossName["squared_hinge"],
    multi_class: options.MultiClass = options.MultiClassName.ovr,
    solver: options.Solver = "auto",
    tol: options.Tol = 1e-3,
    max_iter: options.MaxIter = 10_000,
    max_time: options.AllTime = None,
    device: options.Device = options.DeviceName.cpu,
    memory_budget: options.MemoryBudget = None,
    no_intercept: options.NoIntercept = False,
    penalized_intercept: options.PenalizedIntercept = False,
    class_weight: options.ClassWeight = None,
    n_jobs: options.NJobs = None,
    seed: options.Seed = 0,
    probability: options.Probability = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Choose C for a classifier by cross-validation.

    For every C and every fold, trains on the other folds and scores the held-out fold. Prints
    the mean score of each C, its standard deviation over the folds, and the largest certified
    duality gap. Then trains a model on all rows with the best C; --out writes it.

    After Ctrl-C, takes the best C tried so far.

    \b
    Examples:
      widemargin tune train.svm
      widemargin tune train.svm --Cs 0.1,1,10 --scoring f1 --out model.wm
      widemargin tune clicks --scoring roc_auc --folds 3 --plot curve.png
    """
    options.check_intercept(no_intercept, penalized_intercept)
    options.check_device(device)
    check_output(out, data)
    check_output(plot, data, out)
    check_output(report, data, out, plot)
    options.check_names(report, feature_names)

    from widemargin.cli import plotting, reporting, training, tuning
    from widemargin.cli.inputs import read_data
    from widemargin.curves import caveats
    from widemargin.model_io import save_model

    if plot is not None:
        plotting.check(plot)  # before the training rather than after it
    tuning.check_scoring(scoring)
    training.check_disk_options(context, data, solver, memory_budget)
    started = time.perf_counter()
    rows = read_data(data)
    read_seconds = time.perf_counter() - started
    with reading(data):
        training.check_data(options.TaskName.classify, rows)
    names = reporting.read_names(feature_names, rows.X.shape[1])

    model = tuning.make_model(
        rows,
        folds,
        Cs=Cs,
        scoring=scoring,
        loss=loss.value,
        multi_class=multi_class.value,
        solver=str(solver),
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        device=device.value,
        memory_budget=memory_budget,
        fit_intercept=not no_intercept,
        penalized_intercept=penalized_intercept,
        class_weight=class_weight and class_weight.value,
        n_jobs=n_jobs,
        random_state=seed,
        probability=probability,
        verbose=0 if quiet or json else 1,
    )
    started = time.perf_counter()
    with reading(data):
        training.fit(model, rows, groups=rows.qid)
    fit_seconds = time.perf_counter() - started

    if out is not None:
        with naming(out):
            save_model(model, out)
    if plot is not None:
        with naming(plot):
            plotting.draw(model, plot)

    for caveat in caveats(model, options.as_option):
        complain(f"warning: {caveat}")
    if report is not None:
        reporting.write(context, model, rows, report, names)
    seconds = {"read_seconds": read_seconds, "fit_seconds": fit_seconds}
    summary = tuning.summarise(model, rows) | seconds
    summary["train_command"] = tuning.train_command(context, model, out)
    if json:
        output.print_json({"data": data, **summary, "model": out, "plot": plot, "report": report})
    elif not quiet:
        tuning.show(model)
        saved = " and ".join(filter(None, [out, plot, report]))
        output.print_lines(tuning.as_text(summary, model) | ({"saved": saved} if saved else {}))


for command in (
    commands.predict,
    commands.evaluate,
    commands.certify,
    commands.convert,
    commands.demo,
):
    app.command()(command)
