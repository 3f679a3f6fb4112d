"""The reduced dual of a bundle of planes, by an active-set method.

    max over z   c.z - 1/2 z'Hz      z >= 0,  sum(z) = 1,  E'z = 0

H is the planes' Gram matrix, c their constants, E (m, q) their slopes in a free intercept
(q = 0 without one). z starts feasible and stays so; every step gains.
"""

import numpy as np

from widemargin.kernels.jit import kernel

# Pivots smaller than this share of the diagonal are taken to be it: a plane that depends on
# the others then asks for a very long step, which ends at the first bound, as it should.
_SMALLEST_PIVOT = 1e-13
# The share of a constraint that is left once it is taken to depend on others.
_DEPENDENT = 1e-9
# Pivots in a row without gain, after which rounding is all that moves.
_IDLE_PIVOTS = 5
# A change of weight is zero if it is this small a share of the terms it is the difference of.
_ROUNDING = 1e-12


@kernel
def _append(L, size, column, diagonal):
    """Extend the Cholesky factor L (size, size) by one row: M's new column and diagonal."""
    pivot = diagonal
    for i in range(size):
        value = column[i]
        for k in range(i):
            value -= L[i, k] * L[size, k]
        value /= L[i, i]
        L[size, i] = value
        pivot -= value * value
    L[size, size] = np.sqrt(max(pivot, _SMALLEST_PIVOT * diagonal))


@kernel
def _remove(L, size, gone):
    """Take row and column `gone` out of the factor: Givens rotations restore the triangle."""
    for i in range(gone, size - 1):
        for k in range(i + 2):
            L[i, k] = L[i + 1, k]
    for i in range(gone, size - 1):
        a, b = L[i, i], L[i, i + 1]
        length = np.sqrt(a * a + b * b)
        cosine, sine = a / length, b / length
        L[i, i], L[i, i + 1] = length, 0.0
        for j in range(i + 1, size - 1):
            p, q = L[j, i], L[j, i + 1]
            L[j, i] = cosine * p + sine * q
            L[j, i + 1] = cosine * q - sine * p


@kernel
def _solve(L, size, x):
    """Overwrite x (size,) with M^-1 x."""
    for i in range(size):
        value = x[i]
        for k in range(i):
            value -= L[i, k] * x[k]
        x[i] = value / L[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]


@kernel
def _multipliers(K, target, nu):
    """Move nu to a solution of K nu = target; parts of it that K does not see stay."""
    q = K.shape[0]
    for i in range(q):
        for k in range(q):
            target[i] -= K[i, k] * nu[k]
    # Gauss-Jordan, pivots on the diagonal: K is symmetric and semidefinite. What is left of a
    # constraint once others are taken out is measured by what it was: their sizes differ.
    size = np.empty(q)
    for i in range(q):
        size[i] = K[i, i]
    done = np.zeros(q, dtype=np.bool_)
    for _ in range(q):
        best, left = -1, _DEPENDENT
        for i in range(q):
            if not done[i] and K[i, i] > left * size[i]:
                best, left = i, K[i, i] / size[i]
        if best < 0:
            break
        done[best] = True
        for i in range(q):
            if i == best:
                continue
            factor = K[i, best] / K[best, best]
            for k in range(q):
                K[i, k] -= factor * K[best, k]
            target[i] -= factor * target[best]
    for i in range(q):
        if done[i]:
            nu[i] += target[i] / K[i, i]


@kernel
def ascend(H, c, E, z, nu, tolerance):
    """Move z (m,) to the maximum, within `tolerance` in value; return how many pivots it took.

    nu (1 + q,) receives the multipliers: the height of the planes at the solution, then minus
    the free intercept there; it should come in as the last solution's.
    """
    m, q = E.shape[0], E.shape[1]
    sigma, largest = 0.0, 0.0
    for j in range(m):
        sigma = max(sigma, H[j, j])
        for k in range(q):
            largest = max(largest, abs(E[j, k]))
    sigma = sigma if sigma > 0.0 else 1.0
    unit = largest if largest > 0.0 else 1.0
    E = E / unit  # of the same size as the ones of sum(z) = 1
    nu[1:] *= unit

    free = np.empty(m, dtype=np.int64)
    is_free = np.zeros(m, dtype=np.bool_)
    is_tried = np.zeros(m, dtype=np.bool_)  # entered, and left at once: rounding only
    L = np.empty((m, m))
    column = np.empty(m)
    size = 0
    gradient = c.copy()
    for j in range(m):
        if z[j] > 0.0:
            for i in range(m):
                gradient[i] -= H[i, j] * z[j]
            # M = H + sigma (11' + EE') has the same solution, and is definite.
            for i in range(size + 1):
                other = free[i] if i < size else j
                column[i] = H[other, j] + sigma
                for k in range(q):
                    column[i] += sigma * E[other, k] * E[j, k]
            _append(L, size, column, column[size])
            free[size] = j
            is_free[j] = True
            size += 1

    ahead = np.empty(m)
    inverse = np.empty((1 + q, m))
    K = np.empty((1 + q, 1 + q))
    target = np.empty(1 + q)
    change_of_nu = np.empty(1 + q)
    pivots, idle = 0, 0
    entered = -1
    # With a free intercept they may do nothing but move it, from plane to plane.
    most_idle = _IDLE_PIVOTS + (2 * m if q else 0)
    while pivots < 20 * m + 100 and idle < most_idle:
        pivots += 1
        # The way to the best z on the free planes, signs ignored. Written as a change, of z and
        # of nu: what is small stays exact.
        for i in range(size):
            j = free[i]
            ahead[i] = gradient[j] - nu[0]
            for k in range(q):
                ahead[i] -= E[j, k] * nu[1 + k]
        _solve(L, size, ahead)
        for r in range(1 + q):
            for i in range(size):
                inverse[r, i] = 1.0 if r == 0 else E[free[i], r - 1]
            _solve(L, size, inverse[r])
        for r in range(1 + q):
            target[r] = -1.0 if r == 0 else 0.0
            change_of_nu[r] = 0.0
            for i in range(size):
                normal = 1.0 if r == 0 else E[free[i], r - 1]
                target[r] += normal * (ahead[i] + z[free[i]])
            for s in range(1 + q):
                K[r, s] = 0.0
                for i in range(size):
                    K[r, s] += (1.0 if r == 0 else E[free[i], r - 1]) * inverse[s, i]
        _multipliers(K, target, change_of_nu)
        step, blocking = 1.0, -1
        for i in range(size):
            terms = abs(ahead[i])
            for r in range(1 + q):
                term = change_of_nu[r] * inverse[r, i]
                ahead[i] -= term
                terms = max(terms, abs(term))
            if abs(ahead[i]) <= _ROUNDING * terms:
                ahead[i] = 0.0
            if z[free[i]] + step * ahead[i] < 0.0:
                step, blocking = z[free[i]] / -ahead[i], i
        for r in range(1 + q):
            nu[r] += change_of_nu[r]

        gain = 0.0
        for i in range(size):
            gain += step * gradient[free[i]] * ahead[i]
        for i in range(size):
            j = free[i]
            change = step * ahead[i]
            if i == blocking or z[j] + change < 0.0:
                change = -z[j]
            if change != 0.0:
                z[j] += change
                for k in range(m):
                    gradient[k] -= H[k, j] * change
        idle = idle + 1 if gain <= 0.01 * tolerance else 0
        if blocking >= 0:
            gone = free[blocking]
            _remove(L, size, blocking)
            for i in range(blocking, size - 1):
                free[i] = free[i + 1]
            size -= 1
            is_free[gone] = False
            is_tried[gone] = gone == entered and step == 0.0
            continue

        entered, excess = -1, tolerance
        for j in range(m):
            if not (is_free[j] or is_tried[j]):
                above = gradient[j] - nu[0]
                for k in range(q):
                    above -= E[j, k] * nu[1 + k]
                if above > excess:
                    entered, excess = j, above
        if entered < 0:
            break
        for i in range(size + 1):
            other = free[i] if i < size else entered
            column[i] = H[other, entered] + sigma
            for k in range(q):
                column[i] += sigma * E[other, k] * E[entered, k]
        _append(L, size, column, column[size])
        free[size] = entered
        is_free[entered] = True
        size += 1
    nu[1:] /= unit
    return pivots
