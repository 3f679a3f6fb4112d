"""Tables of the largest weights, with feature names."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from widemargin.arrays import on_host
from widemargin.curves import part_names
from widemargin.fitted import Classifier, Fitted, Ordinal, class_names
from widemargin.report.charts import bar
from widemargin.report.progress import MOST_CURVES

_MAX_WEIGHTS = 20
_MAX_WEIGHTS_PER_CLASS = 8
_MAX_CLASSES = 100
_MAX_WEIGHTS_PER_LINE = 5


#: a vocabulary, or names in the order of the columns
NamesOfFeatures: TypeAlias = Mapping[str, int] | Sequence[str] | np.ndarray | None


class FeatureNames:
    """Names of features by column.

    Parameters
    ----------
    names : mapping from name to column, sequence of n_features names, or None
        A vocabulary, as in scikit-learn's vectorizers, or names in the order of the columns.
    n_features : int
    first : int
        Number of the first column, if there are no names.
    """

    def __init__(self, names: NamesOfFeatures, n_features: int, first: int = 0):
        self.first = first
        self.names: Mapping[int, str] | Sequence[str] | np.ndarray | None
        if isinstance(names, Mapping):
            by_column = {int(column): str(name) for name, column in names.items()}
            outside = [column for column in by_column if not 0 <= column < n_features]
            if outside:
                raise ValueError(
                    f"feature_names places {by_column[outside[0]]!r} in column {outside[0]}, and "
                    f"the model has {n_features}"
                )
            self.names = by_column
            return
        if names is not None and (isinstance(names, str) or len(names) != n_features):
            raise ValueError(f"feature_names must be {n_features} names, not {len(names)}")
        self.names = names

    def __getitem__(self, column: int) -> str:
        if isinstance(self.names, Mapping):
            name = self.names.get(column)
        else:
            name = None if self.names is None else str(self.names[column])
        return f"feature {column + self.first}" if name is None else name


def weights(model: Fitted, names: FeatureNames) -> dict[str, Any]:
    """Return what the template shows of the weights.

    Parameters
    ----------
    model : fitted estimator
    names : FeatureNames
    """
    coef = np.atleast_2d(on_host(model.coef_))
    labels = class_names(model) or part_names(model)
    single = len(coef) == 1
    separates = single and isinstance(model, Classifier) and not isinstance(model, Ordinal)
    found: dict[str, Any] = {
        "single": single,
        # The two classes; None where there are only higher and lower scores.
        "classes": labels if separates else None,
        "tables": [],
        "lines": [],
        "n_left_out": 0,
        "n_features": f"{coef.shape[1]:,}",
        "first": names.first if names.names is None else None,
    }
    if single:
        found["tables"] = [_table("", coef[0], names, _MAX_WEIGHTS)]
    elif len(coef) <= MOST_CURVES:
        found["tables"] = [
            _table(label, row, names, _MAX_WEIGHTS_PER_CLASS) for label, row in zip(labels, coef)
        ]
    else:
        for label, row in zip(labels[:_MAX_CLASSES], coef):
            largest = _largest(np.maximum(row, 0.0), _MAX_WEIGHTS_PER_LINE).tolist()
            found["lines"].append({"name": label, "features": [names[j] for j in largest]})
        found["n_left_out"] = max(0, len(coef) - _MAX_CLASSES)
    return found


def _table(title: str, row: np.ndarray, names: FeatureNames, most: int) -> dict[str, Any]:
    largest = _largest(np.abs(row), most)
    top = abs(row[largest[0]]) if largest.size else 1.0
    return {
        "title": title,
        "rows": [
            {
                "name": names[j],
                "bar": bar(row[j] / top, signed=True),
                "value": _in_digits(row[j]),
            }
            for j in largest.tolist()
        ],
    }


def _in_digits(weight: float) -> str:
    """Return a weight in seven or eight characters, as many as its column has room for."""
    text = f"{weight:+.3g}"
    if "e" in text:
        digits, power = f"{weight:+.1e}".split("e")
        text = f"{digits}e{int(power)}"
    return text.replace("-", "−")


def _largest(sizes: np.ndarray, most: int) -> np.ndarray:
    """Return the columns of the `most` largest sizes, in decreasing order, without zeros."""
    some = np.argpartition(-sizes, most)[:most] if sizes.size > most else np.arange(sizes.size)
    some = some[np.lexsort((some, -sizes[some]))]
    return some[sizes[some] > 0.0]
