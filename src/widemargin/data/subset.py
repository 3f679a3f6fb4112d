"""A subset of rows that can only be read from the first to the last."""

import numpy as np
from numpy import ndarray as Array

from widemargin.data.rows import Index, Rows


class Subset(Rows):
    """The rows `index` of `rows`, which need not be able to select single rows.

    Its products are computed with all rows, and the results for the other rows are not used. The
    index (m,) are integers. A row may occur more than once.
    """

    def __init__(self, rows: Rows, index: Array) -> None:
        self.rows, self.index = rows, np.asarray(index)
        self.n_rows, self.n_features = self.index.size, rows.n_features
        self.dtype = rows.dtype

    @property
    def times_read(self) -> int:  # type: ignore[override]
        return self.rows.times_read

    def scores(self, W: Array) -> Array:
        return self.rows.scores(W)[self.index]

    def combine(self, G: Array) -> Array:
        G = np.asarray(G, dtype=np.float64)
        everything = np.zeros((self.rows.n_rows, *G.shape[1:]))
        np.add.at(everything, self.index, G)  # adds up repeated rows
        return self.rows.combine(everything)

    def squared_norms(self) -> Array:
        return self.rows.squared_norms()[self.index]

    @property
    def longest_row(self) -> int:
        return self.rows.longest_row

    def take(self, index: Index) -> "Subset":
        return Subset(self.rows, self.index[index])
