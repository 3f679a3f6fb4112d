"""Model selection: LinearSVCCV beside GridSearchCV over scikit-learn's LinearSVC.

    OMP_NUM_THREADS=1 python -m benchmarks.selection                # all sets
    OMP_NUM_THREADS=1 python -m benchmarks.selection rcv1 a9a       # some

rewrites the tables in docs/solvers.md. 20 values of C from 1e-3 to 1e3, 5 folds, hinge, two
threads or processes, penalised intercept (scikit-learn has no other), tol=1e-4, each in a process
of its own with its children counted. scikit-learn keeps its defaults (tol=1e-4, max_iter=1000).
Its search of covtype takes hours: it gets one fold, and is said to take five times as long with
five, nothing added for the best C's training on all rows. Both best values of C are then those of
this fold.

Objectives are compared in all of the hundred cells, or those of that fold. scikit-learn's are
found by its scorer, which is given training rows too: less than a hundredth of what training
takes. Ours are those of paths, fold by fold, which go the way the search goes.

Memory is measured in searches of their own, since to ask for it takes time; scikit-learn's in one
of a single value of C, which makes no difference to it. It is what is not a page of some file:
those of libraries are shared with whoever else runs them, and the system takes them back when it
needs to. Neither search loads the data, or holds the other's libraries.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC as SklearnLinearSVC

import widemargin  # its estimators, and Numba with them, are imported when they are used
from benchmarks.analyse import ROOT
from benchmarks.problems import Cell, primal_objective
from benchmarks.sections import apart, run, table
from widemargin import datasets

DOCUMENT = ROOT / "docs" / "solvers.md"
COSTS = np.logspace(-3, 3, 20)
FOLDS = 5
THREADS = 2
# Places of C at which ratios of objectives are shown, and the one that memory is measured with.
SHOWN = (0, 6, 12, 19)
MIDDLE = 10
# Certified. Looser ones are faster by a half, but where C is small scikit-learn's objectives are
# then better in the fourth digit.
TOL = 1e-4


def load(name: str):
    data = datasets.load(name, download=False)
    return data.X, data.y


def folds(y):
    return list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y))


class Memory(threading.Thread):
    """The most that this process and its children held at once, in bytes: `peak`.

    Pages that processes share count once (Pss), those of files do not count.
    """

    def __enter__(self):
        self.peak, self.ended = 0, threading.Event()
        self.start()
        return self

    def __exit__(self, *exception):
        self.ended.set()
        self.join()

    def run(self):
        while not self.ended.wait(0.05):
            self.peak = max(self.peak, sum(map(_held, _family())))


def _family() -> list[int]:
    mine, found = os.getpid(), []
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may have ended
                after_its_name = (entry / "stat").read_text().rpartition(") ")[2]
                parents[int(entry.name)] = int(after_its_name.split()[1])
    for process in parents:
        ancestor = process
        while ancestor not in (mine, 0, None):
            ancestor = parents.get(ancestor)
        if ancestor == mine:
            found.append(process)
    return found


def _held(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    kinds = ("Pss_Anon:", "Pss_Shmem:")
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(kinds))


# --- both ways ------------------------------------------------------------------------------


def ours(X, y) -> dict:
    splits = folds(y)
    warnings.simplefilter("ignore")
    few = np.concatenate([np.flatnonzero(y == label)[:40] for label in np.unique(y)])
    for solver in solvers_taken(X):  # compiles
        widemargin.LinearSVCCV(
            Cs=[1.0], loss="hinge", solver=solver, penalized_intercept=True, cv=2, max_iter=3
        ).fit(X[few], y[few])
    model = widemargin.LinearSVCCV(
        Cs=COSTS,
        cv=splits,
        loss="hinge",
        tol=TOL,
        penalized_intercept=True,
        n_jobs=THREADS,
        random_state=0,
    )
    began = time.perf_counter()
    model.fit(X, y)
    return {
        "seconds": time.perf_counter() - began,
        "scores": model.scores_,
        "gap": float(model.relative_gaps_.max()),
    }


def solvers_taken(X) -> set[str]:
    """What `auto` takes along the path: others would be compiled, and take memory, in vain."""
    from widemargin.data import as_rows
    from widemargin.risk import Hinge
    from widemargin.solvers import auto

    rows, signs = as_rows(X), np.ones(X.shape[0])
    return {auto.choose(rows, Hinge(signs, np.full(signs.size, C)), warm=True) for C in COSTS}


def theirs(X, y, costs, n_folds: int, with_objectives: bool) -> dict:
    """scikit-learn's search; over less than all folds it ends without a model for all rows."""
    warnings.simplefilter("ignore")
    X = X.astype(np.float64)  # what it computes in: given float32, every fit would convert first

    # In here, since its processes could not import it from a module that is being run.
    def accuracy_and_objective(model, X, y) -> dict[str, float]:
        cell = Cell("", model.C, "hinge", "penalized")
        b = np.ravel(model.intercept_)
        objective = primal_objective(cell, X, y, model.coef_, b)
        return {"accuracy": model.score(X, y), "objective": objective}

    search = GridSearchCV(
        SklearnLinearSVC(loss="hinge", random_state=0),
        {"C": list(costs)},
        cv=folds(y)[:n_folds],
        n_jobs=THREADS,
        refit="accuracy" if n_folds == FOLDS else False,
        scoring=accuracy_and_objective if with_objectives else {"accuracy": "accuracy"},
        return_train_score=with_objectives,
    )
    began = time.perf_counter()
    search.fit(X, y)
    found = {"seconds": (time.perf_counter() - began) * FOLDS / n_folds}
    get_reusable_executor().shutdown()  # its processes would idle for minutes before they end
    found["scores"] = search.cv_results_["mean_test_accuracy"]
    if with_objectives:
        by_fold = [f"split{fold}_train_objective" for fold in range(n_folds)]
        found["objectives"] = np.array([search.cv_results_[name] for name in by_fold])
    return found


def our_objectives(X, y, n_folds: int) -> np.ndarray:
    """Our objectives, (folds, values of C)."""
    paths = (
        widemargin.svm_path(
            X[train],
            y[train],
            Cs=COSTS,
            loss="hinge",
            tol=TOL,
            penalized_intercept=True,
            n_jobs=THREADS,
        )
        for train, _ in folds(y)[:n_folds]
    )
    return np.array([[c.primal for c in path.certificates] for path in paths])


def memory_of(search, *arguments) -> int:
    """The most that a search holds at once, in bytes."""
    with Memory() as memory:
        search(*arguments)
    return memory.peak


def section(name: str, n_folds: int = FOLDS):
    """A section that measures one set, scikit-learn on so many folds."""

    def measure() -> str:
        X, y = load(name)
        mine = apart(ours, X, y)
        their = apart(theirs, X, y, COSTS, n_folds, True)
        my_memory = apart(memory_of, ours, X, y)
        their_memory = apart(memory_of, theirs, X, y, COSTS[MIDDLE : MIDDLE + 1], FOLDS, False)
        ratios = apart(our_objectives, X, y, n_folds) / their["objectives"]
        # Over the folds that both have had.
        scores = mine["scores"][:n_folds].mean(axis=0)
        best, their_best = int(np.argmax(scores)), int(np.argmax(their["scores"]))
        n_scored = sum(test.size for _, test in folds(y)[:n_folds])
        rows_between = round(n_scored * (scores[best] - scores[their_best]))
        row = [
            name,
            f"{mine['seconds']:.1f} s",
            f"{'about ' if n_folds < FOLDS else ''}{their['seconds']:,.0f} s",
            f"{their['seconds'] / mine['seconds']:.1f}",
            f"{my_memory / 1e6:,.0f} MB",
            f"{their_memory / 1e6:,.0f} MB",
            f"{COSTS[best]:.3g} ({scores[best]:.4f})",
            f"{COSTS[their_best]:.3g} ({their['scores'][their_best]:.4f})",
            f"{scores[their_best]:.4f}, {rows_between:,} rows of {n_scored:,}",
            f"{mine['gap']:.1e}",
            ", ".join(f"{ratio:.4f}" for ratio in ratios.mean(axis=0)[list(SHOWN)]),
            f"{ratios.max():.5f}",
        ]
        return table(HEADER, [row])

    return measure


HEADER = [
    "data",
    "widemargin",
    "scikit-learn",
    "times faster",
    "memory",
    "memory, scikit-learn",
    "best C (score)",
    "best C, scikit-learn",
    "our score there, and how many more rows our best C has right",
    "largest gap",
    "objectives over scikit-learn's, some C",
    "largest of all cells",
]
SECTIONS = {
    **{name: section(name) for name in ("rcv1", "a9a", "news20")},
    "covtype": section("covtype", n_folds=1),
}

if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, lambda: None)
