"""The intercept of coordinate descent: the coefficient of a small constant feature, absorbed.

With z = sum_i alpha_i y_i the dual has a term for the intercept:

    free        z = 0, whose multiplier b is the intercept
    penalised   -1/2 z^2, which is -1/2 v^2 with z = v, again with a multiplier b

The method of multipliers subtracts 1/2 rho times the square of what violates the constraint. At
a fixed b the scores are then  w.x_i + fixed + K z:

    free        K = rho,               fixed = b;             b becomes  b + rho z
    penalised   K = rho / (1 + rho),   fixed = (1 - K) b;     b becomes  b + rho (z - v) = v

with v = fixed + K z the best for this z. So K is the square of a constant feature of every row,
and after each pass `fixed` goes to the offset of the scores; to 1 - K of it, if it is penalised.
A penalised intercept might as well be a feature like any other, K = 1. But rows pull on one
another through it, and where it is as large as the rest of a row that takes twice the passes and
more.
"""

from widemargin.problem import Intercept

# K over the mean |x_i|^2 plus one over the mean cost. Larger makes the rows pull on one another
# through the constant feature, which slows every step; smaller makes b move slowly. From 0.003
# to 0.1 the passes needed hardly differ from those without an intercept; at 1 they double.
_CONSTANT_FEATURE = 0.03


def constant_feature(intercept: Intercept, mean_square: float, mean_cost: float) -> float:
    """Return K, for rows of this mean |x_i|^2 and this mean cost."""
    if intercept is Intercept.NONE:
        return 0.0
    K = _CONSTANT_FEATURE * (mean_square + 1.0 / mean_cost)
    return min(1.0, K) if intercept is Intercept.PENALIZED else K


def kept(intercept: Intercept, K: float) -> float:
    """Return `fixed` over b: how much of the intercept does not depend on z."""
    return 1.0 - K if intercept is Intercept.PENALIZED else 1.0
