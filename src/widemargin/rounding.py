"""Bounds on rounding errors.

A sum of m products in float64, added up in whatever order, differs from the true one by no more
than gamma(m) times the sum of the products' sizes (Higham 2002, section 3.1).
"""

import numpy as np

_UNIT = 2.0**-53


def gamma(m: float) -> float:
    """Return the error of a sum of m products, as a fraction of the sum of their sizes."""
    return 1.01 * float(m) * _UNIT


#: the error of NumPy's pairwise sums, of terms that were rounded a few times
SUM = gamma(128)


def squares(values: np.ndarray | float) -> float:
    """Return the sum of squares; its relative error is at most SUM."""
    return float(np.square(values).ravel(order="K").sum())
