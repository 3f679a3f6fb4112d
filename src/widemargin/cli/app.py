"""The command line: `widemargin train`, `predict`, `evaluate`, `certify` and `demo`.

Commands import what they work with when they run, not before: NumPy, scikit-learn and compiled
kernels take longer to load than a person waits for `--help`.
"""

import math
import time

import typer

from widemargin.cli import options, output
from widemargin.cli.errors import BadInput, CommandGroup, check_output, complain, naming, reading

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
      widemargin evaluate model.wm test.svm
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def train(
    data: options.Data,
    out: options.Out,
    C: options.Cost = 1.0,
    loss: options.Loss = options.LossName.squared_hinge,
    multi_class: options.MultiClass = options.MultiClassName.ovr,
    solver: options.Solver = options.SolverName.auto,
    tol: options.Tol = 1e-3,
    max_iter: options.MaxIter = 10_000,
    max_time: options.MaxTime = None,
    no_intercept: options.NoIntercept = False,
    penalized_intercept: options.PenalizedIntercept = False,
    class_weight: options.ClassWeight = None,
    n_jobs: options.NJobs = None,
    seed: options.Seed = 0,
    liblinear: options.Liblinear = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Train a classifier and write it with its certificate.

    The certificate is a lower bound on what any model could reach for this data and C, so it
    proves how close the trained one is. A run that stops early (--max-iter, --max-time, Ctrl-C)
    still writes its model, with the gap it reached.

    \b
    Example:
      widemargin train train.svm.gz -C 10 --loss hinge --out model.wm
    """
    if no_intercept and penalized_intercept:
        raise BadInput("--no-intercept and --penalized-intercept contradict each other")
    check_output(out, data)
    check_output(liblinear, data, out)

    from widemargin import LinearSVC
    from widemargin.cli import training
    from widemargin.cli.inputs import read_data
    from widemargin.model_io import liblinear_labels, save_model, write_liblinear

    started = time.perf_counter()
    X, y = read_data(data)
    read_seconds = time.perf_counter() - started
    with reading(data):
        training.check_labels(y)
    if liblinear is not None:
        with reading(liblinear):
            liblinear_labels(y)  # known now rather than after the training

    model = LinearSVC(
        C=C,
        loss=loss.value,
        multi_class=multi_class.value,
        solver=solver.value,
        tol=tol,
        fit_intercept=not no_intercept,
        penalized_intercept=penalized_intercept,
        class_weight=class_weight and class_weight.value,
        max_iter=max_iter,
        max_time=max_time,
        n_jobs=n_jobs,
        random_state=seed,
        verbose=0 if quiet or json else 1,
    )
    started = time.perf_counter()
    with reading(data):
        training.fit_quietly(model, X, y)
    fit_seconds = time.perf_counter() - started

    with naming(out):
        save_model(model, out)
    if liblinear is not None:
        with naming(liblinear):
            write_liblinear(model, liblinear)

    if model.status_ != "converged":
        complain(f"warning: {training.early_stop(model)}")
    report = training.report(model, X, data, read_seconds, fit_seconds)
    if json:
        output.print_json({**report, "model": out, "liblinear": liblinear})
    elif not quiet:
        saved = " and ".join(filter(None, [out, liblinear]))
        output.print_lines(training.in_words(report, model) | {"saved": saved})


@app.command()
def predict(
    model: options.Model,
    data: options.Data,
    out: options.LabelsOut = None,
    scores: options.Scores = False,
    json: options.Json = False,
) -> None:
    """Predict the label of every row, one per line.

    The labels in DATA are ignored; any number will do. Features that the model never saw are
    ignored as well. With --scores each line is the label, a tab, and the decision value:
    positive for the larger of two labels. For more than two classes there is one value for each,
    in increasing order of the labels, and the largest decides.

    \b
    Example:
      widemargin predict model.wm test.svm > labels.txt
    """
    check_output(out, model, data)

    from widemargin.cli.inputs import read_data, read_model, whole_labels
    from widemargin.model_io import atomic_write

    classifier = read_model(model)
    X, _ = read_data(data, n_features=classifier.n_features_in_)
    labels = whole_labels(classifier.predict(X)).tolist()
    values = None
    if scores:
        values = classifier.decision_function(X).tolist()
    if out is not None:
        with naming(out), atomic_write(out) as file:
            file.write(output.labels_as_text(labels, values).encode())
    elif not json:
        output.write_stdout(output.labels_as_text(labels, values))
    if json:
        summary = {"model": model, "data": data, "rows": len(labels), "out": out}
        results = {"labels": labels} | ({"scores": values} if scores else {})
        output.print_json(summary if out else summary | results)


@app.command()
def evaluate(model: options.Model, data: options.Data, json: options.Json = False) -> None:
    """Measure how well a model predicts labelled rows.

    Prints the accuracy and, for two classes, the area under the ROC curve, the precision/recall
    break-even point and F1, with the larger label as the positive one; for more classes, the
    mean F1 over the classes.

    \b
    Example:
      widemargin evaluate model.wm test.svm
    """
    from widemargin.cli.inputs import read_data, read_model
    from widemargin.cli.metrics import NAMES, check_labels, measure

    classifier = read_model(model)
    X, y = read_data(data, n_features=classifier.n_features_in_)
    with reading(data):
        doubt = check_labels(y, classifier.classes_)
    if doubt:
        complain(f"warning: {data}: {doubt}")

    measures = measure(classifier, X, y)
    if json:
        output.print_json({"model": model, "data": data, "rows": X.shape[0], **measures})
        return
    lines = {"rows": f"{X.shape[0]:,}"}
    if len(classifier.classes_) == 2:
        lines["rows"] += f", positive label {classifier.classes_[1]}"
    for key, value in measures.items():
        lines[NAMES[key]] = "undefined" if value is None else f"{value:.4f}"
    output.print_lines(lines)


@app.command()
def certify(model: options.Model, data: options.Data, json: options.Json = False) -> None:
    """Recompute a model's certificate from the data it was trained on.

    The model file holds weights and dual variables; with the training data they prove how close
    the model is to the best possible one. Nothing that the training run reported is trusted.

    \b
    Example:
      widemargin certify model.wm train.svm
    """
    from widemargin.cli.inputs import read_data, read_model

    classifier = read_model(model)
    n_rows, n_features = classifier.dual_variables_.shape[1], classifier.n_features_in_
    X, y = read_data(data)
    if X.shape[0] != n_rows or X.shape[1] > n_features:
        raise BadInput(
            f"{data}: {output.shape_in_words(*X.shape)}, but the model was trained on "
            f"{output.shape_in_words(n_rows, n_features)}; "
            "a certificate needs the training data itself, all of it, in its order"
        )
    X.resize(n_rows, n_features)

    from widemargin import certify as recompute

    with reading(data):
        certificate = recompute(classifier, X, y)
    stored = classifier.certificate_
    # Both are sums over the same rows in float64; only the order of summation may differ.
    agrees = math.isclose(certificate.primal, stored.primal, rel_tol=1e-9) and math.isclose(
        certificate.dual, stored.dual, rel_tol=1e-9, abs_tol=1e-9 * abs(stored.primal)
    )
    if not agrees:
        complain(
            f"warning: {model} claims a primal value of {stored.primal:.6g} and a dual value of "
            f"{stored.dual:.6g}: this is not the data it was trained on, or it was changed since"
        )
    if json:
        output.print_json(
            {
                "model": model,
                "data": data,
                "rows": n_rows,
                "certificate": certificate.as_dict(),
                "agrees_with_model": agrees,
            }
        )
        return
    output.print_lines(
        {
            "primal": f"{certificate.primal:.10g}",
            "dual": f"{certificate.dual:.10g}",
            "gap": f"{certificate.gap:.3g} ({output.percent(certificate.relative_gap)} "
            "of the primal value)",
            "result": str(certificate),
        }
    )


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
