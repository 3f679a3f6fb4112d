"""The reduced problem of cutting planes: min over w of 1/2 |w|^2 + max(0, max_j a_j.w + b_j)."""

import numpy as np


def solve(planes):
    """Return w and the value, for planes [(a, b)]: the dual, by an active-set method.

    max over z  b.z - 1/2 |sum_j z_j a_j|^2  with z >= 0 and sum_j z_j = 1; the plane 0 is there.
    """
    if not planes:
        return None, 0.0
    A = np.array([np.zeros_like(planes[0][0]), *(a for a, _ in planes)])
    b = np.array([0.0, *(b for _, b in planes)])
    G = A @ A.T
    scale = max(1.0, np.abs(b).max())
    z = np.zeros(len(b))
    z[0] = 1.0
    working = [0]
    for _ in range(10_000):
        slope = b - G @ z
        height = float(z @ slope)
        entering = int(slope.argmax())
        if slope[entering] <= height + 1e-13 * scale:
            break
        if entering not in working:
            working.append(entering)
        while True:
            m = len(working)
            kkt = np.zeros((m + 1, m + 1))
            kkt[:m, :m] = G[np.ix_(working, working)]
            kkt[m, :m] = kkt[:m, m] = 1.0
            best = np.linalg.lstsq(kkt, np.append(b[working], 1.0), rcond=None)[0][:m]
            if best.min() > 0.0:
                z[:] = 0.0
                z[working] = best
                break
            now = z[working]
            falling = best <= 0.0
            length = np.min(now[falling] / np.maximum(now[falling] - best[falling], 1e-300))
            z[working] = now + length * (best - now)
            leaving = [k for k, j in enumerate(working) if falling[k] and z[j] <= 1e-15]
            for k in reversed(leaving):
                z[working[k]] = 0.0
                del working[k]
    assert (b - G @ z).max() <= z @ (b - G @ z) + 1e-10 * scale
    return -A.T @ z, float(b @ z - 0.5 * z @ G @ z)
