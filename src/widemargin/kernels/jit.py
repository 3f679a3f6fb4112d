"""The one decorator every compiled kernel wears.

Kernels are small, single-threaded and free of policy: arrays in, arrays out. They release
the GIL, so that threads of the caller truly run at once, and they are cached on disk, so
that only the first process ever pays for compilation.
"""

import numba
from numba.core.registry import cpu_target

# Numba sets up its types and functions when the first kernel is called, some fifth of a
# second of Python. Done here it is part of the import, and the first fit is as fast as the next.
cpu_target.target_context.refresh()

# Not ``fastmath=True``: that would let the compiler assume there are no infinities, and
# bounds of dual variables are infinite. These four let reductions vectorise.
REORDERING_MATH = frozenset({"reassoc", "contract", "arcp", "nsz"})
#: for kernels whose operations must be done as they are written
IN_ORDER = frozenset({"contract"})


def kernel(function=None, *, fastmath=REORDERING_MATH):
    """Compile `function` lazily, once per signature, with widemargin's flags."""
    if function is None:
        return lambda f: kernel(f, fastmath=fastmath)
    options = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no directory can be written: compile in every process instead
        return numba.njit(**options)(function)
