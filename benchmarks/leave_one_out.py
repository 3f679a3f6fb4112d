"""Leave-one-out bounds beside true leave-one-out on 200 sampled rows.

    python -m benchmarks.leave_one_out [SET ...]

"bounds" are those of the error of all rows, by one training to a tolerance of 1e-6. "true" is the
error of 200 rows drawn at random, each by a model trained without it to 1e-4, "training" that of
the training rows, and "decided" the part of the rows whose label without them is proved. Processor
time of all bounds, and of one training to 1e-3.
"""

import sys
import time

import numpy as np

from benchmarks.machine import describe
from widemargin import LinearSVC, datasets, prove

SETS = ("rcv1", "a9a", "news20", "covtype_binary")
_SAMPLED = 200


def measure(name: str, loss: str, C: float) -> str:
    """Return the line of a set, a loss and a C."""
    data = datasets.load(name)
    X, y = data.X, np.where(data.y == data.y.max(), 1, -1)  # of many classes, the last one
    parameters = {"loss": loss, "C": C, "random_state": 0}
    model = LinearSVC(tol=1e-6, **parameters).fit(X, y)
    proof = prove(model, X, y)
    proof.leave_one_out()
    began = time.process_time()
    found = prove(model, X, y).leave_one_out()
    seconds, began = time.process_time() - began, time.process_time()
    LinearSVC(**parameters).fit(X, y)
    fit = time.process_time() - began
    wrong, start = 0, LinearSVC(tol=1e-4, warm_start=True, **parameters).fit(X, y)
    state = start.coef_, start.intercept_, start.dual_variables_
    for row in np.random.default_rng(0).choice(len(y), _SAMPLED, replace=False):
        weight = np.ones(len(y))
        weight[row] = 0.0
        start.coef_, start.intercept_, start.dual_variables_ = state
        score = start.fit(X, y, weight).decision_function(X[row : row + 1])[0]
        wrong += (score > 0.0) != (y[row] == start.classes_[1])
        slip = 0.02 * (1.0 + abs(score))  # the sampled models are solved to 1e-4 only
        assert found.low[row] - slip <= score <= found.high[row] + slip
    decided = 1.0 - found.most_error + found.least_error
    figures = [f"{C:g}", f"{1.0 - model.score(X, y):.2%}", f"{wrong / _SAMPLED:.1%}"]
    figures += [f"{found.least_error:.2%} to {found.most_error:.2%}", f"{decided:.1%}"]
    line = " | ".join([f"| {name}, {loss}", *figures, f"{seconds:.2f} s", f"{fit:.2f} s |"])
    return line.replace("%", " %")


def main(names: list[str]) -> None:
    """Print a table."""
    print(describe())
    print("| set | C | training | true | bounds | decided | all bounds | a fit |")
    print("| --- " * 8 + "|")
    for name in names or SETS:
        for loss in ("hinge", "squared_hinge"):
            for C in (0.01, 0.1, 1.0):
                print(measure(name, loss, C), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
