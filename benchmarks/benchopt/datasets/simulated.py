"""Correlated features, as in benchopt's own benchmark, and text-like sparse rows."""

import numpy as np
import scipy.sparse as sp
from benchopt import BaseDataset
from benchopt.datasets import make_correlated_data


class Dataset(BaseDataset):
    """Made data, dense or sparse."""

    name = "Simulated"
    parameters = {  # noqa: RUF012 (benchopt's own way)
        "n_samples, n_features, sparse": [
            (300, 1000, False),
            (1000, 300, False),
            (20_000, 20_000, True),
        ]
    }

    def get_data(self):
        """Return X and y, of -1 and 1."""
        if not self.sparse:
            X, y, _ = make_correlated_data(self.n_samples, self.n_features, random_state=42)
            return {"X": X, "y": 2 * (y > 0) - 1}
        rng = np.random.default_rng(42)
        words = (self.n_features * rng.random((self.n_samples, 30)) ** 3).astype(np.int32)
        starts = np.arange(0, words.size + 1, 30, dtype=np.int32)
        shape = self.n_samples, self.n_features
        X = sp.csr_matrix((np.ones(words.size), words.ravel(), starts), shape=shape)
        X.sum_duplicates()
        scores = X @ rng.normal(size=self.n_features) + rng.normal(size=self.n_samples)
        return {"X": X, "y": 2 * (scores > 0) - 1}
