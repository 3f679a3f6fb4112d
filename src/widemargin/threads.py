"""Threads over row ranges.

Kernels are single-threaded and release the interpreter's lock; whoever owns threads lends
them to the code below with ``with threads.lent(n):``, and every sum or product over rows that
runs inside splits its rows among them. The split depends on n alone, so the same n gives the
same bits.

BLAS would use all processors, whatever `n_jobs` says, and several of its threads for each of ours
would be in each other's way. So whatever users call is decorated: ``@threads.one_for_blas()``.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from threading import Lock

import scipy.linalg  # noqa: F401  loads its own BLAS, beside NumPy's
from threadpoolctl import LibController, ThreadpoolController

# Below this much work (numbers touched) in all, handing it to a thread costs more than it saves.
_WORTH_A_THREAD = 1 << 17

_lent: ContextVar[tuple[int, ThreadPoolExecutor | None]] = ContextVar("lent", default=(1, None))


@contextmanager
def lent(n_threads: int) -> Iterator[None]:
    """Let work over rows inside use `n_threads` threads."""
    with pool(n_threads) if n_threads > 1 else nullcontext() as lent_pool:
        token = _lent.set((max(1, n_threads), lent_pool))
        try:
            yield
        finally:
            _lent.reset(token)


def pool(n_threads: int) -> ThreadPoolExecutor:
    """Return a pool of threads for what is inside of `one_for_blas`."""
    # Some kinds of BLAS count threads for each thread that calls them.
    return ThreadPoolExecutor(n_threads, initializer=lambda: _limit(_libraries()))


@cache
def _libraries() -> list[LibController]:
    """Return NumPy's and SciPy's BLAS, which takes milliseconds to find."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


def _limit(libraries) -> list[tuple[LibController, int]]:
    """Leave one thread to each; return those which had more, and how many."""
    counts = [(library, library.get_num_threads()) for library in libraries]
    limited = [(library, count) for library, count in counts if count > 1]
    for library, _ in limited:
        library.set_num_threads(1)
    return limited


def _restore(limited) -> None:
    for library, count in limited:
        library.set_num_threads(count)


def _is_shared(library: LibController) -> bool:
    """Whether all threads of the process share a BLAS's threads, and its limit."""
    return library.internal_api == "openblas" and library.threading_layer != "openmp"


class _OneForBlas:
    """One thread for BLAS as long as somebody asks for it.

    The smallest fits take a millisecond. This takes a few microseconds.
    """

    def __init__(self):
        self.lock, self.asking = Lock(), 0
        self.limited: list[tuple[LibController, int]] = []

    @contextmanager
    def __call__(self):
        shared = [library for library in _libraries() if _is_shared(library)]
        with self.lock:
            if self.asking == 0:
                self.limited = _limit(shared)
                _let_go(shared)
            self.asking += 1
        own = _limit(library for library in _libraries() if not _is_shared(library))
        try:
            yield
        finally:
            _restore(own)
            with self.lock:
                self.asking -= 1
                if self.asking == 0:
                    _restore(self.limited)
                    _let_go(shared)


def _let_go(shared) -> None:
    """Let other threads set the limit: else it is for the one which did so first, and the last
    to end may be another one."""
    for library in shared:
        library.clear_controlling_thread()


#: a context manager, and a decorator, inside of which BLAS has one thread
one_for_blas = _OneForBlas()


def shares(n_rows: int, work: int) -> list[tuple[int, int]]:
    """Return the (begin, end) that each thread should take; one share if work is little."""
    count = min(_lent.get()[0], max(1, work // _WORTH_A_THREAD), max(1, n_rows))
    if count == 1:
        return [(0, n_rows)]
    cuts = [n_rows * j // count for j in range(count + 1)]
    return list(pairwise(cuts))


def run(task: Callable, arguments: list) -> list:
    """Return [task(*a) for a in arguments], side by side where threads were lent."""
    lent_pool = _lent.get()[1]
    if lent_pool is None or len(arguments) < 2:
        return [task(*a) for a in arguments]
    rest = [lent_pool.submit(task, *a) for a in arguments[1:]]
    return [task(*arguments[0])] + [future.result() for future in rest]


def sums(task: Callable, arguments: list) -> tuple:
    """Return the sums of the numbers that `task` returns, over all arguments, as `run` does."""
    parts = run(task, arguments)
    return parts[0] if len(parts) == 1 else tuple(map(sum, zip(*parts)))
