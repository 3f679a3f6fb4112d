"""Measure every peer on every cell of a grid, side by side.

    python -m benchmarks.run --grid text --out benchmarks/results/text.jsonl

Each measurement is a process of its own with one thread. Peers take turns cell by cell, so that
a machine that slows down slows all of them down. Results are JSON lines, the machine first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import analyse, machine, peers
from benchmarks.problems import GRIDS, Cell, best_bound

ROOT = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
# Loading, preparing and compiling come on top of the fits, and a last fit may overrun.
ALLOWANCE_SECONDS = 120.0


def records_of(module: str, arguments: list[str], limit: float) -> list[dict]:
    """Run ``python -m module arguments`` and return the records it printed.

    A process that outlasts `limit` seconds is stopped; what it printed until then counts.
    """
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            say(f"  stopped after {limit:.0f} s")
    records = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if process.returncode > 0:
        say(errors.rstrip())
    if process.returncode != 0 and not records:
        raise ChildFailed(f"{module} ended with exit status {process.returncode}")
    return records


class ChildFailed(RuntimeError):
    """A measuring process ended without a record."""


def say(text: str) -> None:
    """Progress goes to standard error: standard output is for the table."""
    print(text, file=sys.stderr, flush=True)


def run_cell(cell: Cell, options: argparse.Namespace, keep: Callable[[dict], None]) -> None:
    """Find the cell's reference, then measure each peer against it; `keep` gets each record."""
    say(cell.name)
    problem = ["--cell", cell.to_json()]
    try:
        (reference,) = records_of(
            "benchmarks.reference",
            [*problem, "--limit", str(options.reference_limit)],
            options.reference_limit + ALLOWANCE_SECONDS,
        )
    except ChildFailed as failure:
        reference = {"kind": "skipped", "cell": cell.name, "why": str(failure)}
    keep(reference)
    if reference["kind"] == "skipped":
        say(f"  skipped: {reference['why']}")
        return
    say(f"  optimum {reference['primal']:.8g}, relative gap {reference['relative_gap']:.1e}")
    limits = ["--fit-limit", str(options.fit_limit), "--peer-limit", str(options.peer_limit)]
    known = [reference]
    for peer in options.peers:
        target = ["--bound", repr(best_bound(known)), "--target", str(options.target)]
        try:
            records = records_of(
                "benchmarks.measure",
                [*problem, "--peer", peer, *target, *limits],
                options.peer_limit + options.fit_limit + ALLOWANCE_SECONDS,
            )
        except ChildFailed as failure:
            why = {"cell": cell.name, "peer_module": peer, "why": str(failure)}
            records = [{"kind": "skipped", **why}]
        for record in records:
            keep(record)
        known += records
        say(f"  {peer}: {outcome_in_words(records, best_bound(known), options.target)}")


def outcome_in_words(records: list[dict], bound: float, target: float) -> str:
    fits = [record for record in records if record["kind"] == "fit"]
    if not fits:
        return f"skipped: {records[-1].get('why', 'no fit ended')}"
    summary = analyse.summarise(fits, bound, target)
    verdict = "reached in" if summary.reached else "not reached after"
    return f"{verdict} {summary.seconds:.3f} s, {100 * summary.excess:.2g} % above at best"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", choices=sorted(GRIDS), default="text")
    parser.add_argument("--quick", action="store_true", help="the grid's few telling cells only")
    parser.add_argument("--data", nargs="+", metavar="NAME", help="only cells of these sets")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines file to write")
    parser.add_argument("--peers", nargs="+", choices=peers.MODULES, default=peers.MODULES)
    parser.add_argument("--target", type=float, default=1e-3, help="relative suboptimality")
    parser.add_argument("--fit-limit", type=float, default=22.0, help="seconds per fit")
    parser.add_argument("--peer-limit", type=float, default=45.0, help="seconds per cell and peer")
    parser.add_argument("--reference-limit", type=float, default=40.0, help="seconds per cell")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    grid = GRIDS[options.grid]
    cells = grid.quick if options.quick else grid.cells
    if options.data:
        cells = tuple(cell for cell in cells if cell.data in options.data)
    first = machine.describe() | {
        "grid": options.grid,
        "target": options.target,
        "cells": [asdict(cell) for cell in cells],
    }
    records: list[dict] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w") as file:

        def keep(record: dict) -> None:
            records.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()

        keep(first)
        for cell in cells:
            run_cell(cell, options, keep)
    results = analyse.sort_out(records)
    print(analyse.table(results) if results.fits else "Nothing was measured.")
    for why, subjects in analyse.skipped_by_reason(results).items():
        print(f"\nSkipped {', '.join(subjects)}: {why}")
    if wrong := analyse.contradictions(results):
        sys.exit("a certificate is contradicted:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
