"""Bounds on the weights of the optimum, beside a point that is near it."""

import math
from fractions import Fraction

import numpy as np

import widemargin
from widemargin.estimators.proof import can_be_proved

# Far more than the radius is rounded.
_ROUNDING = 1e-9
# No number of a case is so large.
_FAR = Fraction(1e300)


def proof_failures(model, data, known) -> list[str]:
    """Return what is wrong with the bounds that `prove` finds for a model.

    `known` has for each problem the coefficients of a point, (d,), and how far its exact objective
    is above a lower bound, a Fraction.
    """
    if not can_be_proved(model):
        return []
    low, high = map(np.atleast_2d, widemargin.prove(model, **data).weight_bounds())
    if not (low <= high).all():  # nor are they NaN
        return ["bounds on weights are in the wrong order"]
    found = []
    for j, (coef, excess) in enumerate(known):
        # The objective is strongly convex: its optimum is within this distance of the point.
        radius = math.sqrt(2.0 * float(min(max(excess, Fraction(0)), _FAR)))
        radius += _ROUNDING * (radius + float(np.abs(coef).max(initial=0.0)))
        if (low[j] > coef + radius).any() or (high[j] < coef - radius).any():
            found.append(f"bounds on the weights of problem {j} leave the optimum out")
    return found
