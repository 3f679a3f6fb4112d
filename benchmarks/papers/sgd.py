"""Stochastic gradient descent, the rival of OCAS: scikit-learn's, epoch by epoch."""

from __future__ import annotations

import time

import numpy as np
from sklearn.linear_model import SGDClassifier


class Descent:
    """SGD on 1/2 |w|^2 + C_avg * mean loss, one epoch at a time.

    Attributes
    ----------
    seconds : float
        Of all epochs so far.
    """

    def __init__(self, C_avg: float):
        self.model = SGDClassifier(
            loss="hinge", alpha=1.0 / C_avg, fit_intercept=False, random_state=0
        )
        self.seconds = 0.0

    def epoch(self, X, y) -> np.ndarray:
        """Go through the rows once; return w."""
        started = time.perf_counter()
        self.model.partial_fit(X, y, classes=[-1, 1])
        self.seconds += time.perf_counter() - started
        return self.model.coef_[0]
