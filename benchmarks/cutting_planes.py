"""Cutting planes against one another, against their papers, and against a matrix product.

    python -m benchmarks.cutting_planes                 # all of it, about half an hour
    python -m benchmarks.cutting_planes methods cost    # some sections

rewrites the tables in docs/cutting-planes.md. C_avg is the papers' C, the weight of the *mean*
loss: C = C_avg / n.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import scipy.sparse as sp

from benchmarks.analyse import ROOT
from benchmarks.sections import run, table
from benchmarks.sorted_search import sorted_exact
from widemargin import LinearSVC, datasets, threads
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import CrammerSinger, Hinge
from widemargin.solvers import auto, cutting_plane
from widemargin.solvers.cutting_plane import CuttingPlanes

DOCUMENT = ROOT / "docs" / "cutting-planes.md"
LIMIT = 60.0  # seconds for one run


@dataclass
class Run:
    """One run of a solver."""

    history: list
    status: str
    seconds: float
    state: State
    phases: dict[str, float]

    @property
    def iterations(self) -> int:
        return int(self.history[-1].iteration)

    def until(self, gap: float) -> str:
        """Iterations and seconds to a gap, in words."""
        for record in self.history:
            if record.relative_gap <= gap:
                return f"{record.iteration:.0f} it, {record.time:.2g} s"
        return f"not in {self.iterations} it, {self.seconds:.0f} s"

    def share(self, phase: str) -> float:
        """Seconds in one phase over those in all, the certificate's apart."""
        iterating = sum(t for name, t in self.phases.items() if name != "certificate")
        return self.phases.get(phase, 0.0) / iterating


def problem_of(X, y, C_avg: float, multi: bool = False) -> Problem:
    n = X.shape[0]
    cost = np.full(n, C_avg / n)
    if not multi:
        return Problem(as_rows(X), Hinge(y, cost), Intercept.NONE)
    classes, codes = np.unique(y, return_inverse=True)
    return Problem(as_rows(X), CrammerSinger(codes, cost, len(classes)), Intercept.NONE)


def descend(problem: Problem, tol: float) -> Run:
    """Run the coordinate descent that `solver="auto"` chooses."""
    monitor = Monitor(tol=tol, max_iter=100_000, max_time=LIMIT)
    started = time.perf_counter()
    name = auto.choose(problem.rows, problem.risk)
    solver = auto.make(name, problem.risk, seed=0)
    state = solver.solve(problem, State.zero(problem), monitor)
    seconds = time.perf_counter() - started
    return Run(monitor.history, monitor.status, seconds, state, monitor.phases)


def solve(
    problem: Problem,
    method: str,
    tol: float,
    n_threads: int = 1,
    smallest_step: float = 0.02,
    search: Callable | None = None,
) -> Run:
    """Run a method; `search` takes the place of the exact line search."""
    ours = cutting_plane.exact
    cutting_plane.exact = search or ours
    try:
        monitor = Monitor(tol=tol, max_iter=100_000, max_time=LIMIT)
        started = time.perf_counter()
        with threads.lent(n_threads):
            solver = CuttingPlanes(method, smallest_step)
            state = solver.solve(problem, State.zero(problem), monitor)
        seconds = time.perf_counter() - started
    finally:
        cutting_plane.exact = ours
    return Run(monitor.history, monitor.status, seconds, state, monitor.phases)


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X = rng.random((60, 5)).astype(dtype)
        for rows in (X, sp.csr_matrix(X)):
            for multi in (False, True):
                problem = problem_of(rows, np.where(np.arange(60) % 2, 1, -1), 10.0, multi)
                for search in (None, sorted_exact):
                    solve(problem, "ocas", 1e-2, search=search)
                descend(problem, 1e-2)


def load(name: str):
    data = datasets.load(name, download=False)
    return data.X, data.y


# --- sections ---------------------------------------------------------------------------


def methods() -> str:
    """Iterations and time of each method to two gaps."""
    chosen = ["cpa", "ocas", "gca2", "tca"]
    costs = {
        "a9a": [1e2, 1e3, 1e4, 1e5, 1e6],
        "ijcnn1": [1e2, 1e3, 1e4, 1e5, 1e6],
        "covtype_binary": [1e2, 1e3, 1e4, 1e5],
        "rcv1": [1e2, 1e3, 1e4, 1e5],
    }
    rows = []
    for name, values in costs.items():
        X, y = load(name)
        for C_avg in values:
            problem = problem_of(X, y, C_avg)
            runs = [solve(problem, method, 1e-3) for method in chosen]
            runs.append(descend(problem, 1e-3))
            for gap in (1e-2, 1e-3):
                cells = [run.until(gap) for run in runs]
                rows.append([f"{name}, {C_avg:.0e}, {gap:g}", *cells])
    return table(["data, C_avg, gap", *chosen, "auto (passes)"], rows)


def growth() -> str:
    """Iterations and time against the number of rows."""
    X, y = load("covtype_binary")
    order = np.random.default_rng(0).permutation(len(y))
    sizes = [5_000, 20_000, 80_000, 320_000, len(y)]
    rows, seconds = [], {"cpa": [], "ocas": []}
    for n in sizes:
        problem = problem_of(X[order[:n]], y[order[:n]], 1e3)
        cells = []
        for method, times in seconds.items():
            runs = [solve(problem, method, 1e-2) for _ in range(3)]
            times.append(median(run.seconds for run in runs))
            cells.append(f"{runs[0].iterations} it, {times[-1]:.3g} s")
        rows.append([f"{n:,}", *cells])
    slopes = [np.polyfit(np.log(sizes), np.log(times), 1)[0] for times in seconds.values()]
    rows.append(["slope of log time in log n", *(f"{slope:.2f}" for slope in slopes)])
    return table(["rows", *seconds], rows)


def precision() -> str:
    """Iterations against the gap and against C."""
    rows = []
    for name, n in (("covtype_binary", 100_000), ("rcv1", None)):
        X, y = load(name)
        if n is not None:
            chosen = np.random.default_rng(0).permutation(len(y))[:n]
            X, y = X[chosen], y[chosen]
        for method in ("cpa", "ocas"):
            for C_avg in (1e2, 1e3, 1e4, 1e5):
                run = solve(problem_of(X, y, C_avg), method, 1e-4)
                cells = [run.until(gap).split(" it")[0] for gap in (1e-1, 1e-2, 1e-3, 1e-4)]
                rows.append([f"{name}, {method}, {C_avg:.0e}", *cells])
    return table(["data, method, C_avg", "1e-1", "1e-2", "1e-3", "1e-4"], rows)


def searches() -> str:
    """Arnosti's comparison: what the line search costs, and what a cheaper one saves."""
    variants = {
        "OCA, sorting": ("ocas", sorted_exact),
        "OCA, ours": ("ocas", None),
        "GCA": ("gca", None),
        "GCA2": ("gca2", None),
        "TCA": ("tca", None),
    }
    rows = []
    for name, scale, C_avg, rounds in (
        ("covtype", 1.0, 1.0, 5),
        ("covtype", 1.0, 200.0, 5),
        ("mnist", 255.0, 1.0, 2),
        ("poker", 1.0, 25010.0, 5),
    ):
        X, y = load(name)
        problem = problem_of(X * np.float32(scale), y, C_avg, multi=True)
        runs: dict[str, list[Run]] = {label: [] for label in variants}
        for _ in range(rounds):  # in turns: the machine's speed drifts
            for label, (method, search) in variants.items():
                runs[label].append(solve(problem, method, 1e-2, search=search))
        base = None
        for label, repeated in runs.items():
            run = repeated[0]
            searched = median(r.phases["line search"] for r in repeated)
            total = median(sum(r.phases.values()) - r.phases["certificate"] for r in repeated)
            base = base or (searched, total)
            wrong = problem.rows.scores(run.state.coef).argmax(axis=1) != problem.risk.y
            rows.append(
                [
                    f"{name}, {C_avg:g}, {label}",
                    f"{run.iterations}",
                    f"{100 * median(r.share('line search') for r in repeated):.0f} %",
                    f"{searched:.2f} s ({100 * (searched / base[0] - 1):+.0f} %)",
                    f"{total:.2f} s ({100 * (total / base[1] - 1):+.0f} %)",
                    f"{100 * wrong.mean():.2f} %",
                ]
            )
    header = ["data, C_avg, search", "iterations", "share", "search", "total", "training error"]
    return table(header, rows)


def zero_steps() -> str:
    """Iterations with and without small steps in place of repeated zeros."""
    rows = []
    for name, multi, C_avg, tol in (
        ("poker", True, 1.0, 1e-2),
        ("poker", True, 10.0, 1e-2),
        ("poker", True, 100.0, 1e-2),
        ("poker", True, 25010.0, 1e-2),
        ("covtype", True, 100.0, 1e-2),
        ("covtype", True, 1e4, 1e-2),
        ("a9a", False, 1e5, 1e-3),
        ("a9a", False, 1e6, 1e-3),
        ("ijcnn1", False, 1e5, 1e-3),
        ("ijcnn1", False, 1e6, 1e-3),
        ("covtype_binary", False, 1e5, 1e-2),
    ):
        X, y = load(name)
        problem = problem_of(X, y, C_avg, multi)
        plain = solve(problem, "ocas", tol, smallest_step=0.0)
        ours = solve(problem, "ocas", tol)
        patience = cutting_plane._PATIENCE
        cutting_plane._PATIENCE = 1
        always = solve(problem, "ocas", tol)
        cutting_plane._PATIENCE = patience
        rows.append([f"{name}, {C_avg:g}", *(f"{r.iterations}" for r in (plain, always, ours))])
    header = ["data, C_avg", "zero steps taken", "never zero", "after ten in a row"]
    return table(header, rows)


def cost() -> str:
    """What an iteration costs, in matrix products."""
    rows = []
    for name, form in (("covtype_binary", "dense"), ("covtype_binary", "csr"), ("rcv1", "csr")):
        X, y = load(name)
        X = X.astype(np.float64)
        if form == "csr":
            X = sp.csr_matrix(X)
        rng = np.random.default_rng(0)
        w, v = rng.standard_normal(X.shape[1]), rng.standard_normal(X.shape[0])
        for C_avg in (1e3, 1e4):
            problem = problem_of(X, y, C_avg)
            products: list[float] = []
            per_iteration: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(7):  # in turns, and ratios within a turn: the machine's speed drifts
                started = time.perf_counter()
                for _ in range(5):
                    X @ w
                    X.T @ v
                products.append((time.perf_counter() - started) / 5)
                for n_threads, times in per_iteration.items():
                    run = solve(problem, "ocas", 1e-3, n_threads)
                    spent = sum(t for phase, t in run.phases.items() if phase != "certificate")
                    times.append(spent / run.iterations)
            cells = [f"{1e3 * median(products):.1f} ms", f"{run.iterations}"]
            for times in per_iteration.values():
                ratio = median(t / p for t, p in zip(times, products, strict=True))
                cells.append(f"{1e3 * median(times):.1f} ms ({ratio:.2f})")
            rows.append([f"{name}, {form}, {C_avg:.0e}", *cells])
    header = ["data, C_avg", "X w and X^T v", "iterations", "one iteration", "with two threads"]
    return table(header, rows)


def crammer_singer() -> str:
    """The multi-class hinge beside scikit-learn's LIBLINEAR."""
    from sklearn.svm import LinearSVC as SklearnLinearSVC

    rows = []
    for name, C in (
        ("news20", 0.01),
        ("news20", 0.1),
        ("mnist", 0.01),
        ("mnist", 0.1),
        ("covtype", 1e-4),
        ("covtype", 1e-2),
    ):
        X, y = load(name)
        settings = {"C": C, "multi_class": "crammer_singer", "fit_intercept": False}
        best = LinearSVC(**settings, tol=1e-5, max_time=LIMIT, random_state=0).fit(X, y)
        bound = best.certificate_.dual
        cells = []
        for solver in ("auto", "ocas"):
            started = time.perf_counter()
            model = LinearSVC(**settings, solver=solver, max_time=LIMIT, random_state=0).fit(X, y)
            seconds = time.perf_counter() - started
            excess = model.certificate_.primal / bound - 1.0
            cells.append(f"{model.solver_}: {seconds:.2g} s, {100 * excess:.2g} % above")
        X64 = X.astype(np.float64)
        X64 = X64 if sp.issparse(X64) else np.ascontiguousarray(X64)
        for tol in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001):  # max_iter has no effect here
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                peer = SklearnLinearSVC(**settings, tol=tol, random_state=0)
                started = time.perf_counter()
                peer.fit(X64, y)
                seconds = time.perf_counter() - started
            problem = problem_of(X, y, C * X.shape[0], multi=True)
            value = 0.5 * np.sum(peer.coef_**2) + problem.risk.value(X64 @ peer.coef_.T)
            excess = value / bound - 1.0
            if excess <= 1e-3 or seconds > LIMIT / 3:
                break
        cells.append(f"tol={tol:g}: {seconds:.2g} s, {100 * excess:.2g} % above")
        gap = best.certificate_.relative_gap
        rows.append([f"{name}, {C:g}", f"{best.certificate_.primal:.6g} (gap {gap:.0e})", *cells])
    header = ["data, C", "optimum", "widemargin, auto", "widemargin, ocas", "scikit-learn"]
    return table(header, rows)


SECTIONS = {
    "methods": methods,
    "growth": growth,
    "precision": precision,
    "searches": searches,
    "zero-steps": zero_steps,
    "cost": cost,
    "crammer-singer": crammer_singer,
}


if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, warm_up)
