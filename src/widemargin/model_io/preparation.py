"""What a saved model does to rows before it scores them: features of a table, or scales.

A model file holds them beside a model if that was the last step of a scikit-learn pipeline. The
header's key "preparation" is then an object. Its key "kind" is "table", with what `TableFeatures`
learned, "scale", for a ``StandardScaler(with_mean=False)``, or that of the features of a kernel
(see kernel_features.py). Tensors:

======================== ======== =====================================================
preparation.scale        (d,)     divisors of the features, F64; of the kind "scale"
preparation.weights.<j>  (t,)     weights of the t terms of column j, F64; of text columns
======================== ======== =====================================================
"""

import math
from typing import Any, TypeAlias

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from widemargin.data.category_columns import Category
from widemargin.data.columns import Encoder, Flag, Number
from widemargin.data.date_columns import Date
from widemargin.data.text_columns import HashedText, TfidfText
from widemargin.estimators.kernel_features import KernelFeatures
from widemargin.estimators.table_features import TableFeatures
from widemargin.model_io import kernel_features
from widemargin.tensors import FLOAT, Malformed, read_field, read_tensor

KEY = "preparation"
_SCALE = f"{KEY}.scale"
_MOST_HASHES = 2**31 - 1

Preparation: TypeAlias = TableFeatures | StandardScaler | KernelFeatures


def split(model: Any) -> tuple[Preparation | None, Any]:
    """Return what a pipeline does to rows before its model, and the model; or None, and `model`.

    Raises TypeError for pipelines that a model file cannot hold.
    """
    if not isinstance(model, Pipeline):
        return None, model
    steps = [step for _, step in model.steps if step not in (None, "passthrough")]
    if len(steps) == 2 and type(steps[0]) in (TableFeatures, *kernel_features.KINDS.values()):
        return steps[0], steps[1]
    if len(steps) == 2 and type(steps[0]) is StandardScaler and not steps[0].with_mean:
        return steps[0], steps[1]
    raise TypeError(
        "cannot save this pipeline: only a TableFeatures, FourierFeatures, NystroemFeatures, or a "
        "StandardScaler with with_mean=False, and then a model"
    )


def add(
    preparation: Preparation | None, tensors: dict[str, np.ndarray], description: dict[str, Any]
) -> None:
    """Add a preparation to the tensors and to the description of a model."""
    if preparation is None:
        return
    check_is_fitted(preparation)
    if isinstance(preparation, StandardScaler):
        tensors[_SCALE] = np.asarray(preparation.scale_, dtype=np.float64)
        n_rows = int(np.max(preparation.n_samples_seen_))
        description[KEY] = {"kind": "scale", "n_rows": n_rows}
        return
    if isinstance(preparation, KernelFeatures):
        description[KEY] = kernel_features.describe(preparation, tensors)
        return
    names = vars(preparation).get("feature_names_in_")
    description[KEY] = {
        "kind": "table",
        "parameters": _plain(preparation.get_params()),
        "n_columns": preparation.n_features_in_,
        "names": None if names is None else names.tolist(),
        "columns": [encoder.describe() for encoder in preparation.columns_],
        "skipped": preparation.skipped_,
    }
    for j, encoder in enumerate(preparation.columns_):
        if isinstance(encoder, TfidfText):
            tensors[_weights(j)] = encoder.weights


def joined(file: Any, description: dict[str, Any], model: Any) -> Any:
    """Return a model that was read with what the open file does to rows before; or just it.

    Raises Malformed if that contradicts itself or the model.
    """
    if KEY not in description:
        return model
    fields = read_field(description, KEY, dict)
    kind = read_field(fields, "kind", str)
    if kind == "scale":
        scaler = _read_scaler(file, fields, model.n_features_in_)
        return Pipeline([("scale", scaler), ("model", model)])
    if kind in kernel_features.KINDS:
        features = kernel_features.read(file, fields, model.n_features_in_)
        return Pipeline([("kernel", features), ("model", model)])
    if kind != "table":
        raise Malformed(f"the header's {KEY} is of an unknown kind {kind!r}")
    table = _read_table(file, fields)
    if table.n_features_out_ != model.n_features_in_:
        raise Malformed(f"its table does not make {model.n_features_in_} features")
    return Pipeline([("table", table), ("model", model)])


def _weights(column: int) -> str:
    return f"{KEY}.weights.{column}"


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as values of JSON."""
    plain: dict[str, Any] = {}
    for name, value in parameters.items():
        if name in ("drop", "categorical", "text"):
            plain[name] = [str(column) for column in value]
        elif name == "dtype":
            plain[name] = np.dtype(value).name
        else:
            plain[name] = value.item() if isinstance(value, np.generic) else value
    return plain


def _read_scaler(file: Any, fields: dict[str, Any], n_features: int) -> StandardScaler:
    scaler = StandardScaler(with_mean=False)
    scaler.scale_ = read_tensor(file, _SCALE, FLOAT, (n_features,))
    if np.any(scaler.scale_ <= 0.0):
        raise Malformed("the scales of its features are not above zero")
    scaler.mean_, scaler.var_ = None, np.square(scaler.scale_)
    scaler.n_features_in_ = n_features
    scaler.n_samples_seen_ = read_field(fields, "n_rows", int)
    return scaler


def _read_table(file: Any, fields: dict[str, Any]) -> TableFeatures:
    try:
        features = TableFeatures(**read_field(fields, "parameters", dict))
        features._check_parameters()
    except (TypeError, ValueError) as error:
        raise Malformed(f"the parameters of its table are wrong: {error}") from error
    for name in ("target", "weight", "group"):
        if not isinstance(features.get_params()[name], (str, type(None))):
            raise Malformed(f"the {name} of its table is not the name of a column")
    columns = read_field(fields, "columns", list)
    if not columns or not all(isinstance(column, dict) for column in columns):
        raise Malformed("the columns of its table are missing or malformed")
    features.restore(
        [_read_column(file, j, column) for j, column in enumerate(columns)],
        {name: str(why) for name, why in read_field(fields, "skipped", dict).items()},
    )
    features.n_features_in_ = read_field(fields, "n_columns", int)
    if fields.get("names") is not None:
        names = _texts(fields, "names")
        if len(names) != features.n_features_in_:
            raise Malformed("its table does not name all of its columns")
        features.feature_names_in_ = np.array(names, dtype=object)
    return features


def _read_column(file: Any, place: int, fields: dict[str, Any]) -> Encoder:
    kind = read_field(fields, "kind", str)
    name = read_field(fields, "name", str)
    if kind in ("number", "flag"):
        return _read_number(fields, Flag if kind == "flag" else Number)
    if kind == "date":
        parts = read_field(fields, "parts", dict)
        if not set(parts) <= {"month", "weekday", "hour"}:
            raise Malformed(f"the parts of column {name!r} are unknown")
        values = {part: _wholes(parts, part) for part in parts}
        return Date(name, _read_number(read_field(fields, "days", dict)), values)
    gaps = read_field(fields, "gaps", bool)
    if kind == "category":
        rare = read_field(fields, "rare", bool)
        return Category(name, _texts(fields, "levels"), rare, gaps)
    ngrams = _count(fields, "ngrams")
    if kind == "hashed text":
        return HashedText(name, ngrams, _count(fields, "n_hashes"), gaps)
    if kind == "text":
        terms = _texts(fields, "terms")
        return TfidfText(
            name, ngrams, terms, read_tensor(file, _weights(place), FLOAT, (len(terms),)), gaps
        )
    raise Malformed(f"column {name!r} is of an unknown kind {kind!r}")


def _read_number(fields: dict[str, Any], kind: type[Number] = Number) -> Number:
    values = {key: read_field(fields, key, (int, float)) for key in ("fill", "shift", "scale")}
    try:
        values = {key: float(value) for key, value in values.items()}
    except OverflowError as error:
        raise Malformed(f"a number of its table is too large: {error}") from error
    if values["scale"] <= 0.0 or not all(map(math.isfinite, values.values())):
        raise Malformed("the scale of a column is not above zero")
    name, gaps = read_field(fields, "name", str), read_field(fields, "gaps", bool)
    return kind(name, gaps=gaps, **values)


def _count(fields: dict[str, Any], key: str) -> int:
    value: int = read_field(fields, key, int)
    if not 1 <= value <= _MOST_HASHES:
        raise Malformed(f"the header's {key!r} is {value}")
    return value


def _texts(fields: dict[str, Any], key: str) -> tuple[str, ...]:
    values = read_field(fields, key, list)
    if not all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
        raise Malformed(f"the header's {key!r} are not distinct texts")
    return tuple(values)


def _wholes(fields: dict[str, Any], key: str) -> tuple[int, ...]:
    values = read_field(fields, key, list)
    if not values or not all(type(value) is int and 0 <= value < 60 for value in values):
        raise Malformed(f"the header's {key!r} are not small whole numbers")
    if sorted(set(values)) != values:
        raise Malformed(f"the header's {key!r} are not in order")
    return tuple(values)
