"""What an update of a model costs beside a new training: ten rows less and ten rows more.

    python -m benchmarks.updates [SET ...]

Processor time, the median of five in turn, at a tolerance of 1e-3. "bound" is how far the
objective of the new optimum is known from the old model alone, without training
(`Proof.influence_bounds`): upper bound over lower bound.
"""

import copy
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.machine import describe
from widemargin import LinearSVC, datasets, prove

SETS = ("rcv1", "a9a", "news20", "covtype_binary")
_ROWS = 10


def seconds(run: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    run()
    return time.process_time() - began


def measure(name: str, loss: str) -> str:
    """Return the line of a set and a loss."""
    data = datasets.load(name)
    order = np.random.default_rng(0).permutation(len(data.y))
    X, y = data.X[order], data.y[order]
    ways = {"loss": loss, "random_state": 0}
    model, remove = LinearSVC(**ways).fit(X[:-_ROWS], y[:-_ROWS]), np.arange(_ROWS)
    models = [copy.deepcopy(model) for _ in range(5)]
    LinearSVC(**ways).fit(X[_ROWS:], y[_ROWS:])
    times = []
    for each in models:
        update = partial(each.update, X, y, remove=remove)
        fit = partial(LinearSVC(**ways).fit, X[_ROWS:], y[_ROWS:])
        times.append((seconds(update), seconds(fit)))
    warm, cold = np.median(times, axis=0)
    assert models[0].certificate_.relative_gap <= models[0].tol
    proof = prove(model, X[:-_ROWS], y[:-_ROWS])
    low, high = proof.influence_bounds(remove, (X[-_ROWS:], y[-_ROWS:])).objective_bounds
    bound = f"{high.sum() / low.sum() - 1:.2%}".replace("%", " %")
    return f"| {name}, {loss} | {cold:.3f} s | {warm:.3f} s | {warm / cold:.2f} | {bound} |"


def main(names: list[str]) -> None:
    """Print a table."""
    print(describe())
    print("| set | new training | update | ratio | objective known to |")
    print("| --- " * 5 + "|")
    for name in names or SETS:
        for loss in ("hinge", "squared_hinge"):
            print(measure(name, loss), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
