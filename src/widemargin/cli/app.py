"""The command line: `widemargin train`, `tune`, `predict`, `evaluate`, `certify`, ...

Commands import what they need when they run: importing NumPy, scikit-learn and compiled kernels
would make `--help` slow.
"""

import atexit
import gc
import re
from typing import Any, get_type_hints

import typer
import typer.core

from widemargin.cli import command_options, commands, exporting, options, showing, table_options
from widemargin.cli.errors import CommandGroup
from widemargin.cli.given import in_its_type

_OBJECTS_BETWEEN_COLLECTIONS = 100_000


class Command(typer.core.TyperCommand):
    """A command whose help names arguments without Python's types: DATA, not DATA <list[str]>."""

    def invoke(self, ctx: Any) -> Any:
        """Run, with values in the context as the types of its parameters say.

        Before version 0.29 Typer leaves words and tuples there.
        """
        types = get_type_hints(self.callback)
        ctx.params.update({n: in_its_type(v, types.get(n)) for n, v in ctx.params.items()})
        return super().invoke(ctx)

    def get_help(self, ctx: Any) -> str:
        """Return the help text."""
        # As many spaces, since the column beside it is aligned.
        return re.sub(
            r" <[a-z]+(?:\[[a-z]+\])?>", lambda t: " " * len(t[0]), super().get_help(ctx)
        )


app = typer.Typer(
    cls=CommandGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line: the `widemargin` script's entry point."""
    _collect_little_garbage()
    app(prog_name="widemargin")


def _collect_little_garbage() -> None:
    """Have Python search for garbage rarely, and not again at exit.

    Modules make half a million objects that stay for good. To search them again and again, and
    once more at the end, takes a third of the time of a command on a small table.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)


@app.callback(invoke_without_command=True)
def widemargin(context: typer.Context, version: options.Version = False) -> None:
    """Train linear support vector machines and prove how close each is to the optimum.

    \b
    Examples:
      widemargin demo
      widemargin train wine.csv --target quality --out wine.wm
      widemargin train train.svm -C 1 --out model.wm
      widemargin tune train.svm --out model.wm
      widemargin evaluate model.wm test.svm
      widemargin train queries.txt --task rank --out ranker.wm
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(cls=Command)
def train(
    context: typer.Context,
    data: options.Data,
    out: options.Out,
    task: options.Task = options.TaskName.classify,
    target: table_options.Target = None,
    drop: table_options.Drop = None,
    categorical: table_options.Categorical = None,
    text: table_options.Text = None,
    text_encoding: table_options.TextEncoding = table_options.TextEncodingName.tfidf,
    ngrams: table_options.Ngrams = 1,
    min_count: table_options.MinCount = 2,
    group: table_options.Group = None,
    weight: table_options.Weight = None,
    scale: table_options.Scale = None,
    no_header: table_options.NoHeader = False,
    encoding: table_options.Encoding = "utf-8",
    C: options.Cost = 1.0,
    loss: options.Loss = None,
    epsilon: options.Epsilon = 0.0,
    delta: options.Delta = 1.0,
    quantile: options.Quantile = 0.5,
    nu: options.Nu = 0.5,
    penalty: options.Penalty = options.PenaltyName.l2,
    l1_ratio: options.L1Ratio = 0.5,
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
      classify  class labels, whole numbers; in tables also text
      logistic  the same, by logistic regression: predict --probability
      rank      relevance grades: within a group (the documents of a query),
                rows with higher grades should score higher; qid:N names the
                group of a row, and without qid all rows are one group
      ordinal   ordered classes, such as stars or stages
      roc       two numbers, the larger one is the positive class; maximises
                the area under the ROC curve (ROC AUC)
      regress   numbers to predict, or their medians and quantiles: see --loss
      oneclass  none, they are ignored: outliers are found, see --nu
      MEASURE   two labels, of which the larger one is positive; trains for
                f1 (f2, f0.5, ...), prbep (the precision-recall break-even
                point), precision@100, recall@100 (of the 100 highest rows),
                recall@precision=0.9, error (rate), average_precision or
                roc_auc@0.1 (up to that false positive rate); with qid for
                its mean over groups; weights are whole numbers

    In a table, --target names the column of the labels. Numbers are standardised, text and
    dictionary columns are categories, dates become days, months, weekdays and hours, and missing
    values are marked. The model keeps all of it and predicts from tables with the same columns.

    The certificate is a lower bound on the objective of every model for this data and C. It
    proves how close the trained model is to the optimum. A run that stops early (--max-iter,
    --max-time, Ctrl-C) still writes its model, with the duality gap it reached.

    \b
    Examples:
      widemargin train train.svm.gz -C 10 --loss hinge --out model.wm
      widemargin train wine.csv --target quality --out wine.wm
      widemargin train 'mails/*.parquet' --target spam --text body --drop id --out spam.wm
      widemargin train queries.txt --task rank --out ranker.wm
      widemargin train reviews.svm --task ordinal --out stars.wm
      widemargin train clicks.svm --task roc --out clicks.wm
      widemargin train houses.csv --target price --task regress --out price.wm
      widemargin train ads.svm --task precision@100 --out ads.wm
      widemargin train shards/ --memory-budget 512MB --out model.wm
      widemargin train train.svm --out model.wm --report model.html
    """
    from widemargin.cli import training

    training.run(context)


@app.command(cls=Command)
def tune(
    context: typer.Context,
    data: options.Data,
    task: options.Task = options.TaskName.classify,
    target: table_options.Target = None,
    drop: table_options.Drop = None,
    categorical: table_options.Categorical = None,
    text: table_options.Text = None,
    text_encoding: table_options.TextEncoding = table_options.TextEncodingName.tfidf,
    ngrams: table_options.Ngrams = 1,
    min_count: table_options.MinCount = 2,
    group: table_options.Group = None,
    weight: table_options.Weight = None,
    scale: table_options.Scale = None,
    no_header: table_options.NoHeader = False,
    encoding: table_options.Encoding = "utf-8",
    Cs: command_options.Costs = "20",
    folds: command_options.Folds = 5,
    scoring: command_options.Scoring = None,
    out: command_options.BestOut = None,
    plot: command_options.Plot = None,
    report: options.Report = None,
    feature_names: options.FeatureNames = None,
    loss: options.Loss = None,
    epsilon: options.Epsilon = 0.0,
    delta: options.Delta = 1.0,
    quantile: options.Quantile = 0.5,
    penalty: options.Penalty = options.PenaltyName.l2,
    l1_ratio: options.L1Ratio = 0.5,
    multi_class: options.MultiClass = options.MultiClassName.ovr,
    normalization: options.Normalization = options.NormalizationName.pairs,
    solver: options.Solver = "auto",
    tol: options.Tol = 1e-3,
    max_iter: options.MaxIter = 10_000,
    max_time: command_options.AllTime = None,
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
    """Choose C by cross-validation.

    For every C and every fold, trains on the other folds and scores the held-out fold. Prints
    the mean score of each C, its standard deviation over the folds, and the largest certified
    duality gap. Then trains a model on all rows with the best C; --out writes it.

    After Ctrl-C, takes the best C tried so far.

    \b
    Examples:
      widemargin tune train.svm
      widemargin tune train.svm --Cs 0.1,1,10 --scoring f1 --out model.wm
      widemargin tune clicks --scoring roc_auc --folds 3 --plot curve.png
      widemargin tune wine.csv --target quality --task ordinal --out wine.wm
      widemargin tune houses.csv --target price --task regress --out price.wm
      widemargin tune ads.svm --task f1 --out ads.wm
    """
    from widemargin.cli import tuning

    tuning.run(context)


for command in (
    commands.predict,
    commands.evaluate,
    showing.show,
    exporting.export,
    commands.certify,
    commands.audit,
    commands.convert,
    commands.demo,
):
    app.command(cls=Command)(command)
