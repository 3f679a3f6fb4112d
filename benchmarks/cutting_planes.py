"""What an iteration of cutting planes costs, and the multi-class hinge beside LIBLINEAR.

    OMP_NUM_THREADS=1 python -m benchmarks.cutting_planes         # all of it, about ten minutes
    OMP_NUM_THREADS=1 python -m benchmarks.cutting_planes cost    # some sections

rewrites the tables in docs/cutting-planes.md. C_avg is the papers' C, the weight of the *mean*
loss: C = C_avg / n. What the papers claim is measured in `benchmarks.papers`.
"""

from __future__ import annotations

import time
import warnings
from statistics import median

import numpy as np
import scipy.sparse as sp

from benchmarks.analyse import ROOT
from benchmarks.sections import run, table
from benchmarks.solving import LIMIT, load, problem_of, solve, warm_up_cutting_planes
from widemargin import LinearSVC

DOCUMENT = ROOT / "docs" / "cutting-planes.md"


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
                    run = solve(problem, "ocas", 1e-3, n_threads=n_threads)
                    times.append(run.iterating / run.iterations)
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


SECTIONS = {"cost": cost, "crammer-singer": crammer_singer}


if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, warm_up_cutting_planes)
