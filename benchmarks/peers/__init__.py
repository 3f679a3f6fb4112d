"""One file per peer, all with the same few names.

- ``name``: what tables call it;
- ``losses``, ``intercepts``: those of a `Cell` that it can state;
- ``most_rows``: more than these are hopeless, or None;
- ``several_classes``: whether it trains each of several classes against the rest;
- ``prepare(X, y, cell)``: the data as the peer likes it best; made once, outside every timing;
- ``ladders(cell)``: its ways to the optimum, each a list of settings from loose to tight that
  measuring climbs; the best of all counts;
- ``warm_up_settings(cell)``: settings whose fits, on a few rows, leave nothing to compile or load;
- ``fit(prepared, cell, setting)``: what is timed; returns a `Fit`. Where the peer weighs its
  losses by something other than C, this is where C becomes that.

Every peer has one thread.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

# File -> distribution that brings the library.
DISTRIBUTIONS = {
    "widemargin_svc": "widemargin",
    "sklearn_linearsvc": "scikit-learn",
    "liblinear_official": "liblinear-official",
    "snapml_svm": "snapml",
    "skglm_svc": "skglm",
    "lightning_svc": "sklearn-contrib-lightning",
    "rehline_plq": "rehline",
    "sklearn_sgd": "scikit-learn",
    "sklearn_svc": "scikit-learn",
}
MODULES = tuple(DISTRIBUTIONS)

N_THREADS = 1
RANDOM_SEED = 0


class Fit(NamedTuple):
    """A fitted model: coefficients, intercept, and what the peer itself says of the fit.

    For more than two classes, one row of coefficients and one intercept each, in their order.
    """

    coef: np.ndarray
    intercept: float | np.ndarray = 0.0
    notes: dict[str, Any] = {}  # noqa: RUF012 (read only)


def load(module: str):
    """The peer in the file `module`; ImportError where its library is not installed."""
    return importlib.import_module(f"{__name__}.{module}")


def refusal(peer, cell, n_rows: int, n_classes: int) -> str | None:
    """Why the peer cannot state the problem, or should not be asked to; None if it can."""
    if cell.loss not in peer.losses:
        return f"has no loss {cell.loss!r}"
    if cell.intercept not in peer.intercepts:
        return f"has no intercept {cell.intercept!r}"
    if n_classes > 2 and not peer.several_classes:
        return "trains no class against the rest"
    if peer.most_rows is not None and n_rows > peer.most_rows:
        return f"is hopeless beyond {peer.most_rows:,} rows"
    return None


def iteration_ladder(growth: float = 1.25, first: int = 1, limit: int = 1_000_000) -> list[int]:
    """Iteration limits 1, 2, 3, 4, 5, 7, 9, ... each about `growth` times the one before."""
    limits = [first]
    while limits[-1] < limit:
        limits.append(max(limits[-1] + 1, round(limits[-1] * growth)))
    return limits


def with_constant_feature(X, cell):
    """X, and a column of ones where the cell's intercept is penalised; for peers without one."""
    if cell.intercept != "penalized":
        return X
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])


def split_constant_feature(coef: np.ndarray, cell) -> tuple[np.ndarray, float | np.ndarray]:
    """Coefficients and intercept of a fit to `with_constant_feature`.

    coef : ndarray of shape (k, d), or (k, d + 1) with the constant feature
    """
    if cell.intercept != "penalized":
        return coef, 0.0
    return coef[:, :-1], coef[:, -1]
