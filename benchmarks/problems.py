"""The problems that are measured: named cells of data x C x loss x intercept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from widemargin import datasets


@dataclass(frozen=True)
class Cell:
    """One training problem that every peer can state: two classes, or each against the rest.

    Attributes
    ----------
    data : str
        Name of a set that `load` knows.
    C : float
        Weight of the summed losses, as in scikit-learn.
    loss : {"hinge", "squared_hinge"}
    intercept : {"none", "penalized"}
        "penalized" is the constant feature of LIBLINEAR. A free intercept is no cell: the peers
        have no solver for it.
    """

    data: str
    C: float
    loss: str = "hinge"
    intercept: str = "none"

    @property
    def name(self) -> str:
        return f"{self.data}/{self.loss}/intercept={self.intercept}/C={self.C:g}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Cell:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Grid:
    """Cells that make one table; `quick` are the few that a first look needs."""

    cells: tuple[Cell, ...]
    quick: tuple[Cell, ...]


GRIDS = {
    "text": Grid(
        cells=tuple(
            Cell(data, C) for data in ("rcv1", "news20_one") for C in (0.1, 1, 10, 100, 1000)
        ),
        quick=(Cell("rcv1", 1), Cell("rcv1", 100)),
    ),
    "tall": Grid(
        cells=tuple(
            Cell(data, C, loss)
            for data in ("covtype_binary", "ijcnn1", "tall_random", "covtype")
            for loss, costs in (("hinge", (0.01, 1, 100, 10_000)), ("squared_hinge", (1, 100)))
            for C in costs
        ),
        quick=(Cell("ijcnn1", 1), Cell("tall_random", 100)),
    ),
}


def load(name: str) -> datasets.Dataset:
    """A set of `widemargin.datasets`, from its folder; or tall_random, which is made here."""
    if name != "tall_random":
        return datasets.load(name, download=False)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300_000, 54), dtype=np.float32)
    score = X @ rng.standard_normal(54) + 4.0 * rng.standard_normal(300_000)
    return datasets.Dataset(name, X, np.where(score > 0, 1, -1), source="random")


def primal_objective(cell: Cell, X, y, coef, intercept=0.0) -> float:
    """``1/2 |w|^2 (+ 1/2 b^2) + C sum_i loss_i``, in float64 whatever the peer computed in.

    Summed over classes where there are more than two: coef (k, d), intercept (k,).
    """
    classes = np.unique(y)
    positives = classes[1:] if classes.size == 2 else classes
    W = np.asarray(coef, dtype=np.float64).reshape(positives.size, -1)
    b = np.broadcast_to(np.asarray(intercept, dtype=np.float64).ravel(), positives.size)
    value = 0.0
    for positive, w, offset in zip(positives, W, b, strict=True):
        slack = np.maximum(0, 1 - np.where(y == positive, 1.0, -1.0) * (X @ w + offset))
        losses = slack if cell.loss == "hinge" else slack**2
        value += float(0.5 * (w @ w + offset**2) + cell.C * losses.sum())
    return value


def best_bound(records: list[dict]) -> float:
    """Largest proven lower bound in the records of one cell: the reference's, or a fit's own."""
    duals = [record["dual"] for record in records if record["kind"] == "reference"]
    duals += [
        record["notes"]["dual"]
        for record in records
        if record["kind"] == "fit" and "dual" in record["notes"]
    ]
    return max(duals)


def relative_suboptimality(objective: float, lower_bound: float) -> float:
    """Proven relative distance to the optimum, scaled like widemargin's `tol`: (P - D) / P."""
    return (objective - lower_bound) / objective
