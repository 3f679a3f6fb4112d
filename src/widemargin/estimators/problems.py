"""From labels and weights to binary problems: what fitting and certifying share."""

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
        by_class = compute_class_weight(
            model.class_weight, classes=classes, y=classes[codes], sample_weight=weights
        )
        cost *= by_class[codes]
    return cost
