"""ONNX: ``import widemargin.onnx`` teaches skl2onnx to convert our models, alone or in pipelines.

Classifiers have two outputs, as scikit-learn's have: ``label``, and ``probabilities``. Of models
without probabilities the latter are scores, without a ZipMap; of two classes, the negative score
and the score. `LinearRanker` and `LinearSVR` have one output, ``variable``: the scores, (n, 1), or
the predictions, (n, n_targets). `OrdinalSVC` and `LinearOneClassSVM` have ``label`` and
``scores``, (n, 1). `FourierFeatures` become features; `NystroemFeatures` and `TableFeatures` are
not converted (``widemargin export --format onnx`` takes models of tables).

All computations are in the type of the input, float or double, so that rows very near a threshold
may get another label than in float64.
"""

from collections.abc import Callable
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
        OnnxCos,
        OnnxDiv,
        OnnxGreater,
        OnnxIdentity,
        OnnxLess,
        OnnxMatMul,
        OnnxMul,
        OnnxNeg,
        OnnxReshape,
        OnnxSigmoid,
        OnnxSoftmax,
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
from widemargin.estimators.kernel_features import FourierFeatures
from widemargin.estimators.linear_classifier import LinearClassifier, LinearScores
from widemargin.estimators.linear_ranker import LinearRanker
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svc_cv import LinearSVCCV
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.logistic_regression import LogisticClassifier, LogisticRegression
from widemargin.estimators.logistic_regression_cv import LogisticRegressionCV
from widemargin.estimators.measure_svc import MeasureSVC
from widemargin.estimators.measure_svc_cv import MeasureSVCCV
from widemargin.estimators.one_class_svm import LinearOneClassSVM
from widemargin.estimators.ordinal_svc import OrdinalSVC
from widemargin.labels import whole_labels

# As of scikit-learn's classifiers: nocl makes labels their places in `classes_`.
_CLASSIFIER_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [True, False],
}


_CLASSIFIERS = (
    LinearSVC,
    LinearSVCCV,
    LogisticRegression,
    LogisticRegressionCV,
    MeasureSVC,
    MeasureSVCCV,
)


def register() -> None:
    """Register the converters of our estimators; done when this module is imported."""
    for kind in _CLASSIFIERS:
        _register(kind, _convert_classifier, _parse_classifier, options=_CLASSIFIER_OPTIONS)
    _register(OrdinalSVC, _convert_ordinal, _parse_label_and_scores)
    _register(LinearOneClassSVM, _convert_one_class, _parse_label_and_scores)
    for regressor in (LinearRanker, LinearSVR):
        _register(regressor, _convert_regressor)
    _register(FourierFeatures, _convert_fourier)


def _register(
    kind: type, convert: Callable, parse: Callable | None = None, options: dict | None = None
) -> None:
    update_registered_converter(
        kind, _alias(kind), _set_outputs, convert, parser=parse, options=options
    )


def _alias(kind: type) -> str:
    """Return the name by which skl2onnx knows an estimator."""
    return f"Widemargin{kind.__name__}"


def _has_probabilities(model: LinearScores) -> bool:
    if isinstance(model, LogisticClassifier):
        return True
    return isinstance(model, LinearClassifier) and model.probability


def _parse_classifier(
    scope: Any, model: BaseEstimator, inputs: list, custom_parsers: dict | None = None
) -> list:
    likely = _has_probabilities(model)
    parse = _parse_sklearn_classifier if likely else _parse_sklearn_simple_model
    return parse(scope, model, inputs, custom_parsers)


def _parse_label_and_scores(
    scope: Any, model: BaseEstimator, inputs: list, custom_parsers: dict | None = None
) -> list:
    operator = scope.declare_local_operator(_alias(type(model)), model)
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
    if isinstance(model, LinearOneClassSVM):
        return np.array([-1, 1])
    if isinstance(model, LinearScores) and scope.get_options(model, {"nocl": False})["nocl"]:
        return np.arange(model.classes_.size)
    classes = whole_labels(model.classes_)
    if classes.dtype.kind in "bui":
        return classes.astype(np.int64)
    return classes if classes.dtype.kind == "f" else classes.astype(str).astype(object)


_LABEL_TYPES = {"i": Int64TensorType, "f": DoubleTensorType, "O": StringTensorType}


def _set_outputs(operator: Any) -> None:
    model, rows = operator.raw_operator, operator.inputs[0].get_first_dimension()
    *label, numbers = operator.outputs
    if label:
        label[0].type = _LABEL_TYPES[_labels(operator.scope_inst, model).dtype.kind]([rows])
    numbers.type = _number_type(operator)([rows, _width(model)])


def _width(model: BaseEstimator) -> int:
    """Return the number of columns of the output of numbers."""
    if isinstance(model, FourierFeatures):
        return model.random_offset_.size
    if isinstance(model, LinearScores):
        return model.classes_.size
    return model.intercept_.size if isinstance(model, LinearSVR) else 1


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

    def linear(self, weights: np.ndarray, offset: Any = 0.0) -> Any:
        """Return X weights + offset, for weights (d, m)."""
        products = self.node(OnnxMatMul, self.as_number(self.operator.inputs[0]), weights)
        return self.node(OnnxAdd, products, np.atleast_1d(on_host(offset)))

    def scores(self, intercept: Any = 0.0) -> Any:
        """Return w.x + b, (n, 1), or (n, k) for k > 2 classes or k targets."""
        return self.linear(np.atleast_2d(on_host(dense(self.model.coef_))).T, intercept)

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
    graph.end(graph.label(place), _probabilities_or_scores(graph, scores))


def _probabilities_or_scores(graph: _Graph, scores: Any) -> Any:
    """Return the second output of a classifier, (n, n_classes)."""
    node, model = graph.node, graph.model
    k = model.classes_.size
    odds = scores  # their logarithms
    if not _has_probabilities(model):
        return scores if k > 2 else node(OnnxConcat, node(OnnxNeg, scores), scores, axis=1)
    if not isinstance(model, LogisticClassifier):
        a, b = model.sigmoids_.T
        odds = node(OnnxNeg, node(OnnxAdd, node(OnnxMul, scores, a), b))
    elif k > 2 and model.multi_class != "ovr":
        return node(OnnxSoftmax, scores, axis=1)
    each = node(OnnxSigmoid, odds)
    if k == 2:
        return node(OnnxConcat, node(OnnxSigmoid, node(OnnxNeg, odds)), each, axis=1)
    total = node(OnnxMatMul, each, np.ones((k, 1)))
    positive = node(OnnxGreater, total, np.zeros(1))
    return node(OnnxWhere, positive, node(OnnxDiv, each, total), np.full(k, 1.0 / k))


def _convert_ordinal(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    node, thresholds = graph.node, graph.model.thresholds_
    scores = graph.scores()
    above = graph.as_number(node(OnnxGreater, scores, thresholds))
    count = node(OnnxMatMul, above, np.ones((thresholds.size, 1)))
    graph.end(graph.label(node(OnnxCast, count, to=TensorProto.INT64)), scores)


def _convert_one_class(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    scores = graph.scores(graph.model.intercept_)
    outlier = graph.node(OnnxLess, scores, np.zeros(1))
    place = graph.node(OnnxWhere, outlier, np.array([0]), np.array([1]))
    graph.end(graph.label(place), scores)


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    model = graph.model
    graph.end(graph.scores(model.intercept_ if isinstance(model, LinearSVR) else 0.0))


def _convert_fourier(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    weights, offset = graph.model.random_weights_, graph.model.random_offset_
    # Cosines in float, as in `transform`: not all runtimes have them in double.
    angles = graph.node(OnnxCast, graph.linear(weights, offset), to=TensorProto.FLOAT)
    cosines = graph.as_number(graph.node(OnnxCos, angles))
    graph.end(graph.node(OnnxMul, cosines, np.array([np.sqrt(2.0 / offset.size)])))


register()
