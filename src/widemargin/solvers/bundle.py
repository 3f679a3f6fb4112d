"""Planes below the risk, and the reduced problem that they make.

Problem
    min over w, b   1/2 |w|^2 + max_j (a_j.w + e_j.b + c_j)
Dual
    max over z      c.z - 1/2 |sum_j z_j a_j|^2
    with            z_j >= 0,  sum_j z_j = 1,  sum_j z_j e_j = 0,   w = -sum_j z_j a_j

Plane j comes from a slope G_j of the risk: a_j = X^T G_j, e_j = sum_i G_ij, and c_j = -r*(G_j)
is the largest possible constant. The risk is never negative, so plane 0 is zero. For any z, the
dual variables -sum_j z_j G_j have the value of the dual above. The certificate recomputes it from
them, which is why packed slopes are kept.

Joachims 2006, Algorithm 1 (OP 4 and its dual); Franc & Sonnenburg 2008, equations (3), (6).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin import passes
from widemargin.kernels.bundle import UNBALANCED
from widemargin.solvers.reduced_dual import ascend
from widemargin.solvers.settings import CuttingPlaneSettings

# The rounding error of the reduced dual's value, as a fraction of its linear term.
_ROUNDING = 1e-12
# A solution may be worse by this fraction of the tolerance.
_WORSE = 0.01
# An imbalance is a rounding error if it is this fraction of the largest slope: where planes that
# balance by themselves have all the weight, what is left of the others' may be 1e-33.
_NOTHING = 1e-25


class Bundle:
    """At most `capacity` planes, their Gram matrix, and the reduced dual's solution.

    Memory: capacity * size * 8 bytes for the planes (at most 1 GiB, or 16 planes), one packed
    slope each, and capacity^2 * 8 bytes for their Gram matrix.

    Parameters
    ----------
    like : ndarray
        An array like all a_j, on the host or on a GPU; everything else is on the host.
    n_free : int
        Length of e_j: unpenalised variables.
    merge : callable(code, weight, code, weight) -> code
        Packs the weighted sum of two slopes.
    """

    def __init__(
        self,
        like: np.ndarray,
        n_free: int,
        merge: Callable,
        settings: CuttingPlaneSettings = CuttingPlaneSettings(),
    ):
        size, room = like.size, settings.bundle_bytes
        fewest, most = settings.fewest_planes, settings.most_planes
        self.capacity = int(np.clip(room // (8 * max(1, size)), fewest, most))
        self.merge, self.idle_iterations = merge, settings.idle_iterations
        self.count = 1
        self._value = 0.0
        self.a = np.zeros_like(like, shape=(1, size))
        self.e = np.zeros((1, n_free))
        self.c = np.zeros(1)
        self.gram = np.zeros((1, 1))
        self.z = np.ones(1)
        self.nu = np.zeros(1 + n_free)  # multipliers of the solution: its height, and -b
        self.idle = np.zeros(1)  # iterations since z_j was positive, without the last `solved`
        self.solved = 0
        self.codes: list = [None]
        self.coming: Callable | None = None  # returns the last plane's row of the Gram matrix
        self.solving: Callable | None = None  # returns the solution that a GPU is computing

    def _make_room(self) -> None:
        """Double the room for planes, up to the capacity."""
        room = min(max(32, 2 * self.count), self.capacity)
        for name in ("a", "e", "c", "z", "idle"):
            old = getattr(self, name)
            new = np.empty_like(old, shape=(room, *old.shape[1:]))
            new[: self.count] = old
            setattr(self, name, new)
        gram = np.empty((room, room))
        gram[: self.count, : self.count] = self.gram
        self.gram = gram

    @property
    def value(self) -> float:
        """The value of the reduced dual: a lower bound on the objective."""
        self._settle()
        return self._value

    @property
    def used(self) -> np.ndarray:
        """The planes with a positive weight, without plane 0."""
        self._settle()
        return 1 + np.flatnonzero(self.z[1 : self.count] > 0.0)

    def add(self, a: np.ndarray, e: np.ndarray, c: float, code: Any) -> None:
        """Add the plane a.w + e.b + c; `code` is its packed slope."""
        self._settle()
        self._complete()
        self._drop_idle()
        if self.count == self.capacity:
            self._merge_two()
        elif self.count == len(self.c):
            self._make_room()
        j = self.count
        self.coming = passes.of(self.a).products(self.a[:j], a)
        self.a[j], self.e[j], self.c[j] = a, e, c  # does not wait for a GPU
        self.z[j] = self.idle[j] = 0.0
        self.codes.append(code)
        self.count += 1

    def solve(self, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """Solve the reduced dual to `tolerance` in value; return (w, b) of the solution.

        A GPU may still be computing w. This method waits neither for w nor for the solution.
        """
        self._settle()
        self.solved += 1
        m, there = self.count, passes.of(self.a)
        z, gram = self.z[:m], self.gram[:m, :m]
        may_begin = self.coming is not None and self.nu.size == 1 and m <= there.most_planes()
        if may_begin:
            weights, self.solving = there.ascend(
                gram, self.c[:m], z, float(self.nu[0]), tolerance, self._value, self.coming
            )
            return there.weighted_sum(weights, self.a), -self.nu[1:]
        self._complete()
        trial, nu = z.copy(), self.nu.copy()
        ascend(gram, self.c[:m], self.e[:m], trial, nu, tolerance)
        trial /= trial.sum()
        height = float(self.c[:m] @ trial)
        value = height - 0.5 * float(trial @ (gram @ trial))
        # A solution that is worse by rounding alone may have another intercept, to which the last
        # plane leads. If it were refused, the same plane would be added for ever.
        if value >= self._value - _ROUNDING * height - _WORSE * tolerance:
            z[:], self.nu = trial, nu
            # If the slopes of these weights do not balance, they prove less than this value.
            sizes = np.abs(self.e[:m])
            most = np.maximum(UNBALANCED * (trial @ sizes), _NOTHING * sizes.max(axis=0))
            if np.all(np.abs(trial @ self.e[:m]) <= most):
                self._value = max(value, self._value)
        return there.weighted_sum(-z, self.a), -self.nu[1:]

    def _settle(self) -> None:
        """Store the solution that a GPU has been computing."""
        if self.solving is not None:
            reached, value, height, *z = self.solving()
            self.solving = None
            self._complete()
            if reached:
                self.z[: self.count] = z
                self.nu[0], self._value = height, max(float(value), self._value)

    def _complete(self) -> None:
        """Wait for the products of the last plane, which a GPU may still be computing."""
        if self.coming is not None:
            j = self.count - 1
            self.gram[: j + 1, j] = self.gram[j, : j + 1] = self.coming()
            self.coming = None

    def scale(self, ratio: float) -> None:
        """Multiply all planes by `ratio`, as the risk below which they lie.

        The solution keeps its weights, or the fraction of them with the best bound; plane 0 gets
        the rest.
        """
        self._settle()
        self._complete()
        m = self.count
        for array in (self.a, self.e, self.c):
            array[:m] *= ratio
        self.gram[:m, :m] *= ratio * ratio
        z = self.z[:m]
        height, bend = float(self.c[:m] @ z), float(z @ (self.gram[:m, :m] @ z))
        fraction = min(1.0, height / bend) if bend > 0.0 else 1.0
        z *= fraction
        z[0] += 1.0 - fraction
        self._value = fraction * (height - 0.5 * fraction * bend)

    def _drop_idle(self) -> None:
        # Not in `solve`: that starts work on a GPU, and this would wait for it.
        m = self.count
        self.idle[:m] = np.where(self.z[:m] > 0.0, 0.0, self.idle[:m] + self.solved)
        self.solved = 0
        for j in 1 + np.flatnonzero(self.idle[1 : self.count] > self.idle_iterations)[::-1]:
            self._remove(j)

    def _remove(self, j: int) -> None:
        """Replace plane j by the last plane."""
        last = self.count - 1
        for array in (self.a, self.e, self.c, self.z, self.idle):
            array[j] = array[last]
        self.gram[j, : self.count] = self.gram[last, : self.count]
        self.gram[: self.count, j] = self.gram[: self.count, last]
        self.gram[j, j] = self.gram[last, last]
        self.codes[j] = self.codes[last]
        self.codes.pop()
        self.count = last

    def _merge_two(self) -> None:
        """Merge the two planes of least weight into their weighted mean.

        The solution and its bound stay the same.
        """
        i, j = 1 + np.argsort(self.z[1 : self.count], kind="stable")[:2]
        total = self.z[i] + self.z[j]
        p = self.z[i] / total if total > 0.0 else 0.0
        for array in (self.a, self.e, self.c):
            array[i] = float(p) * array[i] + float(1.0 - p) * array[j]
        self.codes[i] = self.merge(self.codes[i], p, self.codes[j], 1.0 - p)
        self.z[i], self.idle[i] = total, 0.0
        m = self.count
        found = passes.of(self.a).products(self.a[:m], self.a[i])
        self.gram[:m, i] = self.gram[i, :m] = found()[:m]
        self._remove(j)

    def slopes(self) -> list[tuple[float, Any]]:
        """Return [(weight, code)] of the planes in use."""
        return [(float(self.z[j]), self.codes[j]) for j in self.used]
