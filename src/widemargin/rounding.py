"""How far rounding may have led numbers astray, at most.

A sum of m products in float64, added up in whatever order, differs from the true one by no more
than gamma(m) times the sum of the products' sizes (Higham 2002, section 3.1).
"""

import numpy as np

_UNIT = 2.0**-53


def gamma(m) -> float:
    """Return the error of a sum of m products, as a fraction of the sum of their sizes."""
    return 1.01 * float(m) * _UNIT


#: that of NumPy's sums, which go by halves, of terms that were rounded a few times
SUM = gamma(128)


def squares(values) -> float:
    """Return the sum of squares, off by no more than SUM, as a share."""
    return float(np.square(values).ravel(order="K").sum())
