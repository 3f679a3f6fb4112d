"""A model as an ONNX graph."""

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from widemargin.data.category_columns import Category
from widemargin.data.columns import Encoder, Number
from widemargin.data.date_columns import Date

if TYPE_CHECKING:
    from widemargin.model_io.exports import Linear

# Old ones, which all runtimes in use know.
_OPSET = 17
_ML_OPSET = 3
_IR_VERSION = 8
_ML = "ai.onnx.ml"


def onnx_bytes(linear: "Linear") -> bytes:
    """Return the bytes of an ONNX model.

    Its inputs are the features, (n, d), or the columns of a table, (n, 1) each: numbers, NaN
    where they are missing, and strings, empty where they are. A date has several inputs: its days
    since 1970-01-01 as a double, and as int64 what `Date.parts` has of "NAME month", "NAME
    weekday" and "NAME hour". Its outputs are `scores`, and `label` if there are classes.
    """
    graph = _Graph()
    if linear.columns is None:
        features = graph.input("features", TensorProto.FLOAT, linear.weights.shape[1])
    else:
        features = graph.node("Concat", [_column(graph, c) for c in linear.columns], axis=1)
    weights = graph.constant(linear.weights.T)
    product = graph.node("MatMul", [features, weights])
    scores = graph.node("Add", [product, graph.constant(linear.intercepts[None])], name="scores")
    outputs = [
        helper.make_tensor_value_info(scores, TensorProto.FLOAT, ["n", len(linear.weights)])
    ]
    if linear.classes:
        _add_label(graph, linear, scores)
        outputs.insert(0, helper.make_tensor_value_info("label", _label_type(linear), ["n"]))
    model = helper.make_model(
        helper.make_graph(graph.nodes, "widemargin", graph.inputs, outputs, graph.constants),
        producer_name="widemargin",
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_ML, _ML_OPSET)],
        ir_version=_IR_VERSION,
    )
    checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString()
    return data


class _Graph:
    """Nodes, inputs and constants of a graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []

    def input(self, name: str, dtype: int, width: int) -> str:
        """Add an input of shape (n, width)."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, ["n", width]))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Add a constant, and return its name."""
        name = f"widemargin constant {len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def node(
        self, operator: str, inputs: list[str], name: str | None = None, **settings: Any
    ) -> str:
        """Add an operator with one output, and return the name of that."""
        name = name or f"widemargin value {len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **settings))
        return name


def _column(graph: _Graph, column: Encoder) -> str:
    """Add the features of a column of a table."""
    if isinstance(column, Number):
        return _number(graph, column)
    if isinstance(column, Date):
        return _date(graph, column)
    assert isinstance(column, Category)
    return _category(graph, column)


def _date(graph: _Graph, column: Date) -> str:
    # Days are large numbers, and hours are small beside them: too much for float32.
    features = [_number(graph, column.days, np.float64)]
    for name, values in zip(column.inputs()[1:], column.parts.values()):
        value = graph.input(name, TensorProto.INT64, 1)
        equal = graph.node("Equal", [value, graph.constant([list(values)], np.int64)])
        features.append(graph.node("Cast", [equal], to=TensorProto.FLOAT))
    return graph.node("Concat", features, axis=1)


def _number(graph: _Graph, column: Number, dtype: Any = np.float32) -> str:
    value = graph.input(column.name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), 1)
    is_missing = graph.node("IsNaN", [value])
    filled = graph.node("Where", [is_missing, graph.constant([[column.fill]], dtype), value])
    centred = graph.node("Sub", [filled, graph.constant([[column.shift]], dtype)])
    scaled = graph.node("Div", [centred, graph.constant([[column.scale]], dtype)])
    if dtype is np.float64:
        scaled = graph.node("Cast", [scaled], to=TensorProto.FLOAT)
    if not column.gaps:
        return scaled
    missing = graph.node("Cast", [is_missing], to=TensorProto.FLOAT)
    return graph.node("Concat", [scaled, missing], axis=1)


def _category(graph: _Graph, column: Category) -> str:
    value = graph.input(column.name, TensorProto.STRING, 1)
    found = _one_hot(graph, value, list(column.levels))
    parts = [found]
    is_missing = _one_hot(graph, value, [""]) if column.gaps else None
    if column.rare:
        known = graph.node("ReduceSum", [found, graph.constant([1], np.int64)], keepdims=1)
        rare = graph.node("Sub", [graph.constant([[1.0]]), known])
        parts.append(rare if is_missing is None else graph.node("Sub", [rare, is_missing]))
    if is_missing is not None:
        parts.append(is_missing)
    return graph.node("Concat", parts, axis=1) if len(parts) > 1 else found


def _one_hot(graph: _Graph, value: str, levels: list[str]) -> str:
    """Add features (n, m), one where a value is the level; all zero for other values."""
    stacked = graph.node("OneHotEncoder", [value], domain=_ML, cats_strings=levels, zeros=1)
    return graph.node("Reshape", [stacked, graph.constant([-1, len(levels)], np.int64)])


def _add_label(graph: _Graph, linear: "Linear", scores: str) -> None:
    """Add the output `label`."""
    if linear.thresholds is None and len(linear.weights) > 1:
        place = graph.node("ArgMax", [scores], axis=1, keepdims=0)
    else:
        bounds = np.zeros(1) if linear.thresholds is None else linear.thresholds
        above = graph.node("Greater", [scores, graph.constant(bounds[None])])
        counted = graph.node("Cast", [above], to=TensorProto.INT64)
        axis = graph.constant([1], np.int64)
        place = graph.node("ReduceSum", [counted, axis], keepdims=0)
    dtype: Any = np.int64
    values: list[Any] = linear.classes
    if _label_type(linear) == TensorProto.STRING:
        dtype, values = object, [str(label) for label in linear.classes]
    elif _label_type(linear) == TensorProto.FLOAT:
        dtype = np.float32
    graph.node("Gather", [graph.constant(values, dtype), place], name="label")


def _label_type(linear: "Linear") -> int:
    if all(isinstance(label, (bool, int)) for label in linear.classes):
        return int(TensorProto.INT64)
    if all(isinstance(label, (int, float)) for label in linear.classes):
        return int(TensorProto.FLOAT)
    return int(TensorProto.STRING)
