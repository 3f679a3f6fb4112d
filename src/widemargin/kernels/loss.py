"""A row's loss and its slope for one unit of cost, by the numbers of losses.py.

Losses have kinks, and a loop with a branch does not vectorise. So these functions use minima and
maxima, and a kink is a very steep slope: residuals are differences of numbers about as large
as 1, so they are either 0 or large enough for the slope to reach its bound.
"""

from typing import TypeAlias

from numba.extending import register_jitable

#: the numbers of a loss: eps, low, high, bend
Numbers: TypeAlias = tuple[float, float, float, float]

_VERTICAL = 1e300


@register_jitable
def steepness_of(bend):
    """Return how fast the slope rises between its bounds."""
    return 1.0 / bend if bend > 0.0 else _VERTICAL


@register_jitable
def beyond(residual, eps):
    """Return how far a residual is beyond eps, with its sign; 0 within eps."""
    return residual - min(max(residual, -eps), eps)


@register_jitable
def slope_at(excess, low, high, steepness):
    """Return the slope of the loss where a residual is beyond eps by `excess`."""
    return min(max(excess * steepness, low), high)


@register_jitable
def knots(eps, low, high, bend):
    """Return the four residuals at which the loss changes from one piece to the next.

    Two of them may be equal, and some may be infinite.
    """
    upper = eps, eps + high * bend
    if low == 0.0:
        return -float("inf"), -float("inf"), upper[0], upper[1]
    return -eps + low * bend, -eps, upper[0], upper[1]


@register_jitable
def loss_and_size(residual, eps, low, high, bend):
    """Return the loss of a residual, and the size of its slope there.

    Unlike the functions above, this one takes the kink of a hinge exactly: a certificate needs a
    loss that is not too small by more than roundings.
    """
    excess = beyond(residual, eps)
    if bend > 0.0:
        a = min(max(excess / bend, low), high)
        return a * (excess - 0.5 * bend * a), abs(a)
    size = high if excess > 0.0 else 0.0
    size = -low if excess < 0.0 else size
    return max(high * excess, low * excess), size
