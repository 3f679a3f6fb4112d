"""What more threads bring: wall time with one thread over wall time with several.

    python -m benchmarks.cores                                # all cells, 1, 2, 4, ... threads
    python -m benchmarks.cores --threads 1 16 --fits 5        # two counts, more fits
    python -m benchmarks.cores "rcv1, C = 1" --no-page        # some cells, printed only

rewrites the table in docs/threads.md. Each cell has a process of its own, in which no thread
variable is set, as users have it. After one fit that is not timed, it fits with each number of
threads in turn; times are medians. Peers with threads or processes are timed in the same turns:
scikit-learn's GridSearchCV, with as many processes, in cells that choose C; Snap ML, where it is
installed, in cells of two classes. A set that is missing is skipped, by name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.analyse import ROOT, rewrite
from benchmarks.machine import describe
from benchmarks.run import THREAD_VARIABLES
from widemargin import datasets

DOCUMENT = ROOT / "docs" / "threads.md"
COSTS, FOLDS = np.logspace(-3, 3, 20), 5
# A cell is timed fewer times if its fits take longer than this together, in seconds.
_SECONDS_PER_CELL = 60.0


@dataclass(frozen=True)
class Cell:
    """Work that is timed.

    load() -> (X, y) or (X, y, qid); ours and peer take the data and a number of threads.
    """

    name: str
    load: Callable[[], tuple]
    ours: Callable[..., Any]
    peer: Callable[..., Any] | None = None
    peer_name: str = ""


# --- data -----------------------------------------------------------------------------------


def named(name: str) -> Callable[[], tuple]:
    def load() -> tuple:
        data = datasets.load(name, download=False)
        return data.X, data.y

    return load


def repeated(name: str, times: int) -> Callable[[], tuple]:
    """Return a loader of the rows `times` over, each time with other noise."""

    def load() -> tuple:
        data = datasets.load(name, download=False)
        rng = np.random.default_rng(0)
        X = np.empty((times * len(data.y), data.X.shape[1]), dtype=np.float32)
        for part in np.split(X, times):
            part[:] = data.X
            part += 0.01 * rng.standard_normal(part.shape, dtype=np.float32)
        return X, np.tile(data.y, times)

    return load


def words() -> tuple:
    """Return 2,000,000 texts of 1,000,000 words, whose frequencies follow Zipf's law."""
    n, d, length = 2_000_000, 1_000_000, 30
    rng = np.random.default_rng(0)
    places = np.sort((d ** rng.random((n, length))).astype(np.int32) - 1, axis=1)
    values = np.full(n * length, 1.0 / np.sqrt(length), dtype=np.float32)
    X = scipy.sparse.csr_matrix((values, places.ravel(), np.arange(n + 1) * length), shape=(n, d))
    X.sum_duplicates()
    scores = X @ rng.standard_normal(d)
    return X, np.where(scores + 0.3 * scores.std() * rng.standard_normal(n) > 0, 1, -1)


def queries() -> tuple:
    """Return 1,000,000 documents of 100,000 queries, with grades from 0 to 4."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 40))
    scores = X @ rng.standard_normal(40)
    y = np.digitize(
        scores + 3.0 * rng.standard_normal(scores.size),
        np.quantile(scores, [0.5, 0.75, 0.9, 0.97]),
    )
    return X, y, np.repeat(np.arange(100_000), 10)


# --- work -----------------------------------------------------------------------------------


def classifier(**parameters: Any) -> Callable:
    def fit(X: Any, y: Any, n_jobs: int) -> Any:
        from widemargin import LinearSVC

        return LinearSVC(n_jobs=n_jobs, **{"loss": "hinge"} | parameters).fit(X, y)

    return fit


def search(X: Any, y: Any, n_jobs: int) -> Any:
    from widemargin import LinearSVCCV

    return LinearSVCCV(Cs=COSTS, cv=FOLDS, loss="hinge", n_jobs=n_jobs).fit(X, y)


def grid_search(X: Any, y: Any, n_jobs: int) -> Any:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    model = LinearSVC(loss="hinge", max_iter=1000)
    return GridSearchCV(model, {"C": COSTS}, cv=FOLDS, n_jobs=n_jobs).fit(X, y)


def ranker(X: Any, y: Any, *rest: Any) -> Any:
    from widemargin import LinearRanker

    *qid, n_jobs = rest
    return LinearRanker(C=1.0, n_jobs=n_jobs).fit(X, y, *qid)


def snapml(C: float) -> Callable | None:
    if find_spec("snapml") is None:
        return None

    def fit(X: Any, y: Any, n_jobs: int) -> Any:
        from snapml import SupportVectorMachine

        model = SupportVectorMachine(
            loss="hinge", regularizer=1 / C, fit_intercept=False, n_jobs=n_jobs, tol=1e-3
        )
        return model.fit(X, y.astype(np.float32))

    return fit


def two_classes(name: str, load: Callable, C: float, **parameters: Any) -> Cell:
    ours = classifier(C=C, fit_intercept=False, **parameters)
    return Cell(f"{name}, C = {C:g}", load, ours, snapml(C), "Snap ML")


CELLS = [
    Cell("news20, 20 C x 5 folds", named("news20"), search, grid_search, "GridSearchCV"),
    Cell("rcv1, 20 C x 5 folds", named("rcv1"), search, grid_search, "GridSearchCV"),
    Cell("news20, 20 classes, C = 10", named("news20"), classifier(C=10.0)),
    Cell("mnist, 10 classes, C = 0.1", named("mnist"), classifier(C=0.1)),
    Cell("covtype, 7 classes, newton", named("covtype"), classifier(solver="newton")),
    two_classes("covtype_binary, newton", named("covtype_binary"), 1.0, solver="newton"),
    two_classes("covtype_binary x 8, newton", repeated("covtype_binary", 8), 1.0, solver="newton"),
    two_classes("covtype_binary x 8, ocas", repeated("covtype_binary", 8), 1.0, solver="ocas"),
    two_classes("2 M x 1 M words", words, 1.0),
    two_classes("2 M x 1 M words", words, 10.0),
    two_classes("rcv1", named("rcv1"), 1.0),
    two_classes("rcv1", named("rcv1"), 100.0),
    two_classes("news20_one", named("news20_one"), 1.0),
    two_classes("news20_one", named("news20_one"), 100.0),
    Cell("ranking, covtype", named("covtype"), ranker),
    Cell("ranking, 1 M rows in 100,000 queries", queries, ranker),
]


# --- timing ---------------------------------------------------------------------------------


def timed(task: Callable, *arguments: Any) -> tuple[float, float]:
    """Return wall time, and processor time of this process and of children that have ended."""
    wall, before = time.perf_counter(), os.times()
    task(*arguments)
    wall, after = time.perf_counter() - wall, os.times()
    return wall, sum(after[:4]) - sum(before[:4])


def measure(cell: Cell, counts: list[int], n_fits: int) -> dict:
    """Return {"ours": {threads: [wall, processor]}, "peer": ...} of a cell; in its own process."""
    warnings.simplefilter("ignore")
    data = cell.load()
    tasks = {"ours": cell.ours} | ({"peer": cell.peer} if cell.peer else {})
    spent = 0.0
    for task in tasks.values():
        spent += timed(task, *data, counts[-1])[0]
    rounds = max(1, min(n_fits, int(_SECONDS_PER_CELL / max(spent * len(counts), 1e-9))))
    found: dict = {who: {count: [] for count in counts} for who in tasks}
    for _ in range(rounds):
        for count in counts:
            for who, task in tasks.items():
                found[who][count].append(timed(task, *data, count))
    return {
        who: {count: [median(each) for each in zip(*some)] for count, some in times.items()}
        for who, times in found.items()
    }


def apart(cell: Cell, counts: list[int], n_fits: int) -> dict | None:
    """Return `measure` of a cell by a process of its own; None if its data is missing."""
    environment = {
        name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES
    }
    command = [sys.executable, "-m", "benchmarks.cores", "--serve", cell.name]
    command += ["--fits", str(n_fits), "--threads", *map(str, counts)]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{cell.name}: the process ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, times: dict, counts: list[int]) -> list[str]:
    """Return a row of the table from {threads: [wall, processor]}."""
    first, busy = times[str(counts[0])]
    ratios = [f"{first / times[str(count)][0]:.2f}" for count in counts[1:]]
    return [name, f"{first:.3g} s", *ratios, f"{busy / first:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", help="; ".join(cell.name for cell in CELLS))
    parser.add_argument("--threads", type=int, nargs="+", help="1, 2, 4, ... by default")
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--no-page", action="store_true", help="print the table only")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.cells) - {cell.name for cell in CELLS}
    if unknown:
        parser.error(f"no cell is called {min(unknown)!r}")
    cells = [cell for cell in CELLS if not options.cells or cell.name in options.cells]
    available = len(os.sched_getaffinity(0))
    counts = options.threads or [2**k for k in range(available.bit_length()) if 2**k <= available]
    if options.serve:
        try:
            print(json.dumps(measure(cells[0], counts, options.fits)))
        except datasets.DatasetMissing as missing:
            print(missing, file=sys.stderr)
            print("null")
        return
    header = [
        "work",
        "1 thread",
        *(f"{count}" for count in counts[1:]),
        "processor / wall, 1 thread",
    ]
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    print(*lines, sep="\n", flush=True)
    for cell in cells:
        found = apart(cell, counts, options.fits) or {}
        for who, times in found.items():
            name = cell.name if who == "ours" else f"... {cell.peer_name}"
            lines.append("| " + " | ".join(row(name, times, counts)) + " |")
            print(lines[-1], flush=True)
    machine = describe()
    lines += ["", f"{machine['cpu']}, {available} cores, {time.strftime('%Y-%m-%d')}."]
    if not options.no_page:
        page = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(rewrite(page, "cores", "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
