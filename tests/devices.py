"""Rows and passes "on a GPU", for machines without one.

Vectors are `DeviceArray`s, which refuse what a GPU's arrays refuse; products and passes are
computed by the host's kernels on what is inside of them. All is tested but the arithmetic.
"""

import types

import numpy as np
import pytest

from tests.device_array import DeviceArray, device
from widemargin import passes
from widemargin.arrays import on_host
from widemargin.data import as_rows
from widemargin.data.rows import GramRows
from widemargin.losses import Loss
from widemargin.passes import cpu, gpu
from widemargin.risk.margin import MarginLine
from widemargin.solvers.line_search import Penalty, exact
from widemargin.solvers.reduced_dual import ascend

# What has CUDA kernels of its own; the rest is array expressions, which run as they are.
KERNELS = (
    "advance",
    "curvature",
    "dual_point",
    "lowest",
    "margin_cut",
    "margin_rates",
    "margin_sums",
    "weighted_sum",
    "places",
    "products",
    "rates",
    "solve_definite",
    "way",
)


def _as_on_gpu(function):
    """Return a pass of the host's that takes and returns arrays as one on a GPU would."""

    def run(*arguments):
        arguments = [a.host_array if isinstance(a, DeviceArray) else a for a in arguments]
        result = function(*arguments)
        if function.__name__ == "margin_sums":  # sums and counts are the host's
            sums, pieces = result
            return sums, (pieces[1:] != pieces[:-1]).sum(axis=1)
        if function.__name__ in ("lowest", "products", "solve_definite"):
            return result
        if isinstance(result, tuple):
            return tuple(device(r) if isinstance(r, np.ndarray) else r for r in result)
        return device(result) if isinstance(result, np.ndarray) else result

    return run


def _margin_walk(y, cost, loss, S, T, penalty, rounding, moved, guess, instead_of_zero, beyond):
    """What the kernel of this name does, by passes of the host's."""
    y, cost, S, T, penalty = (array.host_array for array in (y, cost, S, T, penalty))
    a, b, c = penalty.sum(axis=0)
    D = T - S
    if a <= rounding * c:
        a, b, D = 0.0, 0.0, np.full_like(S, moved)
    line = MarginLine(*cpu.margin_rates(y, S, D), cost, Loss("", *loss))
    step = exact(Penalty(a, b, 0.0), line, guess)[0] or instead_of_zero
    cpu.advance(S, D, step, beyond * (1.0 - step))
    slope, *numbers = cpu.margin_cut(y, cost, loss, D)
    at_end = cpu.margin_cut(y, cost, loss, S)[1]
    return (
        device(slope),
        device(np.packbits(slope != 0.0)),
        lambda: np.array([step, a, b, c, at_end, *numbers]),
    )


def _ascend(H, c, z, height, tolerance, value, last):
    """What the kernel of this name does, by the host's."""
    H, trial, nu = H.copy(), z.copy(), np.array([height])
    H[-1] = H[:, -1] = last()
    ascend(H, c, np.empty((c.size, 0)), trial, nu, tolerance)
    trial /= trial.sum()
    found = c @ trial - 0.5 * trial @ (H @ trial)
    reached = found >= value - 1e-12 * (c @ trial)
    return device(-(trial if reached else z)), lambda: np.array([reached, found, *nu, *trial])


PASSES = types.SimpleNamespace(
    **{name: value for name, value in vars(gpu).items() if not name.startswith("_")}
    | {name: _as_on_gpu(getattr(cpu, name)) for name in KERNELS}
    | {"margin_walk": _margin_walk, "ascend": _ascend, "most_planes": lambda: 30}
)


class DeviceRows(GramRows):
    """Rows on a GPU that there is not: see data/gpu.py for those that are."""

    device = "cuda"

    #: whether coefficients stay on the host, as those of few features do, and matrices of them,
    #: as those of fewer do
    coefs_on_host = matrices_on_host = False

    def __init__(self, X):
        self.rows = as_rows(X)
        self.n_rows, self.n_features = self.rows.n_rows, self.rows.n_features
        self.dtype = self.rows.dtype
        self.like = device(np.empty(0))
        self.coef_like = None if self.coefs_on_host else self.like
        self.weighs_all_rows = self.matrices_on_host

    def _coefs(self, array):
        return array if self.coefs_on_host else device(array)

    def scores(self, W):
        assert isinstance(W, DeviceArray) != self.coefs_on_host
        return device(self.rows.scores(on_host(W)))

    def combine(self, G):
        return self._coefs(self.rows.combine(G.host_array))

    def combine_squares(self, g):
        return self._coefs(self.rows.combine_squares(g.host_array))

    def rounded(self, product, v):
        return v.astype(np.float32).astype(np.float64)

    def round(self, w):
        if isinstance(w, DeviceArray):
            w[...] = self.rounded("scores", w)
        return w

    def moments(self, index, weight, center):
        index = np.arange(self.n_rows) if index is None else index.host_array
        lower, first = self.rows.moments(index, weight.host_array, on_host(center))
        second = np.tril(lower) + np.tril(lower, -1).T
        return (second, first) if self.matrices_on_host else (device(second), device(first))

    def squared_norms(self):
        return device(self.rows.squared_norms())

    def take(self, index):
        return DeviceRows(self.rows.take(index.host_array))

    def is_finite(self):
        return True


@pytest.fixture(params=["all there", "coefs here", "coefs and matrices here"])
def no_gpu_but_all_else(request, monkeypatch):
    """Have `device="cuda"` put rows on a GPU that there is not."""
    monkeypatch.setattr(DeviceRows, "coefs_on_host", "coefs" in request.param)
    monkeypatch.setattr(DeviceRows, "matrices_on_host", "matrices" in request.param)
    from widemargin.data import devices

    host_passes = passes.of
    monkeypatch.setattr(
        passes, "of", lambda a: PASSES if isinstance(a, DeviceArray) else host_passes(a)
    )
    monkeypatch.setattr(devices, "check_gpu", lambda: None)
    monkeypatch.setattr(devices, "to_gpu", DeviceRows)
