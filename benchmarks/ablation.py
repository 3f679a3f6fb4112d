"""What each mechanism of a solver is worth: fits with it and without it, in turn.

    python -m benchmarks.ablation prepare --data FOLDER
    python -m benchmarks.ablation run --data FOLDER --processes 8 --out FILE
    python -m benchmarks.ablation report FILE

`prepare` makes small files of the data sets in ``$WIDEMARGIN_DATA``. `run` starts processes of
one thread, each on a core of its own, and gives each of them one cell after another. A cell is a
problem on one data set, with the tolerance of its certificate. A variant is the solver with other
settings, or with some parts replaced. All variants of a cell are fitted in turn by the same
process, once in each round. `run` begins no cell after `--minutes`, and ends a minute later at
most. Each line of its file has a cell, and the seconds of all fits of all variants, of processor
time: other work on the machine does not count. `report` prints geometric means, over cells, of the
median time of each variant over that of the solver as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from queue import Empty, SimpleQueue
from statistics import geometric_mean, median

import numpy as np

from benchmarks import descent_variants, machine, tall_sets, text_sets
from benchmarks.run import ROOT, THREAD_VARIABLES
from widemargin import LinearSVC
from widemargin.solvers.newton_settings import NewtonSettings
from widemargin.solvers.registry import SOLVERS
from widemargin.solvers.settings import CoordinateSettings

AS_IT_IS, AGAIN = "as it is", "as it is, again"
# A fit may take so long; a cell ends after the round in which its fits took so long together.
_SECONDS_PER_FIT, _SECONDS_PER_CELL = 10.0, 45.0
# A process that still measures so long after the last cell was begun is stopped.
_SECONDS_TO_END = 60.0
# What a mechanism is to bring: in the geometric mean, or in a single cell.
WORTH, WORTH_ONCE = 1.15, 1.5


# --- variants: settings; or what is replaced, "module.name" or "module.Class.name", by what --

Parts = dict[str, object]
Variant = Parts | CoordinateSettings | NewtonSettings


def _moments_anew(directions, rows, index, delta):
    sums = directions._moments(rows, index, directions.part.cost[index])
    return None if sums is None else (sums[0] / delta, sums[1] / delta)


def _equal_spreads(rows):
    return np.full(rows.n_rows, np.sqrt(rows.n_features / rows.n_rows))


_NEWTON, _NEVER = NewtonSettings(), 1 << 62
_NO_SUBSAMPLE = replace(_NEWTON.subsample, fewest_entries=_NEVER)
_NO_WORKING_SET = replace(_NEWTON.working_set, fewest_entries=_NEVER)

#: solver -> variant -> its settings, or what is replaced
VARIANTS: dict[str, dict[str, Variant]] = {
    "newton": {
        AS_IT_IS: {},
        AGAIN: {},
        "no sample": replace(_NEWTON, sample=replace(_NEWTON.sample, fewest_rows=_NEVER)),
        "no subsample": replace(_NEWTON, subsample=_NO_SUBSAMPLE),
        "no proof by the subsample": replace(
            _NEWTON, subsample=replace(_NEWTON.subsample, proof_rounds=0)
        ),
        "no rare rows in the subsample": replace(
            _NEWTON, subsample=replace(_NEWTON.subsample, very_rare=np.inf, most_rare=-1.0)
        ),
        "no working set": replace(_NEWTON, working_set=_NO_WORKING_SET),
        "neither subsample nor working set": replace(
            _NEWTON, subsample=_NO_SUBSAMPLE, working_set=_NO_WORKING_SET
        ),
        "no second try of a working set": replace(
            _NEWTON, working_set=replace(_NEWTON.working_set, rounds=1)
        ),
        "rows of the working set by their slacks alone, none rare": {
            "widemargin.data.rows.LeverageRows.spreads": property(_equal_spreads)
        },
        "no rare rows in sample and working set": replace(
            _NEWTON, working_set=replace(_NEWTON.working_set, rare=np.inf)
        ),
        "each Hessian summed anew": {
            "widemargin.solvers.newton_direction.Directions._kept_moments": _moments_anew
        },
    },
    **{
        name: {AS_IT_IS: {}, AGAIN: {}, **variants}
        for name, variants in descent_variants.VARIANTS.items()
    },
}


@contextmanager
def replaced(variant: Variant, solver: str) -> Iterator[None]:
    """Change the settings or replace parts of the solver, and put them back."""
    if not isinstance(variant, dict):
        declared = SOLVERS[solver]
        changed = {**declared.arguments, "settings": variant}
        SOLVERS[solver] = replace(declared, arguments=changed)
        try:
            yield
        finally:
            SOLVERS[solver] = declared
        return
    before = []
    for place, value in variant.items():
        where, _, name = place.rpartition(".")
        owner = resolve_name(where)
        before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


# --- cells ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One problem: data, loss, C, and intercept "none", "penalized" or "free"."""

    data: str
    loss: str
    C: float
    intercept: str
    tol: float

    @property
    def title(self) -> str:
        loss = self.loss.replace("_", " ")
        return f"{self.data}, {loss}, C = {self.C:g}, intercept {self.intercept}, {self.tol:g}"


def set_names(solver: str) -> list[str]:
    """Return the names of the data sets: coordinate descent has sparse ones, too."""
    return tall_sets.names() + (text_sets.names() if solver in ("dcd", "acf") else [])


def load(folder: Path, name: str) -> tall_sets.Labelled:
    """Return rows and labels of a data set."""
    sets = text_sets if name in text_sets.names() else tall_sets
    return sets.load(folder, name)


def cells(solver: str) -> list[Cell]:
    """Return all cells. Kinds of intercept take turns, and so do the losses at a small gap.

    Over tall sets coordinate descent is for small C, and so are uniform passes over all sets: for
    large C other solvers are far faster.
    """
    found = []
    kinds = "none", "free", "penalized"
    for number, data in enumerate(set_names(solver)):
        turn = count(number)
        losses = "hinge", "squared_hinge"
        small = solver == "dcd" or (solver == "acf" and data in tall_sets.names())
        for loss in losses:
            for C in (0.001, 0.03, 1.0) if small else (0.01, 1.0, 100.0):
                found.append(Cell(data, loss, C, kinds[next(turn) % 3], 1e-3))
            next(turn)  # another kind for the same C
        C = 0.03 if small else 1.0
        found.append(Cell(data, losses[number % 2], C, kinds[next(turn) % 3], 1e-6))
    return found


# --- the process that measures --------------------------------------------------------------


def serve(core: int, solver: str, folder: Path) -> None:
    """Answer each line on standard input, a cell, by a line with its record."""
    os.sched_setaffinity(0, {core})
    load_once = lru_cache(maxsize=1)(load)
    for line in sys.stdin:
        order = json.loads(line)
        cell = Cell(**order["cell"])
        rows, y = load_once(folder, cell.data)
        record = measure(cell, solver, rows, y, order["fits"], order["until"])
        print(json.dumps(record), flush=True)


def measure(cell: Cell, solver: str, rows, y: np.ndarray, fits: int, until: float) -> dict:
    """Return the record of a cell: in each round, all variants are fitted in turn.

    No round but the first begins after `until`, or after `_SECONDS_PER_CELL`.
    """
    variants = VARIANTS[solver]
    choice = _fit(cell, "auto", rows, y, max_iter=1).solver_
    _fit(cell, solver, rows, y)  # compiles
    for variant in variants.values():
        with replaced(variant, solver):
            _fit(cell, solver, rows, y, max_iter=1)  # compiles what the variant has besides
    records: dict[str, dict] = {name: {"seconds": []} for name in variants}
    begun = time.time()
    for _ in range(fits):
        if time.time() > min(until, begun + _SECONDS_PER_CELL) and records[AS_IT_IS]["seconds"]:
            break
        for name, variant in variants.items():
            with replaced(variant, solver):
                started = time.process_time()
                model = _fit(cell, solver, rows, y)
                records[name]["seconds"].append(time.process_time() - started)
            records[name] |= {
                "status": model.status_,
                "solver": model.solver_,
                "gap": float(model.certificate_.relative_gap),
                "primal": float(model.certificate_.primal),
                "dual": float(model.certificate_.dual),
                "passes": float(model.history_[-1].iteration),
            }
    shape = {"n_rows": rows.shape[0], "n_features": rows.shape[1], "auto": choice}
    return {"kind": "cell", "solver": solver, "cell": asdict(cell), **shape, "variants": records}


def _fit(cell: Cell, solver: str, rows, y: np.ndarray, max_iter: int = 10_000) -> LinearSVC:
    model = LinearSVC(
        loss=cell.loss,
        C=cell.C,
        tol=cell.tol,
        solver=solver,
        fit_intercept=cell.intercept != "none",
        penalized_intercept=cell.intercept == "penalized",
        max_iter=max_iter,
        max_time=_SECONDS_PER_FIT,
        n_jobs=1,
        random_state=0,
    )
    return model.fit(rows, y)


# --- the processes side by side -------------------------------------------------------------


def run(options: argparse.Namespace) -> None:
    """Measure all cells, some at a time, and write their records as they come."""
    until = time.time() + 60.0 * options.minutes
    given = cells(options.solver)
    chosen = [cell for cell in given if not options.sets or cell.data in options.sets]
    random.Random(0).shuffle(chosen)  # if time runs out, cells of all kinds have been measured
    left: SimpleQueue[Cell] = SimpleQueue()
    for cell in chosen:
        left.put(cell)
    cores = sorted(os.sched_getaffinity(0))
    apart = max(1, len(cores) // options.processes)
    with options.out.open("w") as out:
        lock = threading.Lock()

        def write(record: dict) -> None:
            with lock:
                print(json.dumps(record), file=out, flush=True)

        def work(number: int) -> None:
            core = cores[number * apart % len(cores)]
            with _server(core, options.solver, options.data) as server:
                end = threading.Timer(until + _SECONDS_TO_END - time.time(), server.kill)
                end.daemon = True
                end.start()
                assert server.stdout is not None
                while time.time() < until:
                    try:
                        cell = left.get_nowait()
                    except Empty:
                        return
                    order = {"cell": asdict(cell), "fits": options.fits, "until": until}
                    print(json.dumps(order), file=server.stdin, flush=True)
                    answer = server.stdout.readline()
                    if not answer:
                        print(f"no record of {cell.title}", file=sys.stderr)
                        return
                    write(json.loads(answer))

        write(machine.describe() | {"solver": options.solver, "processes": options.processes})
        workers = [threading.Thread(target=work, args=[k]) for k in range(options.processes)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    print(f"{len(chosen) - left.qsize()} of {len(chosen)} cells begun")


def _server(core: int, solver: str, folder: Path) -> subprocess.Popen:
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ablation", "serve"]
    arguments = ["--core", str(core), "--solver", solver, "--data", str(folder.resolve())]
    return subprocess.Popen(
        command + arguments,
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# --- the report -----------------------------------------------------------------------------


def report(records: list[dict]) -> str:
    """Return a table: a row for each variant, a column for each group of cells.

    A variant acts in a cell if its certificate is another one. Some act without changing it.
    """
    found = [record for record in records if record["kind"] == "cell"]
    groups = {title: [r for r in found if belongs(r)] for title, belongs in _GROUPS.items()}
    titles = [f"{title} ({len(some)})" for title, some in groups.items()]
    others = "where it acts", "least", "most", "in the cell", f"above {WORTH}", "verdict"
    lines = ["| " + " | ".join(["variant", *titles, *others]) + " |"]
    lines.append("| --- |" + " ---: |" * (len(titles) + 3) + " --- | ---: | --- |")
    for name in list(found[0]["variants"])[1:]:
        ratios = [_ratio(record, name) for record in found]
        acting = [_ratio(record, name) for record in found if _acts(record, name)]
        most = max(ratios)
        mean, worst = geometric_mean(ratios), Cell(**found[ratios.index(most)]["cell"])
        entries = [name, *(_mean([_ratio(r, name) for r in some]) for some in groups.values())]
        entries += [f"{_mean(acting)} ({len(acting)})", f"{min(ratios):.2f}", f"{most:.2f}"]
        entries += [worst.title, str(sum(ratio > WORTH for ratio in ratios))]
        entries.append("pays" if mean >= WORTH or most > WORTH_ONCE else "goes")
        lines.append("| " + " | ".join(entries) + " |")
    return "\n".join(lines)


def _mean(ratios: list[float]) -> str:
    return f"{geometric_mean(ratios):.3f}" if ratios else "none"


def _acts(record: dict, name: str) -> bool:
    ours, base = (record["variants"][variant] for variant in (name, AS_IT_IS))
    return (ours["primal"], ours["dual"]) != (base["primal"], base["dual"])


def _ratio(record: dict, name: str) -> float:
    """Return the median time of a variant over that of the solver as it is."""
    seconds = [record["variants"][variant]["seconds"] for variant in (name, AS_IT_IS)]
    return median(seconds[0]) / median(seconds[1])


_TUNED = (*tall_sets.TUNED, *text_sets.TUNED)
_GROUPS = {
    "all": lambda record: True,
    "tuned": lambda record: record["cell"]["data"] in _TUNED,
    "others": lambda record: record["cell"]["data"] not in _TUNED,
    "auto's choice": lambda record: record["auto"] == record.get("solver", "newton"),
    "hinge": lambda record: record["cell"]["loss"] == "hinge",
    "squared": lambda record: record["cell"]["loss"] == "squared_hinge",
    "free b": lambda record: record["cell"]["intercept"] == "free",
    "gap 1e-6": lambda record: record["cell"]["tol"] < 1e-3,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("prepare", "run", "serve"):
        some = commands.add_parser(command)
        some.add_argument("--data", type=Path, required=True, help="folder of the data sets")
        if command != "prepare":
            some.add_argument("--solver", default="newton", choices=list(VARIANTS))
    commands.choices["serve"].add_argument("--core", type=int, required=True)
    some = commands.choices["run"]
    some.add_argument("--processes", type=int, default=1)
    some.add_argument("--minutes", type=float, default=7.5)
    some.add_argument("--fits", type=int, default=5, help="of each variant, in each cell")
    some.add_argument("--sets", nargs="+", choices=set_names("acf"), help="only these")
    some.add_argument("--out", type=Path, required=True)
    commands.add_parser("report").add_argument("file", type=Path)
    options = parser.parse_args()
    if options.command == "prepare":
        tall_sets.prepare(options.data)
    elif options.command == "serve":
        serve(options.core, options.solver, options.data)
    elif options.command == "run":
        run(options)
    else:
        lines = options.file.read_text().splitlines()
        print(report([json.loads(line) for line in lines]))


if __name__ == "__main__":
    main()
