"""Prediction beside scikit-learn's LinearSVC with the same coefficients.

    OMP_NUM_THREADS=1 python -m benchmarks.prediction             # all of it
    OMP_NUM_THREADS=1 python -m benchmarks.prediction sparse      # some sections

rewrites the tables in docs/benchmarks.md. Both compute in turn, on one thread. The times are of
the processor, medians of seven rounds of at least a twentieth of a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import scipy.sparse
from sklearn.svm import LinearSVC as TheirLinearSVC

from benchmarks.analyse import ROOT
from benchmarks.sections import run, table
from widemargin import LinearSVC, datasets

DOCUMENT = ROOT / "docs" / "benchmarks.md"
ROUNDS, SECONDS = 7, 0.05
HEADER = ["rows", "type", "classes", "widemargin, ms", "scikit-learn, ms", "ratio"]


def with_random_weights(kind: type, n_features: int, n_classes: int):
    """Return a fitted model of either library, for two classes or more."""
    model = kind()
    shape = (1 if n_classes == 2 else n_classes, n_features)
    model.coef_ = np.random.default_rng(0).normal(size=shape)
    model.intercept_ = np.zeros(shape[0])
    model.classes_, model.n_features_in_ = np.arange(n_classes), n_features
    return model


def seconds(task: Callable, repeats: int) -> float:
    began = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - began) / repeats


def row(name: str, X, n_classes: int) -> list[str]:
    """Return a row of the table, for `decision_function` of X."""
    models = [
        with_random_weights(kind, X.shape[1], n_classes) for kind in (LinearSVC, TheirLinearSVC)
    ]
    np.testing.assert_allclose(
        *(model.decision_function(X) for model in models), rtol=1e-6, atol=1e-3
    )
    tasks = [lambda model=model: model.decision_function(X) for model in models]
    repeats = max(1, int(SECONDS / max(seconds(task, 1) for task in tasks)))
    rounds = [[seconds(task, repeats) for task in tasks] for _ in range(ROUNDS)]
    ours, theirs = (1e3 * median(taken) for taken in zip(*rounds))
    values = f"{X.dtype}", f"{n_classes}", f"{ours:.3g}", f"{theirs:.3g}", f"{theirs / ours:.1f}"
    return [f"{name}, {X.shape[0]:,} x {X.shape[1]:,}", *values]


def compare(name: str, counts: tuple[int, ...], sizes: tuple[int, ...] = ()) -> list[list[str]]:
    """Return the rows of a data set, in both types, whole and in its first rows."""
    X = datasets.load(name, download=False).X
    X = X.tocsr() if scipy.sparse.issparse(X) else np.ascontiguousarray(X)
    cells = [(X.astype(kind), n) for kind in (np.float64, np.float32) for n in counts]
    cells += [(X[:size].astype(np.float64), n) for size in sizes for n in counts]
    return [row(name, rows, n_classes) for rows, n_classes in cells]


def sparse() -> str:
    rows = compare("rcv1", (2, 52), (1, 1000)) + compare("news20", (20,), (1,))
    return table(HEADER, rows)


def dense() -> str:
    rows = compare("covtype", (2, 7), (1, 1000)) + compare("mnist", (10,), (1,))
    return table(HEADER, rows)


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X = rng.random((9, 5)).astype(dtype)
        for rows in (X, scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix(X)[:1]):
            for n_classes in (2, 3):
                with_random_weights(LinearSVC, 5, n_classes).decision_function(rows)


if __name__ == "__main__":
    run(__doc__, DOCUMENT, {"sparse": sparse, "dense": dense}, warm_up)
