"""Algorithms side by side, whose questions are answered together.

Each algorithm is a plain function in a thread of its own, and does not know of the others. A
question waits until all algorithms that still run have asked one. Then the thread that called
`Meeting.run` answers them: by one pass over the rows, or by one round trip to a cluster.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any

from widemargin import threads

#: questions, each with the place of the function that asked it
Asked = list[tuple[int, Any]]

# The meeting of a function, and its place there.
_seat: ContextVar[tuple["Meeting", int] | None] = ContextVar("seat", default=None)


def current() -> "Meeting | None":
    """Return the meeting that the caller takes part in, or None."""
    seat = _seat.get()
    return seat and seat[0]


class Meeting:
    """Runs functions side by side, and answers what they ask.

    `answer` answers at least one of the questions, which come from all functions that still run.
    The others wait until the functions that were answered have asked again, or ended. At most
    `n_at_once` functions run at the same time, not counting those that wait for answers.
    """

    def __init__(self, answer: Callable[[Asked], dict[int, Any]], n_at_once: int):
        self.answer, self.is_shared = answer, False
        self._turns = threading.Semaphore(n_at_once)
        # What was asked and not answered yet, by place; each question and each end is news.
        self._asked: dict[int, tuple[Any, Future]] = {}
        self._news: queue.SimpleQueue[Future | None] = queue.SimpleQueue()
        self._common: dict[Any, Any] = {}
        self._making = threading.Lock()

    def run(self, functions: Sequence[Callable[[], Any]]) -> list:
        """Return the results of the functions. If one of them fails, or an answer, all fail."""
        self.is_shared = len(functions) > 1
        if not self.is_shared:
            return [self._attended(function, 0) for function in functions]
        with threads.pool(len(functions)) as pool:
            ends = []
            for place, function in enumerate(functions):
                ends.append(pool.submit(copy_context().run, self._attended, function, place))
                ends[-1].add_done_callback(self._news.put)
            self._serve(ends)
            return [end.result() for end in ends]

    def _attended(self, function: Callable[[], Any], place: int) -> Any:
        token = _seat.set((self, place))
        try:
            with self._turns:
                return function()
        finally:
            _seat.reset(token)

    def _serve(self, ends: list[Future]) -> None:
        """Answer questions until all functions have ended."""
        failure: BaseException | None = None
        asked: dict[int, tuple[Any, Future]] = {}
        while not all(end.done() for end in ends):
            try:
                self._news.get()
                failure = failure or next(filter(None, map(_failure, ends)), None)
                n_running = sum(not end.done() for end in ends)
                if failure is None and 0 < n_running == len(self._asked):
                    asked = self._asked.copy()
                    answers = self.answer([(place, asked[place][0]) for place in sorted(asked)])
                    for place, answer in answers.items():
                        del self._asked[place]  # before it asks again
                        asked[place][1].set_result(answer)
            except BaseException as error:  # Ctrl-C, too: threads must not wait for ever
                failure = error
            if failure is not None:
                for _, future in [*asked.values(), *list(self._asked.values())]:
                    if not future.done():
                        future.set_exception(failure)
        if failure is not None:
            raise failure

    def ask(self, question: Any) -> Any:
        """Return the answer to a question; only inside `run`."""
        seat = _seat.get()
        assert seat is not None
        place = seat[1]
        if not self.is_shared:
            return self.answer([(place, question)])[place]
        future: Future = Future()
        self._asked[place] = question, future
        with self.waiting():
            self._news.put(None)
            return future.result()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let another function run inside this context."""
        self._turns.release()
        try:
            yield
        finally:
            self._turns.acquire()

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return make(), which is called once for all functions."""
        with self._making:
            if key not in self._common:
                self._common[key] = make()
            return self._common[key]


def _failure(end: Future) -> BaseException | None:
    return end.exception() if end.done() else None


@contextmanager
def waiting() -> Iterator[None]:
    """Let another function of the same meeting run, if there is one, inside this context."""
    meeting = current()
    if meeting is None:
        yield
        return
    with meeting.waiting():
        yield
