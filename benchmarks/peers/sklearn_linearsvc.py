"""scikit-learn's LinearSVC (its own copy of LIBLINEAR).

It keeps LIBLINEAR's path whatever the limit on sweeps, so climbing `max_iter` finds the first
sweep that is good enough: kinder than any tolerance a user could choose beforehand.
"""

import numpy as np
from sklearn.svm import LinearSVC

from . import RANDOM_SEED, Fit, iteration_ladder

name = "sklearn LinearSVC"
losses = ("hinge", "squared_hinge", "crammer_singer")
intercepts = ("none", "penalized")
most_rows = None
several_classes = True


def prepare(X, y, cell):
    # It computes in float64: given float32, every fit would convert first.
    return X.astype(np.float64), y.astype(np.float64)


def ladders(cell):
    return [[{"max_iter": max_iter, "tol": 1e-4} for max_iter in iteration_ladder()]]


def warm_up_settings(cell):
    return ladders(cell)[0][:1]


def fit(prepared, cell, setting):
    if cell.loss == "crammer_singer":
        loss = {"multi_class": "crammer_singer"}
    else:
        loss = {"loss": cell.loss}
    model = LinearSVC(
        C=cell.C,
        dual="auto",
        fit_intercept=cell.intercept == "penalized",
        random_state=RANDOM_SEED,
        **loss,
        **setting,
    ).fit(*prepared)
    return Fit(model.coef_, np.ravel(model.intercept_), {"n_iter": int(np.max(model.n_iter_))})
