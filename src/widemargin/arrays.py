"""Arrays on the host and on a GPU.

NumPy's functions work on both: called with CuPy's arrays, they call CuPy. These functions say
where new arrays are made.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

#: a matrix as users pass it: array-like, sparse, on a GPU, or Rows; or what `check_matrix` returns
Matrix: TypeAlias = Any
#: one value per row, as users pass them: array-like, a column of a data frame, an array on a GPU
Vector: TypeAlias = Any
#: a seed, as scikit-learn takes them
RandomState: TypeAlias = int | np.random.RandomState | None

# So many rows are processed together: vectors of this length stay in the processor's cache. A GPU
# would have too little to do.
_ROWS_AT_ONCE, _ROWS_AT_ONCE_ON_GPU = 1 << 15, 1 << 18


def as_array(values: Any, dtype: DTypeLike) -> np.ndarray:
    """Return `values` as an array of `dtype`; no copy if they are one."""
    if not hasattr(values, "__array_function__"):
        values = np.asarray(values)
    return values.astype(dtype, copy=False)


class _Writeable:
    """Read-only memory under an interface that calls it writeable."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array  # keeps the memory alive
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def for_kernels(array: np.ndarray) -> np.ndarray:
    """Return an array that kernels only read, marked as writeable; it is not copied.

    Numba compiles a kernel once more for each argument that is read-only.
    """
    return array if array.flags.writeable else np.asarray(_Writeable(array))


def on_host(array: Any) -> Any:
    """Return the array on the host; no copy if it is there."""
    return array.get() if hasattr(array, "get") else array


def dense(array: Any) -> Any:
    """Return a sparse matrix as an array, and an array as it is."""
    return array.toarray() if scipy.sparse.issparse(array) else array


def move_to(array: Any, other: Any) -> Any:
    """Return the array on the device of `other`; no copy if it is there.

    If `other` is None, this is the host.
    """
    if isinstance(array, float) or type(array) is type(other):
        return array
    if other is None or isinstance(other, np.ndarray):
        return on_host(array)
    return np.asarray(array, like=other)


def parts_of(values: np.ndarray) -> Iterator[slice]:
    """Yield slices of the rows of `values`, (n,) or (n, k), to be processed one by one.

    Results for a part stay in the cache. A new vector for all rows would cause page faults.
    """
    n_rows = len(values)
    step = _ROWS_AT_ONCE if isinstance(values, np.ndarray) else _ROWS_AT_ONCE_ON_GPU
    for begin in range(0, n_rows, step):
        yield slice(begin, min(begin + step, n_rows))
