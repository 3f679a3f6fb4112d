"""scikit-learn's SVC(kernel="linear") (its own copy of LIBSVM).

Its intercept is free and cannot be left out, and of several classes it trains each against each.
The ladder climbs the number of steps, of which each changes two dual variables.
"""

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC

from . import Fit, iteration_ladder

name = "sklearn SVC"
losses = ("hinge",)
intercepts = ("free",)
most_rows = 50_000  # its time grows with their square
several_classes = False

_CACHE_MEGABYTES = 1000


def prepare(X, y, cell):
    return X.astype(np.float64), y


def ladders(cell):
    steps = iteration_ladder(first=50, limit=10_000_000)
    return [[{"max_iter": n, "tol": 1e-4} for n in steps]]


def warm_up_settings(cell):
    return ladders(cell)[0][:1]


def fit(prepared, cell, setting):
    model = SVC(kernel="linear", C=cell.C, cache_size=_CACHE_MEGABYTES, **setting).fit(*prepared)
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    return Fit(coef, model.intercept_)
