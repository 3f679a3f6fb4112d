"""Snap ML's SupportVectorMachine.

It minimises ``regularizer / 2 |w|^2 + sum_i loss_i``, so ``regularizer = 1 / C``; its tolerance
bounds the change of the coefficients, which a small regularizer scales, so the ladder climbs
the limit on sweeps and keeps the tolerance out of the way.
"""

import numpy as np
from snapml import SupportVectorMachine

from . import N_THREADS, RANDOM_SEED, Fit, iteration_ladder

name = "snapml"
losses = ("hinge", "squared_hinge")
intercepts = ("none", "penalized")
most_rows = None
several_classes = True


def prepare(X, y, cell):
    return X, y.astype("float32")


def ladders(cell):
    return [[{"max_iter": max_iter, "tol": 1e-9} for max_iter in iteration_ladder()]]


def warm_up_settings(cell):
    return ladders(cell)[0][:1]


def fit(prepared, cell, setting):
    model = SupportVectorMachine(
        loss=cell.loss,
        regularizer=1 / cell.C,
        fit_intercept=cell.intercept == "penalized",
        n_jobs=N_THREADS,
        random_state=RANDOM_SEED,
        **setting,
    ).fit(*prepared)
    intercept = np.ravel(model.intercept_) if cell.intercept == "penalized" else 0.0
    return Fit(model.coef_, intercept, {"n_iter": int(np.max(model.n_iter_))})
