"""Coefficients without the smallest, in single precision, and the certificate of what is left."""

import numpy as np

from widemargin.certificate import Certificate, certificate_of, upper_bound
from widemargin.problem import Problem, State
from widemargin.risk import Bound

# Without coefficients of total square q, the objective rises by q / 2 and by what losses add. On
# text it was 0.7 q to 1.1 q.
_SQUARES = 0.7
# How much less is left out after a certificate that is too large, and how often that is tried.
_LESS, _TRIES = 0.25, 4


def compacted(
    problem: Problem, state: State, certificate: Certificate, tol: float
) -> tuple[np.ndarray, Certificate]:
    """Return coefficients (d,), with as many zeros as the relative gap `tol` allows.

    They are of single precision, if its rounding is not too much. Also return their certificate.
    """
    dual = Bound(certificate.dual, 0.5 * certificate.rounding)
    slack = tol * certificate.primal - certificate.gap
    for attempt in range(_TRIES + 2) if slack > 0.0 else [_TRIES]:
        most = slack * _SQUARES * _LESS**attempt if attempt < _TRIES else 0.0
        coef = without_smallest(state.coef, most)
        if attempt <= _TRIES:
            coef = coef.astype(np.float32)
        primal = upper_bound(problem, coef.astype(np.float64), state.offset, tol=tol)
        found = certificate_of(primal, dual)
        if found.relative_gap <= tol:
            break
    return coef, found


def without_smallest(coef: np.ndarray, most: float) -> np.ndarray:
    """Return coefficients (d,) without the smallest, whose squares sum to at most `most`."""
    squares = np.square(coef)
    order = np.argsort(squares)
    n_zero = int(np.searchsorted(np.cumsum(squares[order]), most, side="right"))
    kept = coef.copy()
    kept[order[:n_zero]] = 0.0
    return kept
