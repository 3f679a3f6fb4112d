"""Measure one peer on one cell, in a process of its own; `benchmarks.run` starts it.

Loads the data, warms the peer up (imports, compilation) on a few rows, then climbs the peer's
ladders of settings, each until a fit is good enough. Only fits are timed; each is one JSON line
on standard output as soon as it ends, so that a process that has to be stopped loses nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import peers
from benchmarks.problems import (
    Cell,
    Limits,
    load,
    primal_objective,
    relative_suboptimality,
)

WARM_UP_ROWS = 256
MIN_REPEATS, MAX_REPEATS = 3, 9
REPEAT_SECONDS = 1.0  # quick fits are repeated beyond MIN_REPEATS up to this time together
STATUS_FILE = Path("/proc/self/status")
STRIDE = 3  # rungs per step while climbing; about twice the sweeps


@dataclass
class Budget:
    """Time limits of one ladder in seconds, on fit time alone; `spent` counts it."""

    per_fit: float
    in_all: float
    spent: float = 0.0

    def allow(self, expected: float) -> bool:
        """Whether a fit that should take `expected` seconds may start."""
        return expected <= self.per_fit and self.spent + expected <= self.in_all


def climb(
    n_rungs: int,
    attempt: Callable[[int], bool | None],
    is_stuck: Callable[[], bool] = lambda: False,
    stride: int = STRIDE,
) -> int | None:
    """The first rung of a ladder that is good enough, in few attempts.

    Climbs by `stride` rungs until one holds, by twice as many each time that it `is_stuck()`, then
    halves the interval back down to the last one that did not. `attempt(rung)` answers whether
    the rung holds, None when time is up.
    """
    below, rung, next_stride = -1, 0, stride
    while (holds := attempt(rung)) is False:
        if rung == n_rungs - 1:
            return None
        next_stride = 2 * next_stride if is_stuck() else stride
        below, rung = rung, min(rung + next_stride, n_rungs - 1)
    if holds is None:
        return None
    while rung - below > 1:
        middle = (below + rung) // 2
        holds = attempt(middle)
        if holds is None:
            break
        below, rung = (below, middle) if holds else (middle, rung)
    return rung


def time_to_target(
    timed_fit: Callable[[dict], tuple[float, float]],
    settings: list[dict],
    target: Callable[[float], bool],
    budget: Budget,
) -> str:
    """Climb `settings` until a fit meets `target`, then repeat that fit for a steady time.

    Where fits differ, by luck, their median has to meet it: else the next setting is repeated.
    `timed_fit(setting)` returns seconds and objective, and keeps its own record of them. Returns
    "reached", "time limit" or "ladder ended".
    """
    seconds_at: dict[int, float] = {}
    objective_at: dict[int, float] = {}

    def attempt(rung: int) -> bool | None:
        # A step up about doubles the time; a step back down takes less than the rung above.
        lower = [second for done, second in seconds_at.items() if done < rung]
        higher = [second for done, second in seconds_at.items() if done > rung]
        expected = min(higher) if higher else 2 * max(lower, default=0.0)
        if not budget.allow(expected):
            return None
        seconds_at[rung], objective_at[rung] = timed_fit(settings[rung])
        budget.spent += seconds_at[rung]
        return target(objective_at[rung])

    def is_stuck() -> bool:
        """Whether the last two answers are the very same.

        Then the peer may have come to its own end, which the last rung will tell; or it has not
        got going yet, as with a tolerance that its first steps meet.
        """
        return len(objective_at) > 1 and len(set([*objective_at.values()][-2:])) == 1

    rung = climb(len(settings), attempt, is_stuck)
    while rung is not None:
        if rung not in seconds_at and attempt(rung) is None:
            return "time limit"
        timings, objectives = [seconds_at[rung]], [objective_at[rung]]
        while len(timings) < MIN_REPEATS or (
            len(timings) < MAX_REPEATS and sum(timings) < REPEAT_SECONDS
        ):
            if not budget.allow(timings[0]):
                break
            seconds, objective = timed_fit(settings[rung])
            timings.append(seconds)
            objectives.append(objective)
            budget.spent += seconds
        if target(median(objectives)):
            return "reached"
        rung = rung + 1 if rung + 1 < len(settings) else None
    return "ladder ended" if len(settings) - 1 in seconds_at else "time limit"


def few_rows(X, y):
    """Some rows of all classes, in the dtype and format of all of them."""
    labels = np.unique(y)
    per_class = max(2, WARM_UP_ROWS // labels.size)
    chosen = np.concatenate([np.flatnonzero(y == label)[:per_class] for label in labels])
    chosen.sort()
    return X[chosen], y[chosen]


def memory_now(field: str) -> int | None:
    """A memory figure of this process in bytes: VmRSS, or VmHWM for its highest since reset.

    None elsewhere than on Linux, where nothing tells the memory of a fit from that of loading.
    """
    if not STATUS_FILE.exists():
        return None
    lines = (line.split() for line in STATUS_FILE.read_text().splitlines())
    return next((1024 * int(words[1]) for words in lines if words[0] == f"{field}:"), None)


def reset_peak_memory() -> None:
    """Forget the peak so far, so that VmHWM speaks of what comes next."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def warm_up(peer, cell: Cell, X, y) -> tuple[float, float]:
    """Seconds of the first fits to a few rows, and of the same fits again.

    The difference is what the peer spends on compiling, or on loading what it compiled before.
    """
    small = peer.prepare(*few_rows(X, y), cell)

    def fits() -> float:
        started = time.perf_counter()
        for setting in peer.warm_up_settings(cell):
            with contextlib.suppress(ValueError):  # an overflow; the climb will tell
                peer.fit(small, cell, setting)
        return time.perf_counter() - started

    return fits(), fits()


def measure(
    cell: Cell,
    module: str,
    bound: float,
    target: float,
    limits: Limits,
    cache: Path | None,
    report: Callable[[dict], None],
) -> None:
    """Measure the peer in `module` on `cell`; `report` receives one dictionary per event."""
    where = {"cell": cell.name, "peer_module": module}
    peer = peers.load(module)
    where["peer"] = peer.name
    data = load(cell.data, cache)
    first_fit_s, warm_fit_s = warm_up(peer, cell, data.X, data.y)

    # From here on: a copy that the peer needs in its own form is memory that it takes.
    reset_peak_memory()
    with_data, peak = memory_now("VmRSS"), 0
    started = time.perf_counter()
    prepared = peer.prepare(data.X, data.y, cell)
    prepare_s = time.perf_counter() - started

    def timed_fit(setting: dict) -> tuple[float, float]:
        nonlocal peak, bound
        started = time.perf_counter()
        try:
            fitted = peer.fit(prepared, cell, setting)
        except ValueError as error:  # SGDClassifier's for an overflow
            report({"kind": "failed", **where, "setting": setting, "why": str(error)})
            return time.perf_counter() - started, math.inf
        seconds = time.perf_counter() - started
        peak = max(peak, memory_now("VmHWM") or 0)
        objective = primal_objective(cell, data.X, data.y, fitted.coef, fitted.intercept)
        # Computing the objective needs memory too, which is not the peer's.
        reset_peak_memory()
        if not math.isfinite(objective):
            why = "its objective is not finite"
            report({"kind": "failed", **where, "setting": setting, "why": why})
            return seconds, math.inf
        # Where the reference ran out of time, a certified fit may prove more than it did.
        bound = max(bound, fitted.notes.get("dual", bound))
        outcome = {"seconds": seconds, "objective": objective, "notes": fitted.notes}
        report({"kind": "fit", **where, "setting": setting, **outcome})
        return seconds, objective

    outcome = climb_all(
        timed_fit,
        peer.ladders(cell),
        lambda objective: relative_suboptimality(objective, bound) <= target,
        limits,
    )
    report(
        {
            "kind": "peer",
            **where,
            "outcome": outcome,
            "prepare_s": prepare_s,
            "first_fit_s": first_fit_s,
            "warm_fit_s": warm_fit_s,
            "bytes_with_data": with_data,
            "bytes_at_peak": peak or None,
        }
    )


def climb_all(
    timed_fit: Callable[[dict], tuple[float, float]],
    ladders: list[list[dict]],
    target: Callable[[float], bool],
    limits: Limits,
) -> str:
    """Climb one ladder after the other in equal shares of the time; how it ended, in all.

    What one leaves over goes to the others; what it takes too much, in a fit that lasts longer
    than was to be expected, is not taken from them. Once a ladder has met the target, fits of the
    others need not take much longer.
    """
    outcomes, spent, longest = [], 0.0, limits.fit
    for place, settings in enumerate(ladders):
        share = (limits.peer - spent) / (len(ladders) - place)
        budget = Budget(longest, max(share, limits.peer / len(ladders)))
        good = []

        def watched_fit(setting: dict, good=good) -> tuple[float, float]:
            seconds, objective = timed_fit(setting)
            if target(objective):
                good.append(seconds)
            return seconds, objective

        outcomes.append(time_to_target(watched_fit, settings, target, budget))
        spent += budget.spent
        longest = min([longest, *(2 * seconds for seconds in good)])
    by_rank = ("reached", "time limit", "ladder ended")
    return min(outcomes, key=by_rank.index)


def json_lines_to_stdout() -> Callable[[dict], None]:
    """A reporter on the real standard output, while prints of the peers go to standard error."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def report(record: dict) -> None:
        stream.write(json.dumps(record) + "\n")
        stream.flush()

    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", type=Cell.from_json, required=True, help="a cell as JSON")
    parser.add_argument("--peer", choices=peers.MODULES, required=True)
    parser.add_argument("--bound", type=float, required=True, help="proven lower bound")
    parser.add_argument("--target", type=float, required=True, help="relative suboptimality")
    parser.add_argument("--limits", type=Limits.from_json, required=True, help="as JSON")
    parser.add_argument("--cache", type=Path, help="a folder for data that is loaded again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # "failed to converge" is what the ladder is for
    report = json_lines_to_stdout()
    problem = (options.cell, options.peer, options.bound, options.target)
    measure(*problem, options.limits, options.cache, report)


if __name__ == "__main__":
    main()
