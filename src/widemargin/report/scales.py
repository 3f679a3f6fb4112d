"""Axes of charts: positions of values, and ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

# Values of zero or less are drawn at the lower end of a logarithmic axis, at this fraction of the
# smallest positive value.
_NONPOSITIVE = 0.1
# Axes are longer than this, so that ticks have different numbers.
_LEAST_SPAN = 1e-290
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic axis from `low` to `high`."""

    low: float
    high: float
    log: bool = False

    def place(self, values: ArrayLike) -> np.ndarray:
        """Return positions as fractions of the axis; values outside are clipped to its ends."""
        values = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        if self.log:
            return np.log(values / self.low) / math.log(self.high / self.low)
        return (values - self.low) / (self.high - self.low)

    def ticks(self, about: int = 5) -> list[float]:
        """Return about `about` round numbers along the axis."""
        if self.log and self.high / self.low >= 10.0:
            return _powers_of_ten(self.low, self.high, about)
        return _round_numbers(self.low, self.high, about)


def linear(*series: ArrayLike, low: float | None = None, high: float | None = None) -> Scale:
    """Return the linear scale that shows all finite values, from `low` to `high` if given."""
    values = _finite(series)
    least = float(values.min()) if low is None else low
    most = float(values.max()) if high is None else high
    if not most - least > _LEAST_SPAN:
        room = 0.5 * abs(least) if abs(least) > _LEAST_SPAN else 0.5
        least, most = least if low is not None else least - room, most + room
    elif low is None or high is None:
        room = 0.04 * (most - least)
        least -= room if low is None else 0.0
        most += room if high is None else 0.0
    return Scale(least, most)


def logarithmic(*series: ArrayLike) -> Scale:
    """Return the scale that shows all positive numbers by their logarithms.

    Where there are others, it leaves room for them at the lower end.
    """
    values = _finite(series)
    positive = values[values > 0.0]
    if not positive.size:
        return Scale(1e-12, 1.0, log=True)
    low, high = float(positive.min()), float(positive.max())
    if positive.size < values.size:
        low *= _NONPOSITIVE
    return Scale(low / 1.25, high * 1.25, log=True)


def _finite(series: Sequence[ArrayLike]) -> np.ndarray:
    values = np.concatenate([np.ravel(values) for values in series])
    return values[np.isfinite(values)]


def _round_numbers(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / about
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(s * magnitude for s in _STEPS if s * magnitude >= rough * (1.0 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _powers_of_ten(low: float, high: float, about: int) -> list[float]:
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / (about + 1)))
    if last - first < 2:  # one or two powers of ten are too few ticks
        wide = range(first - 1, last + 1)
        return [m * 10.0**e for e in wide for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    return [10.0**exponent for exponent in range(first, last + 1, stride)]


def plain(value: float) -> str:
    """Format a tick: 0.05, 1,500, 1e-06."""
    value = 0.0 if abs(value) < 1e-300 else value
    if value != 0.0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:,.6f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def thinned(x: np.ndarray, y: np.ndarray, most: int) -> np.ndarray:
    """Return the indices of at most `most` points, evenly spaced along the curve, ends included.

    Parameters
    ----------
    x, y : ndarray of shape (n,)
        Positions, as fractions of the axes.
    """
    if x.size <= most:
        return np.arange(x.size)
    steps = np.abs(np.diff(x)) + np.abs(np.diff(y))
    along = np.concatenate([[0.0], np.cumsum(steps)])
    wanted = np.linspace(0.0, along[-1], most - 1)
    return np.unique(np.append(np.searchsorted(along, wanted), x.size - 1))
