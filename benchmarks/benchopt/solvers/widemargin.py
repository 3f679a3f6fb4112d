"""widemargin, with the solver that it chooses itself, and with each of its main ones."""

from benchopt import BaseSolver

from widemargin import LinearSVC


class Solver(BaseSolver):
    """What is asked for is the certified relative duality gap; its proof is part of the time."""

    name = "widemargin"
    sampling_strategy = "tolerance"
    requirements = ["pip::widemargin"]  # noqa: RUF012 (benchopt's own way)
    parameters = {"solver": ["auto", "acf", "newton"]}  # noqa: RUF012

    def set_objective(self, X, y, C):
        """Take the problem."""
        self.X, self.y = X, y
        self.model = LinearSVC(
            C=C,
            loss="hinge",
            solver=self.solver,
            fit_intercept=False,
            max_iter=1_000_000,
            random_state=0,
        )

    def warm_up(self):
        """Compile, or load what was compiled, outside of the time that counts."""
        self.run(0.1)

    def run(self, tolerance):
        """Train to a relative duality gap; benchopt asks for smaller ones, in turn."""
        self.model.set_params(tol=min(max(tolerance, 1e-9), 0.5)).fit(self.X, self.y)

    def get_result(self):
        """Return the coefficients."""
        return {"beta": self.model.coef_.ravel()}
