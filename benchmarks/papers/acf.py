"""Glasmachers & Dogan 2013, adaptive variable selection frequencies: `acf` against uniform `dcd`.

    OMP_NUM_THREADS=1 python -m benchmarks.papers.acf                # all of it, minutes
    OMP_NUM_THREADS=1 python -m benchmarks.papers.acf rcv1 news20    # some sections

rewrites docs/papers/acf.md. C is the weight of the summed losses. Hinge loss, no intercept, one
thread; a pass is as many visits as there are rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from benchmarks.files import in_memory, paths_shards
from benchmarks.papers import report
from benchmarks.papers.programs import AVSF
from benchmarks.papers.report import Check, all_of, at_least, finding
from benchmarks.sections import table
from benchmarks.solving import Run, descend, load, problem_of, warm_up_cutting_planes
from widemargin import open_rows

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
TOLERANCES = (1e-1, 1e-2, 1e-3)  # from large to small
GAP = 1e-3  # of the solvers as shipped
SCHEDULES = ("dcd", "acf")
RUN_SECONDS = 6.0  # for one run
LONG_RUN_SECONDS = 20.0  # where uniform sweeps would not be done in that time at any large C
PATHS_ROWS = 50_000
SHORT, REPEATS = 0.3, 5  # runs shorter than this are repeated, and the median counts


@dataclass
class Pace:
    """One schedule at one C and tolerance: visits over rows, and seconds.

    `reached` says whether that was in time, and `gap` what was proved at the end.
    """

    reached: bool
    passes: float
    seconds: float
    gap: float

    @classmethod
    def of(cls, run: Run) -> Pace:
        last = run.history[-1]
        return cls(run.converged, last.iteration, run.seconds, last.relative_gap)

    def __str__(self) -> str:
        text = f"{self.passes:.0f}, {self.seconds:.2g} s"
        return text if self.reached else f"not in {text}"


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    warm_up_cutting_planes()
    X, y = np.random.default_rng(0).random((60, 5)), np.where(np.arange(60) % 2, 1, -1)
    for schedule in SCHEDULES:
        descend(problem_of(X, y, 10.0), 0.1, f"{schedule}-paper")


def rows_of(name: str):
    """Return X and y of a set; "paths" are file paths as hashed n-grams, a million features."""
    if name != "paths":
        return load(name)
    rows = open_rows(paths_shards(PATHS_ROWS))
    return in_memory(rows, rows.n_rows), np.sign(rows.labels)


def pace(problem, tol: float, solver: str, limit: float) -> Pace:
    """Return the pace of a solver; of a short run, the median of several."""
    first = Pace.of(descend(problem, tol, solver, limit=limit))
    if first.seconds > SHORT:
        return first
    seconds = [descend(problem, tol, solver).seconds for _ in range(REPEATS)]
    return replace(first, seconds=median(seconds))


def measure(name: str, limit: float) -> dict[tuple[float, float], dict[str, Pace]]:
    """Return the paces of both schedules as published, by C and eps; as shipped, by C and 0."""
    X, y = rows_of(name)
    paces: dict[tuple[float, float], dict[str, Pace]] = {}
    for C in COSTS:
        problem = problem_of(X, y, C * len(y))
        latest: dict[str, Pace] = {}
        for eps in TOLERANCES:
            for schedule in SCHEDULES:
                # Who did not reach eps does not reach a smaller one in the same time.
                if schedule not in latest or latest[schedule].reached:
                    latest[schedule] = pace(problem, eps, f"{schedule}-paper", limit)
            paces[C, eps] = dict(latest)
        paces[C, 0.0] = {schedule: pace(problem, GAP, schedule, limit) for schedule in SCHEDULES}
    return paces


def ratio(found: dict[str, Pace], what: str) -> tuple[float, str]:
    """Return dcd's figure over acf's, and in words; nan if neither got there."""
    if not any(pace.reached for pace in found.values()):
        return np.nan, "-"
    value = getattr(found["dcd"], what) / getattr(found["acf"], what)
    if not found["dcd"].reached:
        return value, f"over {value:.1f}"
    if not found["acf"].reached:
        return value, f"under {value:.2f}"
    return value, f"{value:.2f}"


@dataclass
class Ratios:
    """dcd's passes and seconds over acf's, as published, by (C, eps); those that are known.

    `reached` are those where no schedule was cut by the limit.
    """

    passes: dict[tuple[float, float], float]
    seconds: dict[tuple[float, float], float]
    reached: set[tuple[float, float]]


def compare(name: str, limit: float) -> tuple[str, Ratios]:
    """Return the table of one set, and the ratios of both schedules."""
    paces = measure(name, limit)
    lines, ratios = [], Ratios({}, {}, set())
    for (C, eps), found in paces.items():
        cells = [str(found[schedule]) for schedule in SCHEDULES]
        fewer, in_passes = ratio(found, "passes")
        faster, in_time = ratio(found, "seconds")
        stops = f"eps {eps:g}" if eps else f"as shipped, gap {GAP:g}"
        proved = f"{found['acf'].gap:.1g}"
        lines.append([f"{C:g}, {stops}", *cells, in_passes, in_time, proved])
        if eps and np.isfinite(faster):
            ratios.passes[C, eps], ratios.seconds[C, eps] = fewer, faster
            if all(pace.reached for pace in found.values()):
                ratios.reached.add((C, eps))
    with report.figure(f"acf-{name}", [f"{name}, eps {eps:g}" for eps in TOLERANCES]) as axes:
        for eps, ax in zip(TOLERANCES, axes):
            for schedule in SCHEDULES:
                reached = [
                    (C, found[schedule].seconds)
                    for (C, at), found in paces.items()
                    if at == eps and found[schedule].reached
                ]
                if reached:
                    color = report.COLOURS[schedule]
                    ax.loglog(*zip(*reached), "o-", label=f"{schedule}-paper", color=color)
            ax.set(xlabel="C", ylabel="seconds")
            ax.legend()
    header = ["C, stops at", "dcd: passes, time", "acf: passes, time", "passes, ratio"]
    return table([*header, "time, ratio", "acf's gap"], lines), ratios


def _section(name: str, checks_of, limit: float = RUN_SECONDS):
    def section() -> str:
        text, ratios = compare(name, limit)
        shows = f"Seconds against C on {name}, both logarithmic, uniform and adaptive"
        return finding(text, checks_of(ratios), f"acf-{name}", shows)

    return section


def grows_with_cost(ratios: Ratios) -> list[Check]:
    """Check the paper's typical behaviour: uniform ahead at small C, adaptive at large C.

    Large is the largest C that both solved in time. Runs at the smallest C take milliseconds, so
    that visits are compared there.
    """
    largest = max(cost for cost, _ in ratios.reached)
    at_largest = [value for (cost, _), value in ratios.seconds.items() if cost == largest]
    at_smallest = [value for (cost, _), value in ratios.passes.items() if cost == min(COSTS)]
    return [
        at_least(max(at_largest), 10.0, f"most times faster than uniform, at C = {largest:g}"),
        all_of(
            [value <= 1.0 for value in at_smallest],
            f"uniform takes no more visits at C = {min(COSTS):g}",
        ),
    ]


def never_pays(ratios: Ratios) -> list[Check]:
    """Check what the paper finds on covtype alone: uniform is ahead at every C."""
    return [all_of([value <= 1.0 for value in ratios.seconds.values()], "uniform is faster")]


def programs() -> str:
    """Passes of the authors' programs and of these solvers, on rcv1 at eps = 0.1."""
    X, y = load("rcv1")
    lines, near = [], []
    for C, quoted in AVSF.items():
        problem = problem_of(X, y, C * len(y))
        passes = {
            solver: median(
                Pace.of(descend(problem, 0.1, f"{solver}-paper", seed=seed)).passes
                for seed in range(REPEATS)
            )
            for solver in SCHEDULES
        }
        shipped = [Pace.of(descend(problem, GAP, solver)).passes for solver in SCHEDULES]
        cells = [f"{theirs:g}" for theirs in quoted]
        cells += [f"{passes[solver]:.1f}" for solver in SCHEDULES]
        lines.append([f"{C:g}", *cells, *(f"{count:.1f}" for count in shipped)])
        near += [
            abs(passes[solver] - theirs) <= 0.15 * theirs
            for solver, theirs in zip(SCHEDULES, quoted, strict=True)
        ]
    checks = [all_of(near, "as published here, passes within 15 % of the program's")]
    header = ["C", "LIBLINEAR", "AVSF", "`dcd-paper`", "`acf-paper`", "`dcd`", "`acf`"]
    return finding(table(header, lines), checks)


SECTIONS = {
    "programs": programs,
    "rcv1": _section("rcv1", grows_with_cost),
    "news20": _section("news20_one", grows_with_cost, LONG_RUN_SECONDS),
    "paths": _section("paths", grows_with_cost),
    "covtype": _section("covtype_binary", never_pays),
    "a9a": _section("a9a", grows_with_cost),
    "ijcnn1": _section("ijcnn1", grows_with_cost),
}

if __name__ == "__main__":
    report.run(__doc__, "acf", SECTIONS, warm_up)
