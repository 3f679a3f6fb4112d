"""The tuned numbers of coordinate descent over features: see settings.py."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FeatureSettings:
    """The numbers of feature_descent.py and feature_models.py.

    Attributes
    ----------
    most_in_gram : int
        With at most so many features, and more rows, models are minimised by their Gram matrices.
    smallest_set, growth : int, float
        The working set may have so many features, and this many for each weight that is not zero.
    near : float
        Features of |v_j| above this fraction of their bound may join it.
    of_gap : float
        A working set is left when its own gap is below this fraction of the gap.
    enough, enough_between : float
        A model is low enough when a sweep gains no more than the first fraction of what was
        gained before; sweeps over weights that are not zero end at the second fraction of the
        sweep over all before them.
    most_sweeps, sweeps_between : int
        At most so many sweeps over all weights are made for one model, and so many between them
        over those that are not zero.
    largest_support : int
        With more weights that are not zero, their Newton steps are left out.
    decrease : float
        A step has to bring this part of what its slope promises.
    """

    most_in_gram: int = 500
    smallest_set: int = 500
    growth: float = 2.0
    near: float = 0.95
    of_gap: float = 0.3
    enough: float = 0.1
    enough_between: float = 0.05
    most_sweeps: int = 50
    sweeps_between: int = 10
    largest_support: int = 1000
    decrease: float = 1e-3


DEFAULTS = FeatureSettings()
