"""The problems that are measured: named cells of data x C x loss x intercept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True)
class Cell:
    """One two-class training problem that every peer can state.

    Attributes
    ----------
    data : str
        Name of a two-class set in `widemargin.datasets`.
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
}


def primal_objective(cell: Cell, X, y, coef, intercept: float = 0.0) -> float:
    """``1/2 |w|^2 (+ 1/2 b^2) + C sum_i loss_i``, in float64 whatever the peer computed in."""
    w = np.asarray(coef, dtype=np.float64).ravel()
    slack = np.maximum(0, 1 - np.asarray(y, dtype=np.float64) * (X @ w + intercept))
    losses = slack if cell.loss == "hinge" else slack**2
    return float(0.5 * (w @ w + intercept**2) + cell.C * losses.sum())


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
