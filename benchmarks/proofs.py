"""What certificates prove of the optimum: settled labels, weights and rows, at several tolerances.

    python -m benchmarks.proofs [SET ...]

Test labels are those of the published test set, or of a fifth of the rows that is held out. Times
are processor time; both are of the second run in one process.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.machine import describe
from widemargin import LinearSVC, datasets, prove

SETS = ("rcv1", "a9a", "news20", "covtype_binary")
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-6)


def load(name: str) -> tuple:
    """Return training rows, their labels, and test rows."""
    data = datasets.load(name)
    if data.X_test is not None:
        return data.X, data.y, data.X_test
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    held_out, rest = np.split(order, [order.size // 5])
    return data.X[rest], data.y[rest], data.X[held_out]


def timed(run: Callable[[], object]) -> tuple[object, float]:
    """Return what a call returns the second time, and its processor time."""
    run()
    began = time.process_time()
    return run(), time.process_time() - began


def measure(name: str, loss: str, tol: float, data: tuple) -> str:
    """Return the line of a set, a loss and a tolerance."""
    X, y, X_test = data
    model, fit = timed(lambda: LinearSVC(loss=loss, tol=tol, random_state=0).fit(X, y))
    proof, cost = timed(lambda: prove(model, X, y))
    low, high = proof.weight_bounds()
    shares = [
        proof.settled_mask(X_test).mean(),
        proof.irrelevant_rows.mean(),
        proof.bounded_rows.mean(),
        ((low > 0.0) | (high < 0.0)).mean(),
    ]
    figures = [f"{tol:g}", f"{model.certificate_.relative_gap:.1g}"]
    figures += [f"{share:.1%}".replace("%", " %") for share in shares]
    return " | ".join([f"| {name}, {loss}", *figures, f"{fit:.2f} s", f"{cost:.2f} s |"])


def main(names: list[str]) -> None:
    """Print a table."""
    print(describe())
    print("| set | tol | gap | labels | rows left out | rows joined | weights | fit | proof |")
    print("| --- " * 9 + "|")
    for name in names or SETS:
        data = load(name)
        for loss in ("squared_hinge", "hinge"):
            for tol in TOLERANCES:
                print(measure(name, loss, tol, data), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
