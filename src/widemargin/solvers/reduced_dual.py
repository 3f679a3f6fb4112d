"""The reduced dual of a bundle of planes, by an active-set method.

    max over z   c.z - 1/2 z'Hz      z >= 0,  sum(z) = 1,  E'z = 0

H (m, m) is the planes' Gram matrix, c (m,) their constants, E (m, q) their slopes in a free
intercept (q = 0 without one). z starts feasible and stays so; every step gains. The planes that
are free to have a weight grow by the one that promises most, and shrink by the first whose
weight meets zero on the way to the best weights of all free ones.
"""

import numpy as np

from widemargin.kernels import bundle


def ascend(H, c, E, z, nu, tolerance: float) -> None:
    """Move z (m,) to the maximum, within `tolerance` in value.

    nu (1 + q,) receives the multipliers: the height of the planes at the solution, then minus
    the free intercept there; it should come in as the last solution's.
    """
    m, q = E.shape
    N = np.ones((m, 1 + q))
    unit = np.abs(E).max(initial=0.0) or 1.0 if q else 1.0
    if q:
        N[:, 1:] = E / unit  # all columns of about the same size
        nu[1:] *= unit
    bundle.ascend(np.ascontiguousarray(H), c, N, z, nu, tolerance)
    if q:
        nu[1:] /= unit
