"""Losses of one row: convex, piecewise linear or quadratic, each given by four numbers.

The loss of a row is a function of its residual r: 1 - y s for a label y = +-1 and a score s, or
t - s for a target t. It is given by its dual,

    loss(r) = c max over a of  a r - eps |a| - bend a^2 / 2      for  low <= a <= high

so that a row of cost c has a dual variable alpha = c a with the term and the bounds

    t alpha - eps |alpha| - shift alpha^2 / 2,    lower <= alpha <= upper,    t = 1 for labels
    shift = bend / c,   lower = c low,   upper = c high

The best a is the slope of the loss: r, shrunk towards zero by eps, divided by bend, and clipped to
its bounds. If bend is zero, it is the bound itself. The kernels know only these numbers: a new
loss is a row of one of the tables below.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Loss:
    """A loss by its numbers."""

    name: str
    eps: float = 0.0  # residuals up to this size have no loss
    low: float = 0.0  # bounds of the slope: low <= 0 <= high
    high: float = 1.0  # beyond a finite bound the loss is linear
    bend: float = 0.0  # how slowly the slope rises between its bounds; 0 for a kink

    def __post_init__(self) -> None:
        if self.bend == 0.0 and not (self.low > -inf and self.high < inf):
            raise ValueError(f"the loss {self.name!r} is infinite: it needs a bend, or bounds")

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """The numbers as kernels take them."""
        return self.eps, self.low, self.high, self.bend

    @property
    def step_numbers(self) -> tuple[float, ...]:
        """What steps of coordinate descent take: low, high, bend, and eps where it is not 0."""
        numbers = self.low, self.high, self.bend
        return numbers if self.eps == 0.0 else (*numbers, self.eps)

    @property
    def is_smooth(self) -> bool:
        """Whether its slope is continuous."""
        return self.bend > 0.0

    @property
    def is_parabola(self) -> bool:
        """Whether it is zero up to some residual, and a parabola from there on."""
        return self.eps == 0.0 and self.low == 0.0 and self.high == inf

    @property
    def is_one_sided(self) -> bool:
        """Whether only positive residuals have a loss."""
        return self.low == 0.0


# With z = 1 - margin: max(0, z); its square; and z^2 / 2 up to z = 1, z - 1/2 from there on.
HINGE = Loss("hinge")
SQUARED_HINGE = Loss("squared_hinge", high=inf, bend=0.5)
SMOOTH_HINGE = Loss("smooth_hinge", bend=1.0)

#: losses of classes, by their names in estimators
LOSSES = {loss.name: loss for loss in (HINGE, SQUARED_HINGE, SMOOTH_HINGE)}


@dataclass(frozen=True)
class Shape:
    """The parameters of losses of targets."""

    epsilon: float = 0.0
    delta: float = 1.0
    quantile: float = 0.5


#: losses of targets, by their names in estimators
TARGET_LOSSES: dict[str, Callable[[Shape], Loss]] = {
    "epsilon_insensitive": lambda at: Loss("epsilon_insensitive", eps=at.epsilon, low=-1.0),
    "squared_epsilon_insensitive": lambda at: Loss(
        "squared_epsilon_insensitive", eps=at.epsilon, low=-inf, high=inf, bend=0.5
    ),
    "huber": lambda at: Loss("huber", low=-1.0, bend=at.delta),
    "absolute_error": lambda at: Loss("absolute_error", low=-1.0),
    "pinball": lambda at: Loss("pinball", low=at.quantile - 1.0, high=at.quantile),
}
