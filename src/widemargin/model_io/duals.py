"""Weights and dual variables of models with a problem per class or target, in model files."""

import math
from typing import Any

import numpy as np
import scipy.sparse
from safetensors import safe_open

from widemargin.arrays import dense, on_host
from widemargin.certificate import Certificate
from widemargin.tensors import FLOAT, Malformed, read_field, read_tensor

#: a dual value may exceed its primal value by this relative rounding error
ROUNDING = 1e-6
_INDEX = ("I32", "I64")


def tensors_of(model: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a fitted model that its file holds."""
    dual = model.dual_variables_
    if not scipy.sparse.issparse(dual):  # dense after training on GPU arrays
        dual = scipy.sparse.csr_array(on_host(dual))
    return {
        "coef": np.atleast_2d(on_host(dense(model.coef_))),
        "intercept": on_host(model.intercept_),
        "dual_values": dual.data,
        "dual_indices": dual.indices,
        "dual_pointers": dual.indptr,
    }


def read_into(model: Any, file: safe_open, description: dict, n_problems: int | None) -> None:
    """Set the attributes of a model from these arrays; None for as many problems as there are."""
    model.coef_ = read_tensor(file, "coef", FLOAT, (n_problems, None))
    n_problems = len(model.coef_)
    model.intercept_ = read_tensor(file, "intercept", FLOAT, (n_problems,))
    model.dual_variables_ = read_dual(file, n_problems, read_field(description, "n_rows", int))


def check_parts(certificate: Certificate, count: int, each: str) -> None:
    """Raise Malformed unless a certificate has no parts, or one for each of so many problems."""
    if len(certificate.parts) not in (0, count):
        raise Malformed(f"the header's certificate does not have one part per {each}")
    if certificate.parts:
        total = Certificate.total(certificate.parts)
        for name in ("primal", "dual"):
            stated, summed = getattr(certificate, name), getattr(total, name)
            if abs(stated - summed) > ROUNDING * total.primal:
                raise Malformed(f"the header's {name!r} is not the sum of the certificate's parts")


def read_dual(file: safe_open, n_problems: int, n_rows: int) -> scipy.sparse.csr_array:
    """Return the dual variables; invalid indices of a sparse array could crash the process."""
    values = read_tensor(file, "dual_values", FLOAT, (None,))
    indices = read_tensor(file, "dual_indices", _INDEX, values.shape)
    pointers = read_tensor(file, "dual_pointers", _INDEX, (n_problems + 1,))
    try:
        dual = scipy.sparse.csr_array((values, indices, pointers), shape=(n_problems, n_rows))
        dual.check_format(full_check=True)
    except (ValueError, OverflowError) as error:
        raise Malformed(f"the dual variables contradict themselves: {error}") from error
    if not dual.has_canonical_format:
        raise Malformed("the dual variables contradict themselves: rows out of order")
    return dual


def read_certificate(fields: dict) -> Certificate:
    """Return the certificate of a header."""
    parts = read_field(fields, "parts", list)
    if not all(isinstance(part, dict) for part in parts):
        raise Malformed("the header's 'parts' is missing or malformed")
    certificates = tuple(Certificate(*_bounds(part), (), _rounding(part)) for part in parts)
    floor = _not_negative(fields, "floor")
    return Certificate(*_bounds(fields, floor), certificates, _rounding(fields), floor)


def _rounding(fields: dict) -> float:
    """Return the rounding error included in a gap; 0 for models of older versions."""
    return _not_negative(fields, "rounding")


def _not_negative(fields: dict, name: str) -> float:
    """Return a number that is 0 if the header does not have it."""
    value = float(read_field({name: 0.0} | fields, name, (int, float)))
    if not 0.0 <= value < math.inf:
        raise Malformed(f"the header's {name!r} is {value}")
    return value


def _bounds(fields: dict, floor: float = 0.0) -> tuple[float, float]:
    """Return a primal and a dual value; raises Malformed if they are impossible."""
    try:
        primal = float(read_field(fields, "primal", (int, float)))
        dual = float(read_field(fields, "dual", (int, float)))
    except OverflowError as error:
        raise Malformed(f"the header's certificate is not finite: {error}") from error
    if floor > 0.0:  # of a one-class problem: the optimum is not positive
        possible = dual <= min(primal, 0.0)
    else:
        possible = primal >= 0.0 and dual <= primal + ROUNDING * (primal + ROUNDING)
    if not possible or not (math.isfinite(primal) and math.isfinite(dual)):
        raise Malformed(f"the header's certificate is invalid: {primal=:g}, {dual=:g}")
    return primal, dual
