"""Models fitted to a matrix of labels, in model files.

Their header has one more key, "labels": whether the matrix was sparse. Sparse coefficients are a
CSC array of shape (k, d) in place of the tensor coef:

============== ======== ==========================================================
coef_values    (m,)     F32
coef_indices   (m,)     labels, I32 or I64, increasing for each feature
coef_pointers  (d + 1,) I32 or I64
============== ======== ==========================================================
"""

from typing import Any

import numpy as np
import scipy.sparse
from safetensors import safe_open

from widemargin.model_io.duals import check_parts, read_dual, read_into, tensors_of
from widemargin.tensors import FLOAT, Malformed, read_field, read_tensor

_INDEX = ("I32", "I64")


def tensors_of_labels(model: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a multi-label classifier that its file holds."""
    if not (scipy.sparse.issparse(model.coef_) and model.coef_.format == "csc"):
        return tensors_of(model)
    dual = model.dual_variables_
    return {
        "coef_values": model.coef_.data,
        "coef_indices": model.coef_.indices,
        "coef_pointers": model.coef_.indptr,
        "intercept": model.intercept_,
        "dual_values": dual.data,
        "dual_indices": dual.indices,
        "dual_pointers": dual.indptr,
    }


def read_labels(model: Any, file: safe_open, description: dict) -> None:
    """Set the attributes of a multi-label classifier from its file; `classes_` are known."""
    model.multilabel_ = True
    labels = read_field(description, "labels", dict)
    model.sparse_output_ = read_field(labels, "sparse", bool)
    n_labels = len(model.classes_)
    if "coef_values" in file.keys():  # noqa: SIM118 (an open safetensors file is no mapping)
        model.coef_ = _read_coef(file, n_labels)
        model.intercept_ = read_tensor(file, "intercept", FLOAT, (n_labels,))
        n_rows = read_field(description, "n_rows", int)
        model.dual_variables_ = read_dual(file, n_labels, n_rows)
    else:
        read_into(model, file, description, n_labels)
    check_parts(model.certificate_, n_labels if n_labels > 1 else 0, "label")


def _read_coef(file: safe_open, n_labels: int) -> scipy.sparse.csc_array:
    """Return sparse coefficients; invalid indices could crash the process."""
    values = read_tensor(file, "coef_values", ("F32",), (None,))
    indices = read_tensor(file, "coef_indices", _INDEX, values.shape)
    pointers = read_tensor(file, "coef_pointers", _INDEX, (None,))
    if pointers.size < 2:
        raise Malformed("the tensor 'coef_pointers' has no features")
    try:
        shape = n_labels, pointers.size - 1
        coef = scipy.sparse.csc_array((values, indices, pointers), shape=shape)
        coef.check_format(full_check=True)
    except (ValueError, OverflowError) as error:
        raise Malformed(f"the coefficients contradict themselves: {error}") from error
    if not coef.has_canonical_format:
        raise Malformed("the coefficients contradict themselves: labels out of order")
    return coef
