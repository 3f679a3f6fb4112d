"""Glasmachers & Dogan 2013, adaptive variable selection frequencies: `acf` against uniform `dcd`.

    OMP_NUM_THREADS=1 python -m benchmarks.papers.acf                # all of it, minutes
    OMP_NUM_THREADS=1 python -m benchmarks.papers.acf rcv1 news20    # some sections

rewrites docs/papers/acf.md. C is the weight of the summed losses. Hinge loss, no intercept, one
thread; a pass is as many visits as there are rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.papers import report
from benchmarks.papers.report import Check, all_of, at_least, finding
from benchmarks.sections import table
from benchmarks.solving import Run, descend, load, problem_of, warm_up_cutting_planes

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
GAPS = (1e-2, 1e-3)  # from large to small
SCHEDULES = ("dcd", "acf")
RUN_SECONDS = 10.0


@dataclass
class Pace:
    """One schedule at one C and gap: visits over rows, and seconds; `reached` in time or not."""

    reached: bool
    passes: float
    seconds: float

    @classmethod
    def of(cls, run: Run) -> Pace:
        return cls(run.converged, run.history[-1].iteration, run.seconds)

    def __str__(self) -> str:
        text = f"{self.passes:.0f}, {self.seconds:.2g} s"
        return text if self.reached else f"not in {text}"


def warm_up() -> None:
    """Compile every kernel on a few rows."""
    warm_up_cutting_planes()


def measure(name: str) -> dict[tuple[float, float], dict[str, Pace]]:
    """Return the paces of both schedules by C and gap."""
    X, y = load(name)
    paces: dict[tuple[float, float], dict[str, Pace]] = {}
    for C in COSTS:
        problem = problem_of(X, y, C * len(y))
        latest: dict[str, Pace] = {}
        for gap in GAPS:
            for schedule in SCHEDULES:
                # Who did not reach a gap does not reach a smaller one in the same time.
                if schedule not in latest or latest[schedule].reached:
                    latest[schedule] = Pace.of(descend(problem, gap, schedule, limit=RUN_SECONDS))
            paces[C, gap] = dict(latest)
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


def compare(name: str) -> tuple[str, dict[tuple[float, float], float]]:
    """Return the table of one set, and dcd's time over acf's by C and gap."""
    paces = measure(name)
    lines, faster = [], {}
    for (C, gap), found in paces.items():
        cells = [str(found[schedule]) for schedule in SCHEDULES]
        faster[C, gap], in_time = ratio(found, "seconds")
        lines.append([f"{C:g}, {gap:g}", *cells, ratio(found, "passes")[1], in_time])
    with report.figure(f"acf-{name}", [f"{name}, gap {gap:g}" for gap in GAPS]) as axes:
        for gap, ax in zip(GAPS, axes):
            for schedule in SCHEDULES:
                reached = [
                    (C, found[schedule].seconds)
                    for (C, at), found in paces.items()
                    if at == gap and found[schedule].reached
                ]
                if reached:
                    color = report.COLOURS[schedule]
                    ax.loglog(*zip(*reached), "o-", label=schedule, color=color)
            ax.set(xlabel="C", ylabel="seconds")
            ax.legend()
    header = ["C, gap", "dcd: passes, time", "acf: passes, time", "passes, ratio", "time, ratio"]
    return table(header, lines), faster


def _section(name: str, checks_of):
    def section() -> str:
        text, faster = compare(name)
        shows = f"Seconds against C on {name}, both logarithmic, uniform and adaptive"
        return finding(text, checks_of(faster), f"acf-{name}", shows)

    return section


def grows_with_cost(faster: dict[tuple[float, float], float]) -> list[Check]:
    """Check the paper's typical behaviour: uniform ahead at small C, adaptive at large C."""
    known = {cell: value for cell, value in faster.items() if np.isfinite(value)}
    most = max(known, key=known.get)
    smallest = [value for cell, value in known.items() if cell[0] == COSTS[0]]
    return [
        at_least(known[most], 10.0, f"most times faster than uniform, at C = {most[0]:g}"),
        all_of([value <= 1.0 for value in smallest], f"uniform is faster at C = {COSTS[0]:g}"),
    ]


def never_pays(faster: dict[tuple[float, float], float]) -> list[Check]:
    """Check what the paper finds on covtype alone: uniform is ahead at every C."""
    known = [value for value in faster.values() if np.isfinite(value)]
    return [all_of([value <= 1.0 for value in known], "uniform is faster")]


SECTIONS = {
    "rcv1": _section("rcv1", grows_with_cost),
    "news20": _section("news20_one", grows_with_cost),
    "covtype": _section("covtype_binary", never_pays),
    "a9a": _section("a9a", grows_with_cost),
    "ijcnn1": _section("ijcnn1", grows_with_cost),
}

if __name__ == "__main__":
    report.run(__doc__, "acf", SECTIONS, warm_up)
