"""Many labels: time, memory, size and precision of one-versus-rest, beside other libraries.

    python -m benchmarks.many_labels SET [--methods NAME ...] [--labels K] [--jobs N]

A set is "rcv1" (52 classes as labels), "news20", "debian:N" (N paths of Debian's files: their
packages, of at least 10 files each, by hashed pieces of 3 to 5 letters of the path), or
"zipf:ROWS,FEATURES,LABELS" (made: words and labels by Zipf's law, each label with ten words of its
own). A fifth of the rows is held out. Each method runs in a process of its own, which prints
processor time, peak memory, the size of the weights and precision at 1, 3 and 5. With --labels, K
of the labels are trained, spread evenly over their frequencies, and precision is not meaningful.
"""

import argparse
import json
import lzma
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.machine import describe
from widemargin import LinearSVC, datasets
from widemargin.metrics import precision_at_k

_DEBIAN_ROWS, _DEBIAN_FEATURES, _LEAST_FILES = 5_660_000, 1 << 17, 10


def load(name: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return rows (n, d) of length 1 and labels (n, k)."""
    kind, _, numbers = name.partition(":")
    if kind == "debian":
        return _debian(int(numbers))
    if kind == "zipf":
        return zipf(*(int(number) for number in numbers.split(",")))
    data = datasets.load("rcv1_multi" if kind == "rcv1" else kind, download=False)
    classes, codes = np.unique(data.y, return_inverse=True)
    return _unit(data.X), _indicator(np.arange(codes.size), codes, (codes.size, classes.size))


def _indicator(rows: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    Y = sp.csr_matrix((np.ones(rows.size, np.int8), (rows, labels)), shape=shape)
    Y.data[:] = 1
    return Y


def _unit(X: sp.csr_matrix) -> sp.csr_matrix:
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    scale = sp.diags(1.0 / np.where(lengths > 0.0, lengths, 1.0))
    return sp.csr_matrix(scale @ X, dtype=np.float32)


def zipf(n: int, d: int, k: int, per_row: int = 50) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return TF-IDF rows of Zipf's words and of the words of their one to five labels."""
    rng = np.random.default_rng(0)
    chances = 1.0 / np.arange(1, k + 1)
    counts = rng.integers(1, 6, size=n)
    labels = rng.choice(k, size=counts.sum(), p=chances / chances.sum())
    rows = np.repeat(np.arange(n), counts)
    own = rng.integers(50, d, size=(k, 10))[
        np.repeat(labels, 5), rng.integers(0, 10, 5 * labels.size)
    ]
    words = 1.0 / np.arange(1, d + 1)
    common = rng.choice(d, size=n * per_row, p=words / words.sum())
    places = np.r_[np.repeat(np.arange(n), per_row), np.repeat(rows, 5)]
    ones = np.ones(places.size, np.float32)
    X = sp.csr_matrix((ones, (places, np.r_[common, own])), shape=(n, d))
    in_rows = np.bincount(X.indices, minlength=d)
    X.data = np.log1p(X.data) * np.log((n + 1.0) / np.maximum(in_rows, 1))[X.indices]
    return _unit(X), _indicator(rows, labels, (n, k))


def _debian(n: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    from sklearn.feature_extraction.text import HashingVectorizer

    folder = Path(os.environ["WIDEMARGIN_DATA"])
    counts: dict[bytes, int] = {}
    kept: list[tuple[bytes, bytes]] = []
    with lzma.open(folder / "debian_paths.xz") as lines:
        for number, line in enumerate(lines):
            path, places = line.rsplit(None, 1)
            for place in places.split(b","):
                counts[place] = counts.get(place, 0) + 1
            if number * n // _DEBIAN_ROWS > (number - 1) * n // _DEBIAN_ROWS:
                kept.append((path, places))
    packages = [[p for p in places.split(b",") if counts[p] >= _LEAST_FILES] for _, places in kept]
    names = {name: j for j, name in enumerate(sorted({p for some in packages for p in some}))}
    rows = np.repeat(np.arange(len(kept)), [len(some) for some in packages])
    labels = np.array([names[p] for some in packages for p in some])
    hashing = HashingVectorizer(
        analyzer="char", ngram_range=(3, 5), n_features=_DEBIAN_FEATURES, alternate_sign=False
    )
    X = hashing.transform([path.decode("utf-8", "replace") for path, _ in kept])
    return sp.csr_matrix(X, dtype=np.float32), _indicator(rows, labels, (len(kept), len(names)))


def split(X: sp.csr_matrix, Y: sp.csr_matrix, n_labels: int | None) -> tuple:
    """Return training rows, held-out rows, and their labels: those that occur in training."""
    order = np.random.default_rng(1).permutation(X.shape[0])
    test, train = np.split(order, [order.size // 5])
    counts = np.asarray(Y[train].sum(axis=0)).ravel()
    labels = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    if n_labels is not None and n_labels < labels.size:
        labels = labels[np.linspace(0, labels.size - 1, n_labels).astype(int)]
    Y = Y[:, labels]
    return X[train], X[test], sp.csr_matrix(Y[train]), sp.csr_matrix(Y[test])


def ours(X: Any, Y: Any, jobs: int) -> tuple[Callable, float, str]:
    """Train widemargin; return the function of scores, bytes of weights, and a remark."""
    model = LinearSVC(random_state=0, n_jobs=jobs).fit(X, Y)
    coef = model.coef_
    size = coef.nbytes if isinstance(coef, np.ndarray) else coef.data.nbytes + coef.indices.nbytes
    gap = max(part.relative_gap for part in model.certificate_.parts or [model.certificate_])
    return model.predict_top, size, f"largest gap {gap:.1e}"


def sklearns(X: Any, Y: Any, jobs: int) -> tuple[Callable, float, str]:
    """Train scikit-learn's one-versus-rest over LIBLINEAR, with a penalised intercept."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC as Liblinear

    model = OneVsRestClassifier(Liblinear(tol=1e-2, dual=True), n_jobs=jobs).fit(X, Y)
    size = sum(part.coef_.nbytes for part in model.estimators_ if hasattr(part, "coef_"))
    return lambda X, k: (_top(model.decision_function(X), k), None), size, ""


def _top(scores: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


METHODS = {"widemargin": ours, "scikit-learn": sklearns}


def measure(name: str, method: str, n_labels: int | None, jobs: int) -> dict:
    """Return what a method takes for a set, in this process."""
    X, X_test, Y, Y_test = split(*load(name), n_labels)
    warm = np.argsort(-np.diff(Y.tocsc().indptr), kind="stable")[:3]
    METHODS[method](X[:6000], Y[:6000][:, warm], 1)  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu, wall = time.process_time(), time.perf_counter()
    top, size, remark = METHODS[method](X, Y, jobs)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    some = slice(0, 5000)
    places = np.asarray(top(X_test[some], 5)[0])
    began = time.process_time()
    for i in range(50):
        top(X_test[i : i + 1], 5)
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "labels": Y.shape[1],
        "cpu": cpu,
        "wall": wall,
        "peak": peak,
        "data": before,
        "size": size / 2**20,
        "precision": [precision_at_k(Y_test[some], places, k) for k in (1, 3, 5)],
        "one_row": (time.process_time() - began) / 50 * 1e3,
        "remark": remark,
    }


def main() -> None:
    """Print a table, one line for each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--labels", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.set, given.methods[0], given.labels, given.jobs)))
        return
    print(describe())
    print("| set | rows x features, labels | method | processor | wall | a label | peak (data) | "
          "weights | P@1 / 3 / 5 | one row | |")  # fmt: skip
    print("| --- " * 11 + "|")
    for method in given.methods:
        command = [sys.executable, "-m", "benchmarks.many_labels", given.set, "--here"]
        command += ["--methods", method, "--jobs", str(given.jobs)]
        command += [] if given.labels is None else ["--labels", str(given.labels)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        r = json.loads(done.stdout.splitlines()[-1])
        precision = " / ".join(f"{100 * value:.1f}" for value in r["precision"])
        print(
            f"| {given.set} | {r['rows']:,} x {r['features']:,}, {r['labels']:,} | {method} "
            f"| {r['cpu']:.1f} s | {r['wall']:.1f} s | {1e3 * r['cpu'] / r['labels']:.1f} ms "
            f"| {r['peak']:.0f} ({r['data']:.0f}) MB | {r['size']:.1f} MB | {precision} "
            f"| {r['one_row']:.2f} ms | {r['remark']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
