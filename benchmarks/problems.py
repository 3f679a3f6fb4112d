"""The problems that are measured: named cells of data x C x loss x intercept, in grids."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import scale

from widemargin import datasets


class _AsJson:
    """Fields of a dataclass on the command line of a child process."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str):
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Cell(_AsJson):
    """One training problem: two classes, or several.

    Attributes
    ----------
    data : str
        Name of a set that `load` knows.
    C : float
        Weight of the summed losses, as in scikit-learn.
    loss : {"hinge", "squared_hinge", "crammer_singer"}
        The first two, of several classes, are of each one against the rest.
    intercept : {"none", "penalized", "free"}
        "penalized" is the constant feature of LIBLINEAR.
    """

    data: str
    C: float
    loss: str = "hinge"
    intercept: str = "none"

    @property
    def name(self) -> str:
        return f"{self.data}/{self.loss}/intercept={self.intercept}/C={self.C:g}"

    @property
    def in_words(self) -> str:
        """What is minimised, for tables: "hinge", or "squared hinge, free intercept"."""
        loss = "Crammer-Singer" if self.loss == "crammer_singer" else self.loss.replace("_", " ")
        intercept = self.intercept.replace("z", "s")
        return loss if self.intercept == "none" else f"{loss}, {intercept} intercept"

    @property
    def title(self) -> str:
        """Data, problem and C, in words."""
        return f"{self.data}, {self.in_words}, C = {self.C:g}"


@dataclass(frozen=True)
class Limits(_AsJson):
    """Time limits in seconds.

    `fit` is for one fit and `peer` for all fits of a peer on a cell; a fit starts only if it is
    expected to keep both. `reference` is for the best known optimum of a cell. A process may
    take `overhead` longer than its fits, to load, prepare and compile, and for a last fit that
    takes longer than expected; then it is stopped.
    """

    fit: float
    peer: float
    reference: float
    overhead: float = 120.0


@dataclass(frozen=True)
class Grid:
    """Cells that make one table, and how long each may take."""

    cells: tuple[Cell, ...]
    limits: Limits


def _cells(data: tuple[str, ...], problems: tuple[tuple[str, str, tuple], ...]):
    """A cell for each set and each (loss, intercept, values of C)."""
    return tuple(
        Cell(name, C, loss, intercept)
        for name, (loss, intercept, costs) in product(data, problems)
        for C in costs
    )


GRIDS = {
    "quick": Grid(
        cells=(
            Cell("breast_cancer", 1, "hinge", "free"),
            Cell("digits", 1),
            Cell("rcv1", 1),
            Cell("rcv1", 100),
            Cell("news20_one", 10),
            Cell("covtype_binary", 1),
            Cell("ijcnn1", 10, "squared_hinge", "penalized"),
            Cell("a9a", 1, "hinge", "free"),
            Cell("mnist", 0.01),
        ),
        limits=Limits(fit=3, peer=6, reference=8, overhead=60),
    ),
    "text": Grid(
        cells=_cells(("rcv1", "news20_one"), (("hinge", "none", (0.1, 1, 10, 100, 1000)),)),
        limits=Limits(fit=22, peer=45, reference=40),
    ),
    "tall": Grid(
        cells=_cells(
            ("covtype_binary", "ijcnn1", "tall_random", "covtype"),
            (("hinge", "none", (0.01, 1, 100, 10_000)), ("squared_hinge", "none", (1, 100))),
        ),
        limits=Limits(fit=10, peer=20, reference=12),
    ),
    "classes": Grid(
        cells=_cells(
            ("digits", "mnist", "news20"),
            (
                ("hinge", "none", (0.01, 1)),
                ("squared_hinge", "none", (0.01,)),
                ("crammer_singer", "none", (0.01,)),
            ),
        ),
        limits=Limits(fit=16, peer=32, reference=40),
    ),
    "small": Grid(
        cells=_cells(
            ("breast_cancer", "a9a", "ijcnn1"),
            (
                ("hinge", "free", (1, 100)),
                ("squared_hinge", "penalized", (1, 100)),
            ),
        ),
        limits=Limits(fit=2, peer=4, reference=4),
    ),
}


# --- data -----------------------------------------------------------------------------------


def load(name: str, cache: Path | None = None) -> datasets.Dataset:
    """The training part of a set of `widemargin.datasets`, from its folder, or of one made here.

    In the folder `cache` it is kept as arrays, which many processes load sooner than text.
    """
    if cache is None:
        return _load(name)
    path = cache / f"{name}.joblib"
    if not path.exists():
        joblib.dump(replace(_load(name), X_test=None, y_test=None), path)
    return joblib.load(path)


def _load(name: str) -> datasets.Dataset:
    made = {"tall_random": _tall_random, "breast_cancer": _breast_cancer, "digits": _digits}
    if name in made:
        X, y = made[name]()
        return datasets.Dataset(name, X, y, source="no file")
    return datasets.load(name, download=False)


def _tall_random():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300_000, 54), dtype=np.float32)
    score = X @ rng.standard_normal(54) + 4.0 * rng.standard_normal(300_000)
    return X, np.where(score > 0, 1, -1)


def _breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X).astype(np.float32), 2 * y - 1


def _digits():
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


# --- objectives -----------------------------------------------------------------------------


def primal_objective(cell: Cell, X, y, coef, intercept=0.0) -> float:
    """``1/2 |w|^2 (+ 1/2 b^2) + C sum_i loss_i``, in float64 whatever the peer computed in.

    Summed over classes where there are more than two: coef (k, d), intercept (k,). ``b`` is
    part of the norm unless the cell's intercept is free.
    """
    classes = np.unique(y)
    positives = classes[1:] if classes.size == 2 else classes
    W = np.asarray(coef, dtype=np.float64).reshape(positives.size, -1)
    b = np.broadcast_to(np.asarray(intercept, dtype=np.float64).ravel(), positives.size)
    scores = np.asarray(X @ W.T) + b  # (n, k)
    is_positive = y[:, None] == positives
    if cell.loss == "crammer_singer":
        rivals = np.where(is_positive, -np.inf, scores).max(axis=1)
        losses = np.maximum(0, 1 + rivals - scores[is_positive])
    else:
        losses = np.maximum(0, 1 - np.where(is_positive, scores, -scores))
        if cell.loss == "squared_hinge":
            losses **= 2
    norms = np.sum(W * W) + (0.0 if cell.intercept == "free" else b @ b)
    return float(0.5 * norms + cell.C * losses.sum())


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
