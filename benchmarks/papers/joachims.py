"""Joachims 2006, Training Linear SVMs in Linear Time: time and iterations against n, eps and C.

    OMP_NUM_THREADS=1 python -m benchmarks.papers.joachims              # all of it, minutes
    OMP_NUM_THREADS=1 python -m benchmarks.papers.joachims rows cost    # some sections

rewrites docs/papers/joachims.md. C_avg and eps are the paper's: the weight of the mean loss, and
how far the mean loss may be off. `cpa` ends as the paper's algorithm does, on a gap of C_avg eps.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from statistics import median

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

from benchmarks.papers import report
from benchmarks.papers.programs import SVM_PERF
from benchmarks.papers.report import Check, all_of, at_least, at_most, between, finding
from benchmarks.papers.squared_hinge import finite_newton, lagrangian, objective
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
from widemargin import LinearRanker
from widemargin.problem import Intercept
from widemargin.risk import SquaredHinge
from widemargin.solvers.settings import PUBLISHED_PLANES

EPS = 1e-3
# For covtype the paper has a larger one; decomposition would take hours with it.
COSTS = {"covtype": 1e4, "rcv1": 1e4}
GROWTH = {"covtype": 3, "rcv1": 2}  # from one number of rows to the next
RIVAL_LIMIT = 30.0  # seconds, beyond which a rival is not given more rows
RUN_SECONDS = 40.0  # for one run of cpa
TEST_SHARE = 3  # one row in so many is for testing


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    warm_up_cutting_planes()
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X, y = rng.random((60, 5)).astype(dtype), np.arange(60) % 2
        LinearRanker(n_jobs=2).fit(X, y)


def two_classes(name: str, n: int | None = None):
    """Return rows in random order: covtype's class 1 against the rest, as in the paper; rcv1."""
    X, y = load(name)
    if name == "covtype":
        y = np.where(y == 1, 1, -1)
    return shuffled(X, y, n)


def cpa(X, y, C_avg: float, eps: float = EPS, intercept: Intercept = Intercept.NONE) -> Run:
    """Run Algorithm 1 to the paper's eps."""
    problem = replace(problem_of(X, y, C_avg), intercept=intercept)
    return solve(problem, "cpa", eps, settings=PUBLISHED_PLANES["cpa"], limit=RUN_SECONDS)


def fit_seconds(model, X, y) -> float:
    """Fit a rival; return the seconds it took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        started = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - started


def decomposition(C: float) -> SVC:
    """Today's SVM-light: LIBSVM, which chooses two variables at a time. Its intercept is free."""
    return SVC(kernel="linear", C=C, cache_size=1000)


def liblinear(C: float) -> SklearnLinearSVC:
    return SklearnLinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-2, random_state=0)


# --- the squared hinge ------------------------------------------------------------------


def squared() -> str:
    """Time of Algorithm 1 beside two solvers of the squared hinge."""
    lines, ratios, settled = [], [], []
    for name, C_avg in (("a9a", 1e3), ("a9a", 1e4), ("ijcnn1", 1e3), ("ijcnn1", 1e4)):
        X, y = load(name)
        X, C = X.astype(np.float64), C_avg / len(y)
        started = time.perf_counter()
        w, steps = finite_newton(X, y, C)
        newton = time.perf_counter() - started
        started = time.perf_counter()
        v, iterations, ended = lagrangian(X, y, C)
        lsvm = time.perf_counter() - started
        ours = descend(replace(problem_of(X, y, C_avg), risk=SquaredHinge(y, np.full(len(y), C))),
                       1e-3, "newton")  # fmt: skip
        best = ours.history[-1].dual
        above = [100.0 * (objective(X, y, C, found) / best - 1.0) for found in (w, v)]
        planes = cpa(X, y, C_avg).seconds
        ratios.append(newton / planes)
        settled.append(ended and above[1] < 0.1)
        lines.append(
            [
                f"{name}, {C_avg:.0e}",
                f"{planes:.2g} s",
                f"{steps} it, {newton:.2g} s, {above[0]:.2g} % above",
                f"{iterations} it, {lsvm:.2g} s, {above[1]:.2g} % above",
                f"{ours.seconds:.2g} s",
            ]
        )
    checks = [
        *between(median(ratios), (0.1, 10.0), "time of L2-SVM-MFN over cpa's, median"),
        all_of(settled, "LSVM is within 0.1 % of the optimum"),
    ]
    header = ["data, C_avg", "cpa, hinge", "L2-SVM-MFN", "LSVM", "`newton`, gap 0.1 %"]
    return finding(table(header, lines), checks)


# --- the authors' program ---------------------------------------------------------------


def program() -> str:
    """Iterations beside SVM-perf, as published, and as shipped to a certified gap of 1e-3."""
    lines, apart = [], []
    for (name, C_avg), theirs in SVM_PERF.items():
        X, y = load(name)
        ours = cpa(X, y, C_avg)
        shipped = solve(problem_of(X, y, C_avg), "cpa", 1e-3, limit=RUN_SECONDS)
        apart.append(abs(ours.iterations - theirs) / theirs)
        cells = [f"{theirs}", f"{ours.iterations}", f"{100 * ours.history[-1].relative_gap:.2g} %"]
        lines.append([f"{name}, {C_avg:.0e}", *cells, f"{shipped.iterations}"])
    checks = [at_most(100 * max(apart), 15.0, "percent by which iterations differ")]
    header = ["data, C_avg", "SVM-perf", "as published", "its gap", "as shipped, gap 0.1 %"]
    return finding(table(header, lines), checks)


# --- rows -------------------------------------------------------------------------------


def rows() -> str:
    """Time and iterations against the number of rows, beside a decomposition method."""
    lines, checks = [], []
    with report.figure("joachims-rows", list(COSTS)) as axes:
        for (name, C_avg), ax in zip(COSTS.items(), axes):
            X, y = two_classes(name)
            sizes = growing(len(y), GROWTH[name], 6)
            runs, rival, dual = [], {}, []
            for n in sizes:
                runs.append(cpa(X[:n], y[:n], C_avg))
                dual.append(fit_seconds(liblinear(C_avg / n), X[:n], y[:n]))
                # Three times the rows take it some nine times as long.
                expected = GROWTH[name] ** 2 * max(rival.values(), default=0.0)
                if expected <= RIVAL_LIMIT:
                    rival[n] = fit_seconds(decomposition(C_avg / n), X[:n], y[:n])
                taken = f"{rival[n]:.3g} s" if n in rival else "-"
                lines.append(
                    [
                        f"{name}, {n:,}",
                        f"{runs[-1].iterations}",
                        f"{runs[-1].seconds:.3g} s",
                        taken,
                        f"{dual[-1]:.3g} s",
                    ]
                )
            seconds = [run.seconds for run in runs]
            iterations = [run.iterations for run in runs]
            slopes = [slope(sizes, iterations), slope(sizes, seconds)]
            slopes += [slope(list(rival), list(rival.values())), slope(sizes, dual)]
            lines.append([f"{name}, slope", *(f"{value:.2f}" for value in slopes)])
            last = max(rival)
            ratio = rival[last] / seconds[sizes.index(last)]
            checks += [
                *between(slopes[1], (0.6, 1.0), f"{name}: slope of log time over log rows, cpa"),
                at_most(slopes[0], 0.1, f"{name}: slope of log iterations over log rows, cpa"),
                at_least(slopes[2], 1.2, f"{name}: slope of log time over log rows, SVC"),
                at_least(ratio, 10.0, f"{name}, {last:,} rows: SVC's time over cpa's"),
            ]
            drawn = {"cpa": dict(zip(sizes, seconds)), "SVC": rival}
            drawn["LIBLINEAR"] = dict(zip(sizes, dual))
            for label, times in drawn.items():
                color = report.COLOURS[label]
                ax.loglog(list(times), list(times.values()), "o-", label=label, color=color)
            ax.set(xlabel="rows", ylabel="seconds")
            ax.legend()
    header = ["data, rows", "cpa: iterations", "cpa", "SVC", "LIBLINEAR"]
    shows = "Seconds against rows, both logarithmic, for cpa, SVC and LIBLINEAR"
    return finding(table(header, lines), checks, "joachims-rows", shows)


# --- precision --------------------------------------------------------------------------


def bound(X, C_avg: float, eps: float) -> float:
    """Return the paper's bound on iterations, max(2 / eps, 8 C R^2 / eps^2)."""
    squares = X.multiply(X).sum(axis=1) if issparse(X) else np.einsum("ij,ij->i", X, X)
    return max(2.0 / eps, 8.0 * C_avg * float(np.max(squares)) / eps**2)


def halves(X, y):
    """Return training rows, training labels, test rows, test labels; two thirds and one."""
    n = len(y) - len(y) // TEST_SHARE
    return X[:n], y[:n], X[n:], y[n:]


def error_of(scores, y) -> float:
    """Return the share of wrong rows, in percent."""
    return 100.0 * float(np.mean(np.where(scores > 0, 1, -1) != y))


def break_even(scores, y) -> float:
    """Return the precision of as many first rows as there are positive ones, in percent.

    It is their recall as well: the break-even point of precision and recall.
    """
    n_positive = int(np.count_nonzero(y > 0))
    return 100.0 * float(np.mean(y[np.argsort(-scores, kind="stable")[:n_positive]] > 0))


def precision() -> str:
    """Iterations, time and error on rows not seen, against eps."""
    accuracies = [1e-1, 3e-2, 1e-2, 3e-3, 1e-3]
    lines, checks = [], []
    with report.figure("joachims-precision", list(COSTS)) as axes:
        for (name, C_avg), ax in zip(COSTS.items(), axes):
            X, y, X_test, y_test = halves(*two_classes(name, 150_000))
            runs = {eps: cpa(X, y, C_avg, eps) for eps in accuracies}
            errors = {eps: error_of(X_test @ run.state.coef, y_test) for eps, run in runs.items()}
            limits = {eps: bound(X, C_avg, eps) for eps in accuracies}
            for eps, run in runs.items():
                lines.append(
                    [
                        f"{name}, {eps:g}",
                        f"{run.iterations}",
                        f"{limits[eps]:.2g}",
                        f"{run.seconds:.2g} s",
                        f"{errors[eps]:.2f} %",
                        f"{errors[eps] - errors[EPS]:+.2f}",
                        f"{100 * run.history[-1].relative_gap:.2g} %",
                    ]
                )
            inverse = [1.0 / eps for eps in accuracies]
            iterations = [run.iterations for run in runs.values()]
            fine = [abs(errors[eps] - errors[EPS]) for eps in accuracies if eps <= 1e-2]
            checks += [
                *between(
                    slope(inverse, iterations),
                    (0.25, 0.45),
                    f"{name}: slope of log iterations over log 1/eps",
                ),
                at_most(
                    slope(inverse, [run.seconds for run in runs.values()]),
                    1.0,
                    f"{name}: slope of log time over log 1/eps",
                ),
                all_of(
                    [runs[eps].iterations <= limits[eps] for eps in accuracies],
                    f"{name}: iterations within the bound",
                ),
                at_most(max(fine), 0.5, f"{name}: percentage points between eps of 0.01 and less"),
            ]
            ax.loglog(accuracies, iterations, "o-", label="iterations")
            ax.loglog(accuracies, list(limits.values()), "--", label="the bound")
            ax.set(xlabel="eps", ylabel="iterations")
            ax.invert_xaxis()
            ax.legend()
    header = ["data, eps", "iterations", "bound", "time", "test error", "against 0.001", "gap"]
    shows = "Iterations against eps, both logarithmic, and the paper's bound on them"
    return finding(table(header, lines), checks, "joachims-precision", shows)


# --- C ------------------------------------------------------------------------------------


def cost() -> str:
    """Iterations and time against C, and the rules learnt beside those of decomposition."""
    costs = [1e2, 1e3, 1e4, 1e5]
    lines, checks = [], []
    with report.figure("joachims-cost", list(COSTS)) as axes:
        for name, ax in zip(COSTS, axes):
            X, y, X_test, y_test = halves(*two_classes(name, 4_500))
            iterations, seconds, rival, apart = [], [], [], []
            for C_avg in costs:
                run = cpa(X, y, C_avg)
                model = decomposition(C_avg / len(y))
                rival.append(fit_seconds(model, X, y))
                iterations.append(run.iterations)
                seconds.append(run.seconds)
                free = cpa(X, y, C_avg, intercept=Intercept.FREE)  # as SVC has it
                scores = [
                    X_test @ run.state.coef,
                    X_test @ free.state.coef + free.state.offset,
                    model.decision_function(X_test),
                ]
                errors = [error_of(values, y_test) for values in scores]
                points = [break_even(values, y_test) for values in scores[1:]]
                apart.append(errors[1] - errors[2])
                lines.append(
                    [
                        f"{name}, {C_avg:.0e}",
                        f"{run.iterations}",
                        f"{seconds[-1]:.2g} s",
                        f"{rival[-1]:.2g} s",
                        *(f"{error:.2f} %" for error in errors),
                        *(f"{point:.2f} %" for point in points),
                    ]
                )
            growth = slope(costs, iterations)
            lines.append([f"{name}, slope", f"{growth:.2f}", f"{slope(costs, seconds):.2f}"])
            lines[-1] += [f"{slope(costs, rival):.2f}", "", "", "", "", ""]
            checks += [
                *between(growth, (0.35, 0.65), f"{name}: slope of log iterations over log C"),
                all_of(
                    [ours < theirs for ours, theirs in zip(seconds, rival)],
                    f"{name}: cpa takes less time than SVC",
                ),
                at_most(
                    max(apart),
                    0.5,
                    f"{name}: percentage points by which cpa errs more, with the same intercept",
                ),
            ]
            ax.loglog(costs, iterations, "o-", label="iterations of cpa")
            root = [iterations[0] * np.sqrt(C_avg / costs[0]) for C_avg in costs]
            ax.loglog(costs, root, "--", label="square root of C")
            ax.set(xlabel="C_avg", ylabel="iterations")
            ax.legend()
    header = ["data, C_avg", "iterations", "cpa", "SVC", "test error, cpa", "with intercept"]
    header += ["SVC", "break-even, cpa with intercept", "SVC"]
    shows = "Iterations of cpa against C, both logarithmic"
    return finding(table(header, lines), checks, "joachims-cost", shows)


# --- ordinal regression --------------------------------------------------------------------


def ordinal() -> str:
    """ROC area, ordinal regression with two ranks, on more and more of covtype."""
    X, y = two_classes("covtype")
    sizes = growing(len(y), 3, 5)
    lines, each, iterations = [], {"cpa": [], "ocas": []}, {"cpa": [], "ocas": []}
    for n in sizes:
        cells = [f"{n:,}"]
        for solver, times in each.items():
            model = LinearRanker(C=1e4 / n, solver=solver, n_jobs=2)
            seconds = fit_seconds(model, X[:n], y[:n])
            times.append(seconds / model.n_iter_)
            iterations[solver].append(model.n_iter_)
            cells += [f"{model.n_iter_}", f"{seconds:.3g} s", f"{1e3 * times[-1]:.3g} ms"]
        lines.append([*cells, f"{model.n_pairs_:.2g}"])
    slopes = {solver: slope(sizes, times) for solver, times in each.items()}
    lines.append(
        ["slope", "", "", f"{slopes['cpa']:.2f}", "", "", f"{slopes['ocas']:.2f}", ""],
    )
    with report.figure("joachims-ordinal", ["covtype, ROC area"]) as (ax,):
        for solver, times in each.items():
            color = report.COLOURS[solver]
            ax.loglog(sizes, 1e3 * np.array(times), "o-", label=solver, color=color)
        ax.set(xlabel="rows", ylabel="milliseconds per iteration")
        ax.legend()
    checks = [
        at_most(slopes["cpa"], 1.1, "slope of log time per iteration over log rows, cpa"),
        at_most(slope(sizes, iterations["cpa"]), 0.1, "slope of log iterations over log rows"),
        Check(
            model.status_ == "converged", f"{sizes[-1]:,} rows were trained on to the tolerance"
        ),
    ]
    header = [
        "rows",
        "cpa: iterations",
        "time",
        "each",
        "ocas: iterations",
        "time",
        "each",
        "pairs",
    ]
    shows = "Milliseconds per iteration against rows, both logarithmic"
    return finding(table(header, lines), checks, "joachims-ordinal", shows)


def pairs() -> str:
    """All pair differences given to a classifier, where they fit into memory."""
    X_all, y_all = load("ijcnn1")
    lines, ratios = [], []
    for n in (2_000, 6_000):
        X, y = X_all[:n], y_all[:n]
        X = np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
        model = LinearRanker(C=1.0)
        ours = median(fit_seconds(model, X, y) for _ in range(3))
        upper, lower = X[y > 0], X[y < 0]
        differences = (upper[:, None] - lower[None]).reshape(-1, X.shape[1])
        sign = np.where(np.arange(len(differences)) % 2, 1.0, -1.0)  # it wants two classes
        differences *= sign[:, None]
        C = len(y) / len(differences)
        for sweeps in (3, 10, 30, 100, 300):
            peer = SklearnLinearSVC(
                C=C, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=sweeps
            )
            theirs = fit_seconds(peer, differences, sign)
            losses = np.maximum(0.0, 1.0 - sign * (differences @ peer.coef_[0]))
            value = 0.5 * np.sum(peer.coef_**2) + C * losses.sum()
            excess = value / model.certificate_.dual - 1.0
            if excess <= 1e-3 or theirs > RIVAL_LIMIT:
                break
        ratios.append(theirs / ours)
        lines.append(
            [
                f"{len(y):,}",
                f"{len(differences):,}",
                f"{differences.nbytes / 2**30:.2g} GiB",
                f"{ours:.2g} s",
                f"{theirs:.3g} s, {100 * excess:.2g} % above",
                f"{ratios[-1]:.0f}",
            ]
        )
    checks = [
        at_least(ratios[-1], 10.0, "time on the pairs over LinearRanker's, most rows"),
        Check(ratios[-1] > ratios[0], "that ratio grows with the rows"),
    ]
    header = ["rows", "pairs", "their size", "LinearRanker", "LinearSVC on the pairs", "ratio"]
    return finding(table(header, lines), checks)


SECTIONS = {
    "program": program,
    "squared": squared,
    "rows": rows,
    "precision": precision,
    "cost": cost,
    "ordinal": ordinal,
    "pairs": pairs,
}

if __name__ == "__main__":
    report.run(__doc__, "joachims", SECTIONS, warm_up)
