"""Time two versions of widemargin against each other, fit by fit in turn.

    git worktree add /tmp/base v0.1.0
    python -m benchmarks.turns /tmp/base --grids quick small --fits 7

Each version is a process of its own with one thread, which holds the data of one cell at a time.
A fit of the base is followed by a fit of the head, so that a machine that slows down slows down
both. The table has medians of wall time, their ratio (head over base, below 1 is faster), the same
ratio of processor time, which says more where the machine is busy, and processor time over wall
time; below it are geometric means, by grid and over all cells.

    python -m benchmarks.turns /tmp/base --grids quick tall --most 1.1

ends with an error if the head takes more than 1.1 times the processor time of the base, in the
geometric mean or in a cell that is still beyond it when it is timed again (`make bench-regress`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.peers import widemargin_svc
from benchmarks.problems import GRIDS, Cell, load
from benchmarks.run import ROOT, THREAD_VARIABLES

# A cell whose fit takes longer than this is timed fewer times.
_SECONDS_PER_CELL = 12.0


class Version:
    """A process that fits what it is told to, with the widemargin of one source tree."""

    def __init__(self, source: Path):
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
        environment["PYTHONPATH"] = os.pathsep.join([str(source / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.turns", "--serve"],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, message: dict) -> dict:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


def serve() -> None:
    """Answer questions on standard input: a cell to load, or a fit of it to time."""
    prepared = cell = None
    for line in sys.stdin:
        message = json.loads(line)
        if "cell" in message:
            cell = Cell.from_json(message["cell"])
            data = load(cell.data, Path(message["cache"]))
            prepared = widemargin_svc.prepare(data.X, data.y, cell)
        setting = {"tol": message["tol"], "solver": "auto"}
        wall, processor = time.perf_counter(), time.process_time()
        fit = widemargin_svc.fit(prepared, cell, setting)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        print(json.dumps({"wall": wall, "processor": processor, **fit.notes}), flush=True)


def compare(
    versions: list[Version], cell: Cell, cache: str, tol: float, n_fits: int
) -> list[list[dict]]:
    """Return the records of all fits of each version, after a first one that is not timed."""
    begin = {"cell": cell.to_json(), "cache": cache, "tol": tol}
    first = [version.ask(begin) for version in versions]
    longest = max(record["wall"] for record in first)
    n_fits = max(2, min(n_fits, int(_SECONDS_PER_CELL / (2 * longest))))
    records: list[list[dict]] = [[] for _ in versions]
    for _ in range(n_fits):
        for version, some in zip(versions, records):
            some.append(version.ask({"tol": tol}))
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base", type=Path, nargs="?", help="source tree to compare with")
    parser.add_argument("--head", type=Path, default=ROOT, help="source tree to judge")
    parser.add_argument("--grids", nargs="+", default=["quick"], choices=list(GRIDS))
    parser.add_argument("--data", nargs="+", help="only cells of these data sets")
    parser.add_argument("--fits", type=int, default=7)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--most", type=float, help="fail if processor time is beyond this ratio")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    if options.base is None:
        parser.error("the source tree to compare with is missing")
    with tempfile.TemporaryDirectory() as cache:
        slower = report(options, cache)
    if slower:
        sys.exit("slower than the base: " + "; ".join(slower))


def report(options: argparse.Namespace, cache: str) -> list[str]:
    """Compare the two versions on all cells, print the table; return what is beyond --most."""
    versions = [Version(options.base.resolve()), Version(options.head.resolve())]
    print(
        "| cell | base, ms | head, ms | head / base | of processor | processor / wall | solvers |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    ratios: dict[str, list[tuple[float, float]]] = {}
    slower, most = [], options.most or math.inf
    for grid in options.grids:
        for cell in GRIDS[grid].cells:
            if options.data and cell.data not in options.data:
                continue
            base, head = compare(versions, cell, cache, options.tol, options.fits)
            walls, busy = medians(base, head, "wall"), medians(base, head, "processor")
            if busy[1] > most * busy[0]:
                base, head = compare(versions, cell, cache, options.tol, 2 * options.fits)
                walls, busy = medians(base, head, "wall"), medians(base, head, "processor")
                if busy[1] > most * busy[0]:
                    slower.append(f"{cell.title} ({busy[1] / busy[0]:.2f})")
            ratio = walls[1] / walls[0], busy[1] / busy[0]
            ratios.setdefault(grid, []).append(ratio)
            solvers = " / ".join(dict.fromkeys([base[-1]["solver"], head[-1]["solver"]]))
            print(
                f"| {cell.title} | {1e3 * walls[0]:.1f} | {1e3 * walls[1]:.1f} | {ratio[0]:.2f} | "
                f"{ratio[1]:.2f} | {busy[1] / walls[1]:.2f} | {solvers} |",
                flush=True,
            )
    for version in versions:
        version.end()
    ratios["all"] = [ratio for some in ratios.values() for ratio in some]
    for grid, some in ratios.items():
        wall, processor = map(statistics.geometric_mean, zip(*some))
        print(f"{grid}: {wall:.3f}, of processor time {processor:.3f}, over {len(some)} cells")
        if processor > most:
            slower.append(f"the mean of {grid} ({processor:.2f})")
    return slower


def medians(base: list[dict], head: list[dict], key: str) -> list[float]:
    return [statistics.median(record[key] for record in some) for some in (base, head)]


if __name__ == "__main__":
    sys.exit(main())
