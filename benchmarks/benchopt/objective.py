"""A linear SVM as benchopt measures it: hinge loss, two classes, no intercept.

The problem is that of benchopt/benchmark_linear_svm_binary_classif_no_intercept, and the solvers
here fit there. With benchopt and scikit-learn installed, from the root of the repository:

    benchopt run benchmarks/benchopt
"""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    """1/2 |w|^2 plus C times the sum of hinge losses."""

    name = "SVM Binary Classification (no intercept)"
    min_benchopt_version = "1.6"
    parameters = {"C": [1.0, 0.1]}  # noqa: RUF012 (benchopt's own way)

    def set_data(self, X, y):
        """Take the rows and their labels, -1 and 1."""
        self.X, self.y = X, y

    def get_objective(self):
        """Return what solvers are given."""
        return {"X": self.X, "y": self.y, "C": self.C}

    def evaluate_result(self, beta):
        """Return the objective of some coefficients."""
        losses = np.maximum(1 - self.y * (self.X @ beta), 0.0)
        return float(0.5 * beta @ beta + self.C * losses.sum())

    def get_one_result(self):
        """Return coefficients of the right shape."""
        return {"beta": np.zeros(self.X.shape[1])}
