"""The reduced dual of a bundle of planes, by an active-set method.

    max over z   c.z - 1/2 z'Hz      z >= 0,  sum(z) = 1,  E'z = 0

H (m, m) is the planes' Gram matrix, c (m,) their constants, E (m, q) their slopes in a free
intercept (q = 0 without one). z starts feasible and stays so; every step gains. The planes that
are free to have a weight grow by the one that promises most, and shrink by the first whose
weight meets zero on the way to the best weights of all free ones.
"""

import numpy as np

from widemargin.kernels.bundle import advance, append, remove, way_ahead

# Pivots in a row without gain, after which rounding is all that moves.
_IDLE_PIVOTS = 5


def ascend(H, c, E, z, nu, tolerance: float) -> int:
    """Move z (m,) to the maximum, within `tolerance` in value; return how many pivots it took.

    nu (1 + q,) receives the multipliers: the height of the planes at the solution, then minus
    the free intercept there; it should come in as the last solution's.
    """
    m, q = E.shape
    N = np.ones((m, 1 + q))
    unit = np.abs(E).max(initial=0.0) or 1.0 if q else 1.0
    if q:
        N[:, 1:] = E / unit  # all columns of about the same size
        nu[1:] *= unit
    H = np.ascontiguousarray(H)
    # M has the same solution as H, since N'z is fixed, and is definite.
    M = H + (H.diagonal().max() or 1.0) * (N @ N.T if q else 1.0)
    L, ahead, change = np.empty((m, m)), np.empty(m), np.empty(1 + q)
    free = np.empty(m, dtype=np.int64)
    shut = z <= 0.0  # neither free nor found to promise what it cannot hold
    size = append(L, 0, M, free, z.nonzero()[0])
    gradient = c - H @ z
    pivots, idle, entered = 0, 0, -1
    # With a free intercept pivots may do nothing but move it, from plane to plane.
    most_idle = _IDLE_PIVOTS + (2 * m if q else 0)
    while pivots < 20 * m + 100 and idle < most_idle:
        pivots += 1
        way_ahead(L, size, free, N, gradient, z, nu, ahead, change)
        nu += change
        step, blocking, gain, best, above = advance(H, N, size, free, shut, ahead, nu, z, gradient)
        idle = idle + 1 if gain <= 0.01 * tolerance else 0
        if blocking >= 0:
            gone = free[blocking]
            remove(L, size, free, blocking)
            size -= 1
            shut[gone] = not (gone == entered and step == 0.0)
        elif above > tolerance:
            entered = best
            size = append(L, size, M, free, np.array([entered]))
            shut[entered] = False
        else:
            break
    if q:
        nu[1:] /= unit
    return pivots
