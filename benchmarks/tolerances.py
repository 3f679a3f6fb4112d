"""Whether `auto` chooses well at small gaps, on data that was not used to make its rule.

    python -m benchmarks.tolerances text     # coordinate descent with both schedules
    python -m benchmarks.tolerances dense    # coordinate descent and Newton's method

Hinge loss, free intercept, one thread, processor time of the second of two fits. A fit that takes
far longer than that of the other solver is stopped, and counts as infinite. Prints a table
of the times and of the choice, and rewrites it in docs/solvers.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine, make_classification
from sklearn.preprocessing import scale

from benchmarks import text_sets
from benchmarks.analyse import ROOT, rewrite
from benchmarks.sections import table
from widemargin import LinearSVC
from widemargin.data import as_rows
from widemargin.risk import Hinge
from widemargin.solvers import auto

DOCUMENT = ROOT / "docs" / "solvers.md"
SOLVERS = {"text": ("acf", "dcd"), "dense": ("acf", "newton")}
COSTS = {"text": (0.01, 0.1, 1.0), "dense": (0.01, 0.1, 1.0)}
TOLERANCES = 1e-3, 1e-4, 1e-6, 1e-8
# Seconds after which a fit is stopped: so many times those of the other solver, and a little more.
_TIMES, _MORE, _AT_MOST = 10.0, 0.5, 5.0

Labelled = tuple[object, np.ndarray]


def _made(n: int, d: int, seed: int) -> Labelled:
    rng = np.random.default_rng(seed)
    X, y = make_classification(
        n,
        d,
        n_informative=max(5, d // 5),
        n_redundant=d // 5,
        flip_y=float(rng.choice([0.0, 0.05, 0.2])),
        class_sep=float(rng.choice([0.5, 1.0, 2.0])),
        random_state=seed,
    )
    return scale(X), y


def _named(load: Callable, positive: Callable) -> Labelled:
    X, y = load(return_X_y=True)
    return scale(X), positive(y).astype(int)


# None of these took part when the rule was made.
DENSE: dict[str, Callable[[], Labelled]] = {
    "240 x 200": partial(_made, 240, 200, 1),
    "800 x 200": partial(_made, 800, 200, 3),
    "500 x 60": partial(_made, 500, 60, 4),
    "1500 x 100": partial(_made, 1500, 100, 5),
    "2000 x 60": partial(_made, 2000, 60, 6),
    "1000 x 40": partial(_made, 1000, 40, 8),
    "wine": partial(_named, load_wine, lambda y: y == 1),
}


def sets(kind: str) -> Iterator[tuple[str, Labelled]]:
    if kind == "dense":
        for name, make in DENSE.items():
            yield name, make()
        return
    for name in text_sets.names():
        if name not in text_sets.TUNED:
            yield name, text_sets.load(Path(), name)


def seconds(solver: str, X: object, y: np.ndarray, C: float, tol: float, limit: float) -> float:
    """Return the processor time of a fit; infinite if it was stopped."""
    model = LinearSVC(
        C=C, loss="hinge", solver=solver, tol=tol, max_time=limit, random_state=0, n_jobs=1
    )
    model.fit(X, y)
    started = time.process_time()
    model.fit(X, y)
    taken = time.process_time() - started
    return taken if model.status_ == "converged" else inf


def measure(kind: str) -> str:
    rows, ratios = [], []
    for name, (X, y) in sets(kind):
        for C in COSTS[kind]:
            chosen_by = auto.facts(as_rows(X), Hinge(np.ones(y.size), np.full(y.size, C)))
            entries = [name, f"{C:g}"]
            for tol in TOLERANCES:
                found, limit = {}, _AT_MOST
                for solver in SOLVERS[kind]:
                    found[solver] = seconds(solver, X, y, C, tol, limit)
                    limit = min(_AT_MOST, _TIMES * found[solver] + _MORE)
                facts = auto.Facts(**(vars(chosen_by) | {"tol": tol}))
                pick = auto.pick(facts)
                best = min(found.values())
                ratios.append(found[pick] / best if best < inf else 1.0)
                entries.append(
                    " / ".join(f"{1e3 * t:.1f}" if t < inf else "-" for t in found.values())
                    + f" ({pick})"
                )
            rows.append(entries)
            print(*entries, flush=True)
    good = sum(ratio <= 1.5 for ratio in ratios)
    title = " / ".join(SOLVERS[kind])
    header = ["data", "C", *(f"{title} in ms, gap {tol:g}" for tol in TOLERANCES)]
    summary = f"`auto` is within 1.5 times of the faster one in {good} of {len(ratios)} cells."
    return f"{table(header, rows)}\n\n{summary}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=tuple(SOLVERS))
    kind = parser.parse_args().kind
    warnings.simplefilter("ignore")
    text = measure(kind)
    page = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(rewrite(page, f"tolerances-{kind}", text), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
