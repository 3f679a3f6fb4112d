"""The commands that take no training options: predict, evaluate, certify, audit,
convert and demo.

`app` registers them. Like all commands, they import what they need when they run.
"""

import typer

from widemargin.cli import command_options, options, output, table_options
from widemargin.cli.errors import check_output
from widemargin.cli.given import check_names
from widemargin.cli.table_options import TableOptions


def predict(
    context: typer.Context,
    model: options.Model,
    data: options.Data,
    out: command_options.PredictionsOut = None,
    scores: command_options.Scores = False,
    probability: command_options.Probabilities = False,
    no_header: table_options.NoHeader = False,
    encoding: table_options.Encoding = "utf-8",
    json: options.Json = False,
) -> None:
    """Predict a label, a score or a number for every row, one per line.

    The labels in DATA are ignored; they can be any number. Features that the model was not
    trained on are ignored, too.

    Models of the tasks rank and roc predict scores: higher scores rank higher. Models of the
    task regress predict numbers, and those of the tasks classify and ordinal labels. With
    --scores, each line is the label, a tab and the score. For two classes, a positive score
    means the larger label. For more classes, there is one score per class, in increasing order
    of the labels, and the largest one decides. For ordinal labels, the score increases with the
    label. With --probability, each line has the probability of each class in the same order;
    this needs a model that was trained with --probability.

    \b
    Examples:
      widemargin predict model.wm test.svm > labels.txt
      widemargin predict ranker.wm queries.txt > scores.txt
    """
    check_output(out, model, *data, stdout=True)

    from widemargin.cli.predicting import predict_rows

    rows, results = predict_rows(context)
    out = None if out == "-" else out
    text = output.columns_as_text(*results.values())
    if out is not None:
        output.write_file(text.encode(), out)
    elif not json:
        output.write_stdout(text)
    if json:
        files = {"model": model, "data": output.one_or_all(data), "out": out}
        summary = {**files, "rows": rows}
        output.print_json(summary if out else summary | results)


def evaluate(
    context: typer.Context,
    model: options.Model,
    data: options.Data,
    report: options.Report = None,
    feature_names: options.FeatureNames = None,
    no_header: table_options.NoHeader = False,
    encoding: table_options.Encoding = "utf-8",
    json: options.Json = False,
) -> None:
    """Evaluate the predictions of a model on labelled rows.

    \b
    The metrics depend on the task of the model:
      classify  accuracy; for two classes also ROC AUC, the precision-recall
                break-even point and F1, with the larger label as the positive
                class; for more classes macro F1; of each class precision,
                recall, F1 and the number of rows (support)
      rank      pairwise accuracy (the fraction of pairs ranked correctly,
                ties count one half), and the means over the groups (qid) of
                NDCG@10 with gains 2^grade - 1 and of the average precision
                (MAP) with grades above 0 as relevant
      ordinal   mean absolute error in ranks, accuracy, pairwise accuracy
      roc       ROC AUC and average precision; also for a model of the task
                rank, if DATA has two labels and no qid
      regress   R2, mean absolute error, root of the mean squared error; for
                the pinball loss the mean loss and the fraction of rows at or
                below the prediction
      MEASURE   the measure it was trained for, with qid its mean over the
                groups; and what there is of classify

    A metric that does not exist for these rows, such as NDCG without a grade above 0, is printed
    as undefined.

    \b
    Examples:
      widemargin evaluate model.wm test.svm
      widemargin evaluate model.wm test.svm --report model.html
      widemargin evaluate wine.wm more_wine.csv
    """
    check_output(report, model, *data)
    check_names(report, feature_names)

    from widemargin.cli import evaluating

    measures, judged = evaluating.evaluate_rows(context)
    classes, n_rows = evaluating.by_class(judged), judged.true.size
    if json:
        files = {"model": model, "data": output.one_or_all(data), "report": report}
        by_class = {"by_class": classes} if classes else {}
        output.print_json({**files, "rows": n_rows, **measures, **by_class})
        return
    positive = f", positive class {judged.positive_name}" if judged.positive_name else ""
    output.print_lines({"rows": f"{n_rows:,}{positive}"} | evaluating.as_text(measures))
    if classes:
        output.write_stdout("\n")
        output.print_table(evaluating.as_columns(classes))
    if report is not None:
        output.print_lines({"saved": report})


def certify(
    context: typer.Context,
    model: options.Model,
    data: options.Data,
    weight: table_options.Weight = None,
    no_header: table_options.NoHeader = False,
    encoding: table_options.Encoding = "utf-8",
    json: options.Json = False,
) -> None:
    """Recompute a model's certificate from the data it was trained on.

    The model file contains weights and dual variables. Together with the training data they
    prove how close the model is to the optimum. The certificate stored in the file is not
    trusted; a warning is printed if it differs.

    \b
    Example:
      widemargin certify model.wm train.svm
    """
    from widemargin.cli.certifying import as_text, certify_again

    summary = certify_again(model, data, TableOptions.of(context))
    certificate = summary["certificate"]
    if json:
        plain = summary | {"certificate": certificate.as_dict()}
        output.print_json({"model": model, "data": output.one_or_all(data), **plain})
    else:
        output.print_lines(as_text(certificate))


def audit(
    context: typer.Context,
    model: options.Model,
    data: options.Data,
    C: command_options.GivenCost = None,
    epsilon: command_options.GivenEpsilon = None,
    weight: table_options.Weight = None,
    tol: options.Tol = 1e-3,
    max_time: options.MaxTime = None,
    n_jobs: options.NJobs = None,
    polish: command_options.Polish = None,
    json: options.Json = False,
) -> None:
    """Prove how far a model, also LIBLINEAR's, is from the optimum of its training problem.

    Computes the objective of its weights on the data that it was trained on, and trains from
    there, until --tol, for a lower bound on every objective. --polish writes the model of that
    training.

    \b
    Examples:
      widemargin audit heart_scale.model heart_scale -C 1
      widemargin audit model.liblinear train.svm -C 10 --polish better.wm
    """
    check_output(polish, model, *data, stdout=True)

    from widemargin.cli.auditing import as_text, audit_model

    rows, found = audit_model(context)
    if polish == "-" and not json:
        return
    if json:
        files = {"model": model, "data": output.one_or_all(data), "polish": polish}
        certificates = {
            "certificate": found.certificate.as_dict(),
            "better": found.better.certificate_.as_dict(),
        }
        print_json = output.print_json
        print_json(files | {"rows": rows} | certificates | {"excess": found.excess})
        return
    output.print_lines(as_text(found) | ({} if polish is None else {"saved": polish}))


def convert(
    source: command_options.Source,
    folder: command_options.Folder,
    format: command_options.Format = command_options.FormatName.arrow,
    json: options.Json = False,
) -> None:
    """Convert svmlight text to files for training from disk.

    The other commands take the folder as DATA and read it from disk, pass after pass, many times
    faster than text. The rows need not fit into memory, neither here nor in training. The file
    widemargin.json is written last; a folder without it is incomplete and is refused. On errors
    and Ctrl-C the files are removed.

    \b
    Examples:
      widemargin convert clicks.svm.gz clicks
      zcat day*.gz | widemargin convert - days
      widemargin train days --out days.wm
    """
    from widemargin.cli.converting import as_text, convert_with_progress

    summary = convert_with_progress(source, folder, format.value, show=not json)
    if json:
        output.print_json({"source": source, "folder": folder, **summary})
    else:
        output.print_lines(as_text(summary) | {"saved": folder})


def demo(json: options.Json = False) -> None:
    """Compare with scikit-learn's LinearSVC on scikit-learn's own data.

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
