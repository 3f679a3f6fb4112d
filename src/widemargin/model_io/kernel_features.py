"""Features that approximate kernels, in model files.

The object "preparation" of the header has the parameters of the transformer and, under "gamma",
the number that "scale" or "auto" stood for. Tensors:

============================= ======== ====================================================
preparation.random_weights    (d, m)   of FourierFeatures, F32
preparation.random_offset     (m,)     of FourierFeatures, F32
preparation.components        (m, d)   landmarks of NystroemFeatures, F64
preparation.component_indices (m,)     the rows they were, I64
preparation.normalization     (m, m)   F64
============================= ======== ====================================================
"""

import math
from typing import Any

import numpy as np

from widemargin.estimators.kernel_features import (
    FourierFeatures,
    KernelFeatures,
    NystroemFeatures,
)
from widemargin.tensors import FLOAT, Malformed, read_field, read_tensor

#: transformers by the name of their kind in the header
KINDS: dict[str, type[KernelFeatures]] = {"fourier": FourierFeatures, "nystroem": NystroemFeatures}
_PREFIX = "preparation."


def describe(features: KernelFeatures, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return fitted features as values of JSON; add their arrays to `tensors`."""
    for name in _arrays(type(features)):
        tensors[_PREFIX + name] = getattr(features, name + "_")
    parameters = features.get_params()
    if not isinstance(parameters["random_state"], int | np.integer):
        parameters["random_state"] = None
    names = vars(features).get("feature_names_in_")
    return {
        "kind": next(kind for kind, known in KINDS.items() if type(features) is known),
        "parameters": {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in parameters.items()
        },
        "gamma": float(features.gamma_),
        "names": None if names is None else names.tolist(),
    }


def read(file: Any, fields: dict[str, Any], n_features: int) -> KernelFeatures:
    """Return the features of an open file; raises Malformed if they contradict themselves."""
    kind = KINDS[read_field(fields, "kind", str)]
    try:
        features = kind(**read_field(fields, "parameters", dict))
        features.check_parameters()
    except (TypeError, ValueError) as error:
        raise Malformed(f"the parameters of its kernel's features are wrong: {error}") from error
    features.gamma_ = float(read_field(fields, "gamma", (int, float)))
    if not 0.0 < features.gamma_ < math.inf:
        raise Malformed("the gamma of its kernel is not a positive number")
    m, tensor = n_features, lambda name, *rest: read_tensor(file, _PREFIX + name, *rest)
    if isinstance(features, FourierFeatures):
        features.random_weights_ = tensor("random_weights", ("F32",), (None, m))
        features.random_offset_ = tensor("random_offset", ("F32",), (m,))
        features.n_features_in_ = len(features.random_weights_)
    elif isinstance(features, NystroemFeatures):
        features.components_ = tensor("components", FLOAT, (m, None))
        features.component_indices_ = tensor("component_indices", ("I64",), (m,))
        features.normalization_ = tensor("normalization", FLOAT, (m, m))
        features.n_features_in_ = features.components_.shape[1]
    if fields.get("names") is not None:
        names = read_field(fields, "names", list)
        if len(names) != features.n_features_in_ or not all(isinstance(n, str) for n in names):
            raise Malformed("its kernel's features do not name all of their inputs")
        features.feature_names_in_ = np.array(names, dtype=object)
    return features


def _arrays(kind: type[KernelFeatures]) -> tuple[str, ...]:
    if kind is FourierFeatures:
        return ("random_weights", "random_offset")
    return ("components", "component_indices", "normalization")
