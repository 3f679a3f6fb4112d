"""Products with X that several problems over the same rows compute together.

A solver asks for its products by `product`. If problems are solved side by side in a
`SharedPasses`, products of the same kind are computed for all of them by one pass over the rows.
"""

from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np

from widemargin import meeting, threads
from widemargin.data.rows import Rows
from widemargin.meeting import Asked, Meeting
from widemargin.monitor import Monitor

Name = Literal["scores", "combine"]


class _Product(NamedTuple):
    rows: Rows
    name: Name
    vector: np.ndarray


def product(rows: Rows, name: Name, vector: np.ndarray, monitor: Monitor) -> np.ndarray:
    """Return `rows.scores(vector)` or `rows.combine(vector)`; the monitor adds up the time."""
    shared = meeting.current()
    if isinstance(shared, SharedPasses) and shared.has(rows):
        found, seconds = shared.ask(_Product(rows, name, vector))
        monitor.phases[name] = monitor.phases.get(name, 0.0) + seconds
        return found
    with monitor.phase(name):
        return _made(rows, name, vector)


def together(rows: Rows, functions: Sequence[Callable[[], Any]]) -> list:
    """Return the results of functions that solve problems over `rows`, with shared passes."""
    return SharedPasses(rows, threads.loan()).run(functions)


def rows_once(key: Hashable, make: Callable[[], Any]) -> Any:
    """Return make(), which has `rows`; it is made once for all problems that share passes.

    Passes over these rows are shared, too.
    """
    shared = meeting.current()
    return shared.rows_once(key, make) if isinstance(shared, SharedPasses) else make()


class SharedPasses(Meeting):
    """Solves problems over the same rows side by side.

    Parameters
    ----------
    rows : Rows
    loan : Loan
        Threads: for as many problems at once, and for the rows of each product.
    """

    def __init__(self, rows: Rows, loan: threads.Loan):
        super().__init__(self._answer_most, loan.n_threads)
        self.shared: list[Rows] = [rows, rows.plain]
        self.loan = loan
        # Each problem has an equal part of the threads for its own work.
        self.part = threads.Loan(loan.n_threads, loan.pool)

    def has(self, rows: Rows) -> bool:
        """Return whether passes over these rows are shared."""
        return any(rows is one for one in self.shared)

    def rows_once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        made = self.once(key, make)
        if made is not None and not self.has(made.rows):
            self.shared.append(made.rows)
        return made

    def run(self, functions: Sequence[Callable[[], Any]]) -> list:
        self._divide(len(functions))
        with threads.using(self.part):
            return super().run(functions)

    def _divide(self, n_running: int) -> None:
        self.part.n_threads = max(1, self.loan.n_threads // max(1, n_running))

    def _answer_most(self, asked: Asked) -> dict[int, Any]:
        """Answer the kind of product that most problems are waiting for, by one pass.

        The others keep waiting: the problems that have moved on will soon ask for the same kind.
        """
        self._divide(len(asked))
        kinds: dict[tuple[int, Name], list[tuple[int, _Product]]] = {}
        for place, question in asked:
            kinds.setdefault((id(question.rows), question.name), []).append((place, question))
        members = max(kinds.values(), key=len)
        (_, (rows, name, vector)), *others = members
        began = perf_counter()
        with threads.using(self.loan):
            if not others:
                found = [_made(rows, name, vector)]
            else:
                vectors = np.stack([question.vector for _, question in members], axis=1)
                columns = _made(rows, name, vectors)
                found = [_contiguous(columns[:, j]) for j in range(len(members))]
        seconds = (perf_counter() - began) / len(members)
        return {place: (answer, seconds) for (place, _), answer in zip(members, found)}


def _made(rows: Rows, name: Name, vectors: np.ndarray) -> np.ndarray:
    return rows.scores(vectors) if name == "scores" else rows.combine(vectors)


def _contiguous(vector: np.ndarray) -> np.ndarray:
    return vector if vector.flags.c_contiguous else vector.copy()
