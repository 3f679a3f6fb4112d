"""The commands that take no training options: predict, evaluate, certify, convert and demo.

`app` registers them. Like all commands, they import what they need when they run.
"""

import typer

from widemargin.cli import options, output
from widemargin.cli.errors import BadInput, check_output, complain, naming, reading, shown


def predict(
    model: options.Model,
    data: options.Data,
    out: options.PredictionsOut = None,
    scores: options.Scores = False,
    probability: options.Probabilities = False,
    json: options.Json = False,
) -> None:
    """Predict a label or a score for every row, one per line.

    The labels in DATA are ignored; they can be any number. Features that the model was not
    trained on are ignored, too.

    Models of the tasks rank and roc predict scores: higher scores rank higher. Models of the
    tasks classify and ordinal predict labels. With --scores, each line is the label, a tab and
    the score. For two classes, a positive score means the larger label. For more classes,
    there is one score per class, in increasing order of the labels, and the largest one
    decides. For ordinal labels, the score increases with the label. With --probability, each
    line has the probability of each class in the same order; this needs a model that was
    trained with --probability.

    \b
    Examples:
      widemargin predict model.wm test.svm > labels.txt
      widemargin predict ranker.wm queries.txt > scores.txt
    """
    check_output(out, model, data)

    from widemargin import LinearRanker, LinearSVC
    from widemargin.cli.inputs import read_data, read_model
    from widemargin.labels import whole_labels
    from widemargin.model_io import atomic_write
    from widemargin.report.measures import scores_of

    predictor = read_model(model)
    ranks = isinstance(predictor, LinearRanker)
    if ranks and scores:
        raise BadInput(f"--scores: {model} ranks; it predicts scores without this option")
    if probability and scores:
        raise BadInput("--probability and --scores exclude each other")
    if probability and not (isinstance(predictor, LinearSVC) and predictor.probability):
        raise BadInput(f"--probability: {model} was trained without --probability")
    X = read_data(data, n_features=predictor.n_features_in_, labelled=False).X
    results = {}
    with reading(data):  # rows on disk are read here
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


def evaluate(
    context: typer.Context,
    model: options.Model,
    data: options.Data,
    report: options.Report = None,
    feature_names: options.FeatureNames = None,
    json: options.Json = False,
) -> None:
    """Evaluate the predictions of a model on labelled rows.

    \b
    The metrics depend on the task of the model:
      classify  accuracy; for two classes also ROC AUC, the precision-recall
                break-even point and F1, with the larger label as the positive
                class; for more classes macro F1
      rank      pairwise accuracy (the fraction of pairs ranked correctly,
                ties count one half), and the means over the groups (qid) of
                NDCG@10 with gains 2^grade - 1 and of the average precision
                (MAP) with grades above 0 as relevant
      ordinal   mean absolute error in ranks, accuracy, pairwise accuracy
      roc       ROC AUC and average precision; also for a model of the task
                rank, if DATA has two labels and no qid

    A metric that does not exist for these rows, such as NDCG without a grade above 0, is printed
    as undefined.

    \b
    Examples:
      widemargin evaluate model.wm test.svm
      widemargin evaluate model.wm test.svm --report model.html
    """
    check_output(report, model, data)
    options.check_names(report, feature_names)

    from widemargin import LinearRanker
    from widemargin.cli import reporting
    from widemargin.cli.inputs import read_data, read_model
    from widemargin.cli.metrics import check_labels
    from widemargin.report.measures import as_text, judge, measure

    predictor = read_model(model)
    rows = read_data(data, n_features=predictor.n_features_in_)
    if not isinstance(predictor, LinearRanker):
        with reading(data):
            problem = check_labels(rows.y, predictor.classes_)
        if problem:
            complain(f"warning: {shown(data)}: {problem}")

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
    positive = f", positive class {judged.positive_name}" if judged.positive_name else ""
    saved = {} if report is None else {"saved": report}
    output.print_lines({"rows": f"{n_rows:,}{positive}"} | as_text(measures) | saved)


def certify(model: options.Model, data: options.Data, json: options.Json = False) -> None:
    """Recompute a model's certificate from the data it was trained on.

    The model file contains weights and dual variables. Together with the training data they
    prove how close the model is to the optimum. The certificate stored in the file is not
    trusted; a warning is printed if it differs.

    \b
    Example:
      widemargin certify model.wm train.svm
    """
    from widemargin.cli.certifying import as_text, certify_again

    summary = certify_again(model, data)
    certificate = summary["certificate"]
    if json:
        plain = summary | {"certificate": certificate.as_dict()}
        output.print_json({"model": model, "data": data, **plain})
    else:
        output.print_lines(as_text(certificate))


def convert(
    source: options.Source,
    folder: options.Folder,
    format: options.Format = options.FormatName.arrow,
    json: options.Json = False,
) -> None:
    """Convert svmlight text to Arrow or Parquet files for training from disk.

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
    """Compare with scikit-learn's LinearSVC on data that scikit-learn includes.

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
