"""scikit-learn's LinearSVC (its own copy of LIBLINEAR).

It keeps LIBLINEAR's path whatever the limit on sweeps, so climbing `max_iter` finds the first
sweep that is good enough: kinder than any tolerance a user could choose beforehand.
"""

import numpy as np
from sklearn.svm import LinearSVC

from . import RANDOM_SEED, Fit, iteration_ladder

name = "scikit-learn"


def prepare(X, y):
    # It computes in float64: given float32, every fit would convert first.
    return X.astype(np.float64), y.astype(np.float64)


def settings():
    return [{"max_iter": max_iter, "tol": 1e-4} for max_iter in iteration_ladder()]


def warm_up_settings():
    return settings()[:1]


def fit(prepared, cell, setting, n_threads):
    if n_threads != 1:
        raise ValueError("scikit-learn's LinearSVC has one thread")
    X, y = prepared
    model = LinearSVC(
        C=cell.C,
        loss=cell.loss,
        dual="auto",
        fit_intercept=cell.intercept == "penalized",
        random_state=RANDOM_SEED,
        **setting,
    ).fit(X, y)
    return Fit(model.coef_, np.ravel(model.intercept_), {"n_iter": int(np.max(model.n_iter_))})
