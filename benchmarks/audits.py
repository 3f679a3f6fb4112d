"""Whether scikit-learn's defaults have converged: what an audit finds, the truth, and its cost.

    python -m benchmarks.audits [SET ...]

Each line is a model of scikit-learn with its defaults, but for the loss that is named. "found" is
what `audit` proves with its default tolerance, "truth" the excess over an optimum solved to 1e-6.
"cost" is the processor time of the audit over that of a fit of ours of the same problem; both are
the least of three runs, in turn, in one process, after a first one that compiles.
"""

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn import svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import scale

from benchmarks.machine import describe
from widemargin import audit, datasets
from widemargin.words import percent

_BUNDLED = ("breast_cancer", "digits", "wine", "iris", "diabetes")
SETS = (
    *(f"{name}{how}" for name in _BUNDLED for how in ("", ", scaled")),
    *("a9a", "ijcnn1", "rcv1", "news20", "covtype"),
)
MODELS = {
    "LinearSVC": lambda: svm.LinearSVC(random_state=0),
    "LinearSVC, hinge": lambda: svm.LinearSVC(loss="hinge", random_state=0),
    "SGDClassifier": lambda: SGDClassifier(random_state=0),
    "LogisticRegression": lambda: LogisticRegression(),
}
OF_TARGETS = {
    "LinearSVR": lambda: svm.LinearSVR(random_state=0),
}
_EXACT, _EXACT_SECONDS = 1e-6, 60.0


def load(name: str) -> tuple:
    """Return rows and labels of a set of scikit-learn or of `widemargin.datasets`."""
    first, _, scaled = name.partition(", ")
    if first not in _BUNDLED:
        data = datasets.load({"covtype": "covtype_binary"}.get(name, name))
        return data.X, data.y
    X, y = getattr(sklearn.datasets, f"load_{first}")(return_X_y=True)
    return (scale(X) if scaled else X), y


def seconds(run: Callable[[], object]) -> tuple[float, object]:
    """Return the processor time of a call, and what it returns."""
    begin = time.process_time()
    result = run()
    return time.process_time() - begin, result


def measure(name: str, model: str, X: Any, y: np.ndarray) -> str:
    """Return the line of a model on a set."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ConvergenceWarning)
        theirs = (MODELS | OF_TARGETS)[model]().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = audit(theirs, X, y, random_state=0)
        ours = clone(found.better)
        runs = [
            (
                seconds(lambda: audit(theirs, X, y, random_state=0))[0],
                seconds(lambda: clone(ours).fit(X, y))[0],
            )
            for _ in range(3)
        ]
        exact = clone(ours).set_params(tol=_EXACT, max_time=_EXACT_SECONDS).fit(X, y)
    cost, fit = np.min(runs, axis=0)
    primal = found.certificate.primal
    low, high = primal / exact.certificate_.primal - 1, primal / exact.certificate_.dual - 1
    truth = percent(max(low, 0.0))
    if high - low > 0.1 * found.excess + 1e-5:
        truth += f" to {percent(high)}"
    figures = [percent(found.excess), truth, "yes" if warned else "no", f"{fit:.3f} s"]
    return " | ".join(["| " + name, model, *figures, f"{cost / fit:.2f} |"])


def main(names: list[str]) -> None:
    """Print a table."""
    print(describe())
    print("| set | model | found: at most | truth | it warned | a fit of ours | cost |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names or SETS:
        X, y = load(name)
        for model in OF_TARGETS if name.startswith("diabetes") else MODELS:
            print(measure(name, model, X, y), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
