"""Tables as the commands read them: features, labels, groups and weights."""

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from widemargin import TableFeatures
from widemargin.cli.errors import BadInput, complain, shown
from widemargin.cli.memory import free_bytes
from widemargin.cli.options import TaskName
from widemargin.cli.table_options import TableOptions
from widemargin.data.category_columns import as_categories
from widemargin.data.columns import ColumnError, as_floats, is_text, kind_of
from widemargin.data.disk import open_rows
from widemargin.data.shards import ShardWriter
from widemargin.data.tables import Table, Widened, expanded
from widemargin.estimators.table_features import no_column
from widemargin.estimators.validation import check_bytes
from widemargin.labels import whole_labels
from widemargin.words import count, listed

_FALLBACK_BUDGET = 1 << 30
# So many different whole numbers are no classes, unless rows are many more.
_MANY_CLASSES = 50


class Encoded(NamedTuple):
    """A table as features, and its columns that are none.

    Attributes
    ----------
    X : ndarray, CSR array or rows on disk
    columns : dict of str to pyarrow.ChunkedArray
        The columns of the target, the weights and the groups.
    folder : TemporaryDirectory or None
        Where rows on disk lie; it is removed with this object.
    """

    X: Any
    columns: dict[str, pa.ChunkedArray]
    folder: "tempfile.TemporaryDirectory[str] | None"


def learn(
    paths: list[str], options: TableOptions, task: TaskName
) -> tuple[TableFeatures, Encoded]:
    """Learn the features of a table; return them, and the table as features."""
    assert options.target is not None
    scale = options.scale is not False
    features = TableFeatures(
        target=options.target,
        weight=options.weight,
        group=options.group,
        drop=options.drop,
        categorical=options.categorical,
        text=options.text,
        text_encoding=options.text_encoding,
        ngrams=options.ngrams,
        min_count=options.min_count,
        scale=scale,
        # Standardised numbers lose nothing that matters in float32.
        dtype="float32" if scale else "float64",
    )
    fixed = {name: pa.string() for name in (*options.categorical, *options.text)}
    table = _table(paths, options, fixed)
    budget = _budget(options)
    while True:
        kept = _Kept(budget // 4)
        try:
            features.fit_batches(_checked(kept.through(table.batches()), options, task))
            break
        except Widened:
            continue
    for doubt in features.doubts_:
        complain(f"warning: {name_of(paths)}: {doubt}")
    roles = [name for name in (options.target, options.weight, options.group) if name is not None]
    return features, encode(features, table, kept, roles, budget)


def read(
    paths: list[str],
    features: TableFeatures,
    options: TableOptions,
    roles: list[str],
    target: pa.DataType | None,
) -> Encoded:
    """Return a table as the features of a model.

    Parameters
    ----------
    paths : list of str
    features : TableFeatures
        Of the model.
    options : TableOptions
    roles : list of str
        Columns to return beside the features.
    target : pyarrow.DataType or None
        What labels are: text, even if it looks like numbers; or numbers. None is either.
    """
    known = {"number": pa.float64(), "flag": pa.bool_(), "date": None}
    types = {column.name: known.get(column.kind, pa.string()) for column in features.columns_}
    if features.target is not None:
        types[features.target] = target
    fixed = {name: dtype for name, dtype in types.items() if dtype is not None}
    table, budget = _table(paths, options, fixed), _budget(options)
    while True:
        kept = _Kept(budget // 4)
        try:
            for _ in kept.through(table.batches()):
                pass  # how many rows there are
            return encode(features, table, kept, roles, budget)
        except Widened:
            continue


def column_names(paths: list[str], options: TableOptions) -> list[str]:
    """Return the names of the columns of a table."""
    table = _table(paths, options, {})
    while True:
        try:
            return next(table.batches()).schema.names
        except Widened:
            continue


def labels(name: str, values: pa.ChunkedArray) -> np.ndarray:
    """Return the labels in a column: whole numbers, other numbers, or text."""
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy()))
        raise ValueError(
            f"row {row} (counted from 0) has no value in the target {name!r}"
            + (f", nor have {values.null_count - 1:,} more" if values.null_count > 1 else "")
        )
    whole = values.combine_chunks()
    kind = kind_of(whole.type)
    if kind == "number":
        numbers = as_floats(name, whole)
        if np.isnan(numbers).any():
            row = int(np.argmax(np.isnan(numbers)))
            raise ValueError(f"row {row} (counted from 0) has no value in the target {name!r}")
        return whole_labels(numbers)
    if kind in ("category", "flag"):
        return np.array(as_categories(name, whole).to_pylist())
    raise ValueError(f"the target {name!r} holds {whole.type}, neither classes nor numbers")


def groups(name: str, values: pa.ChunkedArray) -> np.ndarray:
    """Return the number of each row's group."""
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy()))
        raise ValueError(f"row {row} (counted from 0) has no value in the group {name!r}")
    codes: np.ndarray = values.combine_chunks().dictionary_encode().indices.to_numpy()
    return codes.astype(np.int64)


def weights(name: str, values: pa.ChunkedArray) -> np.ndarray:
    """Return the weights of the rows."""
    try:
        numbers = as_floats(name, values.combine_chunks())
    except ColumnError as error:
        raise ValueError(f"{error}; {name!r} holds the weights of the rows") from error
    bad = np.flatnonzero(~(numbers >= 0.0))  # missing ones too
    if bad.size:
        value = "no value" if np.isnan(numbers[bad[0]]) else f"{numbers[bad[0]]:g}"
        raise ValueError(
            f"row {bad[0]} (counted from 0) has {value} in the weight {name!r}; weights are at "
            "least 0"
        )
    return numbers


def check_classes(name: str, y: np.ndarray) -> None:
    """Refuse a target of quantities, and one of names."""
    if y.dtype.kind in "UO" and np.unique(y).size == y.size > _MANY_CLASSES:
        raise ValueError(
            f"the target {name!r} holds {y.size:,} different texts in as many rows, so there are "
            "no classes to learn"
        )
    advice = (
        "use --task regress, which predicts numbers, --task ordinal (ordered classes) or --task "
        "rank (the order of the rows), or cut them into classes"
    )
    if y.dtype.kind == "f":
        row = int(np.argmax(y != np.trunc(y)))
        if y[row] == np.trunc(y[row]):
            raise ValueError(
                f"the target {name!r} holds whole numbers of 2^53 and more, of which several are "
                "one floating-point number; write them as text"
            )
        raise ValueError(f"the target {name!r} is continuous ({y[row]:g} in row {row}); {advice}")
    if y.dtype.kind == "i":
        n_classes = np.unique(y).size
        if n_classes > _MANY_CLASSES and n_classes > y.size // 4:
            raise ValueError(
                f"the target {name!r} has {n_classes:,} different numbers in {y.size:,} rows and "
                f"looks continuous; {advice}"
            )


def _checked(
    batches: Iterable[pa.RecordBatch], options: TableOptions, task: TaskName
) -> Iterator[pa.RecordBatch]:
    """Pass batches on; refuse a target that the task cannot learn, as soon as it is seen."""
    for number, batch in enumerate(batches):
        if number == 0 and options.target in batch.schema.names:
            dtype = batch.schema.field(options.target).type
            if not task.has_classes and (is_text(dtype) or kind_of(dtype) == "category"):
                raise ValueError(
                    f"the target {options.target!r} holds text, and --task {task.value} needs "
                    "numbers"
                )
        yield batch


class _Kept:
    """Batches that a first pass has read, as long as they fit into memory."""

    def __init__(self, limit: int) -> None:
        self.batches: deque[pa.RecordBatch] | None = deque()
        self.n_rows, self._room = 0, limit

    def through(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass batches on, and keep them."""
        for batch in batches:
            self.n_rows += batch.num_rows
            self._room -= batch.nbytes
            if self._room < 0:
                self.batches = None
            if self.batches is not None:
                self.batches.append(batch)
            yield batch

    def again(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows once more, from memory or from the files."""
        if self.batches is None:
            yield from table.batches()
            return
        while self.batches:
            yield self.batches.popleft()


def encode(
    features: TableFeatures, table: Table, kept: _Kept, roles: list[str], budget: int
) -> Encoded:
    """Return a table as features, in memory if they fit into the budget, else on disk."""
    columns: dict[str, list[pa.Array]] = {name: [] for name in roles}

    def noting() -> Iterator[pa.RecordBatch]:
        for batch in kept.again(table):
            for name, values in columns.items():
                if name not in batch.schema.names:
                    raise ValueError(no_column(name, batch.schema.names))
                values.append(batch.column(name))
            yield batch

    # Features of a dense table need their place once; pieces of a sparse one are copied together.
    n_entries = kept.n_rows * features.n_features_out_
    if not features.sparse_ and n_entries * np.dtype(features.dtype).itemsize <= budget:
        X, folder = features.joined(noting(), kept.n_rows), None
    else:
        X, folder = _gathered(features.pieces(noting()), budget // 2)
    return Encoded(X, {name: _one_column(parts) for name, parts in columns.items()}, folder)


def _one_column(parts: list[pa.Array]) -> pa.ChunkedArray:
    """Return parts as one column; files of several formats have several types of text."""
    if len({part.type for part in parts}) > 1:
        plain = (p.dictionary_decode() if pa.types.is_dictionary(p.type) else p for p in parts)
        tables = [pa.table({"": part}) for part in plain]
        return pa.concat_tables(tables, promote_options="permissive").column(0)
    return pa.chunked_array(parts)


def _gathered(pieces: Iterable[Any], room: int) -> tuple[Any, Any]:
    """Return pieces one below the other: a CSR array, or rows on disk and their folder."""
    held: list[Any] = []
    pieces = iter(pieces)
    for piece in pieces:
        piece = sp.csr_array(piece)
        held.append(piece)
        room -= piece.data.nbytes + piece.indices.nbytes
        if room < 0:
            return _spilled(held, pieces)
    return sp.csr_array(sp.vstack(held, format="csr")), None


def _spilled(held: list[Any], pieces: Iterator[Any]) -> tuple[Any, Any]:
    folder = tempfile.TemporaryDirectory(prefix="widemargin-")
    with ShardWriter(folder.name) as writer:
        for piece in _all(held, pieces):
            writer.add(piece, np.zeros(piece.shape[0]))
    return open_rows(folder.name), folder


def _all(held: list[Any], pieces: Iterator[Any]) -> Iterator[Any]:
    while held:
        yield held.pop(0)
    for piece in pieces:
        yield sp.csr_array(piece)


def _table(paths: list[str], options: TableOptions, fixed: dict[str, pa.DataType]) -> Table:
    return Table(expanded(paths), not options.no_header, options.encoding, fixed)


def _budget(options: TableOptions) -> int:
    """Return the memory that features may take."""
    try:
        given: int | None = check_bytes("--memory-budget", options.memory_budget)
    except ValueError as error:
        raise BadInput(str(error)) from error
    if given is not None:
        return given
    return (free_bytes() or 2 * _FALLBACK_BUDGET) // 2


def left_out(preparation: Any) -> dict[str, str]:
    """Return a line about the columns of a table that have no features, if there are any."""
    skipped = preparation.skipped_ if isinstance(preparation, TableFeatures) else {}
    if not skipped:
        return {}
    names = listed([repr(name) for name in skipped])
    if len(skipped) > 1:
        return {"left out": f"{count(len(skipped), 'column')}: {names}; show says why"}
    (reason,) = skipped.values()
    return {"left out": f"column {names}: {reason}"}


def name_of(paths: list[str]) -> str:
    """Return the name of a table in messages."""
    return shown(paths[0]) + (", ..." if len(paths) > 1 else "")
