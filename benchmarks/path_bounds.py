"""How many values of C it takes to certify a choice of C, on one fold, with bounds on its error.

    python -m benchmarks.path_bounds [SET ...]

Between two solved values of C, dual variables and weights in between are feasible, and their gap
is at most

    (1 - t) gap_1 + t gap_2 + t (1 - t) ((C_2 - C_1) (r_1 - r_2) - |w_1 - w_2|^2)

with the sums of losses r. Shibagaki et al. 2015 have bounds from one end.
The optimum is in a ball around the weights in between, so held-out rows that are wrong throughout
bound the error of every C of the interval from below. The interval with the lowest bound is halved
until no bound is below the best error by more than eps. Hinge loss, no intercept.
"""

import itertools
import sys
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from benchmarks.machine import describe
from widemargin import LinearSVC, datasets
from widemargin.data import as_rows

SETS = {
    "breast_cancer": (0.01, 1.0),
    "rcv1": (0.01, 10.0),
    "a9a": (1e-3, 10.0),
    "news20": (0.01, 10.0),
    "covtype_binary": (1e-3, 1.0),
}
_RANGE = 0.01, 10.0
_EPS = (0.05, 0.02, 0.01, 0.005)
_MOST, _TOL, _FIRST, _PIECES = 250, 1e-6, 9, 16


def load(name: str) -> tuple:
    """Return rows and labels."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return scale(X), y
    data = datasets.load(name)
    return data.X, data.y


class Fold:
    """A training set, held-out rows, and the models of all C that were tried."""

    def __init__(self, name: str):
        X, y = load(name)
        signs = np.where(y == y.max(), 1.0, -1.0)  # of many classes, the last against the rest
        order = np.random.default_rng(0).permutation(len(signs))
        held_out, rest = np.split(order, [len(order) // 5])
        self.X, self.y, self.y_new = X[rest], signs[rest], signs[held_out]
        self.rows, self.new = as_rows(self.X), as_rows(X[held_out])
        self.lengths = np.sqrt(self.new.squared_norms())
        self.n_fits = 0

    def fit(self, C: float) -> dict:
        """Return what is needed of the solution at a C."""
        self.n_fits += 1
        model = LinearSVC(loss="hinge", C=C, tol=_TOL, fit_intercept=False, random_state=0)
        alpha = model.fit(self.X, self.y).dual_variables_.toarray()[0]
        w = self.rows.combine(alpha * self.y)
        loss = np.maximum(0.0, 1.0 - self.y * self.rows.scores(w)).sum()
        margins = self.y_new * self.new.scores(w)
        gap = w @ w + C * loss - alpha.sum()
        return {"C": C, "w": w, "loss": loss, "gap": gap, "margins": margins}

    def lowest_error(self, first: dict, second: dict) -> float:
        """Return a lower bound on the held-out error of every C between two solved ones."""
        apart = first["w"] - second["w"]
        curve = (second["C"] - first["C"]) * (first["loss"] - second["loss"]) - apart @ apart
        ends, least = np.linspace(0.0, 1.0, _PIECES + 1), 1.0
        for s, t in itertools.pairwise(ends):
            margins = [(1 - p) * first["margins"] + p * second["margins"] for p in (s, t)]
            gap = max((1 - p) * first["gap"] + p * second["gap"] for p in (s, t))
            gap += max(s * (1 - s), t * (1 - t), 0.25 * (s <= 0.5 <= t)) * max(0.0, curve)
            wrong = np.maximum(*margins) + np.sqrt(gap) * self.lengths < 0.0
            least = min(least, float(wrong.mean()))
        return least


def measure(name: str) -> Iterator[str]:
    """Yield the lines of a set; each goes on where the last one ended."""
    fold, (low, high) = Fold(name), SETS.get(name, _RANGE)
    solved = [fold.fit(C) for C in np.geomspace(low, high, _FIRST)]
    best = min(float(np.mean(model["margins"] <= 0.0)) for model in solved)
    pairs = {
        (a["C"], b["C"]): (fold.lowest_error(a, b), a, b) for a, b in itertools.pairwise(solved)
    }
    for eps in _EPS:
        while fold.n_fits < _MOST:
            bound, first, second = min(pairs.values(), key=lambda pair: pair[0])
            if bound >= best - eps:
                break
            del pairs[first["C"], second["C"]]
            middle = fold.fit(float(np.sqrt(first["C"] * second["C"])))
            best = min(best, float(np.mean(middle["margins"] <= 0.0)))
            for a, b in ((first, middle), (middle, second)):
                pairs[a["C"], b["C"]] = fold.lowest_error(a, b), a, b
        sure = sum(
            np.log(b["C"] / a["C"]) for bound, a, b in pairs.values() if bound >= best - eps
        )
        worst = min(bound for bound, _, _ in pairs.values())
        figures = [f"{eps:.1%}", str(fold.n_fits - _FIRST), f"{best:.2%}", f"{worst:.2%}"]
        figures.append(f"{sure / np.log(high / low):.0%}")
        yield (" | ".join([f"| {name}", *figures]) + " |").replace("%", " %")


def main(names: list[str]) -> None:
    """Print a table."""
    print(describe())
    print("| set | eps | extra fits | best error | lowest bound | part of log C certified |")
    print("| --- " * 6 + "|")
    for name in names or SETS:
        for line in measure(name):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
