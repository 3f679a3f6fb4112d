"""Rows in memory that pretend to be on disk: only their blocks can be had."""

import time
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin.data import as_rows
from widemargin.data.rows import BlockRows


class Block(NamedTuple):
    begin: int
    end: int
    arrays: tuple


class Blocks(BlockRows):
    """CSR rows, `size` of them in a block, each read in `seconds`; counts passes begun."""

    dtype = np.dtype(np.float32)

    def __init__(self, X, size=7, seconds=0.0):
        self.rows = as_rows(sp.csr_matrix(X, dtype=np.float32))
        self.n_rows, self.n_features = X.shape
        self.size, self.seconds = size, seconds
        self.n_entries = self.rows.n_entries
        self.passes = 0

    def blocks(self):
        self.passes += 1
        values, indices, indptr = self.rows.arrays
        for begin in range(0, self.n_rows, self.size):
            end = min(begin + self.size, self.n_rows)
            low, high = int(indptr[begin]), int(indptr[end])
            starts = indptr[begin : end + 1] - indptr[begin]
            if self.seconds:
                time.sleep(self.seconds)
            yield Block(begin, end, (values[low:high], indices[low:high], starts))

    def scores(self, W):
        return self.rows.scores(W)

    def combine(self, G):
        return self.rows.combine(G)

    def squared_norms(self):
        return self.rows.squared_norms()
