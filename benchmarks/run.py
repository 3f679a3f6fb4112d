"""Measure every peer on every cell of a grid, side by side.

    python -m benchmarks.run --grid text
    python -m benchmarks.run --grid text --only data=rcv1 C=1,10 peer=skglm_svc
    python -m benchmarks.run --grid text --resume

Each measurement is a process of its own with one thread. Peers take turns cell by cell, so that
a machine that slows down slows all of them down. Results are JSON lines, the machine first, in
benchmarks/results/GRID.jsonl; they are there as soon as they are measured. ``--only`` measures
some cells anew and ``--resume`` those that a run which was stopped (Ctrl-C) had not come to; the
rest of the file stays.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from pathlib import Path

from benchmarks import analyse, machine, peers
from benchmarks.problems import GRIDS, Cell, Limits, best_bound

ROOT = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
TARGET = 1e-3
# A run goes on with a file, or replaces a part of it, only where these are the same.
SAME = ("cpu", "cores", "python", "versions", "target", "limits")


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
        except BaseException:
            process.kill()  # leaving this block waits for it
            raise
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


# --- one cell -------------------------------------------------------------------------------


def run_cell(
    cell: Cell,
    modules: list[str],
    limits: Limits,
    cache: Path,
    keep: Callable[[dict], None],
    known: list[dict],
) -> None:
    """Measure the peers in `modules` on a cell; `keep` gets each record.

    `known` are records of the cell from before. If there is no reference among them, it comes
    first.
    """
    say(cell.name)
    problem = ["--cell", cell.to_json(), "--cache", str(cache)]
    references = [record for record in known if record["kind"] == "reference"]
    reference = references[0] if references else find_reference(cell, problem, limits)
    if not references:
        keep(reference)
    if reference["kind"] == "skipped":
        say(f"  skipped: {reference['why']}")
        return
    say(f"  optimum {reference['primal']:.8g}, relative gap {reference['relative_gap']:.1e}")
    known = [*known, reference]
    for module in modules:
        where = {"cell": cell.name, "peer_module": module}
        try:
            peer = peers.load(module)
        except ImportError as error:
            keep({"kind": "skipped", **where, "why": f"not installed: {error.name}"})
            continue
        refusal = peers.refusal(peer, cell, reference["n_rows"], reference["n_classes"])
        if refusal:
            keep({"kind": "refused", **where, "why": refusal})
            continue
        records = measure_peer(problem, module, best_bound(known), limits)
        if not any(record["kind"] == "peer" for record in records):
            records.append({"kind": "peer", "outcome": "stopped"})
        for record in records:
            keep(record | where | {"peer": peer.name})
        known += records
        say(f"  {peer.name}: {outcome_in_words(records, best_bound(known))}")


def find_reference(cell: Cell, problem: list[str], limits: Limits) -> dict:
    arguments = [*problem, "--limit", str(limits.reference)]
    try:
        (record,) = records_of(
            "benchmarks.reference", arguments, limits.reference + limits.overhead
        )
    except ChildFailed as failure:
        return {"kind": "skipped", "cell": cell.name, "why": f"no optimum was found: {failure}"}
    return record


def measure_peer(problem: list[str], module: str, bound: float, limits: Limits) -> list[dict]:
    target = ["--bound", repr(bound), "--target", str(TARGET), "--limits", limits.to_json()]
    seconds = limits.peer + limits.overhead
    try:
        return records_of("benchmarks.measure", [*problem, "--peer", module, *target], seconds)
    except ChildFailed as failure:
        return [{"kind": "failed", "why": str(failure)}]


def outcome_in_words(records: list[dict], bound: float) -> str:
    fits = [record for record in records if record["kind"] == "fit"]
    if not fits:
        whys = dict.fromkeys(record["why"] for record in records if "why" in record)
        return f"no fit: {'; '.join(whys) or 'none ended'}"
    summary = analyse.summarise(fits, bound, TARGET)
    verdict = "reached in" if summary.reached else "not reached after"
    return f"{verdict} {summary.seconds:.3f} s, {100 * summary.excess:.2g} % above at best"


# --- which ----------------------------------------------------------------------------------


def parse_only(text: str) -> tuple[str, list[str]]:
    """ "data=rcv1,a9a" as ("data", ["rcv1", "a9a"])."""
    key, _, values = text.partition("=")
    if key not in ("data", "C", "loss", "intercept", "peer") or not values:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not KEY=VALUE with data, C, loss, intercept or peer as KEY"
        )
    return key, values.split(",")


def is_chosen(cell: Cell, module: str, only: list[tuple[str, list[str]]]) -> bool:
    """Whether a cell and a peer have one of the values of each key."""
    own = {**asdict(cell), "C": f"{cell.C:g}", "peer": module}
    return all(own[key] in values for key, values in only)


def earlier_records(path: Path, first: dict) -> list[dict]:
    """The records of a file that a run may go on with, but for those of what was skipped."""
    if not path.exists():
        return []
    results = analyse.read(path)
    different = [key for key in SAME if results.machine.get(key) != first[key]]
    if different:
        raise ValueError(
            f"{path.name} was measured with another {', '.join(different)}; measure all of it anew"
        )
    return [record for record in results.records if record["kind"] not in ("skipped", "refused")]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", choices=sorted(GRIDS), required=True)
    parser.add_argument("--out", type=Path, help="instead of benchmarks/results/GRID.jsonl")
    parser.add_argument(
        "--only",
        type=parse_only,
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="measure these anew: data, C, loss, intercept, peer; commas between values",
    )
    parser.add_argument("--resume", action="store_true", help="measure what is not in the file")
    options = parser.parse_args(arguments)
    options.out = options.out or ROOT / "benchmarks" / "results" / f"{options.grid}.jsonl"
    return options


def choose(options: argparse.Namespace, first: dict) -> tuple[dict[Cell, list[str]], list[dict]]:
    """What is to be measured, peers by cell, and the records of the file that stay."""
    records = earlier_records(options.out, first) if options.resume or options.only else []
    ended = {(r["cell"], r["peer_module"]) for r in records if r["kind"] == "peer"}
    chosen: dict[Cell, list[str]] = {}
    for cell, module in product(GRIDS[options.grid].cells, peers.MODULES):
        is_there = options.resume and (cell.name, module) in ended
        if is_chosen(cell, module, options.only) and not is_there:
            chosen.setdefault(cell, []).append(module)
    anew = {(cell.name, module) for cell, modules in chosen.items() for module in modules}
    return chosen, [r for r in records if (r["cell"], r.get("peer_module")) not in anew]


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    grid = GRIDS[options.grid]
    first = machine.describe() | {
        "grid": options.grid,
        "target": TARGET,
        "limits": asdict(grid.limits),
        "cells": [asdict(cell) for cell in grid.cells],
    }
    try:
        chosen, records = choose(options, first)
    except ValueError as error:
        sys.exit(f"benchmarks.run: {error}")
    if options.only and not options.resume and not chosen:
        sys.exit(f"benchmarks.run: grid {options.grid!r} has nothing that --only asks for")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    interrupted = False
    with (
        options.out.open("w") as file,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache,
    ):

        def write(record: dict) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()

        def keep(record: dict) -> None:
            records.append(record)
            write(record)

        for record in (first, *records):
            write(record)
        try:
            for cell, modules in chosen.items():
                known = [record for record in records if record["cell"] == cell.name]
                run_cell(cell, modules, grid.limits, Path(cache), keep, known)
        except KeyboardInterrupt:
            interrupted = True
    tell(analyse.sort_out([first, *records]))
    if interrupted:
        say(f"Stopped; {options.out.name} has what was measured, and --resume goes on.")
        sys.exit(130)


def tell(results: analyse.Results) -> None:
    """Print the table and what was skipped; end with an error if a certificate is wrong."""
    print(analyse.table(results) if results.fits else "Nothing was measured.")
    for line in analyse.skipped_in_words(results):
        print(f"\n{line}")
    if wrong := analyse.contradictions(results):
        sys.exit("a certificate is contradicted:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
