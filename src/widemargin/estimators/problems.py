"""From labels and weights to binary problems: what fitting and certifying share."""

import math
from numbers import Real

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from widemargin.data import Rows
from widemargin.problem import Intercept, Problem
from widemargin.risk import Hinge, SquaredHinge

LOSSES = {"hinge": Hinge, "squared_hinge": SquaredHinge}


class OneVsRest:
    """The binary problems of a classifier: one for two classes, else one per class.

    Parameters
    ----------
    model : estimator with C, loss, class_weight, fit_intercept, penalized_intercept
    rows : Rows of shape (n, d)
    classes : ndarray of shape (k,)
    codes : ndarray of shape (n,)
        Position of each row's label in `classes`.
    weights : ndarray of shape (n,) or None
    """

    def __init__(self, model, rows: Rows, classes, codes, weights):
        self.rows, self.codes = rows, codes
        # Of two classes the second one is the positive one, as in scikit-learn.
        self.positives = [1] if len(classes) == 2 else list(range(len(classes)))
        self.risk = LOSSES[model.loss]
        self.cost = _row_costs(model, classes, codes, weights)
        self.intercept = Intercept.NONE
        if model.fit_intercept:
            penalized = model.penalized_intercept
            self.intercept = Intercept.PENALIZED if penalized else Intercept.FREE
        self._check_classes(classes)

    def __len__(self):
        return len(self.positives)

    def __getitem__(self, index: int) -> Problem:
        y = np.where(self.codes == self.positives[index], np.int8(1), np.int8(-1))
        return Problem(self.rows, self.risk(y, self.cost), self.intercept)

    def _check_classes(self, classes):
        """Raise ValueError unless two classes are left once rows of no weight are gone."""
        present = np.unique(self.codes[self.cost > 0.0])
        if present.size < 2:
            only = repr(classes[present[0]].item()) if present.size else "none"
            raise ValueError(
                "a classifier needs rows of at least 2 classes, but the data (rows of weight "
                f"zero not counted) contains only one class: {only}"
            )


def _row_costs(model, classes, codes, weights):
    """Return C times class weight times sample weight, (n,)."""
    cost = np.full(codes.shape[0], float(model.C))
    if weights is not None:
        cost *= weights
    if model.class_weight is not None:
        cost *= _class_weights(model.class_weight, classes, codes, weights)[codes]
    return cost


def _class_weights(class_weight, classes, codes, weights):
    """Return one weight per class, (k,); ValueError if one cannot be a weight."""
    # "balanced" divides by a class's weight: a class of weight zero is not there.
    present = np.unique(codes if weights is None else codes[weights > 0.0])
    by_class = np.ones(len(classes))
    if isinstance(class_weight, str):
        by_class[present] = compute_class_weight(
            class_weight,
            classes=classes[present],
            y=classes[codes] if weights is None else classes[codes][weights > 0.0],
            sample_weight=weights if weights is None else weights[weights > 0.0],
        )
        return by_class
    unknown = set(class_weight) - set(classes.tolist())
    if unknown:
        raise ValueError(f"class_weight names classes that y does not have: {sorted(unknown)}")
    for j, label in enumerate(classes.tolist()):
        weight = class_weight.get(label, 1.0)
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 <= weight < math.inf:
            raise ValueError(
                f"class_weight must be non-negative numbers: class {label!r} has {weight!r}"
            )
        by_class[j] = weight
    return by_class
