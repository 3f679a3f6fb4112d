"""Sparse weights: time to a gap, beside scikit-learn's LIBLINEAR and LIBLINEAR's own.

    python -m benchmarks.sparse rcv1 a9a -C 0.01 1 --gaps 1e-3 1e-6

All minimise |w|_1 + C sum of squared hinges, without an intercept. A method's time is that of its
loosest tolerance, of powers of ten, with which the objective is within the gap of the optimum, as
the certificate of a long run proves it. Processor time of one thread, after a run that compiles.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as SklearnLinearSVC

from widemargin import LinearSVC
from widemargin.datasets import load

#: seconds that one run of a method may take, if it has a limit, before it is given up
PATIENCE = 60.0
TOLERANCES = 10.0 ** -np.arange(1.0, 9.0)


def _widemargin(X: Any, y: np.ndarray, C: float, gap: float) -> Iterator[Callable]:
    model = LinearSVC(penalty="l1", C=C, fit_intercept=False, tol=gap, max_time=PATIENCE)
    yield lambda: model.fit(X, y).coef_[0]


def _sklearn(X: Any, y: np.ndarray, C: float, gap: float) -> Iterator[Callable]:
    for tol in TOLERANCES:
        model = SklearnLinearSVC(
            penalty="l1", dual=False, C=C, fit_intercept=False, tol=tol, random_state=0
        )
        model.set_params(max_iter=100_000)
        yield lambda model=model: model.fit(X, y).coef_[0]


def _liblinear(X: Any, y: np.ndarray, C: float, gap: float) -> Iterator[Callable]:
    from liblinear.liblinearutil import problem, train

    made = problem(y.astype(float), X)
    for tol in TOLERANCES:
        options = f"-s 5 -c {C} -e {tol} -q"
        yield lambda options=options: np.array(train(made, options).get_decfun()[0])


METHODS = {"widemargin": _widemargin, "scikit-learn": _sklearn}
if find_spec("liblinear"):
    METHODS["LIBLINEAR"] = _liblinear


def objective(X: Any, y: np.ndarray, C: float, w: np.ndarray) -> float:
    """Return |w|_1 plus C times the sum of squared hinges."""
    return float(np.abs(w).sum() + C * np.square(np.maximum(0.0, 1.0 - y * (X @ w))).sum())


def seconds_to(
    method: Callable, X: Any, y: np.ndarray, C: float, gap: float, optimum: float
) -> tuple[float, int]:
    """Return the processor time to the gap, NaN for never, and how many weights are not zero."""
    for run in method(X, y, C, gap):
        began = time.process_time()
        w = run()
        took = time.process_time() - began
        if objective(X, y, C, w) <= optimum * (1.0 + gap):
            return took, int(np.count_nonzero(w))
        if took > PATIENCE:
            break
    return float("nan"), 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+")
    parser.add_argument("-C", type=float, nargs="+", default=[0.01, 1.0, 100.0])
    parser.add_argument("--gaps", type=float, nargs="+", default=[1e-3, 1e-6])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| data | C | gap |", " | ".join(METHODS), "| nonzero |")
    print("| --- | --- | --- |" + " --- |" * (len(METHODS) + 1))
    for name in arguments.sets:
        data = load(name)
        X, y = data.X, data.y
        LinearSVC(penalty="l1", C=1e-3, max_iter=2).fit(X, y)  # compiles
        for C in arguments.C:
            best = LinearSVC(penalty="l1", C=C, fit_intercept=False, tol=1e-8, max_time=300.0)
            optimum = best.fit(X, y).certificate_.dual
            for gap in arguments.gaps:
                found = [seconds_to(each, X, y, C, gap, optimum) for each in METHODS.values()]
                times = " | ".join(f"{seconds:.3g}" for seconds, _ in found)
                print(f"| {name} | {C:g} | {gap:g} | {times} | {found[0][1]} |", flush=True)


if __name__ == "__main__":
    main()
