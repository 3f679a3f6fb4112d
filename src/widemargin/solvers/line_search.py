"""Line searches from the best point to the solution of the reduced problem.

    f(step) = 1/2 a step^2 + b step + c + r(S + step D)

The first three terms are the penalty, and the last one is the risk's `Line`. f is convex.

exact        The minimum over step >= 0. Franc & Sonnenburg 2008, section 3.1, and Arnosti 2010,
             section II, sort all breakpoints of f, n or n (k - 1) of them. Here the minimum is
             bracketed. Rows on the same piece at both ends are on it in between, and are summed
             up once. The remaining rows are evaluated at several steps, one of which is where
             the tangents at both ends cross. Few rows remain after a round. So the search costs
             about as much as f at four steps, needs no sort, and is exact. On a GPU, where waiting
             for a round costs more than its rows, a round evaluates all rows at many steps;
             two-class losses have a kernel of their own there, see gpu_oracle.py.
bracketed    The same for a risk that is not a sum over rows, to a tolerance: the tangents at both
             ends of the bracket give a lower bound.
grid         Arnosti's GCA, Algorithm 1: three grids, each finer by beta around the last's best.
TruncatedGrid
             GCA2, Algorithm 2: walks a grid downhill. How coarse the first grid is depends on how
             much steps have changed lately.
ThreePoint   TCA, Algorithm 3: a window of three points, moved or narrowed.

The last two begin at the last step, and may end at a negative one: that keeps them from finding a
step of zero again and again, as the exact search does where f is lowest at 0 (section V).
"""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from widemargin.risk import Line, LineSums, RowLine
from widemargin.solvers.settings import StepSettings

# Below this possible gain, as a fraction of f, rounding decides.
_ROUNDING = 1e-14


class Penalty(NamedTuple):
    """1/2 a step^2 + b step + c."""

    a: float
    b: float
    c: float

    def at(self, step: Any) -> Any:
        """Return its value."""
        return (0.5 * self.a * step + self.b) * step + self.c

    def length(self, step: float) -> float:
        """Return |w| at a step, where the penalty is 1/2 |w|^2."""
        return math.sqrt(max(0.0, 2.0 * self.at(step)))


class Point(NamedTuple):
    """f at a step, and the piece there: value + slope t + 1/2 curvature t^2 nearby."""

    step: float
    value: float
    slope: float
    curvature: float

    def piece(self, step: float) -> float:
        """Return the piece's value at another step."""
        t = step - self.step
        return self.value + (self.slope + 0.5 * self.curvature * t) * t

    @property
    def bottom(self) -> float:
        """The step at which the piece is lowest; far away, if the piece is linear."""
        if self.curvature == 0.0:
            return self.step if self.slope == 0.0 else -math.copysign(math.inf, self.slope)
        return self.step - self.slope / self.curvature

    @property
    def is_flat(self) -> bool:
        """Whether the same way again would gain no more than rounding."""
        return not abs(self.slope) * self.step > _ROUNDING * abs(self.value)

    def less(self, other: "Point") -> "Point":
        """Return the difference of two pieces, at the same step."""
        return Point(
            self.step,
            self.value - other.value,
            self.slope - other.slope,
            self.curvature - other.curvature,
        )

    def plus(self, other: "Point") -> "Point":
        """Return the sum of two pieces, at the other's step."""
        return Point(
            other.step,
            self.piece(other.step) + other.value,
            self.slope + self.curvature * (other.step - self.step) + other.slope,
            self.curvature + other.curvature,
        )


# --- the exact search -------------------------------------------------------------------

# After this many rounds only rounding is left.
_ROUNDS = 60
# The first steps evaluated, as multiples of the expected one.
_FIRST_STEPS = np.array([0.0, 0.5, 2.0])
# At most this many steps are evaluated in a round, besides a trial and the two ends.
_STEPS = 29


def exact(penalty: Penalty, line: RowLine, guess: float) -> tuple[float, float]:
    """Return the step >= 0 that minimises f, and f there; `guess` is the expected step."""
    rest = Point(0.0, penalty.c, penalty.b, penalty.a)  # the sum over rows with known pieces
    steps = guess * _FIRST_STEPS
    sums = line.evaluate(steps)
    points = _Points(rest, steps, sums)
    if points.slopes[0] >= 0.0:
        return 0.0, points[0].value
    while points.slopes[-1] < 0.0:  # this ends, since f is bounded below
        if points[-1].is_flat:
            return points[-1].step, points[-1].value
        steps = np.array([1.0, 4.0]) * steps[-1]
        sums = line.evaluate(steps)
        points = _Points(rest, steps, sums)
    most = line.passes.ROWS_PER_ROUND * line.size
    for _ in range(_ROUNDS):
        rising = np.flatnonzero(points.slopes >= 0.0)
        high = max(1, int(rising[0]) if rising.size else steps.size - 1)  # both but for rounding
        left, right = points[high - 1], points[high]
        remaining = line.between(sums, high - 1)
        if remaining is None:
            step = min(left.bottom, right.step)
            return step, left.piece(step)
        trial, promised = _promising(left, right, max(rest.curvature, penalty.a))
        best = points[int(points.values.argmin())]
        if best.value - promised <= _ROUNDING * abs(best.value):
            return best.step, best.value
        line = remaining
        count = int(np.clip(most / line.size, 1, _STEPS))
        steps = np.linspace(left.step, right.step, count + 2)
        steps = np.unique(np.clip(np.append(steps, trial), left.step, right.step))
        sums = line.evaluate(steps)
        rest = left.less(_point(sums, 0, left.step))
        points = _Points(rest, steps, sums)
    return best.step, best.value


def best_of(penalty: Penalty, steps: np.ndarray, sums: LineSums) -> float:
    """Return nearly the best step, by sums of the risk's line at several steps, from 0 upwards.

    f has many small kinks, so its slope between two of the steps is nearly linear. Beyond the last
    step nothing is known.
    """
    points = _Points(Point(0.0, penalty.c, penalty.b, penalty.a), steps, sums)
    if points.slopes[0] >= 0.0:
        return 0.0
    rising = np.flatnonzero(points.slopes >= 0.0)
    if rising.size == 0:
        return float(steps[-1])
    left, right = points[int(rising[0]) - 1], points[int(rising[0])]
    return left.step - left.slope * (right.step - left.step) / (right.slope - left.slope)


class _Points:
    """f at several steps: the sum of `rest`, a piece, and of the sums over other rows."""

    def __init__(self, rest: Point, steps: np.ndarray, sums: LineSums):
        t = steps - rest.step
        self.steps = steps
        self.values = rest.value + (rest.slope + 0.5 * rest.curvature * t) * t + sums.values
        self.slopes = rest.slope + rest.curvature * t + sums.slopes
        self.curvatures = rest.curvature + sums.curvatures

    def __getitem__(self, j: int) -> Point:
        arrays = (self.steps, self.values, self.slopes, self.curvatures)
        return Point(*(float(array[j]) for array in arrays))


def bracketed(penalty: Penalty, line: Line, guess: float, tolerance: float) -> tuple[float, float]:
    """Return a step >= 0 with f within `tolerance` of its minimum, and f there.

    f has many small kinks, so it is nearly smooth, and the secant method finds the zero of its
    slope. If secants narrow the bracket slowly, the next trials are the crossing of the tangents,
    which is the minimum if that is a kink between two pieces, and the middle.
    """
    rest = Point(0.0, penalty.c, penalty.b, penalty.a)

    def evaluate(*steps: float) -> list[Point]:
        sums = line.evaluate(steps)
        return [rest.plus(_point(sums, j, step)) for j, step in enumerate(steps)]

    left, right = evaluate(0.0, guess)
    if left.slope >= 0.0:
        return 0.0, left.value
    while right.slope < 0.0:  # this ends, since f is bounded below
        if right.is_flat:
            return right.step, right.value
        left, (right,) = right, evaluate(4.0 * right.step)
    slow = 0
    for _ in range(_ROUNDS):
        best = min(left, right, key=lambda point: point.value)
        crossing, promised = _promising(left, right, penalty.a)
        if best.value - promised <= max(tolerance, _ROUNDING * abs(best.value)):
            break
        width = right.step - left.step
        secant = left.step - left.slope * width / (right.slope - left.slope)
        trial = (secant, crossing, left.step + 0.5 * width)[slow]
        (point,) = evaluate(trial)
        if point.slope < 0.0:
            left = point
        else:
            right = point
        slow = (slow + 1) % 3 if right.step - left.step > 0.5 * width else 0
    return best.step, best.value


def _point(sums: LineSums, j: int, step: float) -> Point:
    return Point(step, float(sums.values[j]), float(sums.slopes[j]), float(sums.curvatures[j]))


def _promising(left: Point, right: Point, curvature: float) -> tuple[float, float]:
    """Return a step in the bracket where the minimum is likely, and a lower bound on f there.

    f has at least this curvature everywhere in the bracket, so it is above both parabolas that
    have it and touch f at the ends. If f has no more at the ends (hinge losses), the step is the
    minimum of their maximum. Else Newton's step from the flatter end is better.
    """
    below = [end._replace(curvature=curvature) for end in (left, right)]
    # The parabolas differ by a linear function and cross once.
    tilt = right.slope - curvature * (right.step - left.step) - left.slope
    crossing = right.step
    if tilt > 0.0:
        crossing = left.step + (left.value - below[1].piece(left.step)) / tilt
    step = min(max(crossing, below[1].bottom, left.step), below[0].bottom, right.step)
    promised = max(end.piece(step) for end in below)
    if left.curvature == right.curvature == curvature:
        return step, promised
    flatter = left if -left.slope < right.slope else right
    return flatter.bottom, promised


# --- Arnosti's searches -----------------------------------------------------------------

# The finest spacings and windows, as a fraction of the step: for large steps, smaller ones would
# be lost in rounding.
_FINE = 1e-6


def grid(
    penalty: Penalty, line: Line, settings: StepSettings = StepSettings()
) -> tuple[float, float]:
    """Return the best step of three grids, from 0 to 2 and twice around the best, and f there."""
    best, lowest = 1.0, np.inf
    begin, end, spacing = 0.0, 2.0, settings.spacing
    for _ in range(3):
        steps = [begin]
        while steps[-1] + spacing < end:
            steps.append(steps[-1] + spacing)
        values = penalty.at(np.array(steps)) + line.evaluate(steps).values
        if values.min() < lowest:
            best, lowest = float(steps[values.argmin()]), float(values.min())
        begin, end = best - 0.5 * spacing, best + 0.5 * spacing
        spacing *= settings.spacing
    return best, lowest


class Follower(ABC):
    """A search that begins at the last step, as wide as steps have changed lately."""

    def __init__(self, settings: StepSettings = StepSettings()):
        self.settings = settings
        self.last, self.uncertainty = settings.first, settings.most_uncertain

    def __call__(self, penalty: Penalty, line: Line) -> tuple[float, float]:
        f, settings = _Remembered(penalty, line), self.settings
        step = self.find(f)
        if abs(step - self.last) <= 0.5 * self.uncertainty:
            self.uncertainty = max(self.uncertainty / settings.change, settings.least_uncertain)
        else:
            self.uncertainty = min(self.uncertainty * settings.change, settings.most_uncertain)
        self.last = step
        return step, f(step)

    @abstractmethod
    def find(self, f: "_Remembered") -> float:
        """Return a step where f is low."""


class TruncatedGrid(Follower):
    """GCA2's search."""

    def find(self, f: "_Remembered") -> float:
        beta, step = self.settings.spacing, self.last
        if self.uncertainty >= self.settings.coarse_grid:
            step = self._downhill(f, step - 1.0, beta)
        if self.uncertainty >= self.settings.middle_grid:
            step = self._downhill(f, step - 0.5 * beta, beta**2)
        return self._downhill(f, step - 0.5 * beta**2, beta**3)

    def _downhill(self, f: "_Remembered", step: float, spacing: float) -> float:
        """Walk to the right while that leads downhill.

        The paper has the same stride for any distance. And if the minimum is to the left, it stays
        at the start, and comes nearer by one start after the other: if it is far, this walk turns
        round instead.
        """
        most = self.settings.same_strides
        stride, n_strides = spacing, 0
        if not f(step + stride) < f(step) and f(step - most * stride) < f(step):
            stride = -most * stride
        while True:
            if f(step + stride) < f(step):
                step, n_strides = step + stride, n_strides + 1
                if n_strides > most or stride < 0.0:
                    stride *= 2.0
            elif abs(stride) > max(spacing, _FINE * abs(step)):
                stride = math.copysign(max(spacing, 0.25 * abs(stride)), -stride)
            else:
                return step


class ThreePoint(Follower):
    """TCA's search."""

    def find(self, f: "_Remembered") -> float:
        settings, last = self.settings, self.last
        width = max(self.uncertainty, _FINE * abs(last))
        low, middle, high = last - width, last, last + width
        n_moves = 0
        while f(middle) > 0.0:  # the objective is never negative
            narrow = high - low <= max(settings.window, _FINE * abs(middle))
            far = n_moves >= settings.same_strides
            if narrow and not far:
                break
            stride = 2.0 if far else 1.0
            if f(low) < f(middle):
                low, middle, high = low - stride * (middle - low), low, middle
                n_moves += 1
            elif f(high) < f(middle):
                low, middle, high = middle, high, high + stride * (high - middle)
                n_moves += 1
            elif narrow or not math.isfinite(f(middle)):
                break
            else:
                left, right = (f(middle) / f(low)) ** 2, (f(middle) / f(high)) ** 2
                low = (middle + left * low) / (1.0 + left)
                high = (middle + right * high) / (1.0 + right)
        return middle


class _Remembered:
    """f at single steps, each of them evaluated once."""

    def __init__(self, penalty: Penalty, line: Line):
        self.penalty, self.line = penalty, line
        self.known: dict[float, float] = {}

    def __call__(self, step: float) -> float:
        if step not in self.known:
            value = self.penalty.at(step) + self.line.evaluate([step]).values[0]
            self.known[step] = float(value)
        return self.known[step]
