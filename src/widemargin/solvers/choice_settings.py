"""The tuned numbers of the choice of a solver: see settings.py."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RelaySettings:
    """When Newton's method takes its turn in a run of coordinate descent: see relay.py.

    Attributes
    ----------
    first_look, growth : float
        After so many passes, the passes left are predicted for the first time; then each time that
        they have grown by this factor. Where coordinate descent is the right choice, it is mostly
        done by then.
    most_left : float
        At most so many times as many passes are predicted as were made.
    part_of_passes_left : float
        An attempt of Newton's method may take this part of the passes left.
    fewest_iterations : float
        With fewer iterations next to nothing would be reached.
    features_per_pass : float
        An iteration of Newton's method takes as long as one pass, and as one more for each of so
        many features, if there is a Hessian.
    smoothing : float
        Newton's method begins with a smoothing gap of this part of the gap.
    """

    first_look: float = 40.0
    growth: float = 1.8
    most_left: float = 10.0
    part_of_passes_left: float = 0.5
    fewest_iterations: float = 15.0
    features_per_pass: float = 40.0
    smoothing: float = 0.3


@dataclass(frozen=True)
class ChoiceSettings:
    """Where each solver pays: see auto.py, also for what the stretch is.

    Measured by ``python -m benchmarks.choice measure``.

    Attributes
    ----------
    few_features, some_features : int
        Up to this many features, computing and factorising the Hessian takes nearly no time. Up
        to the second number it takes seconds for many rows.
    newton_pays, newton_pays_if_unbounded : float
        Newton's method is worth these seconds above this stretch; and above the second one if
        dual variables are unbounded.
    rows_per_feature, few_rows_pay, few_rows_pay_if_warm : float
        With fewer rows per feature, a hinge needs many Newton steps, and a pass over so few rows
        costs next to nothing. Coordinate descent is faster up to this stretch; up to the second
        one if a nearby solution is known.
    more_rows_per_feature, passes_pay : float
        With fewer rows per feature than this, it is faster up to the stretch `passes_pay`, or
        `few_rows_pay_if_warm` if a nearby solution is known.
    joint_rows_per_feature, tol_power : float
        The stretch `few_rows_pay` shrinks as this power of tol below 1e-3, except with fewer rows
        per feature than this: there joint steps reach any tolerance.
    logistic_passes_pay : float
        Coordinate descent is faster for a logistic loss up to this stretch, which shrinks with tol
        in the same way; measured by ``python -m benchmarks.logistic choice``.
    nearly_a_parabola : float
        Below this stretch a squared hinge is nearly a parabola: a few Newton steps are enough.
    """

    few_features: int = 300
    some_features: int = 1000
    newton_pays: float = 300.0
    newton_pays_if_unbounded: float = 30.0
    rows_per_feature: float = 40
    few_rows_pay: float = 50.0
    few_rows_pay_if_warm: float = 1000.0
    more_rows_per_feature: float = 1000
    passes_pay: float = 1.2
    joint_rows_per_feature: float = 3.0
    tol_power: float = 1.0 / 3.0
    logistic_passes_pay: float = 20.0
    nearly_a_parabola: float = 0.005
