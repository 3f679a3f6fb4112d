"""The reduced dual of a bundle of planes, by an active-set method.

    max over z   c.z - 1/2 z'Hz      z >= 0,  sum(z) = 1,  E'z = 0

H (m, m) is the planes' Gram matrix, c (m,) their constants, E (m, q) their slopes in a free
intercept (q = 0 without one). z starts feasible and stays so; every step gains. The planes that
are free to have a weight grow by the one that promises most, and shrink by the first whose
weight meets zero on the way to the best weights of all free ones.
"""

import numpy as np

from widemargin.kernels import bundle

# A sum of this fraction of its terms' sizes is zero.
_ROUNDING = 1e-12


def ascend(H, c, E, z, nu, tolerance: float) -> None:
    """Move z (m,) to the maximum, within `tolerance` in value.

    nu (1 + q,) receives the multipliers: the height of the planes at the solution, then minus
    the free intercept there; it should come in as the last solution's.
    """
    held = _held_offsets(E, nu)
    E = E[:, held]
    unit = np.abs(E).max(axis=0, initial=0.0)
    unit[unit == 0.0] = 1.0
    # All constraints are of about the same size, that of a class of little weight as well.
    N = np.column_stack([np.ones(len(c)), E / unit])
    multipliers = np.append(nu[0], nu[1 + held] * unit)
    bundle.ascend(np.ascontiguousarray(H), c, N, z, multipliers, tolerance)
    nu[0], nu[1 + held] = multipliers[0], multipliers[1:] / unit


def _held_offsets(E, nu):
    """Return the places of the offsets that constraints hold on to, all of them but one at most.

    Where the slopes of every plane sum to zero, as those of a multi-class loss do, anything can be
    added to all offsets. That of the class that planes have most to do with is made zero: then no
    constraint is a difference of larger ones, and no offset is.
    """
    q = E.shape[1]
    sizes = np.abs(E)
    if q < 2 or np.any(np.abs(E.sum(axis=1)) > _ROUNDING * sizes.sum(axis=1)):
        return np.arange(q)
    anchor = int(sizes.sum(axis=0).argmax())
    nu[1:] -= nu[1 + anchor]
    return np.delete(np.arange(q), anchor)
