"""Matsushima, Vishwanathan & Smola 2012, dual cached loops: StreamSVM beside BM and SBM.

    OMP_NUM_THREADS=1 python -m benchmarks.papers.streamsvm              # all of it, minutes
    OMP_NUM_THREADS=1 python -m benchmarks.papers.streamsvm costs dna    # some sections

rewrites docs/papers/streamsvm.md. C is the weight of the summed losses; memory for rows is a share
of their size. Hinge loss, no intercept. While a solver runs its dual variables are kept now and
then; the objectives of the w they make are computed when it is done.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.files import (
    DNA,
    bytes_on_disk,
    dna_shards,
    in_memory,
    paths_shards,
    some_dna_file,
)
from benchmarks.out_of_core import MEGABYTE, warm_up
from benchmarks.papers import report
from benchmarks.papers.report import Check, all_of, at_least, at_most, finding
from benchmarks.sections import table
from widemargin import LinearSVC, open_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge
from widemargin.solvers import auto
from widemargin.solvers.out_of_core import bytes_beside_rows
from widemargin.solvers.registry import Place, only_for

PATHS_ROWS, DNA_ROWS = 200_000, 20_000
COSTS = (0.01, 0.1, 1.0, 10.0)
PUBLISHED_COSTS = (0.0001, 0.01, 1.0)
AS_SHIPPED = only_for(Place.DISK)
AS_PUBLISHED = tuple(f"{solver}-paper" for solver in AS_SHIPPED)
SHARES = {"1/20": 1 / 20, "1/10": 1 / 10, "1/4": 1 / 4}
REACHED = 1e-3
LEAST_ROOM = 10 << 20  # bytes for rows, below which solvers refuse to work
RACE_SECONDS = 12.0
DNA_SECONDS = 12.0
# Objectives are computed for so many numbers at a time: gigabytes, where w has millions.
NUMBERS_AT_ONCE = 150_000_000


class Sampler(Monitor):
    """Keeps the dual variables now and then, and writes down when, and when passes ended."""

    def __init__(self, every: float, rows, **limits):
        already_read = rows.times_read
        super().__init__(times_read=lambda: rows.times_read - already_read, **limits)
        self.passes_ended: list[float] = []
        self.samples: list[tuple[float, np.ndarray]] = []
        self.every, self.next = every, every

    def save_now_and_then(self, state) -> None:
        now = time.perf_counter() - self.started
        self.passes_ended += [now] * (self.times_read() - len(self.passes_ended))
        if now >= self.next:
            self.samples.append((now, state.dual.astype(np.float32)))
            self.next = now + max(self.every, 0.05 * now)


@dataclass
class Race:
    """One solver's run.

    Attributes
    ----------
    curve : list of (seconds, objective)
    first_pass : float
        Seconds until all rows had been read for training once.
    passes : int
    """

    curve: list[tuple[float, float]]
    first_pass: float
    passes: int

    def when(self, objective: float) -> float:
        """Seconds until the objective was no larger, or infinity."""
        return min((t for t, value in self.curve if value <= objective), default=np.inf)

    @property
    def best(self) -> float:
        return min((value for _, value in self.curve), default=np.inf)


def race(rows, solver: str, C: float, share: float, seconds: float, samples: int = 40) -> Race:
    """Run a solver within `share` of the rows' bytes; look at it about so many times."""
    problem = Problem(rows, Hinge(np.sign(rows.labels), np.full(rows.n_rows, C)), Intercept.NONE)
    budget = int(bytes_beside_rows(problem) + max(share * rows.nbytes, LEAST_ROOM))
    monitor = Sampler(seconds / samples, rows, tol=1e-4, max_iter=10**9, max_time=seconds)
    method = auto.make(solver, problem.risk, 0, budget)
    state = method.solve(problem, State.zero(problem), monitor)
    monitor.samples.append((time.perf_counter() - monitor.started, state.dual))
    # The first pass of all is the check of the point at which everybody starts.
    first_pass = monitor.passes_ended[1] if len(monitor.passes_ended) > 1 else np.inf
    n_passes = monitor.times_read()
    return Race(_objectives(problem, rows, monitor.samples), first_pass, n_passes)


def _objectives(problem, rows, samples) -> list[tuple[float, float]]:
    """Objective of the w that each sample of dual variables makes, and when that was."""
    at_once = max(1, NUMBERS_AT_ONCE // rows.n_features)
    curve = []
    for begin in range(0, len(samples), at_once):
        some = samples[begin : begin + at_once]
        A = np.stack([problem.risk.signed(alpha.astype(np.float64)) for _, alpha in some], axis=1)
        W = rows.combine(A)
        S = rows.scores(W)
        curve += [
            (seconds, 0.5 * float(W[:, j] @ W[:, j]) + problem.risk.value(S[:, j]))
            for j, (seconds, _) in enumerate(some)
        ]
    return curve


def optimum(rows, C: float) -> float:
    """Return an objective close to the best, of all rows in memory."""
    model = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-4, max_time=2 * RACE_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(in_memory(rows, rows.n_rows), rows.labels)
    return model.certificate_.primal


def compare(
    rows, settings: list[tuple[str, float, float]], name: str, *effort, solvers=AS_SHIPPED
) -> str:
    """Return the finding of all three solvers at settings of (label, C, share of memory).

    `effort` are seconds and samples of each race; the first of `solvers` is StreamSVM.
    """
    stream, *rivals = solvers
    lines, ahead, before_all = [], [], []
    optima = {C: optimum(rows, C) for C in {C for _, C, _ in settings}}
    with report.figure(name, [label for label, _, _ in settings], columns=2) as axes:
        for (label, C, share), ax in zip(settings, axes):
            races = {solver: race(rows, solver, C, share, *effort) for solver in solvers}
            best = min(optima[C], *(run.best for run in races.values()))
            reached = {solver: run.when((1 + REACHED) * best) for solver, run in races.items()}
            cells = [label]
            for solver, run in races.items():
                cells += [
                    f"{reached[solver]:.1f} s" if reached[solver] < np.inf else "-",
                    f"{100 * (run.best / best - 1):.2g} %",
                    f"{run.first_pass:.1f} s" if run.first_pass < np.inf else "-",
                ]
                curve = [(t, max(value / best - 1, 1e-6)) for t, value in run.curve]
                color = report.COLOURS[solver.removesuffix("-paper")]
                ax.loglog(*zip(*curve), label=solver, color=color)
                if solver != stream:
                    ax.axvline(run.first_pass, color=color, linestyle=":")
            ax.set(xlabel="seconds", ylabel="above the best", ylim=(1e-5, 10))
            ax.legend()
            lines.append(cells)
            if min(reached.values()) < np.inf:
                ahead.append(reached[stream] <= min(reached[solver] for solver in rivals))
                first = min(races[solver].first_pass for solver in rivals)
                before_all.append(reached[stream] <= first)
    header = ["setting"]
    for solver in solvers:
        header += [f"{solver}: to 0.1 %", "above at the end", "first pass ends"]
    checks = [
        all_of(ahead, "StreamSVM is the first to be within 0.1 % of the best, where anybody is"),
        all_of(before_all, "and is there before BM and SBM have ended their first pass"),
    ]
    shows = "How far above the best objective, by seconds; dotted: first passes of BM and SBM end"
    return finding(table(header, lines), checks, name, shows)


# --- sections -----------------------------------------------------------------------------------


def costs() -> str:
    """C, on numbers: paths as hashed n-grams, a tenth of them in memory."""
    rows = open_rows(paths_shards(PATHS_ROWS))
    settings = [(f"C = {C:g}", C, 1 / 10) for C in COSTS]
    return compare(rows, settings, "streamsvm-costs", RACE_SECONDS)


def published() -> str:
    """The same, of the algorithms to the letter."""
    rows = open_rows(paths_shards(PATHS_ROWS))
    settings = [(f"C = {C:g}", C, 1 / 10) for C in PUBLISHED_COSTS]
    effort = RACE_SECONDS, 20
    return compare(rows, settings, "streamsvm-published", *effort, solvers=AS_PUBLISHED)


def dna() -> str:
    """DNA, substrings made on the fly, a quarter of them in memory."""
    rows = open_rows(some_dna_file(DNA_ROWS), DNA)
    settings = [(f"C = {C:g}", C, 1 / 4) for C in (0.01, 1.0)]
    # Few samples: w has tens of millions of features, and each sample makes one.
    return compare(rows, settings, "streamsvm-dna", DNA_SECONDS, 12)


def memory() -> str:
    """StreamSVM with more and more memory; C = 1."""
    rows = open_rows(paths_shards(PATHS_ROWS))
    best = optimum(rows, 1.0)
    lines, reached = [], {}
    with report.figure("streamsvm-memory", ["C = 1"]) as (ax,):
        for label, share in SHARES.items():
            run = race(rows, "stream", 1.0, share, 2 * RACE_SECONDS)
            reached[label] = run.when((1 + REACHED) * best)
            at = f"{reached[label]:.1f} s" if reached[label] < np.inf else "-"
            lines.append([label, at, f"{100 * (run.best / best - 1):.2g} %", f"{run.passes}"])
            ax.loglog(*zip(*[(t, max(v / best - 1, 1e-6)) for t, v in run.curve]), label=label)
        ax.set(xlabel="seconds", ylabel="above the best", ylim=(1e-5, 10))
        ax.legend()
    least, *_, most = reached
    checks = [
        Check(reached[least] > reached[most], f"{most} of the rows in memory is faster than "
              f"{least}"),
    ]  # fmt: skip
    header = ["memory", "to 0.1 %", "above at the end", "passes over the disk"]
    shows = "How far above the best objective, by seconds, for three sizes of memory"
    return finding(table(header, lines), checks, "streamsvm-memory", shows)


def expanding() -> str:
    """DNA: substrings made as rows are read, beside reading them from disk."""
    lines, models, sizes, seconds = [], {}, {}, {}
    for label, source, features in (
        ("strings, expanded on the fly", some_dna_file(DNA_ROWS), DNA),
        ("expanded rows", dna_shards(DNA_ROWS), None),
    ):
        rows = open_rows(source, features)
        model = LinearSVC(
            loss="hinge",
            fit_intercept=False,
            solver="stream",
            memory_budget=24 * rows.n_features + rows.nbytes // 4 + (64 << 20),
            max_time=5 * DNA_SECONDS,
        )
        started = time.perf_counter()
        models[label] = model.fit(rows, rows.labels)
        seconds[label] = time.perf_counter() - started
        sizes[label] = bytes_on_disk(source)
        last = model.history_[-1]
        lines.append(
            [
                label,
                f"{sizes[label] / MEGABYTE:,.0f} MB",
                f"{rows.nbytes / MEGABYTE:,.0f} MB",
                f"{seconds[label]:.1f} s",
                f"{100 * last.phases.get('reading', 0.0) / last.time:.0f} %",
                f"{last.disk_passes}",
                f"{model.certificate_.primal:.4f}",
                f"{model.certificate_.relative_gap:.1e}",
            ]
        )
    fly, read = models
    apart = abs(models[fly].certificate_.primal / models[read].certificate_.primal - 1)
    checks = [
        at_most(apart, 2e-3, "relative difference between both objectives"),
        at_least(sizes[read] / sizes[fly], 10.0, "expanded rows take so many times the disk"),
        at_most(seconds[fly] / seconds[read], 1.25, "time on the fly over time from disk"),
    ]
    header = [
        "disk holds",
        "on disk",
        "in memory",
        "time",
        "reading",
        "passes",
        "objective",
        "gap",
    ]
    return finding(table(header, lines), checks)


SECTIONS = {
    "costs": costs,
    "published": published,
    "dna": dna,
    "memory": memory,
    "expanding": expanding,
}

if __name__ == "__main__":
    report.run(__doc__, "streamsvm", SECTIONS, warm_up)
