"""How long a process waits before its first model: the very first fit, and every later process.

    python -m benchmarks.startup

The first fit ever compiles the kernels (an empty Numba cache, in a temporary folder); later
processes load them from the cache and are compared with the same script on scikit-learn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

COLD_LIMIT_SECONDS = 5.0
WARM_LIMIT_RATIO = 1.3

SCRIPT = """
import sys, time
import numpy as np
from {package} import LinearSVC

random = np.random.default_rng(0)
X = random.standard_normal((1000, 100))
y = np.sign(X @ random.standard_normal(100) + random.standard_normal(1000))
started = time.perf_counter()
LinearSVC().fit(X, y)
print(time.perf_counter() - started)
"""
OURS, THEIRS = "widemargin", "sklearn.svm"


def run_script(package: str, cache_folder: str) -> tuple[float, float]:
    """Seconds that the whole process takes, and of them those inside `fit`."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache_folder}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT.format(package=package)]
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - started, float(done.stdout)


def first_fit_ever() -> float:
    """Seconds inside the first `fit` on a machine that never compiled the kernels."""
    with tempfile.TemporaryDirectory() as empty_cache:
        return run_script(OURS, empty_cache)[1]


def later_processes(repeats: int) -> tuple[float, float]:
    """Median seconds of a whole process, ours and scikit-learn's, taking turns."""
    with tempfile.TemporaryDirectory() as cache:
        for package in (OURS, THEIRS):  # fills the cache, and the system's cache of files
            run_script(package, cache)
        pairs = [
            (run_script(OURS, cache)[0], run_script(THEIRS, cache)[0]) for _ in range(repeats)
        ]
    ours, theirs = zip(*pairs)
    return median(ours), median(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="processes of each library")
    parser.add_argument("--cold-repeats", type=int, default=3, help="fits with an empty cache")
    options = parser.parse_args()
    cold = median(first_fit_ever() for _ in range(options.cold_repeats))
    print(f"first fit ever, empty cache: {cold:.2f} s (limit {COLD_LIMIT_SECONDS:g} s)")
    ours, theirs = later_processes(options.repeats)
    print(
        f"later process, import and 1,000 x 100 fit: widemargin {ours:.3f} s, "
        f"scikit-learn {theirs:.3f} s, ratio {ours / theirs:.2f} (limit {WARM_LIMIT_RATIO:g})"
    )
    if cold > COLD_LIMIT_SECONDS or ours / theirs > WARM_LIMIT_RATIO:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
