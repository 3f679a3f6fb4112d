"""Ranking, ROC area and ordinal regression: many ranks, and quality.

    OMP_NUM_THREADS=1 python -m benchmarks.ranking                # all of it, about half an hour
    OMP_NUM_THREADS=1 python -m benchmarks.ranking levels roc     # some sections

rewrites the tables in docs/ranking.md. Fits use two threads. Time against the number of rows, and
beside explicit pairs, is Joachims' claim: `benchmarks.papers.joachims` has it.
"""

from __future__ import annotations

import time
import warnings
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.analyse import ROOT
from benchmarks.sections import run, table
from widemargin import LinearRanker, LinearSVC, OrdinalSVC, datasets
from widemargin.metrics import ndcg, pairwise_accuracy

DOCUMENT = ROOT / "docs" / "ranking.md"
COSTS = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
ALPHAS = [1e-2, 1.0, 1e2, 1e4, 1e6]


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X, y = rng.random((60, 5)).astype(dtype), np.arange(60) % 3
        OrdinalSVC(n_jobs=2).fit(X, y)
        LinearRanker().fit(X, y, qid=np.arange(60) % 7)
        LinearSVC(loss="hinge").fit(X, y)
        LinearSVC().fit(X, y)


def load(name: str):
    return datasets.load(name, download=False)


def shuffled_covtype():
    data = load("covtype")
    order = np.random.default_rng(0).permutation(data.y.size)
    return data.X[order], data.y[order]


# --- time -------------------------------------------------------------------------------


def levels() -> str:
    """500,000 rows, a real-valued target cut into more and more different values."""
    X, _ = shuffled_covtype()
    n = 500_000
    target = X[:n, 0] + 1e-3 * np.random.default_rng(0).standard_normal(n)  # elevation
    X = np.ascontiguousarray(X[:n, 1:])
    rows, first = [], None
    for n_levels in (2, 10, 100, 1_000, 10_000, 100_000, n):
        y = datasets.equal_frequency_ranks(target, n_levels)
        seconds = []
        for _ in range(3):
            model = LinearRanker(C=1e4 / n, n_jobs=2)
            started = time.perf_counter()
            model.fit(X, y)
            seconds.append((time.perf_counter() - started) / model.n_iter_)
        each = median(seconds)
        first = each if n_levels == 10 else first
        rows.append(
            [
                f"{np.unique(y).size:,}",
                f"{model.n_iter_}",
                f"{1e3 * each:.0f} ms",
                f"{each / first:.2f}" if first else "",
                f"{model.score(X, y):.4f}",
            ]
        )
    return table(["values", "iterations", "each", "over 10 values", "pairs in order"], rows)


# --- quality ----------------------------------------------------------------------------


def roc() -> str:
    """ROC area on rows not seen, each model's C chosen on a third of the training rows."""
    rows = []
    models = {
        "LinearRanker": LinearRanker(n_jobs=2),
        "LinearSVC, hinge": LinearSVC(loss="hinge"),
        "LinearSVC, squared hinge": LinearSVC(),
        "LinearSVC, hinge, balanced": LinearSVC(loss="hinge", class_weight="balanced"),
        "LinearSVC, squared hinge, balanced": LinearSVC(class_weight="balanced"),
    }
    for name in ("ijcnn1", "splice_worm"):
        data = load(name)
        X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
        if X_test is None:
            halves = train_test_split(X, y, stratify=y, test_size=0.5, random_state=0)
            X, X_test, y, y_test = halves
        split = train_test_split(X, y, stratify=y, test_size=1 / 3, random_state=0)
        for label, model in models.items():
            areas = {C: roc_of(model.set_params(C=C), *split) for C in COSTS}
            best = max(areas, key=areas.get)
            started = time.perf_counter()
            area = roc_of(model.set_params(C=best), X, X_test, y, y_test)
            rows.append(
                [
                    f"{name}, {label}",
                    f"{best:g}",
                    f"{areas[best]:.4f}",
                    f"{area:.4f}",
                    f"{time.perf_counter() - started:.2g} s",
                ]
            )
    header = ["data, model", "best C", "on the third kept back", "on test rows", "last fit"]
    return table(header, rows)


def roc_of(model, X, X_test, y, y_test) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return roc_auc_score(y_test, model.decision_function(X_test))


def letor() -> str:
    """Ranking of documents: five folds of whole queries, C or alpha tuned within each."""
    rows = []
    for name, prepare in (("mslr", logarithms), ("mq2007_agg", reciprocals)):
        data = load(name)
        X = prepare(data.X.astype(np.float64))
        models = {
            "LinearRanker, pairs": [LinearRanker(C=C, n_jobs=2) for C in COSTS],
            "LinearRanker, queries": [
                LinearRanker(C=C, n_jobs=2, normalization="queries") for C in COSTS
            ],
            "ridge regression": [Ridge(alpha=alpha) for alpha in ALPHAS],
        }
        for label, candidates in models.items():
            scores, started = np.zeros(data.y.size), time.perf_counter()
            for train, test in GroupKFold(5).split(X, data.y, data.qid):
                model = best_ranker(candidates, X[train], data.y[train], data.qid[train])
                scores[test] = model.predict(X[test])
            seconds = time.perf_counter() - started
            rows.append(
                [
                    f"{name}, {label}",
                    f"{ndcg(data.y, scores, data.qid, k=10):.4f}",
                    f"{pairwise_accuracy(data.y, scores, data.qid):.4f}",
                    f"{pairwise_accuracy(data.y, scores, data.qid, normalization='queries'):.4f}",
                    f"{seconds:.2g} s",
                ]
            )
    header = ["data, model", "NDCG@10", "pairs in order", "mean over queries", "time"]
    return table(header, rows)


def logarithms(X):
    """Features that span eight orders of magnitude, on a scale a linear model can use."""
    return StandardScaler().fit_transform(np.sign(X) * np.log1p(np.abs(X)))


def reciprocals(X):
    """Positions in other rankings, 1 the best and 0 missing, as their reciprocals."""
    return StandardScaler().fit_transform(np.divide(1.0, X, out=np.zeros_like(X), where=X > 0))


def best_ranker(candidates, X, y, qid):
    """Return the candidate of the best NDCG@10 on a third of the queries, fitted on all."""
    train, test = next(GroupKFold(3).split(X, y, qid))

    def fit(model, rows):
        grouped = {"qid": qid[rows]} if isinstance(model, LinearRanker) else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of queries without pairs
            return model.fit(X[rows], y[rows], **grouped)

    def quality(model):
        return ndcg(y[test], fit(model, train).predict(X[test]), qid[test], k=10)

    return fit(max(candidates, key=quality), np.arange(y.size))


def ordinal() -> str:
    """Mean absolute error in ranks, five folds, each model tuned by three inside."""
    rows = []
    for name, n_ranks in (
        ("abalone", 5),
        ("abalone", 10),
        ("bank8fm", 5),
        ("bank8fm", 10),
        ("california", 5),
        ("california", 10),
        ("stock", 5),
        ("stock", 10),
        ("winequality", None),
    ):
        data = load(name)
        X = data.X.astype(np.float64)
        y = data.y if n_ranks is None else datasets.equal_frequency_ranks(data.y, n_ranks)
        models = {
            "ordinal": (OrdinalSVC(), {"C": COSTS}),
            "ovr": (LinearSVC(loss="hinge", solver="ocas"), {"C": COSTS}),
            "ridge": (RoundedRidge(), {"alpha": ALPHAS}),
        }
        cells = [f"{name}, {np.unique(y).size} ranks, {y.size:,} rows"]
        for model, grid in models.values():
            errors, started = [], time.perf_counter()
            for train, test in KFold(5, shuffle=True, random_state=0).split(X):
                search = GridSearchCV(
                    make_pipeline(StandardScaler(), model),
                    {f"{type(model).__name__.lower()}__{key}": grid[key] for key in grid},
                    scoring="neg_mean_absolute_error",
                    cv=KFold(3, shuffle=True, random_state=0),
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    search.fit(X[train], y[train])
                errors.append(np.abs(search.predict(X[test]) - y[test]).mean())
            cells.append(f"{np.mean(errors):.3f} ({time.perf_counter() - started:.2g} s)")
        rows.append(cells)
    header = ["data", "OrdinalSVC", "LinearSVC, one against the rest", "ridge, rounded"]
    return table(header, rows)


class RoundedRidge(Ridge):
    """Regression on the ranks, and the nearest rank that there is."""

    def fit(self, X, y):
        self.range_ = y.min(), y.max()
        return super().fit(X, y)

    def predict(self, X):
        return np.clip(np.rint(super().predict(X)), *self.range_)


SECTIONS = {
    "levels": levels,
    "roc": roc,
    "letor": letor,
    "ordinal": ordinal,
}

if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, warm_up)
