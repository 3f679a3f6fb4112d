"""Kernels by features: beside SVC with the kernel itself, and beside RBFSampler + LinearSVC.

    OMP_NUM_THREADS=1 python -m benchmarks.kernel_maps [covtype mnist]

Each way is a process of its own, in turn. It reads the rows from a file, makes features, trains,
and predicts the test rows; time is processor time from the first feature to the last prediction,
memory is the largest of the process beyond what reading the rows took. widemargin trains twice:
with all features in memory, and with a budget that makes it expand rows in every pass. Both
packages draw the same features, and stop at their default tolerances. SVC trains on a subsample.
Rewrites the tables in docs/kernels.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import machine
from benchmarks.analyse import ROOT, in_words, rewrite_all
from benchmarks.sections import apart, table

_TEST_ROWS = 50_000

# Its arguments: the file of rows, the way, and the task's numbers.
ONE_WAY = """
import json, resource, sys, time, warnings
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

path, way, numbers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
rows = np.load(path)
X, y, X_test, y_test = (rows[name] for name in ("X", "y", "X_test", "y_test"))
gamma, C = numbers["gamma"], numbers["C"]
drawn = {"gamma": gamma, "n_components": numbers["features"], "random_state": 0}
if way == "SVC":
    X, y = X[: numbers["subsample"]], y[: numbers["subsample"]]
    model = SVC(gamma=gamma, C=C, cache_size=1000)
elif way == "scikit-learn":
    model = make_pipeline(RBFSampler(**drawn), LinearSVC(C=C, random_state=0))
else:
    import widemargin
    budget = numbers["budget"] if way == "widemargin, made in each pass" else "100GB"
    features = widemargin.FourierFeatures(**drawn, memory_budget=budget)
    model = make_pipeline(features, widemargin.LinearSVC(C=C, random_state=0))
    model.fit(X[:2000], y[:2000])  # compiles
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model.fit(X, y)
if way.startswith("widemargin"):
    model[0].memory_budget = "64MB"  # for predictions, either way
predicted = model.predict(X_test) if not way == "scikit-learn" else np.concatenate(
    [model.predict(part) for part in np.array_split(X_test, 20)]
)
seconds = time.process_time() - began
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
gap = model[-1].certificate_.relative_gap if way.startswith("widemargin") else None
print(json.dumps({
    "accuracy": float((predicted == y_test).mean()), "seconds": seconds,
    "megabytes": (after - before) / 1024, "gap": gap, "rows": len(X),
    "solver": model[-1].solver_ if way.startswith("widemargin") else "",
}))
"""
WAYS = ("widemargin", "widemargin, made in each pass", "scikit-learn", "SVC")


@dataclass(frozen=True)
class Task:
    """A data set, its features, and how many rows SVC gets."""

    gamma: float
    C: float
    features: int
    subsample: int
    budget: str
    ways: tuple[str, ...] = WAYS


TASKS = {
    "covtype": Task(gamma=1.0, C=10.0, features=300, subsample=10_000, budget="100MB"),
    # scikit-learn would need more than 10 GB.
    "covtype with 1,000 features": Task(1.0, 10.0, 1000, 0, "300MB", WAYS[1:2]),
    "mnist": Task(gamma=0.02, C=1.0, features=1000, subsample=10_000, budget="50MB"),
}


def written(name: str, path: Path) -> str:
    """Write the rows of a task; return their shape in words."""
    from widemargin.arrays import dense
    from widemargin.datasets import load

    data = load("covtype_binary" if "covtype" in name else name)
    X, y = dense(data.X), data.y
    if data.X_test is None:
        order = np.random.default_rng(0).permutation(len(y))
        test, train = order[:_TEST_ROWS], order[_TEST_ROWS:]
        parts = {"X": X[train], "y": y[train], "X_test": X[test], "y_test": y[test]}
    else:
        order = np.random.default_rng(0).permutation(len(y))
        parts = {"X": X[order], "y": y[order], "X_test": dense(data.X_test)}
        parts["y_test"] = data.y_test
    np.savez(path, **parts)
    return f"{len(y):,} x {X.shape[1]}"


def measured(path: Path, way: str, task: Task) -> dict:
    """Run one way in a process of its own."""
    command = [sys.executable, "-c", ONE_WAY, str(path), way, json.dumps(vars(task))]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def compared(name: str, folder: Path, repeats: int) -> list[list[str]]:
    """Return the rows of a table about one task."""
    path, task = folder / "rows.npz", TASKS[name]
    shape = apart(written, name, path)
    rounds = [{way: measured(path, way, task) for way in task.ways} for _ in range(repeats)]
    rows = []
    for way in task.ways:
        runs = sorted((one[way] for one in rounds), key=lambda run: run["seconds"])
        run = runs[len(runs) // 2]
        gap = "" if run["gap"] is None else f"{run['gap']:.1e}"
        accuracy, seconds = f"{100 * run['accuracy']:.2f} %", f"{run['seconds']:.1f} s"
        memory = f"{run['megabytes']:,.0f} MB"
        rows.append([f"{name}, {shape}", way, run["solver"], f"{run['rows']:,}", accuracy])
        rows[-1] += [seconds, memory, gap]
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chosen", nargs="*", metavar="SET", help=", ".join(TASKS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--print", action="store_true", help="leave the document as it is")
    options = parser.parse_args()
    rows = []
    for name in options.chosen or TASKS:
        with tempfile.TemporaryDirectory() as folder:
            rows += compared(name, Path(folder), options.repeats)
    header = ["set", "by", "solver", "rows", "test accuracy", "processor time", "memory", "gap"]
    if not options.print:
        page = ROOT / "docs" / "kernels.md"
        text = f"{table(header, rows)}\n\n{in_words(machine.describe())}"
        rewrite_all([page], "kernel_maps", text)


if __name__ == "__main__":
    main()
