"""Franc & Sonnenburg 2008, Optimized Cutting Plane Algorithm: OCAS beside CPA and SGD.

    OMP_NUM_THREADS=1 python -m benchmarks.papers.ocas                      # all of it, minutes
    OMP_NUM_THREADS=1 python -m benchmarks.papers.ocas selection threads    # some sections

rewrites docs/papers/ocas.md. C_avg is the weight of the mean loss. SGD is scikit-learn's
`SGDClassifier`, epoch by epoch; its objective is computed while the clock stands.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from itertools import pairwise
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

from benchmarks import machine
from benchmarks.papers import report
from benchmarks.papers.programs import LIBOCAS
from benchmarks.papers.report import Check, all_of, at_least, at_most, finding
from benchmarks.papers.sgd import Descent
from benchmarks.sections import table
from benchmarks.solving import (
    Run,
    descend,
    growing,
    load,
    problem_of,
    shuffled,
    slope,
    solve,
    warm_up_cutting_planes,
)
from widemargin import LinearSVC, svm_path
from widemargin.solvers.settings import PUBLISHED_PLANES, CuttingPlaneSettings

RUN_SECONDS = 15.0  # for one run
CURVE_SECONDS = 4.0  # for one curve
EPOCHS = 10  # of SGD where it is run once, as in the paper


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    warm_up_cutting_planes()


def objective(problem, w) -> float:
    """Return 1/2 |w|^2 + risk."""
    return 0.5 * float(w @ w) + problem.risk.value(problem.rows.scores(w))


# --- iterations ---------------------------------------------------------------------------


def methods() -> str:
    """Iterations and time of CPA, OCAS and what `solver="auto"` chooses, to a gap of 1e-3."""
    costs = {
        "a9a": [1e2, 1e3, 1e4, 1e5],
        "ijcnn1": [1e2, 1e4, 1e6],
        "covtype_binary": [1e2, 1e3, 1e4],
        "rcv1": [1e2, 1e3, 1e4, 1e5],
        "splice_worm": [1e2, 1e3],
    }
    lines, fewer, faster = [], [], []
    for name, values in costs.items():
        X, y = load(name)
        for C_avg in values:
            problem = problem_of(X, y, C_avg)
            cpa, ocas = (
                solve(problem, method, 1e-3, limit=RUN_SECONDS) for method in ("cpa", "ocas")
            )
            fewer.append(cpa.iterations / ocas.iterations)
            faster.append(cpa.seconds / ocas.seconds)
            chosen = descend(problem, 1e-3, limit=RUN_SECONDS)
            above = "" if cpa.converged else "over "
            lines.append(
                [
                    f"{name}, {C_avg:.0e}",
                    cpa.until(1e-3),
                    ocas.until(1e-3),
                    f"{above}{fewer[-1]:.1f}",
                    f"{above}{faster[-1]:.1f}",
                    chosen.until(1e-3),
                ]
            )
    checks = [
        all_of([ratio > 1.0 for ratio in fewer], "OCAS takes fewer iterations"),
        all_of([ratio > 1.0 for ratio in faster], "OCAS takes less time"),
        at_least(max(fewer), 10.0, "most times fewer iterations"),
        at_least(max(faster), 10.0, "most times less time"),
    ]
    header = ["data, C_avg", "cpa", "ocas", "iterations, ratio", "time, ratio", "auto (passes)"]
    return finding(table(header, lines), checks)


def program() -> str:
    """Iterations beside libocas, the authors' program: as published, and as shipped."""
    as_libocas = {
        "cpa": replace(PUBLISHED_PLANES["cpa"], rule="objective"),
        "ocas": PUBLISHED_PLANES["ocas"],
    }
    lines, apart, fewer = [], [], []
    for (name, C_avg), quoted in LIBOCAS.items():
        problem = problem_of(*load(name), C_avg)
        cells = []
        for (method, settings), theirs in zip(as_libocas.items(), quoted, strict=True):
            ours = solve(problem, method, 1e-3, settings=settings, limit=RUN_SECONDS).iterations
            shipped = solve(problem, method, 1e-3, limit=RUN_SECONDS).iterations
            cells += ["-" if theirs is None else str(theirs), str(ours), str(shipped)]
            if method == "ocas":
                apart.append(abs(ours - theirs))
            elif theirs is not None:
                fewer.append(ours / theirs)
        lines.append([f"{name}, {C_avg:.0e}", *cells])
    checks = [
        at_most(max(apart), 2, "OCAS: iterations apart from libocas, at most"),
        Check(max(fewer) <= 1.1, f"CPA: {100 * (min(fewer) - 1):.0f} to "
              f"{100 * (max(fewer) - 1):.0f} % more iterations than libocas, at most 10 %"),
    ]  # fmt: skip
    header = ["data, C_avg"]
    for method in as_libocas:
        header += [f"{method}: libocas", "as published", "as shipped"]
    return finding(table(header, lines), checks)


def monotone() -> str:
    """The objective from iteration to iteration."""
    problems = {"rcv1": 1e4, "covtype_binary": 1e3, "a9a": 1e4}
    lines, checks = [], []
    with report.figure("ocas-monotone", list(problems)) as axes:
        for (name, C_avg), ax in zip(problems.items(), axes):
            problem = problem_of(*load(name), C_avg)
            rises = {}
            for method in ("cpa", "ocas"):
                # Steps of zero stay zero, as in the paper.
                plain = CuttingPlaneSettings(smallest_step=0.0)
                run = solve(problem, method, 1e-3, settings=plain, limit=RUN_SECONDS)
                values = run.values
                # The last digits of a sum over all rows are its order's.
                risen = [after > before * (1.0 + 1e-9) for before, after in pairwise(values)]
                rises[method] = sum(risen)
                cut = "" if run.converged else ", cut by the limit"
                label = f"{name}, {C_avg:.0e}, {method}"
                lines.append([label, f"{len(values)}{cut}", f"{sum(risen)}"])
                best = run.history[-1].dual
                color = report.COLOURS[method]
                ax.semilogy(np.array(values[:60]) / best, label=method, color=color)
            ax.set(xlabel="iteration", ylabel="objective / optimum")
            ax.legend()
            checks += [
                at_most(rises["ocas"], 0, f"{name}: iterations in which OCAS's objective rises"),
                at_least(rises["cpa"], 1, f"{name}: iterations in which CPA's rises"),
            ]
    header = ["data, C_avg, method", "iterations", "of which raised the objective"]
    shows = "Objective over optimum by iteration: CPA's goes up and down, OCAS's down"
    return finding(table(header, lines), checks, "ocas-monotone", shows)


# --- objective against time ------------------------------------------------------------------


def convergence() -> str:
    """How far above the optimum OCAS, CPA and SGD are as time goes by."""
    problems = [
        ("rcv1", 1e3),
        ("rcv1", 1e5),
        ("covtype_binary", 1e3),
        ("covtype_binary", 1e5),
        ("a9a", 1e3),
        ("a9a", 1e5),
    ]
    lines, ends, begins, over_cpa = [], [], [], []
    panels = [f"{name}, C_avg = {C_avg:.0e}" for name, C_avg in problems]
    with report.figure("ocas-convergence", panels) as axes:
        for (name, C_avg), ax in zip(problems, axes):
            X, y = shuffled(*load(name))
            problem = problem_of(X, y, C_avg)
            bound = descend(problem, 1e-6, limit=RUN_SECONDS).history[-1].dual
            curves = {"sgd": _descent(problem, X, y, C_avg)}
            for method in ("ocas", "cpa"):
                run = solve(problem, method, 1e-6, limit=CURVE_SECONDS)
                bound = max(bound, run.history[-1].dual)
                curves[method] = [(record.time, record.primal) for record in run.history]
            excess = {
                method: [(t, value / bound - 1.0) for t, value in curve]
                for method, curve in curves.items()
            }
            for method, curve in excess.items():
                points = zip(*report.thinned(curve))
                ax.loglog(*points, label=method, color=report.COLOURS[method])
            ax.set(xlabel="seconds", ylabel="above the optimum", ylim=(1e-6, 10))
            ax.legend()
            final = {method: _best(curve, np.inf) for method, curve in excess.items()}
            early = 2.0 * excess["sgd"][0][0]
            first = {method: _best(curve, early) for method, curve in excess.items()}
            to_one = {method: _when(curve, 1e-2) for method, curve in excess.items()}
            ends.append(final["ocas"] <= final["sgd"])
            begins.append(first["ocas"] <= first["sgd"])
            over_cpa.append(to_one["sgd"] < to_one["cpa"])
            for method in ("ocas", "cpa", "sgd"):
                lines.append(
                    [
                        f"{name}, {C_avg:.0e}, {method}",
                        f"{100 * first[method]:.2g} %",
                        *(_in_seconds(_when(excess[method], gap)) for gap in (1e-1, 1e-2, 1e-3)),
                        f"{100 * final[method]:.2g} %",
                    ]
                )
    checks = [
        all_of(ends, "at the end OCAS is the nearer of OCAS and SGD"),
        at_least(sum(begins), 1, "problems where OCAS leads SGD from SGD's second epoch on"),
        all_of(over_cpa, "SGD is within 1 % of the optimum before CPA"),
    ]
    header = ["data, C_avg, method", "after two epochs of SGD", "to 10 %", "to 1 %", "to 0.1 %"]
    header.append("at the end")
    shows = "How far above the optimum against seconds, both logarithmic, on six problems"
    return finding(table(header, lines), checks, "ocas-convergence", shows)


def _descent(problem, X, y, C_avg: float) -> list[tuple[float, float]]:
    """Return (seconds, objective) after each epoch of SGD, the best so far."""
    descent, curve, best = Descent(C_avg), [], np.inf
    while descent.seconds < CURVE_SECONDS and len(curve) < 300:
        best = min(best, objective(problem, descent.epoch(X, y)))
        curve.append((descent.seconds, best))
    return curve


def _best(curve, until: float) -> float:
    return min((value for t, value in curve if t <= until), default=np.inf)


def _when(curve, excess: float) -> float:
    return next((t for t, value in curve if value <= excess), np.inf)


def _in_seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < np.inf else "-"


# --- model selection -------------------------------------------------------------------------


def selection() -> str:
    """All of a grid of C, the best of which is chosen on validation rows."""
    grid = [10.0**power for power in range(5)]
    lines, faster, alike, larger, sgd_first = [], [], [], [], []
    for name in ("a9a", "ijcnn1", "rcv1", "splice_worm"):
        X, y = shuffled(*load(name), 30_000)
        third = len(y) // 3
        train, valid, test = (slice(i * third, (i + 1) * third) for i in range(3))
        Cs = [C_avg / third for C_avg in grid]
        found = {
            "cpa": _searched(X, y, train, Cs, "cpa"),
            "ocas": _searched(X, y, train, Cs, "ocas"),
            "ocas, warm": _warm(X, y, train, Cs, "ocas"),
            "auto, warm": _warm(X, y, train, Cs, "auto"),
            "sgd": _descents(X, y, train, grid),
        }
        best, area = {}, {}
        for method, (seconds, coefs) in found.items():
            areas = [roc_auc_score(y[valid], X[valid] @ w) for w in coefs]
            best[method] = int(np.argmax(areas))
            area[method] = roc_auc_score(y[test], X[test] @ coefs[best[method]])
            lines.append(
                [
                    f"{name}, {method}",
                    f"{seconds:.2g} s",
                    f"{grid[best[method]]:.0e}",
                    f"{area[method]:.4f}",
                ]
            )
        times = {method: seconds for method, (seconds, _) in found.items()}
        faster.append(times["ocas"] < times["cpa"])
        alike.append(abs(area["ocas"] - area["cpa"]) < 0.005)
        larger.append(best["ocas"] >= best["sgd"])
        sgd_first.append(times["sgd"] == min(times.values()))
    checks = [
        all_of(faster, "OCAS takes less time than CPA for the whole grid"),
        all_of(alike, "OCAS and CPA have the same ROC area, to 0.005"),
        all_of(sgd_first, "SGD is the fastest of all"),
        all_of(larger, "the C chosen for OCAS is no smaller than that for SGD"),
    ]
    header = ["data, method", "time for the grid", "best C_avg", "ROC area on test rows"]
    return finding(table(header, lines), checks)


def _settings(solver: str) -> dict:
    return {
        "loss": "hinge",
        "fit_intercept": False,
        "solver": solver,
        "max_time": RUN_SECONDS,
        "random_state": 0,
        "n_jobs": 1,
    }


def _searched(X, y, train, Cs, solver):
    """Seconds and coefficients of one model after another, each from the beginning."""
    coefs = []
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for C in Cs:
            coefs.append(LinearSVC(C=C, **_settings(solver)).fit(X[train], y[train]).coef_[0])
    return time.perf_counter() - started, coefs


def _warm(X, y, train, Cs, solver):
    """The same, each from where the one before it ended."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = svm_path(X[train], y[train], Cs=Cs, **_settings(solver))
    return time.perf_counter() - started, path.coefs[:, 0]


def _descents(X, y, train, grid):
    seconds, coefs = 0.0, []
    for C_avg in grid:
        descent = Descent(C_avg)
        for _ in range(EPOCHS):
            w = descent.epoch(X[train], y[train])
        coefs.append(w.copy())
        seconds += descent.seconds
    return seconds, coefs


# --- rows, threads -----------------------------------------------------------------------------


def rows() -> str:
    """Time against the number of rows, on DNA."""
    X, y = shuffled(*load("splice_worm"))
    C_avg = 1e3
    sizes = growing(len(y), 4, 4)
    times: dict[str, list[float]] = {"ocas": [], "cpa": [], "sgd": []}
    lines = []
    for n in sizes:
        problem = problem_of(X[:n], y[:n], C_avg)
        cells = [f"{n:,}"]
        for method in ("ocas", "cpa"):
            run = solve(problem, method, 1e-2, limit=RUN_SECONDS)
            times[method].append(run.seconds)
            cells.append(run.until(1e-2))
        descent = Descent(C_avg)
        for _ in range(EPOCHS):
            descent.epoch(X[:n], y[:n])
        times["sgd"].append(descent.seconds)
        lines.append([*cells, f"{descent.seconds:.2g} s"])
    slopes = {method: slope(sizes, seconds) for method, seconds in times.items()}
    lines.append(["slope of log time in log rows", *(f"{s:.2f}" for s in slopes.values())])
    with report.figure("ocas-rows", ["splice_worm"]) as (ax,):
        for method, seconds in times.items():
            ax.loglog(sizes, seconds, "o-", label=method, color=report.COLOURS[method])
        ax.set(xlabel="rows", ylabel="seconds")
        ax.legend()
    checks = [
        at_most(slopes["ocas"], 1.05, "slope of log time over log rows, OCAS"),
        all_of([o < c for o, c in zip(times["ocas"], times["cpa"])], "OCAS faster than CPA"),
    ]
    header = ["rows", *times]
    shows = "Seconds against rows, both logarithmic, for OCAS, CPA and SGD"
    return finding(table(header, lines), checks, "ocas-rows", shows)


def threads() -> str:
    """Seconds by phase, with one thread and more, as many as there are cores."""
    cores = machine.describe()["cores"]
    counts = [1, 2, *(k for k in (4, 8, 16) if k <= cores)]
    phases = ("scores", "line search", "planes", "reduced problem")
    lines, gains = [], {count: [] for count in counts}
    for name, C_avg in (("covtype_binary", 1e4), ("splice_worm", 1e3)):
        problem = problem_of(*load(name), C_avg)
        seconds: dict[int, list[Run]] = {count: [] for count in counts}
        for _ in range(3):  # in turns: the machine's speed drifts
            for count, runs in seconds.items():
                runs.append(solve(problem, "ocas", 1e-3, n_threads=count, limit=RUN_SECONDS))
        each = {
            count: {phase: _per_iteration(runs, phase) for phase in (*phases, "all")}
            for count, runs in seconds.items()
        }
        for phase in (*phases, "all"):
            cells = [f"{1e3 * each[count][phase]:.2f} ms" for count in counts]
            best = min(each[count][phase] for count in counts)
            lines.append([f"{name}, {phase}", *cells, f"{each[1][phase] / best:.2f}"])
        for count in counts:
            work = [each[k]["scores"] + each[k]["planes"] for k in (1, count)]
            searches = each[1]["line search"] / each[count]["line search"]
            gains[count].append((work[0] / work[1], each[1]["all"] / each[count]["all"], searches))
    products, totals, searches = zip(*gains[2], strict=True)
    checks = [
        at_least(min(products), 1.4, "speed-up of products and planes by two threads, the smaller "
                 "of both sets"),
        at_least(min(totals), 1.2, "speed-up of an iteration by two threads, the smaller of both"),
        all_of([search < product for search, product in zip(searches, products, strict=True)],
               "the line search gains less than products do"),
    ]  # fmt: skip
    if 8 in gains:
        most = max(total for _, total, _ in gains[8])
        checks.append(at_least(most, 3.6, "speed-up by 8 threads, the paper's is 4.5"))
    else:
        checks.append(Check(False, f"not measured: this machine has {cores} cores, and the "
                            "paper's speed-up of 4.5 is that of 8"))  # fmt: skip
    header = ["data, phase", *(f"{k} thread{'s' if k > 1 else ''}" for k in counts)]
    return finding(table([*header, "most times faster"], lines), checks)


def _per_iteration(runs: list[Run], phase: str) -> float:
    """Return the median over runs of the seconds per iteration in a phase, or in all."""
    return median(
        (run.iterating if phase == "all" else run.phases.get(phase, 0.0)) / run.iterations
        for run in runs
    )


SECTIONS = {
    "methods": methods,
    "program": program,
    "monotone": monotone,
    "convergence": convergence,
    "selection": selection,
    "rows": rows,
    "threads": threads,
}

if __name__ == "__main__":
    report.run(__doc__, "ocas", SECTIONS, warm_up)
