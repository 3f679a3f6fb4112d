"""Threads over ranges of rows, and the number of BLAS threads.

Kernels are single-threaded and release the GIL. Inside ``with threads.lent(n):``, every sum or
product over rows splits its rows among n threads. The split depends on n only, so the same n gives
the same bits.

BLAS uses all cores by default, whatever `n_jobs` is, and its threads would compete with ours.
Public functions are therefore decorated with ``@threads.one_for_blas()``, which limits BLAS to
one thread.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import Lock

import scipy.linalg  # noqa: F401  loads its own BLAS, beside NumPy's
from threadpoolctl import LibController, ThreadpoolController

# A thread needs at least this much work (numbers read) to be worth its overhead.
_WORTH_A_THREAD = 1 << 17


@dataclass
class Loan:
    """Threads for work over rows: at most `n_threads` at a time, of a pool."""

    n_threads: int
    pool: ThreadPoolExecutor | None


_NOTHING = Loan(1, None)
_lent: ContextVar[Loan] = ContextVar("lent", default=_NOTHING)


@contextmanager
def lent(n_threads: int) -> Iterator[Loan]:
    """Use `n_threads` threads for work over rows inside this context."""
    with pool(n_threads) if n_threads > 1 else nullcontext() as lent_pool:
        loan = Loan(max(1, n_threads), lent_pool)
        with using(loan):
            yield loan


@contextmanager
def using(loan: Loan) -> Iterator[None]:
    """Use the threads of a loan for work over rows inside this context."""
    token = _lent.set(loan)
    try:
        yield
    finally:
        _lent.reset(token)


def loan() -> Loan:
    """Return the present loan."""
    return _lent.get()


def pool(n_threads: int) -> ThreadPoolExecutor:
    """Return a thread pool whose threads use one BLAS thread each."""
    # Some BLAS libraries have a separate limit for each calling thread.
    return ThreadPoolExecutor(n_threads, initializer=lambda: _limit(_libraries()))


@cache
def _libraries() -> list[LibController]:
    """Return the BLAS libraries of NumPy and SciPy, cached: finding them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


def _limit(libraries: Iterable[LibController]) -> list[tuple[LibController, int]]:
    """Limit each library to one thread; return (library, previous limit) of those changed."""
    counts = [(library, library.get_num_threads()) for library in libraries]
    limited = [(library, count) for library, count in counts if count > 1]
    for library, _ in limited:
        library.set_num_threads(1)
    return limited


def _restore(limited: list[tuple[LibController, int]]) -> None:
    for library, count in limited:
        library.set_num_threads(count)


def _is_shared(library: LibController) -> bool:
    """Return whether the limit of a library applies to the whole process."""
    return library.internal_api == "openblas" and library.threading_layer != "openmp"


class _OneForBlas:
    """Limits BLAS to one thread while at least one caller is inside.

    Entering takes a few microseconds; the smallest fits take a millisecond.
    """

    def __init__(self) -> None:
        self.lock, self.n_callers = Lock(), 0
        self.limited: list[tuple[LibController, int]] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        shared = [library for library in _libraries() if _is_shared(library)]
        with self.lock:
            if self.n_callers == 0:
                self.limited = _limit(shared)
                _release(shared)
            self.n_callers += 1
        own = _limit(library for library in _libraries() if not _is_shared(library))
        try:
            yield
        finally:
            _restore(own)
            with self.lock:
                self.n_callers -= 1
                if self.n_callers == 0:
                    _restore(self.limited)
                    _release(shared)


def _release(shared: list[LibController]) -> None:
    """Let any thread set the limit. threadpoolctl allows it only to the thread that set it first,
    but the last caller to leave may be in another thread."""
    for library in shared:
        library.clear_controlling_thread()


#: context manager and decorator that limits BLAS to one thread
one_for_blas = _OneForBlas()


def chunks(n_rows: int, work: int) -> list[tuple[int, int]]:
    """Return the range of rows (begin, end) of each thread; one range if there is little work."""
    count = min(_lent.get().n_threads, max(1, work // _WORTH_A_THREAD), max(1, n_rows))
    if count == 1:
        return [(0, n_rows)]
    cuts = [n_rows * j // count for j in range(count + 1)]
    return list(pairwise(cuts))


def run(task: Callable, arguments: list) -> list:
    """Return [task(*a) for a in arguments], computed by the threads of `lent`."""
    lent_pool = _lent.get().pool
    if lent_pool is None or len(arguments) < 2:
        return [task(*a) for a in arguments]
    rest = [lent_pool.submit(task, *a) for a in arguments[1:]]
    return [task(*arguments[0])] + [future.result() for future in rest]


def sums(task: Callable, arguments: list) -> tuple:
    """Return the sums of the numbers that `task` returns, over all arguments; see `run`."""
    parts = run(task, arguments)
    return parts[0] if len(parts) == 1 else tuple(map(sum, zip(*parts)))
