"""Features of tables as a scikit-learn transformer."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import narwhals.stable.v2 as frames
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from widemargin.data.category_columns import MOSTLY_NUMBERS, CategoryLearner
from widemargin.data.columns import (
    ColumnError,
    Encoder,
    NumberLearner,
    in_order,
    kind_of,
    side_by_side,
)
from widemargin.data.date_columns import DateLearner
from widemargin.data.text_columns import ENCODINGS, TextLearner
from widemargin.estimators.validation import check_choice, check_flag
from widemargin.words import count

_BATCH_ROWS = 65_536
_DTYPES = ("float32", "float64")


class TableFeatures(TransformerMixin, BaseEstimator):
    """Turn the columns of a table into features for a linear model.

    Numbers are standardised. Strings, categoricals and dictionary columns are one-hot encoded;
    rare levels share one feature, and so do levels that training rows did not have. Dates become
    the number of days and one feature per month, weekday and hour. Booleans are 0 and 1. A
    missing number or date is replaced by the mean, a missing category is a level of its own, and
    a feature marks the rows with missing values, if training rows had any. Columns whose values
    are all the same are left out.

    Parameters
    ----------
    target, weight, group : str or None, default=None
        Columns that are no features: labels, weights of the rows, and groups of rows. ``widemargin
        evaluate`` and ``certify`` read them.
    drop : sequence of str, default=()
        More columns that are no features.
    categorical : sequence of str, default=()
        Columns of numbers that are categories, such as postcodes.
    text : sequence of str, default=()
        Columns of text.
    text_encoding : {"tfidf", "hash"}, default="tfidf"
        "tfidf" learns a vocabulary; "hash" has no names of words and needs no memory for them.
    ngrams : int, default=1
        Terms are runs of up to that many words.
    max_terms : int, default=262144
        Features of a text column at most; the most frequent terms, or so many hashes.
    scale : bool, default=True
        Whether to standardise numbers: subtract the mean and divide by the standard deviation.
    min_count : int, default=2
        Levels of a category that fewer rows have are rare.
    max_levels : int, default=1000
        Features of a category at most; the most frequent levels.
    dtype : {"float64", "float32"}, default="float64"
        Type of the features.

    Attributes
    ----------
    columns_ : list
        What was learned of each column with features.
    skipped_ : dict of str to str
        Columns without features, and why.
    sparse_ : bool
        Whether `transform` returns a CSR array: if most features of a row are zero.
    doubts_ : list of str
        What looks wrong in the table, such as a column of numbers with a few words.
    n_features_out_ : int
        Number of features that `transform` returns.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Columns of the table, those named by `target`, `weight`, `group` and `drop` left out.

    Examples
    --------
    >>> import pandas as pd
    >>> from widemargin import TableFeatures
    >>> table = pd.DataFrame({"size": [1.0, 3.0, None], "hue": ["red", "blue", "red"]})
    >>> TableFeatures(min_count=1).fit(table).get_feature_names_out().tolist()
    ['size', 'size is missing', 'hue=blue', 'hue=red']
    """

    def __init__(
        self,
        *,
        target: str | None = None,
        weight: str | None = None,
        group: str | None = None,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        text_encoding: str = "tfidf",
        ngrams: int = 1,
        max_terms: int = 262_144,
        scale: bool = True,
        min_count: int = 2,
        max_levels: int = 1000,
        dtype: str = "float64",
    ) -> None:
        self.target = target
        self.weight = weight
        self.group = group
        self.drop = drop
        self.categorical = categorical
        self.text = text
        self.text_encoding = text_encoding
        self.ngrams = ngrams
        self.max_terms = max_terms
        self.scale = scale
        self.min_count = min_count
        self.max_levels = max_levels
        self.dtype = dtype

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any = None) -> "TableFeatures":
        """Learn the features of a table.

        Parameters
        ----------
        X : table
            A data frame of pandas or polars, a pyarrow Table or RecordBatch, or a
            two-dimensional array, whose columns are named x0, x1, ...
        y : ignored

        Returns
        -------
        self : TableFeatures
        """
        table = as_table(X)
        self.fit_batches(table.to_batches(_BATCH_ROWS), table.schema)
        if _is_array(X):
            del self.feature_names_in_
        return self

    def fit_batches(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None = None
    ) -> "TableFeatures":
        """Learn the features of a table that comes in record batches.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            All with the same columns.
        schema : pyarrow.Schema, optional
            Needed if there may be no batch.

        Returns
        -------
        self : TableFeatures
        """
        self._check_parameters()
        learners: dict[str, Any] | None = None if schema is None else self._learners(schema)
        n_rows = 0
        for batch in batches:
            learners = self._learners(batch.schema) if learners is None else learners
            for name, learner in learners.items():
                if isinstance(learner, str):
                    continue
                try:
                    learner.add(batch.column(name))
                except ColumnError as error:
                    raise error.moved(n_rows) from error
            n_rows += batch.num_rows
        if not n_rows or learners is None:
            raise ValueError("the table has no rows: 0 sample(s), and at least 1 is needed")
        self._finish(learners)
        if not self.columns_:
            raise ValueError(
                f"no column of {count(n_rows, 'sample')} makes features: "
                + _reasons(self.skipped_)
            )
        return self

    def _finish(self, learners: dict[str, Any]) -> None:
        columns: list[Encoder] = []
        skipped: dict[str, str] = {}
        self.doubts_: list[str] = []
        for name, learner in learners.items():
            learned = learner if isinstance(learner, str) else learner.finish()
            if isinstance(learned, str):
                skipped[name] = learned
            else:
                columns.append(learned)
            if isinstance(learner, CategoryLearner) and name not in self.categorical:
                fraction, word = learner.numbers_among_words()
                if MOSTLY_NUMBERS <= fraction < 1.0:
                    fate = "left out" if name in skipped else "read as categories"
                    self.doubts_.append(
                        f"column {name!r} is {fate}, though most of its values are numbers: "
                        f"{word!r} is none"
                    )
        self.feature_names_in_ = np.array(list(learners), dtype=object)
        self.n_features_in_ = len(learners)
        self.restore(columns, skipped)

    def restore(self, columns: list[Encoder], skipped: dict[str, str]) -> None:
        """Set what was learned of the columns, for `fit` and for models that are loaded."""
        self.columns_, self.skipped_ = columns, skipped
        self.n_features_out_ = sum(1 for _ in in_order(columns))
        self.sparse_ = 2 * sum(encoder.entries() for encoder in columns) < self.n_features_out_

    def _learners(self, schema: pa.Schema) -> dict[str, Any]:
        """Return a learner for each column, or why it has none."""
        roles = [name for name in (self.target, self.weight, self.group) if name is not None]
        repeated = next((name for name in schema.names if schema.names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"the table has two columns {repeated!r}")
        for name in (*roles, *self.drop, *self.categorical, *self.text):
            if name not in schema.names:
                raise ValueError(no_column(name, schema.names))
        left = {*roles, *self.drop}
        for name in (*self.categorical, *self.text):
            if name in left or (name in self.text and name in self.categorical):
                raise ValueError(f"column {name!r} is named for two purposes")
        learners = {field.name: self._learner(field) for field in schema if field.name not in left}
        if not learners:
            raise ValueError("no column is left for features: 0 feature(s), at least 1 is needed")
        return learners

    def _learner(self, field: pa.Field) -> Any:
        if field.name in self.text:
            return TextLearner(field.name, self.text_encoding, self.ngrams, self.max_terms)
        kind = "category" if field.name in self.categorical else kind_of(field.type)
        if kind == "category":
            return CategoryLearner(field.name, self.min_count, self.max_levels)
        if kind == "flag":
            return NumberLearner(field.name, scale=False, flag=True)
        if kind == "date":
            return DateLearner(field.name, self.scale)
        if kind == "number":
            return NumberLearner(field.name, self.scale)
        if kind == "empty":
            return "every value is missing"
        raise ColumnError(field.name, f"holds {field.type}, which makes no features; drop it")

    def transform(self, X: Any) -> Any:
        """Return the features of a table.

        Parameters
        ----------
        X : table
            As for `fit`. Columns are found by name; others than those of the training table are
            ignored.

        Returns
        -------
        features : ndarray or CSR array of shape (n_rows, n_features)
        """
        check_is_fitted(self)
        table = as_table(X)
        named = "feature_names_in_" in vars(self)
        if not named and table.num_columns != self.n_features_in_:
            raise ValueError(
                f"X has {table.num_columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        if not named:
            table = table.rename_columns([array_column(j) for j in range(table.num_columns)])
        if not table.num_rows:
            raise ValueError("the table has no rows: 0 sample(s), and at least 1 is needed")
        return self.joined(table.to_batches(_BATCH_ROWS), table.num_rows)

    def joined(self, batches: Iterable[pa.RecordBatch], n_rows: int) -> Any:
        """Return the features of record batches, one below the other.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
        n_rows : int
            Rows of all batches together.

        Returns
        -------
        features : ndarray or CSR array of shape (n_rows, n_features)
        """
        pieces = self.pieces(batches)
        if self.sparse_:
            stacked = sp.vstack(list(pieces), format="csr")
            return sp.csr_array(stacked)
        features = np.empty((n_rows, self.n_features_out_), dtype=self.dtype)
        first = 0
        for piece in pieces:
            features[first : first + len(piece)] = piece
            first += len(piece)
        return features

    def pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        """Yield the features of record batches, one by one."""
        check_is_fitted(self)
        n_rows = 0
        for batch in batches:
            for encoder in self.columns_:
                if encoder.name not in batch.schema.names:
                    raise ValueError(no_column(encoder.name, batch.schema.names))
            try:
                parts = [encoder.encode(batch.column(encoder.name)) for encoder in self.columns_]
            except ColumnError as error:
                raise error.moved(n_rows) from error
            if self.sparse_:
                yield side_by_side(parts, batch.num_rows, self.dtype)
            else:
                dense = [part.toarray() if sp.issparse(part) else part for part in parts]
                yield np.hstack(dense).astype(self.dtype, copy=False)
            n_rows += batch.num_rows

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features, (n_features,); such as "size" and "colour=red"."""
        check_is_fitted(self)
        return np.array(list(in_order(self.columns_)), dtype=object)

    def _check_parameters(self) -> None:
        check_choice("text_encoding", self.text_encoding, ENCODINGS)
        check_choice("dtype", np.dtype(self.dtype).name, _DTYPES)
        check_flag("scale", self.scale)
        for name in ("ngrams", "max_terms", "min_count", "max_levels"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
        for name in ("drop", "categorical", "text"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a sequence of column names, not one string")


def as_table(X: Any) -> pa.Table:
    """Return a data frame, an Arrow table or a two-dimensional array as an Arrow table."""
    if isinstance(X, pa.Table):
        return X
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if sp.issparse(X):
        raise TypeError("a sparse matrix is no table; it needs no TableFeatures")
    frame = frames.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, frames.DataFrame):
        names = [name for name in frame.columns if not isinstance(name, str)]
        if names:
            raise ValueError(f"names of columns must be text, not {names[0]!r}")
        return _frame_as_table(frame)
    array = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    if array.dtype.kind == "O":
        array = _tightened(array)
    if array.dtype.kind not in "biufO":
        array = array.astype(object)
    columns = {array_column(j): column for j, column in enumerate(array.T)}
    return pa.table({name: _arrow(name, column) for name, column in columns.items()})


def array_column(number: int) -> str:
    """Return the name of a column of an array."""
    return f"x{number}"


def _tightened(array: np.ndarray) -> np.ndarray:
    """Return an array of objects as one of numbers, if they are."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array


def _frame_as_table(frame: frames.DataFrame) -> pa.Table:
    columns = {}
    for name in frame.columns:
        try:
            columns[name] = frame[name].to_arrow()
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise _mixed(name, error) from error
    return pa.table(columns)


def _arrow(name: str, column: np.ndarray) -> pa.Array:
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _mixed(name, error) from error


def _mixed(name: str, error: Exception) -> ColumnError:
    reason = " ".join(str(error).split())
    return ColumnError(name, f"its values are of different types ({reason})")


def _is_array(X: Any) -> bool:
    """Return whether X has no names of columns."""
    if isinstance(X, (pa.Table, pa.RecordBatch)):
        return False
    return not isinstance(
        frames.from_native(X, eager_only=True, pass_through=True), frames.DataFrame
    )


def no_column(name: str, names: Iterable[str]) -> str:
    """Return a message: no column of that name, and which ones there are."""
    known = list(names)
    shown = ", ".join(repr(other) for other in known[:8]) + ", ..." * (len(known) > 8)
    return f"there is no column {name!r}, only {shown}"


def _reasons(skipped: dict[str, str]) -> str:
    return "; ".join(f"{name!r}: {reason}" for name, reason in list(skipped.items())[:5])
