"""Validation of blocks of CSR rows."""

import numpy as np

from widemargin.kernels.jit import kernel

OK = 0
INDEX_TOO_LARGE = 1
INDEX_NOT_INCREASING = 2
NOT_FINITE = 3


@kernel(fastmath=())
def first_fault(values, indices, indptr, n_features):
    """Find the first entry that kernels could not use; indptr (n + 1,) rises from 0 to m.

    Returns `OK`, or the kind of fault; its row and entry; and one more than the largest index, if
    all is well.
    """
    end = np.int64(0)
    for i in range(indptr.size - 1):
        past = np.int64(0)  # one more than the index before
        for k in range(np.int64(indptr[i]), np.int64(indptr[i + 1])):
            index = np.int64(indices[k])
            if index >= n_features:
                return INDEX_TOO_LARGE, i, k, end
            if index < past:
                return INDEX_NOT_INCREASING, i, k, end
            if not np.isfinite(values[k]):
                return NOT_FINITE, i, k, end
            past = index + 1
        end = max(end, past)
    return OK, 0, 0, end
