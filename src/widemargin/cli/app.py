"""The command line: `widemargin train`, `tune`, `predict`, `evaluate`, `certify`, ...

Commands import what they work with when they run, not before: NumPy, scikit-learn and compiled
kernels take longer to load than a person waits for `--help`.
"""

import time

import typer

from widemargin.cli import options, output
from widemargin.cli.errors import (
    BadInput,
    ClassifyCommand,
    CommandGroup,
    check_output,
    complain,
    naming,
    reading,
    shown,
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
    """Train linear support vector machines, each with a proof of how good it is.

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
    loss: options.Loss = options.LossName.squared_hinge,
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
    What the labels in DATA mean depends on the task:
      classify  names of classes, whole numbers, to be told apart
      rank      grades: higher ones should score higher, among the rows of one
                group (a query's documents); a line names its group by qid:N,
                and without that all rows are one group
      ordinal   steps of a scale (stars, stages), to be predicted
      roc       two numbers: rows of the larger one should score higher, for
                the largest area under the ROC curve

    The certificate is a lower bound on what any model could reach for this data and C, so it
    proves how close the trained one is. A run that stops early (--max-iter, --max-time, Ctrl-C)
    still writes its model, with the gap it reached.

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
            liblinear_labels(rows.y)  # known now rather than after the training

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

    if model.status_ != "converged":
        complain(f"warning: {training.early_stop(model)}")
    if report is not None:
        reporting.write(context, model, rows, report, names)
    seconds = {"read_seconds": read_seconds, "fit_seconds": fit_seconds}
    account = training.account(task, model, rows) | seconds
    if json:
        files = {"model": out, "liblinear": liblinear, "report": report}
        output.print_json({"data": data, **account, **files})
    elif not quiet:
        saved = " and ".join(filter(None, [out, liblinear, report]))
        output.print_lines(training.in_words(account, model, rows) | {"saved": saved})


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
    loss: options.Loss = options.LossName.squared_hinge,
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

    Trains on all folds but one and scores on that one, for every fold and every C. Prints the
    mean score for each C with its standard deviation over the folds, and the worst of their
    certified gaps. The best C is then trained on all rows, and written with --out.

    After Ctrl-C, the best of what was tried is kept.

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
    from widemargin.curves import doubts
    from widemargin.model_io import save_model

    if plot is not None:
        plotting.check(plot)  # now rather than after the training
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

    for doubt in doubts(model, options.as_option):
        complain(f"warning: {doubt}")
    if report is not None:
        reporting.write(context, model, rows, report, names)
    seconds = {"read_seconds": read_seconds, "fit_seconds": fit_seconds}
    account = tuning.account(model, rows) | seconds
    account["train_command"] = tuning.train_command(context, model, out)
    if json:
        output.print_json({"data": data, **account, "model": out, "plot": plot, "report": report})
    elif not quiet:
        tuning.show(model)
        saved = " and ".join(filter(None, [out, plot, report]))
        output.print_lines(tuning.in_words(account, model) | ({"saved": saved} if saved else {}))


@app.command()
def predict(
    model: options.Model,
    data: options.Data,
    out: options.PredictionsOut = None,
    scores: options.Scores = False,
    probability: options.Probabilities = False,
    json: options.Json = False,
) -> None:
    """Predict the label or the score of every row, one per line.

    The labels in DATA are ignored; any number will do. Features that the model never saw are
    ignored as well.

    A model trained to rank, or for the ROC area, predicts scores: the higher, the higher a row
    ranks. Others predict labels, and with --scores each line is the label, a tab, and the score
    behind it. For two classes it is positive for the larger label; for more classes there is
    one for each, in increasing order of the labels, and the largest decides; for ordinal labels
    it rises with them. With --probability it is the probability of each class, in that order,
    for models trained with --probability.

    \b
    Examples:
      widemargin predict model.wm test.svm > labels.txt
      widemargin predict ranker.wm queries.txt > scores.txt
    """
    check_output(out, model, data)

    from widemargin import LinearRanker
    from widemargin.cli.inputs import read_data, read_model
    from widemargin.labels import whole_labels
    from widemargin.model_io import atomic_write
    from widemargin.report.measures import scores_of

    predictor = read_model(model)
    ranks = isinstance(predictor, LinearRanker)
    if ranks and scores:
        raise BadInput(f"--scores: {model} ranks, and predicts scores without being told")
    if probability and scores:
        raise BadInput("--probability and --scores: one of them at a time")
    if probability and not hasattr(predictor, "predict_proba"):
        raise BadInput(f"--probability: {model} was trained without --probability")
    X = read_data(data, n_features=predictor.n_features_in_, labelled=False).X
    results = {}
    with reading(data):  # rows on disk are read only now
        if not ranks:
            results["labels"] = whole_labels(predictor.predict(X)).tolist()
        if ranks or scores:
            results["scores"] = scores_of(predictor, X).tolist()
        if probability:
            results["probabilities"] = predictor.predict_proba(X).tolist()
    text = output.columns_as_text(*results.values())
    if out is not None:
        with naming(out), atomic_write(out) as file:
            file.write(text.encode())
    elif not json:
        output.write_stdout(text)
    if json:
        summary = {"model": model, "data": data, "rows": X.shape[0], "out": out}
        output.print_json(summary if out else summary | results)


@app.command()
def evaluate(
    context: typer.Context,
    model: options.Model,
    data: options.Data,
    report: options.Report = None,
    feature_names: options.FeatureNames = None,
    json: options.Json = False,
) -> None:
    """Measure how well a model predicts labelled rows.

    \b
    What is measured depends on what the model was trained for:
      classify  accuracy; for two classes also the ROC area, the break-even
                point of precision and recall, and F1, with the larger label
                as the positive one; for more, the mean F1 over the classes
      rank      the fraction of pairs in the right order (equal scores count
                one half), NDCG@10 with gains 2^grade - 1, and MAP with
                grades above 0 as relevant, over the groups named by qid:N
      ordinal   the mean absolute error in steps of the scale, the accuracy,
                and the fraction of pairs in the right order
      roc       the ROC area and the average precision; a model trained for
                rank gets these too where DATA has two labels and no qid

    A measure that these rows leave open, such as NDCG without a grade above 0, is undefined.

    \b
    Examples:
      widemargin evaluate model.wm test.svm
      widemargin evaluate model.wm test.svm --report model.html
    """
    check_output(report, model, data)
    options.check_names(report, feature_names)

    from widemargin.cli import reporting
    from widemargin.cli.inputs import read_data, read_model
    from widemargin.cli.metrics import check_labels
    from widemargin.report.measures import in_words, judge, measure

    predictor = read_model(model)
    rows = read_data(data, n_features=predictor.n_features_in_)
    if hasattr(predictor, "classes_"):
        with reading(data):
            doubt = check_labels(rows.y, predictor.classes_)
        if doubt:
            complain(f"warning: {shown(data)}: {doubt}")

    names = reporting.read_names(feature_names, predictor.n_features_in_)
    with reading(data):
        judged = judge(predictor, rows.X, rows.y, rows.qid)
    measures, n_rows = measure(predictor, judged), rows.X.shape[0]
    if report is not None:
        reporting.write_judged(context, predictor, judged, report, names, trained_on=False)
    if json:
        files = {"model": model, "data": data, "report": report}
        output.print_json({**files, "rows": n_rows, **measures})
        return
    sides = f", positive label {judged.positive_name}" if judged.positive_name else ""
    saved = {} if report is None else {"saved": report}
    output.print_lines({"rows": f"{n_rows:,}{sides}"} | in_words(measures) | saved)


@app.command()
def certify(model: options.Model, data: options.Data, json: options.Json = False) -> None:
    """Recompute a model's certificate from the data it was trained on.

    The model file holds weights and dual variables; with the training data they prove how close
    the model is to the best possible one. Nothing that the training run reported is trusted.

    \b
    Example:
      widemargin certify model.wm train.svm
    """
    from widemargin.cli.certifying import certify_again, in_words

    account = certify_again(model, data)
    certificate = account["certificate"]
    if json:
        plain = account | {"certificate": certificate.as_dict()}
        output.print_json({"model": model, "data": data, **plain})
    else:
        output.print_lines(in_words(certificate))


@app.command()
def convert(
    source: options.Source,
    folder: options.Folder,
    format: options.Format = options.FormatName.arrow,
    json: options.Json = False,
) -> None:
    """Turn svmlight text into a folder of rows that need not fit into memory.

    The folder is DATA to the other commands, which then read it from disk as they go, pass
    after pass, many times faster than they would read text. Memory holds a few megabytes of it
    at a time. Without widemargin.json, which is written last, a folder is not whole and will not
    be read; on errors and Ctrl-C nothing is left of it.

    \b
    Examples:
      widemargin convert clicks.svm.gz clicks
      zcat day*.gz | widemargin convert - days
      widemargin train days --out days.wm
    """
    from widemargin.cli.converting import convert_with_progress, in_words

    report = convert_with_progress(source, folder, format.value, show=not json)
    if json:
        output.print_json({"source": source, "folder": folder, **report})
    else:
        output.print_lines(in_words(report) | {"saved": folder})


@app.command()
def demo(json: options.Json = False) -> None:
    """Train on data scikit-learn ships, beside its own LinearSVC.

    Needs no files and no network, and takes a few seconds.

    \b
    Example:
      widemargin demo
    """
    from widemargin.cli.demo import run, show

    results = run()
    if json:
        output.print_json({"problems": results})
    else:
        show(results)
