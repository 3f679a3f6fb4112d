"""The pivots of the reduced dual, and a Cholesky factor of the working set of planes.

`free` (m,) lists the `size` planes of the working set; L is the factor of a definite matrix M in
their rows and columns.
Loops are written out and functions are few: array expressions would take seconds to compile.
"""

import numpy as np

from widemargin.kernels.jit import kernel

# Pivots smaller than this fraction of the diagonal are set to it. If a plane depends on the
# others, the step is then very long, and ends at the first bound, as it should.
_SMALLEST_PIVOT = 1e-13
# A constraint depends on others if only this fraction of it is left.
_DEPENDENT = 1e-12
# A change of weight is zero if it is this small a fraction of the terms of the difference.
_ROUNDING = 1e-12
# After this many pivots in a row without gain, only rounding changes.
_IDLE_PIVOTS = 5
# Constraints are met if no more than this fraction of their terms is left over. At most this many
# more pivots refine a solution: each of them leaves the rounding of what the last one left.
UNBALANCED = 1e-10
_REFINEMENTS = 5


@kernel
def _append(L, size, M, free, j):
    """Add plane j to the factor."""
    pivot = M[j, j]
    for i in range(size):
        value = M[free[i], j]
        for k in range(i):
            value -= L[i, k] * L[size, k]
        value /= L[i, i]
        L[size, i] = value
        pivot -= value * value
    L[size, size] = np.sqrt(max(pivot, _SMALLEST_PIVOT * M[j, j]))
    free[size] = j


@kernel
def _remove(L, size, free, gone):
    """Remove the plane at place `gone`: Givens rotations restore the triangle."""
    for i in range(gone, size - 1):
        free[i] = free[i + 1]
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
    """Move nu to a solution of K nu = target; its part in the null space of K stays."""
    q = K.shape[0]
    for i in range(q):
        for k in range(q):
            target[i] -= K[i, k] * nu[k]
    # Gauss-Jordan, with pivots on the diagonal: K is symmetric and semidefinite. What is left of a
    # constraint is compared with its own size at first, since their sizes differ.
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
def _way_ahead(L, size, free, N, gradient, z, nu, ahead, change):
    """Set `ahead` and `change` to the steps of z and nu to the best z on the free planes.

    It is the maximum for the given gradient, with N'z = (1, 0, ..., 0), and with any signs. Steps
    are computed, not points, so that small ones are exact.
    """
    q = N.shape[1]
    inverse, K, target = np.empty((q, size)), np.zeros((q, q)), np.zeros(q)
    for i in range(size):
        ahead[i] = gradient[free[i]]
        for r in range(q):
            inverse[r, i] = N[free[i], r]
            ahead[i] -= N[free[i], r] * nu[r]
    _solve(L, size, ahead)
    for r in range(q):
        _solve(L, size, inverse[r])
    target[0] = -1.0
    for i in range(size):
        for r in range(q):
            normal = N[free[i], r]
            target[r] += normal * (ahead[i] + z[free[i]])
            for s in range(q):
                K[r, s] += normal * inverse[s, i]
    for r in range(q):
        change[r] = 0.0
    _multipliers(K, target, change)
    for i in range(size):
        terms = abs(ahead[i])
        for r in range(q):
            term = change[r] * inverse[r, i]
            ahead[i] -= term
            terms = max(terms, abs(term))
        if abs(ahead[i]) <= _ROUNDING * terms:
            ahead[i] = 0.0


@kernel
def _advance(H, N, size, free, shut, ahead, nu, z, gradient):
    """Move z (m,) ahead for as long as all weights are >= 0, and update the gradient.

    Returns the fraction of the way, at most 1; the free plane that blocks it, or -1; the gain; and
    the shut plane of largest slope then, or -1, and that slope.
    """
    step, blocking, slope = 1.0, -1, 0.0
    for i in range(size):
        weight, way = z[free[i]], ahead[i]
        slope += gradient[free[i]] * way
        if weight + way < 0.0 and weight < -way * step:
            step, blocking = weight / -way, i
    for i in range(size):
        j = free[i]
        moved = 0.0 if i == blocking else max(z[j] + step * ahead[i], 0.0)
        change = moved - z[j]
        z[j] = moved
        for k in range(gradient.size):
            gradient[k] -= H[j, k] * change
    best, most = -1, -np.inf
    for j in range(gradient.size):
        if shut[j]:
            above = gradient[j]
            for r in range(nu.size):
                above -= N[j, r] * nu[r]
            if above > most:
                best, most = j, above
    return step, blocking, step * slope, best, most


@kernel
def _definite(H, N):
    """Return a definite matrix with the same solution as H, for fixed N'z."""
    m, q = N.shape
    largest = 0.0
    for i in range(m):
        largest = max(largest, H[i, i])
    largest = largest if largest > 0.0 else 1.0
    M = np.empty((m, m))
    for i in range(m):
        for k in range(m):
            same = 0.0
            for r in range(q):
                same += N[i, r] * N[k, r]
            M[i, k] = H[i, k] + largest * same
    return M


@kernel
def _is_balanced(N, z):
    """Return whether N'z = (1, 0, ..., 0), relative to the terms of each: some are tiny."""
    for r in range(N.shape[1]):
        left, terms = -1.0 if r == 0 else 0.0, 0.0
        for j in range(z.size):
            left += N[j, r] * z[j]
            terms += abs(N[j, r] * z[j])
        if abs(left) > UNBALANCED * terms:
            return False
    return True


@kernel
def ascend(H, c, N, z, nu, tolerance):
    """Move z (m,) to the maximum of c.z - 1/2 z'Hz with N'z = (1, 0, ..., 0), and z >= 0.

    The value is within `tolerance`. nu (q,) has the multipliers of the constraints at the last
    solution, and receives those of this one.
    """
    m, q = N.shape
    M = _definite(H, N)
    L, ahead, change = np.empty((m, m)), np.empty(m), np.empty(q)
    # A plain 0 would be a type of its own, for which kernels would be compiled once more.
    free, size = np.empty(m, dtype=np.int64), np.intp(0)
    shut = np.empty(m, dtype=np.bool_)  # neither free nor left out
    left_out = np.zeros(m, dtype=np.bool_)  # promised what it could not hold, where z was
    gradient = np.empty(m)
    for j in range(m):
        shut[j] = z[j] <= 0.0
        if not shut[j]:
            _append(L, size, M, free, j)
            size += 1
        gradient[j] = c[j]
        for k in range(m):
            gradient[j] -= H[j, k] * z[k]
    pivots, idle, entered, moved, refined = 0, 0, -1, False, 0
    # With a free intercept, pivots may only move it, from plane to plane, without a gain.
    most_idle = _IDLE_PIVOTS + (2 * m if q > 1 else 0)
    while pivots < 20 * m + 100 and idle < most_idle:
        pivots += 1
        _way_ahead(L, size, free, N, gradient, z, nu, ahead, change)
        for r in range(q):
            nu[r] += change[r]
        step, blocking, gain, best, above = _advance(
            H, N, size, free, shut, ahead, nu, z, gradient
        )
        idle = idle + 1 if gain <= 0.01 * tolerance else 0
        moved = moved or idle == 0
        if blocking >= 0:
            gone = free[blocking]
            _remove(L, size, free, blocking)
            size -= 1
            left_out[gone] = gone == entered and step == 0.0
            shut[gone] = not left_out[gone]
            moved = moved or not left_out[gone]
        elif above > tolerance:
            entered = best
            _append(L, size, M, free, entered)
            size += 1
            shut[entered] = False
        elif moved and left_out.any():
            # Elsewhere by now, or with other planes: they may hold it here.
            for j in range(m):
                shut[j] = shut[j] or left_out[j]
                left_out[j] = False
            moved = False
        elif refined < _REFINEMENTS and not _is_balanced(N, z):
            refined += 1
        else:
            break
