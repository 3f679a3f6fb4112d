"""The best known optimum of one cell: a tight widemargin fit with its certificate.

Its dual value bounds the optimum from below whatever solver found it, so it is what every peer,
widemargin included, is measured against. Started by `benchmarks.run` in a process of its own.
"""

from __future__ import annotations

import argparse
import time
import warnings

from benchmarks.measure import N_THREADS, json_lines_to_stdout
from benchmarks.peers import RANDOM_SEED
from benchmarks.problems import Cell, load, primal_objective
from widemargin.datasets import DatasetMissing

TOLERANCE = 1e-6


def solve_tightly(cell: Cell, seconds: float) -> dict:
    """Record of a fit to `TOLERANCE`, or as close to it as `seconds` allow."""
    try:
        data = load(cell.data)
    except DatasetMissing as missing:
        return {"kind": "skipped", "cell": cell.name, "why": str(missing)}
    from widemargin import LinearSVC  # a moment's wait that missing data need not take

    started = time.perf_counter()
    model = LinearSVC(
        C=cell.C,
        loss=cell.loss,
        fit_intercept=cell.intercept != "none",
        penalized_intercept=cell.intercept == "penalized",
        tol=TOLERANCE,
        max_iter=1_000_000,
        max_time=seconds,
        n_jobs=N_THREADS,
        random_state=RANDOM_SEED,
    ).fit(data.X, data.y)
    return {
        "kind": "reference",
        "cell": cell.name,
        "primal": primal_objective(cell, data.X, data.y, model.coef_, model.intercept_),
        "dual": float(model.certificate_.dual),
        "relative_gap": float(model.certificate_.relative_gap),
        "solver": model.solver_,
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", type=Cell.from_json, required=True, help="a cell as JSON")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the record states the gap that was reached
    report = json_lines_to_stdout()
    report(solve_tightly(options.cell, options.limit))


if __name__ == "__main__":
    main()
