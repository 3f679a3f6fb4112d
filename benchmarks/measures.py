"""Training for a measure: what it gains on held-out rows, and what it costs.

    OMP_NUM_THREADS=1 python -m benchmarks.measures               # all of it
    OMP_NUM_THREADS=1 python -m benchmarks.measures a9a cost      # some sections

rewrites the tables in docs/measures.md. C is chosen alike for all, from the same values, on
validation rows; so is each threshold. Five splits into training (half), validation and test rows;
what follows +- is half of a 95 % interval of the mean (Student's t, 4 degrees of freedom).
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from itertools import product
from statistics import median

import numpy as np
from scipy import stats
from sklearn.model_selection import train_test_split

from benchmarks.analyse import ROOT
from benchmarks.sections import run, table
from widemargin import LinearRanker, LinearSVC, MeasureSVC, datasets, tune_threshold
from widemargin.estimators.measuring import measured
from widemargin.risk import measure_called

DOCUMENT = ROOT / "docs" / "measures.md"
#: measure, and what MeasureSVC is trained for
ROWS = {measure: measure for measure in ("f1", "prbep", "precision@100")}
#: where far more than 100 test rows are positive, as well
AT_THE_TOP = "precision@100, by average_precision"
MANY_POSITIVE = ("a9a", "ijcnn1")
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
SEEDS = range(5)
#: name, positive label and largest number of rows
SETS = {
    "a9a": ("a9a", 1, 32561),
    "ijcnn1": ("ijcnn1", 1, 40000),
    "rcv1, class 41": ("rcv1_multi", 41, 18554),
    "splice_worm": ("splice_worm", 1, 40000),
}
STUDENT = stats.t.ppf(0.975, len(SEEDS) - 1) / np.sqrt(len(SEEDS))


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X, y = rng.random((60, 5)).astype(dtype), np.arange(60) % 2
        for measure in ("f1", "prbep", "average_precision", "roc_auc@0.5"):
            MeasureSVC(measure).fit(X, y)
        LinearSVC(loss="hinge").fit(X, y)
        LinearRanker().fit(X, y)


def splits(name: str):
    """Yield (X, y) of training, validation and test rows, for each seed."""
    source, label, most = SETS[name]
    data = datasets.load(source, download=False)
    y = np.where(data.y == label, 1, -1)
    for seed in SEEDS:
        index = np.random.default_rng(seed).permutation(y.size)[:most]
        train, rest = train_test_split(index, train_size=0.5, stratify=y[index], random_state=seed)
        parts = train, *train_test_split(rest, test_size=0.5, stratify=y[rest], random_state=seed)
        yield [(data.X[part], y[part]) for part in parts]


def value(measure: str, model, X, y) -> float:
    scores = np.asarray(model.decision_function(X), dtype=np.float64)
    return measured(measure_called(measure), y > 0, scores, np.ones(y.size))


def chosen(models, measure: str, valid, test, tuned: bool) -> float:
    """The measure on test rows of the model that is best on validation rows."""
    if tuned:
        models = [tune_threshold(model, *valid, measure) for model in models]
    best = max(models, key=lambda model: value(measure, model, *valid))
    return value(measure, best, *test)


def path(make, train):
    """The models for all values of C."""
    return [make(C).fit(*train) for C in COSTS]


def hinge(C: float, class_weight=None):
    limits = {"tol": 1e-2, "max_time": 600.0, "random_state": 0}
    return LinearSVC(C=C, loss="hinge", class_weight=class_weight, **limits)


def direct_model(measure: str, C: float):
    return MeasureSVC(measure, C=C, tol=1e-2, max_time=600.0)


def quality(name: str) -> str:
    found: dict[tuple[str, str], list[float]] = {}
    trained_for = ROWS | ({AT_THE_TOP: "average_precision"} if name in MANY_POSITIVE else {})
    for train, valid, test in splits(name):
        plain = path(hinge, train)
        balanced = path(partial(hinge, class_weight="balanced"), train)
        for row, objective in trained_for.items():
            direct = path(partial(direct_model, objective), train)
            measure, takes = row.split(",")[0], row == "f1"
            for who, models, tuned in (
                ("LinearSVC", plain, takes),
                ("balanced", balanced, takes),
                ("MeasureSVC", direct, False),
                ("MeasureSVC, tuned", direct, True),
            ):
                if takes or who != "MeasureSVC, tuned":
                    result = chosen(models, measure, valid, test, tuned)
                    found.setdefault((row, who), []).append(result)
    rows = []
    for row in trained_for:
        base = np.array(found[row, "LinearSVC"])
        cells = [f"{100 * base.mean():.1f} ± {100 * STUDENT * base.std(ddof=1):.1f}"]
        for who in ("balanced", "MeasureSVC", "MeasureSVC, tuned"):
            more = 100 * (np.array(found.get((row, who), [np.nan])) - base)
            spread = STUDENT * more.std(ddof=1) if more.size > 1 else np.nan
            cells.append("" if np.isnan(more).any() else f"{more.mean():+.1f} ± {spread:.1f}")
        rows.append([row, *cells])
    header = [name, "LinearSVC", "balanced", "MeasureSVC", "MeasureSVC, threshold tuned"]
    return table(header, rows)


def cost() -> str:
    """covtype: processor time to a gap of 1e-3, and per iteration, by the number of rows, in turn.

    On one thread. Other programs on the machine do not count.
    """
    data = datasets.load("covtype_binary", download=False)
    order = np.random.default_rng(0).permutation(data.y.size)
    makers = {"LinearRanker": partial(LinearRanker, C=1e-3)}
    for measure in ("f1", "prbep", "recall@precision=0.8", "average_precision", "roc_auc@0.1"):
        makers[measure] = partial(MeasureSVC, measure, C=1e-3)
    sizes = (36313, 145253, 581012)
    taken: dict[tuple[str, int], list[float]] = {}
    counts = {}
    for _, size in product(range(3), sizes):
        X, y = data.X[order[:size]], data.y[order[:size]]
        for what, make in makers.items():
            began = time.process_time()
            counts[what, size] = make().fit(X, y).n_iter_
            taken.setdefault((what, size), []).append(time.process_time() - began)
    rows = []
    for what in makers:
        cells = []
        for size in sizes:
            seconds, count = median(taken[what, size]), counts[what, size]
            cells += [f"{seconds:.2f} s", f"{count}", f"{1e3 * seconds / count:.0f} ms"]
        rows.append([what, *cells])
    kinds = (" rows", "iterations", "each")
    header = [
        "",
        *(f"{size:,}{kind}" if kind == " rows" else kind for size in sizes for kind in kinds),
    ]
    return table(header, rows)


SECTIONS = {**{name: partial(quality, name) for name in SETS}, "cost": cost}

if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    run(__doc__, DOCUMENT, SECTIONS, warm_up)
