"""Some of the rows of something that can only be read from its beginning to its end."""

import numpy as np

from widemargin.data.rows import longest_row, times_read


class Subset:
    """The rows of `rows` that `index` names; satisfies the contract in data/rows.py.

    A product with them is a product with all rows, most of which is thrown away: for rows that
    cannot be picked one by one.

    Parameters
    ----------
    rows : Rows
    index : ndarray of shape (m,)
        Integers.
    """

    def __init__(self, rows, index):
        self.rows, self.index = rows, np.asarray(index)
        self.n_rows, self.n_features = self.index.size, rows.n_features
        self.dtype = rows.dtype

    @property
    def times_read(self) -> int:
        return times_read(self.rows)

    def scores(self, W):
        return self.rows.scores(W)[self.index]

    def combine(self, G):
        G = np.asarray(G, dtype=np.float64)
        everything = np.zeros((self.rows.n_rows, *G.shape[1:]))
        np.add.at(everything, self.index, G)  # a row may be named twice
        return self.rows.combine(everything)

    def squared_norms(self):
        return self.rows.squared_norms()[self.index]

    @property
    def longest_row(self):
        return longest_row(self.rows)

    def take(self, index):
        return Subset(self.rows, self.index[index])
