"""Arrays on the host and on a GPU, side by side.

NumPy's functions work on either: called on CuPy's arrays, they are CuPy's. What is left to say is
where new arrays are to be.
"""

import numpy as np

# Rows that are gone through together: vectors of so many numbers stay in the processor's cache.
# A GPU would have too little to do.
_ROWS_AT_ONCE, _ROWS_AT_ONCE_ON_GPU = 1 << 15, 1 << 18


def as_array(values, dtype):
    """Return `values` as an array of `dtype`, in place where they are one."""
    if not hasattr(values, "__array_function__"):
        values = np.asarray(values)
    return values.astype(dtype, copy=False)


def on_host(array):
    """Return the same numbers in an array on the host, in place where they are there."""
    return array.get() if hasattr(array, "get") else array


def move_to(array, other):
    """Return the same numbers in an array where `other` is, in place where they are there.

    None is on the host.
    """
    if isinstance(array, float) or type(array) is type(other):
        return array
    if other is None or isinstance(other, np.ndarray):
        return on_host(array)
    return np.asarray(array, like=other)


def parts_of(values):
    """Yield slices of the rows that `values` (n,) or (n, k) are of, to go through one by one.

    What is made of a part stays in cache, where a new vector of all rows would have fresh pages.
    """
    n_rows = len(values)
    step = _ROWS_AT_ONCE if isinstance(values, np.ndarray) else _ROWS_AT_ONCE_ON_GPU
    for begin in range(0, n_rows, step):
        yield slice(begin, min(begin + step, n_rows))
