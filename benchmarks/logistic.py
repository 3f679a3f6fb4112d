"""Time of logistic regression to a certified gap, beside scikit-learn's solvers and LIBLINEAR.

    python -m benchmarks.logistic            prints a table of seconds of processor time
    python -m benchmarks.logistic choice     the same for our solvers alone, on more sets

A peer has no certificate: its tolerance is made smaller, tenfold at a time, until its objective is
within the fraction wanted of the best known one, and the time of that run alone counts. Cells that
take more than a limit are stopped. All run on one thread, one after the other.
"""

import argparse
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from widemargin import LogisticRegression, datasets

SECONDS = 5.0
# A fit that takes less is repeated, and so often at most.
SHORT, REPEATED = 0.04, 20
COSTS = (0.01, 1.0, 100.0)
GAPS = (1e-3, 1e-6)
SETS = ("breast_cancer", "a9a", "rcv1", "news20", "covtype_binary")
OURS = ("newton", "dcd", "auto")
PEERS = ("lbfgs", "newton-cholesky", "liblinear", "saga")
#: what a solver of scikit-learn is not made for: more features than this
MOST_FEATURES = {"newton-cholesky": 2000}


def load(name: str) -> tuple[Any, np.ndarray]:
    """Return rows, and labels of -1 and 1: of several, the upper half against the lower one."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return scale(X), 2 * y - 1
    found = datasets.load(name)
    return found.X, np.where(found.y <= 0.5 * (found.y.min() + found.y.max()), -1, 1)


class TooLong(Exception):
    """A cell takes longer than it may."""


def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a fit, and its result; TooLong after `SECONDS`."""

    def stop(number: int, frame: object) -> None:
        raise TooLong

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        began = time.process_time()
        found, count = fit(), 1
        while time.process_time() - began < SHORT and count < REPEATED:  # the clock is coarse
            found, count = fit(), count + 1
        return (time.process_time() - began) / count, found
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, previous)


def objective(model: Any, X: Any, y: np.ndarray, C: float, penalized: bool = False) -> float:
    w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    value = 0.5 * w @ w + (0.5 * b * b if penalized else 0.0)
    return float(value + C * np.logaddexp(0.0, -y * (X @ w + b)).sum())


def time_of_ours(solver: str, X: Any, y: np.ndarray, C: float, gap: float, **given: Any) -> float:
    model = LogisticRegression(C=C, solver=solver, tol=gap, random_state=0, **given)
    try:
        seconds, model = timed(partial(model.fit, X, y))
    except TooLong:
        return np.inf
    return seconds if model.certificate_.relative_gap <= gap else np.inf


def time_of_peer(solver: str, X: Any, y: np.ndarray, C: float, gap: float, best: float) -> float:
    if X.shape[1] > MOST_FEATURES.get(solver, X.shape[1]):
        return np.nan
    for tol in 10.0 ** -np.arange(2.0, 11.0):
        model = linear_model.LogisticRegression(
            C=C, solver=solver, tol=tol, max_iter=100000, random_state=0
        )
        try:
            seconds, model = timed(partial(model.fit, X, y))
        except TooLong:
            return np.inf
        if objective(model, X, y, C, solver == "liblinear") <= (1.0 + gap) * best:
            return seconds
    return np.inf


def cells(names: tuple[str, ...], peers: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the rows of the table, as text."""
    for name in names:
        X, y = load(name)
        LogisticRegression(tol=0.1, solver="newton").fit(X, y)  # compiles
        LogisticRegression(tol=0.1, solver="dcd").fit(X, y)
        for C in COSTS:
            exact = {"C": C, "tol": 1e-8, "solver": "newton"}
            best, of_liblinear = (
                LogisticRegression(penalized_intercept=penalized, **exact)
                .fit(X, y)
                .certificate_.primal
                for penalized in (False, True)
            )
            for gap in GAPS:
                ours = [time_of_ours(solver, X, y, C, gap) for solver in OURS]
                theirs = [
                    time_of_peer(peer, X, y, C, gap, of_liblinear if peer == "liblinear" else best)
                    for peer in peers
                ]
                yield [name, f"{C:g}", f"{gap:.0e}", *map(in_words, [*ours, *theirs])]


def in_words(seconds: float) -> str:
    if np.isnan(seconds):
        return ""
    return f"> {SECONDS:g}" if np.isinf(seconds) else f"{seconds:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.logistic", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("peers", "choice"), default="peers")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    options = parser.parse_args()
    peers = tuple(options.peers) if options.what == "peers" else ()
    warnings.simplefilter("ignore")
    print("| data | C | gap |", " | ".join([*OURS, *peers]), "|")
    print("| --- " * (3 + len(OURS) + len(peers)) + "|")
    with threadpool_limits(1):
        for row in cells(tuple(options.sets), peers):
            print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
