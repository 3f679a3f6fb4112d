"""sklearn-contrib-lightning's LinearSVC: dual coordinate descent with shrinking, in Cython.

It has no intercept, so that a penalised one is a constant feature. The ladder climbs the sweeps.
"""

import numpy as np
from lightning.classification import LinearSVC

from . import RANDOM_SEED, Fit, iteration_ladder, split_constant_feature, with_constant_feature

name = "lightning"
losses = ("hinge", "squared_hinge")
intercepts = ("none", "penalized")
most_rows = None
several_classes = True


def prepare(X, y, cell):
    # It computes in float64: given float32, every fit would convert first.
    return with_constant_feature(X, cell).astype(np.float64), y


def ladders(cell):
    return [[{"max_iter": max_iter, "tol": 1e-4} for max_iter in iteration_ladder()]]


def warm_up_settings(cell):
    return ladders(cell)[0][:1]


def fit(prepared, cell, setting):
    model = LinearSVC(C=cell.C, loss=cell.loss, random_state=RANDOM_SEED, **setting).fit(*prepared)
    return Fit(*split_constant_feature(model.coef_, cell))
