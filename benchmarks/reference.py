"""The best known optimum of one cell: a tight widemargin fit with its certificate.

Its dual value bounds the optimum from below whatever solver found it, so it is what every peer,
widemargin included, is measured against. Started by `benchmarks.run` in a process of its own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.measure import json_lines_to_stdout
from benchmarks.problems import Cell, load, primal_objective
from widemargin.datasets import DatasetMissing

TOLERANCE = 1e-6


def solve_tightly(cell: Cell, seconds: float, cache: Path | None = None) -> dict:
    """Record of a fit to `TOLERANCE`, or as close to it as `seconds` allow."""
    try:
        data = load(cell.data, cache)
    except DatasetMissing as missing:
        return {"kind": "skipped", "cell": cell.name, "why": str(missing)}
    from benchmarks.peers import widemargin_svc  # a wait that missing data need not take

    started = time.perf_counter()
    model = widemargin_svc.estimator(
        cell, tol=TOLERANCE, max_iter=1_000_000, max_time=seconds
    ).fit(data.X, data.y)
    return {
        "kind": "reference",
        "cell": cell.name,
        "n_rows": data.X.shape[0],
        "n_features": data.X.shape[1],
        "n_classes": np.unique(data.y).size,
        "primal": primal_objective(cell, data.X, data.y, model.coef_, model.intercept_),
        "dual": float(model.certificate_.dual),
        "relative_gap": float(model.certificate_.relative_gap),
        "solver": model.solver_,
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", type=Cell.from_json, required=True, help="a cell as JSON")
    parser.add_argument("--limit", type=float, required=True, help="seconds")
    parser.add_argument("--cache", type=Path, help="a folder for data that is loaded again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the record states the gap that was reached
    report = json_lines_to_stdout()
    report(solve_tightly(options.cell, options.limit, options.cache))


if __name__ == "__main__":
    main()
