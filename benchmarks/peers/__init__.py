"""One file per peer library, all with the same few names.

- ``name``: what tables call it;
- ``prepare(X, y)``: the data as the peer likes it best; made once, outside every timing;
- ``settings()``: a ladder of settings, loose to tight, that measuring climbs;
- ``warm_up_settings()``: settings whose fits, on a few rows, leave nothing to compile or load;
- ``fit(prepared, cell, setting, n_threads)``: what is timed; returns a `Fit`.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np

MODULES = ("widemargin_svc", "sklearn_linearsvc", "liblinear_official", "snapml_svm")

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


def iteration_ladder(growth: float = 1.25, limit: int = 1_000_000) -> list[int]:
    """Iteration limits 1, 2, 3, 4, 5, 7, 9, ... each about `growth` times the one before."""
    limits = [1]
    while limits[-1] < limit:
        limits.append(max(limits[-1] + 1, round(limits[-1] * growth)))
    return limits
