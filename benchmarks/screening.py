"""Whether screening inside a training saves time: half of the way, screen, and train on the rest.

    python -m benchmarks.screening [SET ...]

"whole" trains on all rows to 1e-6. "screened" trains to 1e-3 or 1e-4, proves which rows do not
matter, and trains on the reduced problem to 1e-6, from the dual variables of the rows that are
left. Processor time, the least of three in turn.
"""

import sys
import time

import numpy as np
import scipy.sparse

from benchmarks.machine import describe
from widemargin import LinearSVC, datasets, prove

SETS = ("rcv1", "a9a", "ijcnn1", "covtype_binary")
_TOL = 1e-6


def seconds(run) -> tuple[float, object]:
    """Return the processor time of a call, and what it returns."""
    began = time.process_time()
    found = run()
    return time.process_time() - began, found


def screened(X, y, loss: str, tol: float) -> tuple[LinearSVC, float]:
    """Train, screen, and train on what is left; return the model, and the part that was left."""
    first = LinearSVC(loss=loss, tol=tol, random_state=0).fit(X, y)
    proof = prove(first, X, y)
    rest = proof.reduced_problem()
    keep = ~(proof.irrelevant_rows | proof.bounded_rows)
    model = LinearSVC(loss=loss, tol=_TOL, random_state=0, warm_start=True)
    dual = first.dual_variables_[:, keep]
    if len(rest.y) > dual.shape[1]:  # means of rows at their bounds
        more = np.asarray(rest.sample_weight[dual.shape[1] :])[None]
        dual = scipy.sparse.hstack([dual, scipy.sparse.csr_array(more)], format="csr")
    model.classes_, model.coef_, model.intercept_ = first.classes_, first.coef_, first.intercept_
    model.dual_variables_, model.n_features_in_ = scipy.sparse.csr_array(dual), X.shape[1]
    return model.fit(*rest), len(rest.y) / len(y)


def measure(name: str, loss: str) -> str:
    """Return the line of a set and a loss."""
    data = datasets.load(name)
    X, y = data.X, data.y
    runs = []
    for _ in range(3):
        whole, _ = seconds(lambda: LinearSVC(loss=loss, tol=_TOL, random_state=0).fit(X, y))
        rough, (_, left) = seconds(lambda: screened(X, y, loss, 1e-3))
        fine, (_, less) = seconds(lambda: screened(X, y, loss, 1e-4))
        runs.append((whole, rough, fine))
    whole, rough, fine = np.min(runs, axis=0)
    figures = [f"{whole:.2f} s", f"{rough:.2f} s", f"{left:.0%}", f"{fine:.2f} s", f"{less:.0%}"]
    return (" | ".join([f"| {name}, {loss}", *figures]) + " |").replace("%", " %")


def main(names: list[str]) -> None:
    """Print a table."""
    print(describe())
    print("| set | whole | screened at 1e-3 | rows left | screened at 1e-4 | rows left |")
    print("| --- " * 6 + "|")
    for name in names or SETS:
        for loss in ("hinge", "squared_hinge"):
            print(measure(name, loss), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
