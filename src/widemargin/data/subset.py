"""A subset of rows that can only be read from the first to the last."""

import numpy as np

from widemargin.data.rows import Rows


class Subset(Rows):
    """The rows `index` of `rows`, which need not be able to select single rows.

    Its products are computed with all rows. The results for the other rows are not used.

    Parameters
    ----------
    rows : Rows
    index : ndarray of shape (m,)
        Integers. A row may occur more than once.
    """

    def __init__(self, rows, index):
        self.rows, self.index = rows, np.asarray(index)
        self.n_rows, self.n_features = self.index.size, rows.n_features
        self.dtype = rows.dtype

    @property
    def times_read(self):
        return self.rows.times_read

    def scores(self, W):
        return self.rows.scores(W)[self.index]

    def combine(self, G):
        G = np.asarray(G, dtype=np.float64)
        everything = np.zeros((self.rows.n_rows, *G.shape[1:]))
        np.add.at(everything, self.index, G)  # adds up repeated rows
        return self.rows.combine(everything)

    def squared_norms(self):
        return self.rows.squared_norms()[self.index]

    @property
    def longest_row(self):
        return self.rows.longest_row

    def take(self, index):
        return Subset(self.rows, self.index[index])
