"""Threads over row ranges.

Kernels are single-threaded and release the interpreter's lock; whoever owns threads lends
them to the code below with ``with threads.lent(n):``, and every sum or product over rows that
runs inside splits its rows among them. The split depends on n alone, so the same n gives the
same bits. BLAS has one thread meanwhile: several for each of ours would be in each other's way.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from threading import Lock

from threadpoolctl import ThreadpoolController

# Below this much work (numbers touched) in all, handing it to a thread costs more than it saves.
_WORTH_A_THREAD = 1 << 17

_lent: ContextVar[tuple[int, ThreadPoolExecutor | None]] = ContextVar("lent", default=(1, None))


@contextmanager
def lent(n_threads: int) -> Iterator[None]:
    """Let work over rows inside use `n_threads` threads."""
    if n_threads <= 1:
        token = _lent.set((1, None))
        try:
            yield
        finally:
            _lent.reset(token)
        return
    with ThreadPoolExecutor(n_threads) as pool, _single_threaded_blas():
        token = _lent.set((n_threads, pool))
        try:
            yield
        finally:
            _lent.reset(token)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


class _SingleThreadedBlas:
    """One thread for BLAS as long as somebody asks for it; there is one BLAS for all of them."""

    def __init__(self):
        self.lock, self.asking = Lock(), 0

    @contextmanager
    def __call__(self):
        with self.lock:
            if self.asking == 0:
                self.limit = _libraries().limit(limits=1, user_api="blas")
            self.asking += 1
        try:
            yield
        finally:
            with self.lock:
                self.asking -= 1
                if self.asking == 0:
                    self.limit.restore_original_limits()


_single_threaded_blas = _SingleThreadedBlas()


def shares(n_rows: int, work: int) -> list[tuple[int, int]]:
    """Return the (begin, end) that each thread should take; one share if work is little."""
    count = min(_lent.get()[0], max(1, work // _WORTH_A_THREAD), max(1, n_rows))
    if count == 1:
        return [(0, n_rows)]
    cuts = [n_rows * j // count for j in range(count + 1)]
    return list(pairwise(cuts))


def run(task: Callable, arguments: list) -> list:
    """Return [task(*a) for a in arguments], side by side where threads were lent."""
    pool = _lent.get()[1]
    if pool is None or len(arguments) < 2:
        return [task(*a) for a in arguments]
    rest = [pool.submit(task, *a) for a in arguments[1:]]
    return [task(*arguments[0])] + [future.result() for future in rest]


def sums(task: Callable, arguments: list) -> tuple:
    """Return the sums of the numbers that `task` returns, over all arguments, as `run` does."""
    parts = run(task, arguments)
    return parts[0] if len(parts) == 1 else tuple(map(sum, zip(*parts)))
