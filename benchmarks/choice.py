"""Our own solvers against one another, and the choice that `solver="auto"` makes among them.

    python -m benchmarks.choice measure benchmarks/results/choice.jsonl     # about half an hour
    python -m benchmarks.choice measure benchmarks/results/choice.jsonl digits a9a    # some sets
    python -m benchmarks.choice table benchmarks/results/choice.jsonl

Two-class problems, free intercept, tol = 1e-3, one thread; in each cell all solvers that take
part, one after the other in one process. A fit that takes three times as long as the fastest so
far, and a second more, is stopped: by how much it loses does not matter. What `auto` knows of a
cell is written down beside the times, so that its table can be checked without the data.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import machine, problems
from benchmarks.analyse import ROOT, rewrite
from widemargin import LinearSVC, datasets
from widemargin.data import as_rows
from widemargin.data.expand import WeightedDegree
from widemargin.datasets import DatasetMissing
from widemargin.risk import Hinge, SquaredHinge
from widemargin.solvers import auto

DOCUMENT = ROOT / "docs" / "solvers.md"
SOLVERS = ("dcd", "acf", "newton", "ocas")
RISKS = {"hinge": Hinge, "squared_hinge": SquaredHinge}
DATA = ("rcv1", "news20", "a9a", "ijcnn1", "covtype", "mnist", "splice", "digits", "breast_cancer")
COSTS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4)
LIMIT = 30.0


def load(name: str):
    """X and labels -1, 1: of several classes, one against the rest."""
    if name == "splice":
        return _splice()
    data = problems.load({"news20": "news20_one", "covtype": "covtype_binary"}.get(name, name))
    y = np.where(data.y == 8, 1, -1) if name in ("mnist", "digits") else data.y
    return data.X, y


def _splice():
    """Substrings of up to 4 letters of a fifth of splice_worm, some in random places."""
    import pyarrow as pa

    table = pa.Table.from_batches(list(datasets.splice_worm_batches()))
    chosen = np.random.default_rng(0).permutation(table.num_rows)[:20_000]
    batch = table.take(pa.array(chosen)).combine_chunks().to_batches()[0]
    features = WeightedDegree("sequence", length=398, max_degree=4)
    return features(batch.select(["sequence"])), batch["label"].to_numpy()


# --- measuring ------------------------------------------------------------------------------


def measure(path: Path, names: list[str]) -> None:
    """Measure sets; what the file has of others stays."""
    warnings.simplefilter("ignore")
    for dtype in (np.float32, np.float64):
        warm_up(dtype)
    kept = [cell for cell in read(path) if cell["data"] not in names] if path.exists() else []
    records, skipped = [machine.describe(), *kept], []
    for name in names:
        try:
            X, y = load(name)
        except DatasetMissing as missing:
            skipped.append(f"Skipped {name}: {missing}")
            continue
        for loss in RISKS:
            for C in COSTS:
                records.append(measure_cell(name, X, y, loss, C))
                # Not before there is a record: where no set is there, an older file stays.
                path.write_text("".join(json.dumps(record) + "\n" for record in records))
    print("\n".join(skipped))


def warm_up(dtype) -> None:
    import scipy.sparse as sp

    X = np.random.default_rng(0).random((80, 5)).astype(dtype)
    y = np.arange(80) % 2
    for matrix in (X, sp.csr_matrix(X)):
        for solver in SOLVERS:
            LinearSVC(solver=solver).fit(matrix, y)


def measure_cell(name: str, X, y, loss: str, C: float) -> dict:
    rows = as_rows(X)
    facts = auto.facts(rows, RISKS[loss](np.sign(y), np.full(y.size, C)))
    chosen = auto.pick(facts)
    seconds: dict[str, float] = {}
    stopped: list[str] = []
    for solver in (chosen, *(other for other in SOLVERS if other != chosen)):
        limit = min(LIMIT, 3.0 * min(seconds.values(), default=LIMIT) + 1.0)
        times = []
        while not times or (len(times) < 3 and sum(times) < 1.0):
            model = LinearSVC(C=C, loss=loss, solver=solver, max_time=limit, random_state=0)
            began = time.perf_counter()
            model.fit(X, y)
            times.append(time.perf_counter() - began)
        seconds[solver] = median(times)
        if model.status_ != "converged":
            stopped.append(solver)
    cell = {"data": name, "loss": loss, "C": C, "facts": asdict(facts)}
    shown = "  ".join(
        f"{solver} {taken:.3g}{'+' if solver in stopped else ''}"
        for solver, taken in seconds.items()
    )
    print(f"{name} {loss} C={C:g}: {shown}", flush=True)
    return {"kind": "cell", **cell, "seconds": seconds, "stopped": stopped}


# --- judging --------------------------------------------------------------------------------


def read(path: Path) -> list[dict]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["kind"] == "cell"]


def ratio(cell: dict) -> float:
    """Time of the solver that auto picks now, over that of the fastest; inf if it was stopped.

    Where none of them got there in time, 1.
    """
    picked = auto.pick(auto.Facts(**cell["facts"]))
    there = {s: t for s, t in cell["seconds"].items() if s not in cell["stopped"]}
    if not there:
        return 1.0
    return there.get(picked, float("inf")) / min(there.values())


def is_slowest(cell: dict) -> bool:
    """Whether no other solver was slower than the one that auto picks now."""
    picked = auto.pick(auto.Facts(**cell["facts"]))
    times = {s: float("inf") if s in cell["stopped"] else t for s, t in cell["seconds"].items()}
    return times[picked] == max(times.values()) > min(times.values())


def table(cells: list[dict]) -> str:
    lines = ["| data | loss | C | " + " | ".join(SOLVERS) + " | auto | over the fastest |"]
    lines.append("| --- | --- |" + " ---: |" * (len(SOLVERS) + 1) + " --- | ---: |")
    for cell in cells:
        there = [t for s, t in cell["seconds"].items() if s not in cell["stopped"]]
        best = min(there, default=None)
        times = [
            f"{'over ' if s in cell['stopped'] else ''}{cell['seconds'][s]:.3g} s" for s in SOLVERS
        ]
        times = [
            f"**{text}**" if cell["seconds"][s] == best else text
            for s, text in zip(SOLVERS, times, strict=True)
        ]
        picked = auto.pick(auto.Facts(**cell["facts"]))
        place = f"| {cell['data']} | {cell['loss']} | {cell['C']:g} | "
        lines.append(place + " | ".join(times) + f" | {picked} | {ratio(cell):.2f} |")
    good = sum(ratio(cell) <= 1.5 for cell in cells)
    slowest = sum(map(is_slowest, cells))
    lines.append(
        f"\n`auto` is within 1.5 times of the fastest in {good} of {len(cells)} cells, and the "
        f"slowest in {slowest}."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("measure", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("data", nargs="*", metavar="SET", help=f"{', '.join(DATA)}; all")
    options = parser.parse_args()
    if unknown := sorted(set(options.data) - set(DATA)):
        parser.error(f"no set is called {unknown[0]!r}")
    if options.what == "measure":
        measure(options.results, options.data or list(DATA))
    text = table(read(options.results))
    page = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(rewrite(page, "choice", text), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
