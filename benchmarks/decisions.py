"""What each decision in coordinate descent is worth: the solver with it, and without.

    python -m benchmarks.decisions

Each variant runs in a process of its own, with constants and parts of the solver set back to what
the papers say or to the simple thing, and prints passes over the rows and seconds to a certified
relative gap of 1e-3. Rewrites the table in docs/coordinate-descent.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from benchmarks.analyse import ROOT, rewrite
from widemargin.datasets import DatasetMissing

DOCUMENT = ROOT / "docs" / "coordinate-descent.md"
COORDINATE = "widemargin.solvers.coordinate"
ABSORBED = "widemargin.solvers.absorbed"
MULTIPLE = "widemargin.solvers.multiple"
SCHEDULE = "widemargin.solvers.schedule"
KERNELS = "widemargin.kernels.coordinate"


def _no_multiple(problem, coef, offset, scores, allowed):
    return 1.0, offset


# name -> what to set: {"module:name": value}
VARIANTS: dict[str, dict[str, object]] = {
    "as it is": {},
    "adaptive sweeps as long as the paper's, rows coming twice": {
        f"{SCHEDULE}:_SMALLEST_PASS": 1.0
    },
    "idle visits forgotten as slowly as in the paper": {f"{KERNELS}:_FORGOTTEN": 0.82},
    "adaptive frequencies never leave a row out": {f"{SCHEDULE}:_PUSHED": float("inf")},
    "steps to the maximum and no farther": {
        f"{SCHEDULE}:OVERSTEP": 1.0,
        f"{SCHEDULE}:_OVERSTEP_AT_FIRST": 1.0,
    },
    "steps of uniform passes as long at first": {f"{SCHEDULE}:_OVERSTEP_AT_FIRST": 1.3},
    "uniform passes never leave a row to rest": {f"{SCHEDULE}:_REST": 0},
    "constant feature as large as the rows": {f"{ABSORBED}:_CONSTANT_FEATURE": 1.0},
    "no multiple of a point": {f"{MULTIPLE}:best_multiple": _no_multiple},
    "free dual variables never solved for together": {f"{COORDINATE}:_LARGEST_FACE": 0.0},
    "rows never less their mean": {f"{COORDINATE}:_COMMON_PART": float("inf")},
    "uniform passes always over blocks of neighbours": {f"{COORDINATE}:_FEW_IN_COMMON": 2.0},
    "uniform passes never over blocks of neighbours": {f"{COORDINATE}:_FEW_IN_COMMON": 0.0},
}

# name -> data, C, solver, settings
NONE, FREE, PENALIZED = {"fit_intercept": False}, {}, {"penalized_intercept": True}
CELLS: dict[str, tuple[str, float, str, dict]] = {
    "rcv1, C = 1, dcd": ("rcv1", 1.0, "dcd", NONE),
    "rcv1, C = 100, acf": ("rcv1", 100.0, "acf", NONE),
    "rcv1, C = 1000, acf, penalised intercept": ("rcv1", 1000.0, "acf", PENALIZED),
    "news20, C = 10, acf, intercept": ("news20_one", 10.0, "acf", FREE),
    "news20, C = 1000, acf": ("news20_one", 1000.0, "acf", NONE),
    "covtype, C = 0.1, dcd": ("covtype_binary", 0.1, "dcd", NONE),
    "covtype, C = 1, acf, intercept": ("covtype_binary", 1.0, "acf", FREE),
}
REPEATS = 3
SECONDS_PER_FIT = 30.0


def measure(variant: str, cell: str) -> dict:
    """Fit one cell with a variant's constants; called in a child process."""
    for place, value in VARIANTS[variant].items():
        module, name = place.split(":")
        module = importlib.import_module(module)
        assert hasattr(module, name), place
        setattr(module, name, value)
    from widemargin import LinearSVC, datasets

    data, C, solver, others = CELLS[cell]
    problem = datasets.load(data, download=False)
    settings = {"loss": "hinge", "C": C, "solver": solver, **others}
    LinearSVC(max_iter=1, tol=0.9, **settings).fit(problem.X[:1000], problem.y[:1000])
    seconds, passes = [], []
    for seed in range(REPEATS):
        started = time.perf_counter()
        model = LinearSVC(max_time=SECONDS_PER_FIT, random_state=seed, **settings)
        model.fit(problem.X, problem.y)
        seconds.append(time.perf_counter() - started)
        passes.append(model.history_[-1].iteration)
        if model.status_ != "converged":
            break
    return {"seconds": median(seconds), "passes": median(passes), "status": model.status_}


def in_a_child(variant: str, cell: str) -> str:
    """Passes and seconds of one variant on one cell, in words."""
    with tempfile.TemporaryDirectory() as cache:  # constants are compiled into the kernels
        environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.decisions"]
        done = subprocess.run(
            [*command, "--measure", variant, cell],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    result = json.loads(done.stdout)
    text = f"{result['passes']:.0f} passes, {result['seconds']:.2g} s"
    return text if result["status"] == "converged" else f"not in {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", nargs=2, metavar=("VARIANT", "CELL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        try:
            print(json.dumps(measure(*options.measure)))
        except DatasetMissing as missing:
            sys.exit(str(missing))
        return
    lines = ["| variant | " + " | ".join(CELLS) + " |", "| --- |" + " ---: |" * len(CELLS)]
    for variant in VARIANTS:
        entries = [in_a_child(variant, cell) for cell in CELLS]
        lines.append("| " + " | ".join([variant, *entries]) + " |")
        print(lines[-1], flush=True)
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(rewrite(text, "decisions", "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
