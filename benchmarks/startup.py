"""How long a process waits before its first model: the very first fit, and every later process.

    python -m benchmarks.startup

The first fit ever compiles (an empty Numba cache, in a temporary folder); later processes load
from the cache what was compiled, where the library keeps it. Rewrites the table in
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from importlib.util import find_spec
from statistics import median

from benchmarks import machine
from benchmarks.analyse import DOCUMENTS, in_words, rewrite_all
from benchmarks.sections import table

SCRIPT = """
import time
import numpy as np
from {module} import LinearSVC

random = np.random.default_rng(0)
X = random.standard_normal((1000, 100))
y = np.sign(X @ random.standard_normal(100) + random.standard_normal(1000))
for _ in range(2):
    started = time.perf_counter()
    LinearSVC().fit(X, y)
    print(time.perf_counter() - started)
"""
MODULES = {"widemargin": "widemargin", "scikit-learn": "sklearn.svm", "skglm": "skglm"}


def run_script(module: str, cache_folder: str) -> tuple[float, float, float]:
    """Seconds of the first fit in a process, of the same fit again, and of all else in it."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache_folder}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT.format(module=module)]
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    in_all = time.perf_counter() - started
    first, again = map(float, done.stdout.split())
    return first, again, in_all - first - again


def first_fit_ever(module: str) -> float:
    """Seconds of the first `fit` on a machine that never compiled anything."""
    with tempfile.TemporaryDirectory() as empty_cache:
        return run_script(module, empty_cache)[0]


def later_processes(modules: list[str], repeats: int) -> dict[str, tuple[float, ...]]:
    """Medians of `run_script` by module, with a cache that is filled, taking turns."""
    taken = defaultdict(list)
    with tempfile.TemporaryDirectory() as cache:
        for module in modules:  # fills the cache, and the system's cache of files
            run_script(module, cache)
        for _ in range(repeats):
            for module in modules:
                taken[module].append(run_script(module, cache))
    return {module: tuple(map(median, zip(*times))) for module, times in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="later processes of each library")
    parser.add_argument("--cold-repeats", type=int, default=3, help="fits with an empty cache")
    options = parser.parse_args()
    there = {name: module for name, module in MODULES.items() if find_spec(module.split(".")[0])}
    ever = {
        name: median(first_fit_ever(module) for _ in range(options.cold_repeats))
        for name, module in there.items()
    }
    later = later_processes(list(there.values()), options.repeats)
    rows = []
    for name, module in there.items():
        first, again, rest = later[module]
        times = (ever[name], first, again, first + rest)
        rows.append([name, *(f"{seconds:.3f} s" for seconds in times)])
    header = ["library", "first fit ever", "first fit in a process", "the same fit again"]
    text = table([*header, "whole process with one fit"], rows)
    rewrite_all(DOCUMENTS, "startup", f"{text}\n\n{in_words(machine.describe())}")
    for name in MODULES.keys() - there.keys():
        print(f"Skipped {name}: not installed")


if __name__ == "__main__":
    main()
