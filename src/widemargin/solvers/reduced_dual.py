"""The reduced dual of a bundle of planes, by an active-set method.

    max over z   c.z - 1/2 z'Hz      z >= 0,  sum(z) = 1,  E'z = 0

H (m, m) is the planes' Gram matrix, c (m,) their constants, E (m, q) their slopes in a free
intercept (q = 0 without one). z starts feasible and stays so, and every step gains. The working
set of planes with a weight grows by the plane with the largest slope. It shrinks by the first
plane whose weight becomes zero on the way to the best weights of the set.
"""

import numpy as np

from widemargin.kernels import bundle

# A sum is zero if it is this fraction of the sizes of its terms.
_ROUNDING = 1e-12


def ascend(
    H: np.ndarray,
    c: np.ndarray,
    E: np.ndarray,
    z: np.ndarray,
    nu: np.ndarray,
    tolerance: float,
) -> None:
    """Move z (m,) to the maximum, within `tolerance` in value.

    nu (1 + q,) has the multipliers of the last solution, and receives those of the new one: the
    height of the planes at the solution, then minus the free intercept there.
    """
    held = _held_offsets(E, nu)
    E = E[:, held]
    unit = np.abs(E).max(axis=0, initial=0.0)
    unit[unit == 0.0] = 1.0
    # All constraints get about the same size, also that of a class of little weight.
    N = np.ascontiguousarray(np.column_stack([np.ones(len(c)), E / unit]))
    multipliers = np.append(nu[0], nu[1 + held] * unit)
    bundle.ascend(np.ascontiguousarray(H), c, N, z, multipliers, tolerance)
    nu[0], nu[1 + held] = multipliers[0], multipliers[1:] / unit


def _held_offsets(E: np.ndarray, nu: np.ndarray) -> np.ndarray:
    """Return the indices of the offsets that the constraints determine, all but one at most.

    If the slopes of every plane sum to zero, as those of a multi-class loss do, any number can be
    added to all offsets. Then the offset of the class with the largest slopes is fixed to zero, so
    that neither a constraint nor an offset is a difference of larger numbers.
    """
    q = E.shape[1]
    sizes = np.abs(E)
    if q < 2 or np.any(np.abs(E.sum(axis=1)) > _ROUNDING * sizes.sum(axis=1)):
        return np.arange(q)
    anchor = int(sizes.sum(axis=0).argmax())
    nu[1:] -= nu[1 + anchor]
    return np.delete(np.arange(q), anchor)
