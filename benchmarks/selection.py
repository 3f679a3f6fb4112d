"""Model selection: LinearSVCCV beside GridSearchCV over scikit-learn's LinearSVC.

    OMP_NUM_THREADS=1 python -m benchmarks.selection                # all sets
    OMP_NUM_THREADS=1 python -m benchmarks.selection rcv1 a9a       # some

rewrites the tables in docs/solvers.md. 20 values of C from 1e-3 to 1e3, 5 folds, hinge, two
threads or processes, penalised intercept (scikit-learn has no other), tol=1e-4, each in a process
of its own with its children counted. scikit-learn keeps its defaults (tol=1e-4, max_iter=1000).

On news20 and covtype its search would take long. There it trains on one fold only, in one process,
and on covtype for some values of C only: others are taken to need as long as the nearest smaller
one measured, folds as long as the first, and two processes to be twice as fast as one, which is
kind to it. Its memory is then that of the search with one value of C, over all folds and with two
processes: C makes no difference to it. On news20 ours stops after 300 s, which would cut the
largest values of C short: see the largest gap.

Memory is what is not a page of some file: those of libraries are shared with whoever else runs
them, and the system takes them back when it needs to. Neither search loads the data, or holds the
other's libraries.
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
# Places of C at which objectives are compared.
COMPARED = (0, 6, 12, 19)
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
        while not self.ended.wait(0.2):
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


def ours(X, y, limits: dict) -> dict:
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
        **limits,
    )
    with Memory() as memory:
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "memory": memory.peak,
        "C": model.C_,
        "scores": model.scores_.mean(axis=0),
        "gap": float(model.relative_gaps_.max()),
    }


def solvers_taken(X) -> set[str]:
    """What `auto` takes along the path: others would be compiled, and take memory, in vain."""
    from widemargin.data import as_rows
    from widemargin.risk import Hinge
    from widemargin.solvers import auto

    rows, signs = as_rows(X), np.ones(X.shape[0])
    return {auto.choose(rows, Hinge(signs, np.full(signs.size, C)), warm=True) for C in COSTS}


def theirs(X, y, costs) -> dict:
    """The whole search, for some values of C."""
    warnings.simplefilter("ignore")
    X = X.astype(np.float64)  # what it computes in: given float32, every fit would convert first
    search = GridSearchCV(
        SklearnLinearSVC(loss="hinge", random_state=0),
        {"C": list(costs)},
        cv=folds(y),
        n_jobs=THREADS,
    )
    with Memory() as memory:
        began = time.perf_counter()
        search.fit(X, y)
        seconds = time.perf_counter() - began
    get_reusable_executor().shutdown()  # its processes would idle for minutes before they end
    scores = search.cv_results_["mean_test_score"]
    return {"seconds": seconds, "memory": memory.peak, "scores": scores}


def theirs_in_part(X, y, places) -> dict:
    """Some values of C on one fold, one after the other; the whole search, from these."""
    warnings.simplefilter("ignore")
    train, held_out = folds(y)[0]
    few, labels = X[train].astype(np.float64), y[train]
    scores, seconds = np.full(COSTS.size, np.nan), np.empty(COSTS.size)
    objectives = []
    for place, following in zip(places, [*places[1:], COSTS.size], strict=True):
        C = COSTS[place]
        model = SklearnLinearSVC(C=C, loss="hinge", random_state=0)
        began = time.perf_counter()
        model.fit(few, labels)
        seconds[place:following] = time.perf_counter() - began
        scores[place] = model.score(X[held_out], y[held_out])
        if place in COMPARED:
            cell = Cell("", C, "hinge", "penalized")
            b = np.ravel(model.intercept_)
            objectives.append(primal_objective(cell, few, labels, model.coef_, b))
    return {
        "seconds": float(seconds.sum()) * FOLDS / THREADS,
        "scores": scores,
        "objectives": objectives,
    }


def our_objectives(X, y, places) -> list[float]:
    """Our objectives on the first fold, for some values of C."""
    train, _ = folds(y)[0]
    costs = COSTS[: places[-1] + 1]
    path = widemargin.svm_path(
        X[train],
        y[train],
        Cs=costs,
        loss="hinge",
        tol=TOL,
        penalized_intercept=True,
        n_jobs=THREADS,
    )
    return [path.certificates[place].primal for place in places]


def section(name: str, places=COMPARED, in_part: bool = True, **limits):
    """A section that measures one set; scikit-learn's search in part, or all of it too."""

    def measure() -> str:
        X, y = load(name)
        mine = apart(ours, X, y, limits)
        part = apart(theirs_in_part, X, y, places)
        search = apart(theirs, X, y, COSTS[:1] if in_part else COSTS)
        their = part if in_part else search
        compared = [place for place in places if place in COMPARED]
        ratios = np.divide(apart(our_objectives, X, y, compared), part["objectives"])
        best = int(np.nanargmax(their["scores"]))
        row = [
            name,
            f"{mine['seconds']:.1f} s",
            f"{'about ' if in_part else ''}{their['seconds']:,.0f} s",
            f"{their['seconds'] / mine['seconds']:.0f}",
            f"{mine['memory'] / 1e6:,.0f} MB",
            f"{search['memory'] / 1e6:,.0f} MB",
            f"{mine['C']:.3g} ({mine['scores'].max():.4f})",
            f"{COSTS[best]:.3g} ({their['scores'][best]:.4f})",
            f"{mine['gap']:.1e}",
            ", ".join(f"{ratio:.4f}" for ratio in ratios),
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
    "largest gap",
    "objectives over scikit-learn's, some C",
]
SECTIONS = {
    "rcv1": section("rcv1", in_part=False),
    "a9a": section("a9a", in_part=False),
    "news20": section("news20", range(COSTS.size), max_time=300.0),
    "covtype": section("covtype", (0, 6, 12)),
}

if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, lambda: None)
