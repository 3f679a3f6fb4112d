"""Arnosti 2010, Reducing Training Time for Linear SVMs: what the line search costs, and may save.

    OMP_NUM_THREADS=1 python -m benchmarks.papers.arnosti                # all of it, minutes
    OMP_NUM_THREADS=1 python -m benchmarks.papers.arnosti features cost  # some sections

rewrites docs/papers/arnosti.md. C_avg is the weight of the mean loss. OCA's line search sorts all
breakpoints, as in the paper (`sorted_search.py`); the library's own, which does not sort, is
beside it. Multi-class hinge, no intercept, one thread; times without the final certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from statistics import median

import numpy as np

from benchmarks.papers import report
from benchmarks.papers.report import Check, all_of, at_least, at_most, finding
from benchmarks.papers.sorted_search import sorted_exact
from benchmarks.sections import table
from benchmarks.solving import (
    Run,
    load,
    problem_of,
    shuffled,
    solve,
    warm_up_cutting_planes,
)
from widemargin.solvers.line_search import exact
from widemargin.solvers.settings import PUBLISHED_PLANES, CuttingPlaneSettings

#: what the table calls it -> method and search
VARIANTS = {
    "OCA": ("ocas", sorted_exact),
    "OCA, not sorting": ("ocas", None),
    "GCA": ("gca", None),
    "GCA2": ("gca2", None),
    "TCA": ("tca", None),
}
SEARCH, REDUCED = "line search", "reduced problem"
SOME_ROWS = 100_000  # of covtype, where all would take minutes
FEW_ROWS = 10_000  # of covtype, where C is so large that iterations are many
RUN_SECONDS = 60.0  # for one run
# A step of rounding errors alone is a step of zero.
ZERO = 1e-9
#: of the paper's section V, on all eight million hands of poker, C = 1, eps = 0.01
PAPERS_ITERATIONS = {"OCA": 1454, "GCA2": 235, "TCA": 234, "OCA, five steps of 0.02 first": 231}
# Steps of zero stay zero; and a small step is taken in place of the first one.
PLAIN = CuttingPlaneSettings(smallest_step=0.0)
NEVER_ZERO = CuttingPlaneSettings(patience=1)


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    warm_up_cutting_planes(searches=(None, sorted_exact))


def in_turns(problem, labels, rounds: int, tol: float = 1e-2, **settings) -> dict[str, list[Run]]:
    """Run variants one after the other, again and again: the machine's speed drifts."""
    runs: dict[str, list[Run]] = {label: [] for label in labels}
    for _ in range(rounds):
        for label in labels:
            method, search = VARIANTS[label]
            runs[label].append(
                solve(problem, method, tol, search=search, limit=RUN_SECONDS, **settings)
            )
    return runs


def training_error(problem, run: Run) -> float:
    """Return the share of training rows that are given a wrong class, in percent."""
    guessed = problem.rows.scores(run.state.coef).argmax(axis=1)
    return 100.0 * float(np.mean(guessed != problem.risk.y))


def zeros_of(run: Run) -> int:
    """Return how many steps were zero."""
    return sum(abs(step) < ZERO for step in run.steps)


def _count(run: Run) -> str:
    """Iterations to the tolerance, in words."""
    return f"{run.iterations}" if run.converged else f"over {run.iterations}"


# --- the search -----------------------------------------------------------------------------


def searches() -> str:
    """What the line search costs, and what a cheaper one saves."""
    paper = {"covtype": (35.9, 56.0, 38.0), "mnist": (5.57, 21.0, 14.0)}
    lines, checks = [], []
    for name, scale, C_avg, rounds in (
        ("covtype", 1.0, 1.0, 3),
        ("covtype", 1.0, 200.0, 2),
        ("mnist", 255.0, 1.0, 1),  # raw pixels
    ):
        X, y = load(name)
        problem = problem_of(X * np.float32(scale), y, C_avg, multi=True)
        # Three grids of all rows are never the fastest, and mnist takes long.
        labels = [label for label in VARIANTS if label != "GCA" or name != "mnist"]
        runs = in_turns(problem, labels, rounds)
        searched = {k: median(r.phases.get(SEARCH, 0.0) for r in runs[k]) for k in labels}
        total = {k: median(r.iterating for r in runs[k]) for k in labels}
        for label, (run, *_) in runs.items():
            ratios = [searched[label] / searched["OCA"], total[label] / total["OCA"]]
            lines.append(
                [
                    f"{name}, {C_avg:g}, {label}",
                    _count(run),
                    f"{100 * median(r.share(SEARCH) for r in runs[label]):.0f} %",
                    f"{searched[label]:.2f} s ({100 * (ratios[0] - 1):+.0f} %)",
                    f"{total[label]:.2f} s ({100 * (ratios[1] - 1):+.0f} %)",
                    f"{training_error(problem, run):.2f} %",
                ]
            )
        if C_avg != 1.0:
            continue  # the paper's C only
        error, share, saved = paper[name]
        found = training_error(problem, runs["OCA"][0])
        own_share = 100 * median(r.share(SEARCH) for r in runs["OCA"])
        checks += [
            Check(abs(found - error) < 0.5, f"{name}: training error {found:.2f} %, not {error} %"
                  if abs(found - error) >= 0.5 else f"{name}: training error {found:.2f} %"),
            Check(abs(own_share - share) < 10, f"{name}: OCA's search takes {own_share:.0f} % of "
                  f"its time, the paper's {share:.0f} %"),
        ]  # fmt: skip
        for label in ("GCA2", "TCA"):
            less = [100 * (1 - seconds[label] / seconds["OCA"]) for seconds in (searched, total)]
            more = 100 * (runs[label][0].iterations / runs["OCA"][0].iterations - 1)
            checks += [
                at_least(less[0], 60.0, f"{name}, {label}: percent of the search time saved"),
                at_least(less[1], saved / 2, f"{name}, {label}: percent of all time saved"),
                at_most(more, 10.0, f"{name}, {label}: percent more iterations"),
            ]
    header = ["data, C_avg, search", "iterations", "share", "search", "total", "training error"]
    return finding(table(header, lines), checks)


def binary() -> str:
    """The same for two classes, which the paper leaves for later."""
    lines, saved = [], []
    for name, C_avg in (("a9a", 1e4), ("ijcnn1", 1e5), ("covtype_binary", 1e3), ("rcv1", 1e4)):
        problem = problem_of(*load(name), C_avg)
        labels = ["OCA", "OCA, not sorting", "GCA2", "TCA"]
        runs = in_turns(problem, labels, 3, tol=1e-3)
        total = {label: median(run.iterating for run in runs[label]) for label in labels}
        cells = [f"{runs[label][0].iterations} it, {total[label]:.2g} s" for label in labels]
        lines.append([f"{name}, {C_avg:.0e}", *cells])
        saved += [total[label] < total["OCA"] for label in ("GCA2", "TCA")]
    checks = [all_of(saved, "GCA2 or TCA takes less time than OCA")]
    return finding(table(["data, C_avg", *labels], lines), checks)


# --- features, C, eps -----------------------------------------------------------------------


def features() -> str:
    """The search's share of OCA's time, with more and more features left out."""
    lines, checks, shares = [], [], {}
    for name, scale, C_avg, kept, iterations in (
        ("mnist", 255.0, 10.0, (None, 473, 337, 139), 30),
        ("rcv1_multi", 1.0, 1.0, (None, 4373, 2368, 676, 186), 8),
    ):
        X, y = load(name)
        X = X * np.float32(scale)
        # Those that most rows have.
        present = np.asarray((X != 0).sum(axis=0)).ravel()
        by_presence = np.argsort(-present, kind="stable")
        shares[name] = {}
        for count in kept:
            count = min(count or X.shape[1], X.shape[1])
            some = X if count == X.shape[1] else X[:, np.sort(by_presence[:count])]
            problem = problem_of(some, y, C_avg, multi=True)
            run = solve(
                problem, "ocas", 1e-9, search=sorted_exact, max_iter=iterations, limit=RUN_SECONDS
            )
            share = 100 * run.share(SEARCH)
            shares[name][count] = share
            each = [run.phases[SEARCH] / run.iterations, run.iterating / run.iterations]
            cells = [f"{1e3 * seconds:.0f} ms" for seconds in each]
            lines.append([f"{name}, {count:,}", *cells, f"{share:.1f} %"])
        found = list(shares[name].values())
        checks += [
            Check(found[-1] > found[0], f"{name}: the share is larger with the fewest features "
                  f"({found[-1]:.0f} %) than with all ({found[0]:.0f} %)"),
            all_of([after >= before for before, after in pairwise(found)],
                   f"{name}: the share grows as features are left out"),
        ]  # fmt: skip
    with report.figure("arnosti-features", list(shares)) as axes:
        for ax, by_count in zip(axes, shares.values()):
            ax.semilogx(list(by_count), list(by_count.values()), "o-")
            ax.set_xticks(list(by_count), [f"{count:,}" for count in by_count], fontsize=6)
            ax.minorticks_off()
            ax.set(xlabel="features", ylabel="search, % of OCA's time")
    header = ["data, features", "search, each iteration", "all, each iteration", "share"]
    shows = "The line search's share of OCA's time against the number of features"
    return finding(table(header, lines), checks, "arnosti-features", shows)


def tolerance() -> str:
    """Where OCA's time goes as eps falls."""
    accuracies = [1e-1, 1e-2, 1e-3, 1e-4]
    X, y = shuffled(*load("covtype"), SOME_ROWS)
    problem = problem_of(X, y, 100.0, multi=True)
    lines, shares = [], {SEARCH: [], REDUCED: []}
    for eps in accuracies:
        run = solve(problem, "ocas", eps, search=sorted_exact, limit=RUN_SECONDS)
        for phase, found in shares.items():
            found.append(100 * run.share(phase))
        cells = [f"{run.iterations}", f"{run.iterating:.2f} s"]
        lines.append([f"{eps:g}", *cells, *(f"{found[-1]:.1f} %" for found in shares.values())])
    checks = [
        Check(shares[REDUCED][-1] > shares[REDUCED][0], "the reduced problem's share grows"),
        at_least(shares[REDUCED][-1], 50.0, "percent of the time in the reduced problem, at last"),
        Check(shares[SEARCH][-1] < shares[SEARCH][0], "the search's share falls"),
    ]
    header = ["eps", "iterations", "time", "search", "reduced problem"]
    return finding(table(header, lines), checks)


def cost() -> str:
    """Iterations of GCA2 and TCA over OCA's, against C."""
    X, y = shuffled(*load("covtype"), FEW_ROWS)
    costs = [1.0, 1e2, 1e4, 1e5, 1e6]
    lines, shares, ratios = [], [], {"GCA2": [], "TCA": []}
    for C_avg in costs:
        problem = problem_of(X, y, C_avg, multi=True)
        runs = in_turns(problem, ["OCA", *ratios], 1, settings=PLAIN)
        base = runs["OCA"][0]
        shares.append(zeros_of(base) / base.iterations)
        cells = [f"{base.iterations}", f"{zeros_of(base)}"]
        for label, found in ratios.items():
            found.append(runs[label][0].iterations / base.iterations)
            cells.append(f"{runs[label][0].iterations} ({found[-1]:.2f})")
        lines.append([f"{C_avg:.0e}", *cells, f"{training_error(problem, base):.1f} %"])
    with report.figure("arnosti-cost", ["covtype"]) as (ax,):
        for label, found in ratios.items():
            ax.semilogx(costs, found, "o-", label=label)
        ax.axhline(1.0, color="grey", linewidth=1)
        ax.set(xlabel="C_avg", ylabel="iterations / OCA's")
        ax.legend()
    checks = [
        Check(found[-1] < found[0], f"{label}: the ratio is smaller at the largest C "
              f"({found[-1]:.2f}) than at the smallest ({found[0]:.2f})")
        for label, found in ratios.items()
    ]  # fmt: skip
    percent = [100 * shares[0], 100 * shares[-1]]
    checks.append(Check(percent[1] > percent[0], f"OCA's share of steps of zero is larger at the "
                        f"largest C ({percent[1]:.0f} %) than at the smallest ({percent[0]:.0f} %)"
                        ))  # fmt: skip
    header = ["C_avg", "OCA", "its steps of zero", *ratios, "OCA's training error"]
    shows = "Iterations of GCA2 and TCA over those of OCA, against C"
    return finding(table(header, lines), checks, "arnosti-cost", shows)


# --- steps of zero --------------------------------------------------------------------------


def five_small_steps() -> Callable:
    """Return a search whose first five steps are 0.02, and the others exact: the paper's cure."""
    steps = []

    def search(penalty, line, guess):
        steps.append(guess)
        if len(steps) <= 5:
            return 0.02, penalty.at(0.02) + float(line.evaluate([0.02]).values[0])
        return exact(penalty, line, guess)

    return search


def poker() -> str:
    """All five methods on poker, as the paper has them, with its cure, and as shipped."""
    X, y = load("poker")
    problem = problem_of(X, y, float(len(y)), multi=True)  # C = 1 is the weight of the sum
    rows = {"CPA": ("cpa", None), "OCA": ("ocas", None)}
    rows["OCA, five steps of 0.02 first"] = ("ocas", five_small_steps)
    rows |= {"GCA": ("gca", None), "GCA2": ("gca2", None), "TCA": ("tca", None)}
    lines, found = [], {}
    for label, (method, search) in rows.items():
        # Thousands of planes would take long; those that are out of use are dropped.
        plain = replace(PUBLISHED_PLANES[method], rule="objective", idle_iterations=20)
        never = replace(plain, smallest_step=0.02, patience=1)
        cells = [str(PAPERS_ITERATIONS.get(label, "-"))]
        for settings in (plain, never, CuttingPlaneSettings()):
            if method == "cpa" and settings is never:
                cells.append("-")  # it has no steps
                continue
            run = solve(
                problem, method, 1e-2, settings=settings, limit=RUN_SECONDS,
                search=None if search is None else search(),
            )  # fmt: skip
            found.setdefault(label, run)
            zeros = f", {zeros_of(run)} zero" if method != "cpa" else ""
            cells.append(f"{_count(run)}{zeros}")
        first = found[label]
        cells += [f"{first.seconds:.2g} s", f"{training_error(problem, first):.1f} %"]
        lines.append([label, *cells])
    checks = [
        at_least(
            zeros_of(found["OCA"]) / found["OCA"].iterations, 0.9, "share of OCA's steps of zero"
        )
    ]
    for label in ("GCA2", "TCA", "OCA, five steps of 0.02 first"):
        run, papers = found[label], PAPERS_ITERATIONS[label]
        fewer = found["OCA"].iterations / run.iterations
        checks += [
            at_least(fewer, 1454 / 235 / 2, f"{label}: times fewer iterations than OCA"),
            Check(papers / 2 <= run.iterations <= 2 * papers,
                  f"{label}: {run.iterations} iterations, the paper's {papers}, within twice"),
        ]  # fmt: skip
    header = ["method", "the paper", "as published", "never zero", "as shipped"]
    return finding(table([*header, "time, published", "training error"], lines), checks)


def zero_steps() -> str:
    """Iterations with and without small steps in place of zeros."""
    lines, checks = [], []
    for name, multi, C_avg, tol in (
        ("poker", True, 1.0, 1e-2),
        ("poker", True, 100.0, 1e-2),
        ("poker", True, 25010.0, 1e-2),
        ("covtype", True, 100.0, 1e-2),
        ("a9a", False, 1e5, 1e-3),
        ("a9a", False, 1e6, 1e-3),
        ("ijcnn1", False, 1e5, 1e-3),
        ("ijcnn1", False, 1e6, 1e-3),
        ("covtype_binary", False, 1e5, 1e-2),
    ):
        X, y = load(name)
        problem = problem_of(X, y, C_avg, multi)
        plain = solve(problem, "ocas", tol, settings=PLAIN, limit=RUN_SECONDS)
        ours = solve(problem, "ocas", tol, limit=RUN_SECONDS)
        never = solve(problem, "ocas", tol, settings=NEVER_ZERO, limit=RUN_SECONDS)
        zeros = zeros_of(plain)
        counts = [_count(run) for run in (plain, never, ours)]
        counts.insert(1, str(zeros))
        lines.append([f"{name}, {C_avg:g}", *counts])
        if name == "poker" and C_avg == 1.0:
            moved = plain.iterations - zeros
            checks.append(at_most(moved, 0, "poker, C_avg = 1: OCA's steps that were not zero"))
        if name == "poker" and C_avg == 25010.0:
            checks += [
                at_least(zeros / plain.iterations, 0.9, "poker: share of OCA's steps of zero"),
                at_least(
                    plain.iterations / never.iterations,
                    5.0,
                    "poker: iterations, zeros taken over never zero",
                ),
            ]
        if name == "covtype":
            less = 100 * (1 - never.iterations / plain.iterations)
            checks.append(at_least(less, 10.0, "covtype: percent of iterations saved"))
    header = ["data, C_avg", "zero steps taken", "of which zero", "never zero"]
    header.append("zero after ten in a row only")
    return finding(table(header, lines), checks)


SECTIONS = {
    "searches": searches,
    "binary": binary,
    "features": features,
    "tolerance": tolerance,
    "cost": cost,
    "poker": poker,
    "zero-steps": zero_steps,
}

if __name__ == "__main__":
    report.run(__doc__, "arnosti", SECTIONS, warm_up)
