"""The types of the arguments of kernels, for readers and mypy; Numba finds its own."""

from typing import TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray
#: (values,) of dense rows, or (values, indices, indptr) of CSR rows, see rows.py
Rows: TypeAlias = tuple[np.ndarray, ...]
