"""Rows in memory of which only the four methods of the contract can be had."""

from widemargin.data import Rows


class FourMethods(Rows):
    """Rows that can do nothing but what all can.

    Attributes
    ----------
    made : list of (str, int)
        Which have been made, and of vectors (1) or of matrices (2).
    """

    def __init__(self, rows):
        self.rows = rows
        self.n_rows, self.n_features, self.dtype = rows.n_rows, rows.n_features, rows.dtype
        self.made = []

    def scores(self, W):
        self.made.append(("scores", W.ndim))
        return self.rows.scores(W)

    def combine(self, G):
        self.made.append(("combine", G.ndim))
        return self.rows.combine(G)

    def squared_norms(self):
        return self.rows.squared_norms()

    def take(self, index):
        return FourMethods(self.rows.take(index))
