"""ONNX: ``import widemargin.onnx`` teaches skl2onnx to convert our models, alone or in pipelines.

Classifiers have two outputs, as scikit-learn's have: ``label``, and ``probabilities``. Without
``probability=True`` the latter are scores, without a ZipMap; of two classes, the negative score
and the score. `LinearRanker` has one output, ``variable``: the scores, (n, 1). `OrdinalSVC` has
``label`` and ``scores``, (n, 1).

All computations are in the type of the input, float or double, so that rows very near a threshold
may get another label than in float64.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

try:
    from onnx import TensorProto
    from skl2onnx import update_registered_converter
    from skl2onnx._parse import _parse_sklearn_classifier, _parse_sklearn_simple_model
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxArgMax,
        OnnxArrayFeatureExtractor,
        OnnxCast,
        OnnxConcat,
        OnnxDiv,
        OnnxGreater,
        OnnxIdentity,
        OnnxMatMul,
        OnnxMul,
        OnnxNeg,
        OnnxReshape,
        OnnxSigmoid,
        OnnxSub,
        OnnxWhere,
    )
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
        guess_numpy_type,
        guess_proto_type,
    )
except ImportError as error:
    raise ImportError("widemargin.onnx needs skl2onnx: pip install widemargin[onnx]") from error

from widemargin.arrays import dense, on_host
from widemargin.estimators.linear_classifier import LinearClassifier
from widemargin.estimators.linear_ranker import LinearRanker
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svc_cv import LinearSVCCV
from widemargin.estimators.ordinal_svc import OrdinalSVC
from widemargin.labels import whole_labels

# As of scikit-learn's classifiers: nocl makes labels their places in `classes_`.
_CLASSIFIER_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [True, False],
}


def register() -> None:
    """Register the converters of all our estimators; done when this module is imported."""
    for kind in (LinearSVC, LinearSVCCV):
        update_registered_converter(
            kind,
            f"Widemargin{kind.__name__}",
            _set_outputs,
            _convert_classifier,
            parser=_parse_classifier,
            options=_CLASSIFIER_OPTIONS,
        )
    update_registered_converter(
        OrdinalSVC, "WidemarginOrdinalSVC", _set_outputs, _convert_ordinal, parser=_parse_ordinal
    )
    update_registered_converter(
        LinearRanker, "WidemarginLinearRanker", _set_outputs, _convert_ranker
    )


def _parse_classifier(
    scope: Any, model: BaseEstimator, inputs: list, custom_parsers: dict | None = None
) -> list:
    parse = _parse_sklearn_classifier if model.probability else _parse_sklearn_simple_model
    return parse(scope, model, inputs, custom_parsers)


def _parse_ordinal(
    scope: Any, model: BaseEstimator, inputs: list, custom_parsers: dict | None = None
) -> list:
    operator = scope.declare_local_operator("WidemarginOrdinalSVC", model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("scores", FloatTensorType()))
    return operator.outputs


def _number_type(operator: Any) -> Any:
    """Return the type of tensors with which all is computed: that of the input, or float."""
    double = guess_numpy_type(operator.inputs[0].type) is np.float64
    return DoubleTensorType if double else FloatTensorType


def _labels(scope: Any, model: BaseEstimator) -> np.ndarray:
    """Return the class labels as ONNX has them: int64, double for fractions, or strings."""
    if isinstance(model, LinearClassifier) and scope.get_options(model, {"nocl": False})["nocl"]:
        return np.arange(model.classes_.size)
    classes = whole_labels(model.classes_)
    if classes.dtype.kind in "bui":
        return classes.astype(np.int64)
    return classes if classes.dtype.kind == "f" else classes.astype(str).astype(object)


_LABEL_TYPES = {"i": Int64TensorType, "f": DoubleTensorType, "O": StringTensorType}


def _set_outputs(operator: Any) -> None:
    model, rows = operator.raw_operator, operator.inputs[0].get_first_dimension()
    *label, scores = operator.outputs
    if label:
        label[0].type = _LABEL_TYPES[_labels(operator.scope_inst, model).dtype.kind]([rows])
    width = model.classes_.size if isinstance(model, LinearClassifier) else 1
    scores.type = _number_type(operator)([rows, width])


class _Graph:
    """The nodes of one model."""

    def __init__(self, scope: Any, operator: Any, container: Any):
        self.scope, self.operator, self.container = scope, operator, container
        self.model = operator.raw_operator
        self.number = _number_type(operator)()
        self.dtype = guess_numpy_type(self.number)

    def node(self, kind: type, *inputs: Any, **attributes: Any) -> Any:
        """Return a node; constants of floats get the type with which all is computed."""
        typed = (
            each.astype(self.dtype)
            if isinstance(each, np.ndarray) and each.dtype.kind == "f"
            else each
            for each in inputs
        )
        return kind(*typed, op_version=self.container.target_opset, **attributes)

    def as_number(self, node: Any) -> Any:
        return self.node(OnnxCast, node, to=guess_proto_type(self.number))

    def scores(self, intercept: Any = 0.0) -> Any:
        """Return w.x + b, (n, 1), or (n, k) for k > 2 classes."""
        coef = np.atleast_2d(on_host(dense(self.model.coef_))).T
        products = self.node(OnnxMatMul, self.as_number(self.operator.inputs[0]), coef)
        return self.node(OnnxAdd, products, np.atleast_1d(on_host(intercept)))

    def label(self, place: Any) -> Any:
        """Return the label at each place, an int64 node."""
        labels = self.node(OnnxArrayFeatureExtractor, _labels(self.scope, self.model), place)
        return self.node(OnnxReshape, labels, np.array([-1]))

    def end(self, *nodes: Any) -> None:
        """Make these nodes the outputs."""
        for node, output in zip(nodes, self.operator.outputs, strict=True):
            last = self.node(OnnxIdentity, node, output_names=[output.full_name])
            last.add_to(self.scope, self.container)


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    node, model = graph.node, graph.model
    scores = graph.scores(model.intercept_)
    if model.classes_.size > 2:
        place = node(OnnxArgMax, scores, axis=1, keepdims=0)
    else:
        place = node(OnnxCast, node(OnnxGreater, scores, np.zeros(1)), to=TensorProto.INT64)
    if not model.probability:
        both = scores
        if model.classes_.size == 2:
            both = node(OnnxConcat, node(OnnxNeg, scores), scores, axis=1)
        return graph.end(graph.label(place), both)
    a, b = model.sigmoids_.T
    each = node(OnnxSigmoid, node(OnnxNeg, node(OnnxAdd, node(OnnxMul, scores, a), b)))
    if model.classes_.size == 2:
        both = node(OnnxConcat, node(OnnxSub, np.ones(1), each), each, axis=1)
        return graph.end(graph.label(place), both)
    k = model.classes_.size
    total = node(OnnxMatMul, each, np.ones((k, 1)))
    shares = node(OnnxDiv, each, total)
    positive = node(OnnxGreater, total, np.zeros(1))
    graph.end(graph.label(place), node(OnnxWhere, positive, shares, np.full(k, 1.0 / k)))


def _convert_ordinal(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    node, thresholds = graph.node, graph.model.thresholds_
    scores = graph.scores()
    above = graph.as_number(node(OnnxGreater, scores, thresholds))
    count = node(OnnxMatMul, above, np.ones((thresholds.size, 1)))
    graph.end(graph.label(node(OnnxCast, count, to=TensorProto.INT64)), scores)


def _convert_ranker(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    graph.end(graph.scores())


register()
