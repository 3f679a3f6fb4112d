"""Runs several algorithms over the same rows, and computes their products with X together.

An algorithm is a generator. It yields the `Product` that it needs next, and is sent the result.
`run` waits until each algorithm has asked for a product. It answers all that ask for the same kind
of product by one pass over the rows, and runs the algorithms in threads between two passes.
"""

from collections.abc import Callable, Generator
from contextlib import nullcontext
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from widemargin import threads
from widemargin.monitor import Monitor


class Product(NamedTuple):
    """A request of an algorithm: `make(vector)`, where `make` is a method of the rows.

    It is `rows.scores` or `rows.combine`. If it is None, nothing is computed.
    """

    make: Callable | None
    vector: np.ndarray | None


#: a request to let the other algorithms run while a GPU works for this one
PAUSE = Product(None, None)

Requests = Generator[Product, np.ndarray, Any]


def run(algorithms: list[Requests], monitors: list[Monitor]) -> list:
    """Return the results of the algorithms; monitors add up the time of their products."""
    if len(algorithms) == 1:
        return [_run_alone(algorithms[0], monitors[0])]
    results: dict[int, Any] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(algorithms)))  # None, to begin

    def advance(j):
        # Threads go to the problems first, and to chunks of rows if there is only one problem.
        lent = threads.lent(1) if len(answers) > 1 else nullcontext()
        with lent, _overflowing():
            try:
                return algorithms[j].send(answers[j])
            except StopIteration as end:
                results[j] = end.value
                return None

    waiting: dict[int, Product] = {}
    while answers:
        asked = zip(answers, threads.run(advance, [(j,) for j in answers]))
        waiting.update((j, product) for j, product in asked if product is not None)
        answers = _answer_most(waiting, monitors)
    return [results[j] for j in range(len(algorithms))]


def _overflowing():
    """Ignore overflows: algorithms notice them by their results."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _run_alone(algorithm, monitor):
    """As `run`, for one algorithm: the bookkeeping takes as long as a product of few rows."""
    answer = None
    while True:
        try:
            with _overflowing():
                make, vector = algorithm.send(answer)
        except StopIteration as end:
            return end.value
        answer = None
        if make is not None:
            with monitor.phase(make.__name__):
                answer = make(vector)


def _answer_most(waiting, monitors):
    """Answer the kind of product that most algorithms are waiting for, by one pass.

    The others keep waiting: the algorithms that have moved on will soon ask for the same kind.
    """
    kinds: dict[Callable | None, list[int]] = {}
    for j, product in waiting.items():
        kinds.setdefault(product.make, []).append(j)  # methods of the same rows are equal
    if not kinds:
        return {}
    members = sorted(max(kinds.values(), key=len))
    asked = [waiting.pop(j) for j in members]
    make, vector = asked[0]
    if make is None:
        return dict.fromkeys(members)
    began = perf_counter()
    if len(asked) == 1:
        answers = {members[0]: make(vector)}
    else:
        columns = make(np.stack([product.vector for product in asked], axis=1))
        answers = {j: _contiguous(columns[:, place]) for place, j in enumerate(members)}
    took, name = (perf_counter() - began) / len(members), make.__name__
    for j in members:
        monitors[j].phases[name] = monitors[j].phases.get(name, 0.0) + took
    return answers


def _contiguous(vector):
    return vector if vector.flags.c_contiguous else vector.copy()
