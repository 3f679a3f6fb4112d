"""The intercept in coordinate descent: the method of multipliers.

With z = sum_i alpha_i y_i, the dual has a term for the intercept:

    free        z = 0, with multiplier b, which is the intercept
    penalised   -1/2 z^2, which is -1/2 v^2 with the constraint z = v, again with multiplier b

The method of multipliers subtracts 1/2 rho times the square of the constraint's violation. For
fixed b, the scores are then  w.x_i + fixed + K z:

    free        K = rho,               fixed = b;             b becomes  b + rho z
    penalised   K = rho / (1 + rho),   fixed = (1 - K) b;     b becomes  b + rho (z - v) = v

where v = fixed + K z is the best v for this z. So K is the square of a constant feature of every
row. After each pass b is updated, and with it `fixed`, the offset of the scores.

A penalised intercept could be an ordinary constant feature, K = 1. But a constant feature couples
all rows. If it is as large as the rest of a row, coordinate descent takes twice the passes or
more.
"""

from widemargin.problem import Intercept


def constant_feature(
    intercept: Intercept, mean_square: float, mean_cost: float, scale: float
) -> float:
    """Return K, for rows of this mean |x_i|^2 and this mean cost.

    `scale` is the setting `constant_feature`, see settings.py.
    """
    if intercept is Intercept.NONE:
        return 0.0
    K = scale * (mean_square + 1.0 / mean_cost)
    return min(1.0, K) if intercept is Intercept.PENALIZED else K


def kept(intercept: Intercept, K: float) -> float:
    """Return `fixed` over b: how much of the intercept does not depend on z."""
    return 1.0 - K if intercept is Intercept.PENALIZED else 1.0
