"""Input of the commands: data and models."""

import os
from typing import Any, NamedTuple

import numpy as np
import pyarrow.ipc
import pyarrow.parquet
import scipy.sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import TableFeatures
from widemargin.cli import tables
from widemargin.cli.errors import BadInput, naming, reading, shown
from widemargin.cli.options import TaskName
from widemargin.cli.table_options import TableOptions
from widemargin.data.formats import TEXT, format_of
from widemargin.data.svmlight import read_svmlight
from widemargin.data.tables import format_by_name
from widemargin.fitted import Classifier
from widemargin.labels import whole_labels
from widemargin.model_io import is_liblinear, load_model, read_liblinear


class Data(NamedTuple):
    """Rows, labels and optional groups and weights.

    `folder` holds rows on disk that a table was too large for; it is removed with this object.
    """

    X: Any
    y: np.ndarray
    qid: np.ndarray | None
    weight: np.ndarray | None = None
    folder: Any = None


class Loaded(NamedTuple):
    """A model, and what it does to rows before; `certified` unless LIBLINEAR wrote it."""

    preparation: Any
    model: Any
    certified: bool = True

    @property
    def features(self) -> TableFeatures | None:
        """The features of a table, if the model was trained on one."""
        return self.preparation if isinstance(self.preparation, TableFeatures) else None

    @property
    def n_inputs(self) -> int:
        """How many columns rows have before anything is done to them."""
        first = self.model if self.preparation is None else self.preparation
        return int(first.n_features_in_)

    @property
    def names(self) -> list[str] | None:
        """Names of the features, if the model was trained on a table."""
        return None if self.features is None else self.features.get_feature_names_out().tolist()

    @property
    def whole(self) -> Any:
        """The model as it is saved: with what it does to rows."""
        if self.preparation is None:
            return self.model
        return Pipeline([("features", self.preparation), ("model", self.model)])


def read_training(
    paths: list[str], task: TaskName, options: TableOptions, for_tables: list[str]
) -> tuple[Data, Any]:
    """Return training data, and what its model does to rows before; or None.

    Parameters
    ----------
    paths : list of str
        One file or folder of rows, or the files of a table.
    task : TaskName
    options : TableOptions
    for_tables : list of str
        Options that were given and go with tables only.
    """
    name = shown(paths[0])
    with reading(tables.name_of(paths)):
        if options.target is not None:
            features, table = tables.learn(paths, options, task)
            data = _from_table(table, features, labelled=True)
            if task.has_classes:
                tables.check_classes(options.target, data.y)
            return data, features
        _refuse_table(paths, options)
    if for_tables:
        raise BadInput(
            f"{' '.join(for_tables)} is for tables; name the column to predict: --target"
        )
    data = read_data(paths)
    if options.weight is not None:
        data = data._replace(weight=read_weights(options.weight, data.X.shape[0]))
    if not options.scale:
        return data, None
    if not scipy.sparse.issparse(data.X):
        raise BadInput(f"{name}: --scale is for tables and svmlight text, not for rows on disk")
    scaler = StandardScaler(with_mean=False).fit(data.X)
    return data._replace(X=scaler.transform(data.X)), scaler


def read_rows(paths: list[str], loaded: Loaded, options: TableOptions, labelled: bool) -> Data:
    """Return rows with the features of a model; it has trained on rows of the same kind.

    Without `labelled`, rows need no labels.
    """
    features = loaded.features
    if features is None:
        with reading(paths[0]):
            if _names_table(paths[0]):
                raise ValueError("a table, but the model was trained on numbered features")
        data = read_data(paths, n_features=loaded.n_inputs, labelled=labelled)
        return data._replace(X=scaled(loaded, data.X))
    with reading(tables.name_of(paths)):
        roles = [features.target, features.weight, features.group] if labelled else []
        wanted = [role for role in roles if role is not None]
        table = tables.read(paths, features, options, wanted, _type_of_labels(loaded.model))
        data = _from_table(table, features, labelled)
        if not isinstance(loaded.model, Classifier) and data.y.dtype.kind in "UO":
            raise ValueError(f"the target {features.target!r} holds text, not numbers")
        return data


def _type_of_labels(model: Any) -> pyarrow.DataType | None:
    """Return what the labels of a table must be for a model; None for numbers or flags."""
    if not isinstance(model, Classifier):
        return pyarrow.float64()
    return pyarrow.string() if model.classes_.dtype.kind in "UO" else None


def scaled(loaded: Loaded, X: Any) -> Any:
    """Return rows with numbered features, scaled or mapped as the model says."""
    return X if loaded.preparation is None else loaded.preparation.transform(X)


def _from_table(table: tables.Encoded, features: TableFeatures, labelled: bool) -> Data:
    columns, y, qid, weight = table.columns, np.empty(0), None, None
    if labelled and features.target is not None:
        y = tables.labels(features.target, columns[features.target])
    if labelled and features.group is not None:
        qid = tables.groups(features.group, columns[features.group])
    if labelled and features.weight is not None:
        weight = tables.weights(features.weight, columns[features.weight])
    return Data(table.X, y, qid, weight, table.folder)


def read_data(paths: list[str], n_features: int | None = None, labelled: bool = True) -> Data:
    """Read svmlight text from a file, or from standard input for "-", into memory.

    Arrow and Parquet files, and folders of them, stay on disk and are read as needed. If not
    `labelled`, they may have no labels; `y` is empty then.

    With `n_features`, the rows get exactly the features of a model. Features that do not occur
    in the file are zero, and features that the model was not trained on are dropped. LIBLINEAR
    does the same.
    """
    path = paths[0]
    if len(paths) > 1:
        raise BadInput(f"{paths[1]}: only tables may be several files (see --target)")
    with reading(path):
        if stays_on_disk(path):
            data = _on_disk(path, labelled)
        else:
            text = read_svmlight(path)
            data = Data(text.X, whole_labels(text.y), text.qid)
    if n_features is not None:
        data = data._replace(X=with_features(data.X, n_features))
    return data


def stays_on_disk(path: str) -> bool:
    """Return whether the rows stay on disk, rather than being read into memory."""
    return path != "-" and (os.path.isdir(path) or format_of(path) != TEXT)


def is_text(paths: list[str]) -> bool:
    """Return whether DATA is svmlight text."""
    with reading(paths[0]):
        return not _names_table(paths[0]) and not stays_on_disk(paths[0])


def _names_table(path: str) -> bool:
    """Return whether a path is that of a table, rather than of rows with numbered features."""
    if path == "-" or os.path.isdir(path):
        return False
    if format_by_name(path) in ("csv", "json"):
        return True
    return not {"indices", "values"} & {"label", *_columns(path)}


def _columns(path: str) -> list[str]:
    """Return the names of the columns of an Arrow or Parquet file; those of rows for others."""
    format = format_of(path)
    try:
        if format == "parquet":
            return pyarrow.parquet.read_schema(path).names
        if format == "arrow":
            with pyarrow.OSFile(path) as file:
                return pyarrow.ipc.open_file(file).schema.names
    except pyarrow.ArrowInvalid:
        pass  # reading the rows says what is wrong
    return ["indices", "values"]


def _refuse_table(paths: list[str], options: TableOptions) -> None:
    """Refuse a table of which nobody said which column to predict."""
    if _names_table(paths[0]):
        names = tables.column_names(paths, options)
        which = ", ".join(names[:8]) + ", ..." * (len(names) > 8)
        raise ValueError(f"a table needs --target, the column to predict; it has {which}")


def read_weights(path: str, n_rows: int) -> np.ndarray:
    """Return the weights in a text file, one line per row."""
    with naming(path):
        try:
            with open(path, encoding="utf-8") as file:
                words = file.read().split("\n")
        except UnicodeDecodeError as error:
            raise BadInput(f"{path}: not UTF-8 text") from error
    if words[-1] == "":
        words.pop()
    if len(words) != n_rows:
        raise BadInput(f"{path}: {len(words):,} weights for {n_rows:,} rows")
    weights = np.empty(n_rows)
    for row, word in enumerate(words):
        try:
            weights[row] = float(word)
        except ValueError:
            weights[row] = np.nan
        if not 0.0 <= weights[row] < np.inf:
            raise BadInput(f"{path}, line {row + 1}: {word!r} is no weight of at least 0")
    return weights


def _on_disk(path: str, labelled: bool) -> Data:
    from widemargin.data.disk import open_rows

    rows = open_rows(path)
    if labelled and rows.labels is None:
        raise ValueError("there is no column label")
    y = np.empty(0) if rows.labels is None else rows.labels
    return Data(rows, y, rows.qid, rows.weights)


def with_features(X: Any, n_features: int) -> Any:
    """Return the rows with exactly that many features, padded with zeros or cut."""
    if not scipy.sparse.issparse(X):
        return X.resized(n_features)
    X.resize(X.shape[0], n_features)
    return X


def read_model(path: str) -> Loaded:
    """Load a model, LIBLINEAR's too; raises `BadInput` if that fails."""
    with reading(path):
        if is_liblinear(path):
            return Loaded(None, read_liblinear(path), certified=False)
        model = load_model(path)
        if isinstance(model, Pipeline):
            return Loaded(*(step for _, step in model.steps))
        return Loaded(None, model)
