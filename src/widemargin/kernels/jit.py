"""The decorator of all compiled kernels, and a clock that does not count compilation.

Kernels are small and single-threaded: arrays in, arrays out, no policy. They release the GIL, so
that threads run in parallel. They are cached on disk, so that only the first process compiles
them. Without a writable cache, each process does.
"""

import contextlib
import os
import pickle
import time
import warnings
import zlib

import numba
from numba.core import config, event
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

# Numba sets up its types and functions when the first kernel is called, in about a fifth of a
# second. Here it is part of the import, and the first fit is as fast as the next.
cpu_target.target_context.refresh()

# Not ``fastmath=True``: the compiler could then assume that there are no infinities, and
# bounds of dual variables are infinite. These four flags let reductions vectorise.
REORDERING_MATH = frozenset({"reassoc", "contract", "arcp", "nsz"})
#: for kernels whose operations must not be reordered
IN_ORDER = frozenset({"contract"})


def kernel(function=None, *, fastmath=REORDERING_MATH):
    """Compile `function` lazily, once per signature, with widemargin's flags."""
    if function is None:
        return lambda f: kernel(f, fastmath=fastmath)
    options = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    dispatcher = numba.njit(**options)(function)
    # As ``cache=True``, with a cache that may fail.
    try:
        dispatcher._cache = _Cache(function)
    except (RuntimeError, OSError) as error:  # no folder is writable
        dispatcher._cache = _NoCache(function, error)
    return dispatcher


class _Cache(FunctionCache):
    """Numba's cache of compiled code, without its errors.

    Numba reads it when a kernel is called with a new signature.
    """

    def __init__(self, function):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CheckedFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # unpickling damaged files may raise any error
            _warn_once(self.cache_path, error)
            if not isinstance(error, OSError):
                with contextlib.suppress(Exception):
                    self.flush()  # else saving would meet the same damage
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _warn_once(self.cache_path, error)


class _CheckedFile(IndexDataCacheFile):
    """Compiled code with a checksum, and with what it was compiled from.

    Damaged machine code would run. And an index may name a file of an older source, or of another
    signature: several processes write it before they write the file.
    """

    def save(self, key, data):
        content = dumps((self._source_stamp, key, data))
        super().save(("checked", key), (zlib.crc32(content), content))

    def load(self, key):
        found = super().load(("checked", key))
        if found is None:
            return None
        crc32, content = found
        if zlib.crc32(content) != crc32:
            raise ValueError("a damaged file")
        stamp, its_key, data = pickle.loads(content)
        return data if (stamp, its_key) == (self._source_stamp, key) else None


class _NoCache(NullCache):
    """Takes the place of the cache if there is none."""

    def __init__(self, function, error):
        beside = os.path.join(os.path.dirname(function.__code__.co_filename), "__pycache__")
        self.folder, self.error = config.CACHE_DIR or beside, error

    def save_overload(self, sig, cres):
        _warn_once(self.folder, self.error)


_warned = False


def _warn_once(folder, error):
    global _warned
    if _warned:
        return
    _warned = True
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    warnings.warn(
        f"{folder}: Numba's cache failed ({reason}): kernels that it does not have are compiled "
        "in memory",
        RuntimeWarning,
        stacklevel=2,
    )


class _Compilation(event.Listener):
    """Notes when Numba compiles, in any thread; only one does at a time."""

    depth = 0
    # When a compilation began, if one is running, and the seconds of earlier ones. As one value,
    # so that other threads see both change at once.
    state: tuple[float | None, float] = (None, 0.0)

    def on_start(self, event):
        if self.depth == 0:
            self.state = (time.perf_counter(), self.state[1])
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        began, seconds = self.state
        if self.depth == 0 and began is not None:
            self.state = (None, seconds + time.perf_counter() - began)


_compilation = _Compilation()
event.register("numba:compile", _compilation)


def clock() -> float:
    """Return the seconds on a clock that stands still while kernels are compiled."""
    began, seconds = _compilation.state
    return (time.perf_counter() if began is None else began) - seconds
