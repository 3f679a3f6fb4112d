"""scikit-learn's LinearSVC, which is LIBLINEAR, by its number of sweeps."""

import warnings

from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC


class Solver(BaseSolver):
    """LIBLINEAR's dual coordinate descent."""

    name = "sklearn"
    sampling_strategy = "iteration"
    requirements = ["scikit-learn"]  # noqa: RUF012 (benchopt's own way)

    def set_objective(self, X, y, C):
        """Take the problem."""
        self.X, self.y = X, y
        self.model = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-12)

    def run(self, n_iter):
        """Train for so many sweeps."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.set_params(max_iter=max(n_iter, 1)).fit(self.X, self.y)

    def get_result(self):
        """Return the coefficients."""
        return {"beta": self.model.coef_.ravel()}
