"""What turns of coordinate descent and Newton's method gain, and cost.

    python -m benchmarks.relay

Processor time of one thread, gap 1e-3, squared hinge, free intercept, one fit by each solver in
turn. A fit is stopped after 15 seconds. Rewrites its table in docs/solvers.md.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks import text_sets
from benchmarks.analyse import ROOT, rewrite
from benchmarks.sections import table
from widemargin import LinearSVC

DOCUMENT = ROOT / "docs" / "solvers.md"
SOLVERS = "auto", "acf", "newton"
COSTS = 10.0, 1000.0
_SECONDS = 15.0

Labelled = tuple[sp.csr_matrix, np.ndarray]


def clicks(n: int, levels: tuple[int, ...], noise: float, seed: int) -> Labelled:
    """Return rows with one level of each field, of which few are frequent, and noisy labels."""
    rng = np.random.default_rng(seed)
    columns, start = [], 0
    for level in levels:
        frequency = 1.0 / np.arange(1, level + 1)
        columns.append(start + rng.choice(level, n, p=frequency / frequency.sum()))
        start += level
    indices = np.stack(columns, axis=1).ravel()
    starts = np.arange(0, indices.size + 1, len(levels))
    X = sp.csr_matrix((np.ones(indices.size), indices, starts), shape=(n, start))
    scores = X @ rng.standard_normal(start)
    positive = scores + noise * scores.std() * rng.standard_normal(n) > np.median(scores)
    return X, np.where(positive, 1, -1)


#: by the first two the settings were chosen
SETS: dict[str, Callable[[], Labelled]] = {
    "messages (tuned)": partial(text_sets.load, Path(), "messages"),
    "clicks (tuned)": partial(clicks, 50_000, (3, 5, 8, 20, 50, 100, 500, 1000, 5000), 1.0, 5),
    "clicks of few fields": partial(clicks, 30_000, (50, 2000, 7000), 0.5, 1),
    "clicks of many fields": partial(clicks, 20_000, (30,) * 40, 0.3, 2),
    "rare clicks": partial(clicks, 10_000, (10, 100, 20_000, 20_000), 0.5, 3),
    "reviews": partial(text_sets.load, Path(), "reviews"),
    "articles": partial(text_sets.load, Path(), "articles"),
    "news20_groups": partial(text_sets.load, Path(), "news20_groups"),
}


def seconds(solver: str, X: sp.csr_matrix, y: np.ndarray, C: float) -> tuple[float, str]:
    """Return the processor time of a fit, infinite if it was stopped, and what trained."""
    model = LinearSVC(C=C, solver=solver, max_iter=10**6, max_time=_SECONDS, random_state=0)
    started = time.process_time()
    model.fit(X, y)
    taken = time.process_time() - started
    return (taken if model.status_ == "converged" else inf), model.solver_


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name, make in SETS.items():
        X, y = make()
        shape = f"{X.shape[0]:,} x {X.shape[1]:,}"
        for solver in SOLVERS:
            seconds(solver, X[:3000], y[:3000], 1.0)  # compiles
        for C in COSTS:
            found = {solver: seconds(solver, X, y, C) for solver in SOLVERS}
            times = [f"{found[s][0]:.3g} s" if found[s][0] < inf else "-" for s in SOLVERS]
            rows.append([name, shape, f"{C:g}", *times, found["auto"][1]])
            print(*rows[-1], flush=True)
    header = ["data", "shape", "C", *SOLVERS, "what auto did"]
    page = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(rewrite(page, "relay", table(header, rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
