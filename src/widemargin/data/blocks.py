"""Decode record batches into blocks of CSR rows, without copying Arrow's memory if types allow."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from widemargin.arrays import for_kernels
from widemargin.data.formats import MAX_FEATURES, ShardError
from widemargin.data.memory import CsrRows
from widemargin.kernels import blocks as kernels

if TYPE_CHECKING:
    from widemargin.data.expand import FeatureMap

_ENTRY_BYTES = 8  # value and index
_ROW_BYTES = 32  # row pointer, label, qid and weight

# How many rows of a file are given to a feature map first. The size of its output decides how many
# rows it is given next.
_FIRST_ROWS = 64

# float64 represents all whole numbers up to this one exactly.
_LARGEST_OF_ALL = 2**53

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    """How rows on disk are cut."""

    block_bytes: int = 4 << 20  # largest decoded size of a block of several rows
    part_bytes: int = 256 << 20  # a part ends with the block that makes its file this large


SIZES = Sizes()


class Block(NamedTuple):
    """The rows begin, ..., end - 1.

    The arrays are CSR as kernels take it (see kernels/rows.py): values, float32 (m,), indices,
    uint32 (m,), and indptr, uint32 (end - begin + 1,), which begins with 0. Do not write to them.
    """

    begin: int
    end: int
    arrays: Arrays


class Origin(NamedTuple):
    """A position for error messages: a file and the number of a row in it."""

    path: str
    row: int

    def fail(self, row: int, message: str) -> NoReturn:
        raise ShardError(f"{self.path}, row {self.row + row}: {message}")


def decoded_bytes(n_rows: Any, n_entries: Any) -> Any:
    """Return how many bytes rows take in memory, with all optional columns."""
    return n_rows * _ROW_BYTES + n_entries * _ENTRY_BYTES


def cuts(indptr: np.ndarray, block_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end): ranges of rows with at most `block_bytes` decoded bytes, or of one row.

    indptr, (n + 1,), are the rows' row pointers.
    """
    n_rows = len(indptr) - 1
    ends = decoded_bytes(np.arange(n_rows + 1), indptr.astype(np.int64))
    begin = 0
    while begin < n_rows:
        end = int(np.searchsorted(ends, ends[begin] + block_bytes, side="right")) - 1
        end = max(end, begin + 1)
        yield begin, end
        begin = end


def cut(arrays: Arrays, block_bytes: int) -> Iterator[Arrays]:
    """Yield CSR rows in the ranges of `cuts`."""
    values, indices, indptr = arrays
    for begin, end in cuts(indptr, block_bytes):
        entries = slice(int(indptr[begin]), int(indptr[end]))
        yield values[entries], indices[entries], indptr[begin : end + 1] - indptr[begin]


def blocks_of(
    path: str,
    batches: Iterable[pa.RecordBatch],
    features: "FeatureMap | None",
    *,
    check: bool,
    block_bytes: int,
) -> Iterator[Arrays]:
    """Yield the rows of one file's batches as CSR blocks of at most about `block_bytes`.

    Errors name the file `path`. If `features` is None, rows are the columns ``indices`` and
    ``values``. With `check`, an error is raised if the lists of a row have different lengths, or
    if an index is not in 0..MAX_FEATURES - 1. `check_block` checks the rest.
    """
    row = 0
    rows_at_once = _FIRST_ROWS
    for batch in batches:
        if features is None:
            yield from cut(_decoded(batch, Origin(path, row), check), block_bytes)
        else:
            _check_columns(batch, features.columns, path)
            read = batch.select(features.columns)
            begin = 0
            while begin < batch.num_rows:
                part = read.slice(begin, rows_at_once)
                arrays = _mapped(part, features, Origin(path, row + begin))
                yield from cut(arrays, block_bytes)
                begin += part.num_rows
                size = decoded_bytes(part.num_rows, arrays[0].size)
                fitting = part.num_rows * block_bytes // size
                rows_at_once = max(1, min(fitting, 4 * part.num_rows))
        row += batch.num_rows


def check_block(arrays: Arrays, n_features: int, origin: Origin) -> int:
    """Raise ShardError if an index or a value is invalid; return the largest index plus one."""
    fault, row, entry, end = kernels.first_fault(*arrays, n_features)
    if fault == kernels.OK:
        return end
    values, indices, _ = arrays
    origin.fail(
        row,
        {
            kernels.INDEX_TOO_LARGE: f"column index {indices[entry]} is outside of "
            f"0..{n_features - 1}",
            kernels.INDEX_NOT_INCREASING: f"column index {indices[entry]} repeats or precedes "
            "the one before it; indices must increase along a row",
            kernels.NOT_FINITE: f"the value of column {indices[entry]} is {values[entry]}, "
            "not a finite float32",
        }[fault],
    )


def numbers(batch: pa.RecordBatch, name: str, dtype: DTypeLike, origin: Origin) -> np.ndarray:
    """Return a column as an array of `dtype`; raise ShardError if a number does not fit."""
    column = batch.column(name)
    _check_type(column.type, name, origin)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        origin.fail(row, f"{name} is missing")
    values = column.to_numpy(zero_copy_only=False)
    converted, wrong = as_type(values, dtype)
    if wrong is not None:
        origin.fail(wrong, f"{name} is {values[wrong]}, which is no {np.dtype(dtype)}")
    return converted


def as_type(values: np.ndarray, dtype: DTypeLike) -> tuple[np.ndarray, int | None]:
    """Return numbers (n,) as another type, and the position of the first that does not fit."""
    with np.errstate(invalid="ignore"):  # the next lines find these numbers
        converted = values.astype(dtype)
    wrong = ~np.isfinite(values) | (converted != values)
    if values.dtype.kind in "iu" and converted.dtype.kind == "f":
        # NumPy converts integers to floating point for the comparison. Large ones may then be
        # equal to a number that they are not equal to.
        large = np.flatnonzero((values > _LARGEST_OF_ALL) | (values < -_LARGEST_OF_ALL))
        wrong[large] = [int(converted[row]) != int(values[row]) for row in large]
    return converted, int(np.argmax(wrong)) if wrong.any() else None


def _check_columns(batch: pa.RecordBatch, names: list[str], path: str) -> None:
    missing = [name for name in names if name not in batch.schema.names]
    if missing:
        raise ShardError(f"{path}: there is no column {', '.join(missing)}")


def _check_type(kind: pa.DataType, name: str, origin: Origin) -> None:
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ShardError(f"{origin.path}: column {name} is {kind}, not numbers")


def _decoded(batch: pa.RecordBatch, origin: Origin, check: bool) -> Arrays:
    """Return the columns ``indices`` and ``values`` as CSR."""
    indices, indptr = _lists(batch, "indices", origin)
    values, same_indptr = _lists(batch, "values", origin)
    if check:
        if not np.array_equal(indptr, same_indptr):
            row = int(np.argmax(np.diff(indptr) != np.diff(same_indptr)))
            origin.fail(row, "indices and values are lists of different lengths")
        if indices.dtype.kind not in "iu":
            raise ShardError(f"{origin.path}: indices are {indices.dtype}, not whole numbers")
        _check_range(indices, indptr, origin)
    with np.errstate(over="ignore"):  # check_block reports values that are not finite
        values = values.astype(np.float32, copy=False)
    return for_kernels(values), for_kernels(_uint32(indices)), for_kernels(_uint32(indptr))


def _lists(batch: pa.RecordBatch, name: str, origin: Origin) -> tuple[np.ndarray, np.ndarray]:
    """Return the items of a column of lists, and where each list begins, starting with 0."""
    _check_columns(batch, [name], origin.path)
    column = batch.column(name)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise ShardError(f"{origin.path}: column {name} is {column.type}, not lists of numbers")
    _check_type(column.type.value_type, name, origin)
    offsets = column.offsets.to_numpy()
    held = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    if column.null_count or held.null_count:
        origin.fail(_row_with_null(column), f"{name} is missing, or has a missing number")
    indptr = offsets if offsets[0] == 0 else offsets - offsets[0]
    return held.to_numpy(zero_copy_only=False), indptr


def _row_with_null(column: pa.Array) -> int:
    return next(row for row, items in enumerate(column.to_pylist()) if not items or None in items)


def _check_range(indices: np.ndarray, indptr: np.ndarray, origin: Origin) -> None:
    """Raise ShardError for indices that conversion to uint32 would change."""
    if indices.dtype == np.uint32 or not indices.size:
        return
    wrong = (indices < 0) | (indices >= MAX_FEATURES)
    if wrong.any():
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        origin.fail(row, f"column index {indices[entry]} is outside of 0..{MAX_FEATURES - 1}")


def _mapped(batch: pa.RecordBatch, features: "FeatureMap", origin: Origin) -> Arrays:
    """Return the output of a feature map for a batch, as CSR arrays."""
    try:
        X = CsrRows(features(batch)).matrix
    except ValueError as error:
        last = origin.row + batch.num_rows - 1
        raise ShardError(f"{origin.path}, rows {origin.row}..{last}: {error}") from error
    if X.shape != (batch.num_rows, features.n_features):
        raise ValueError(
            f"the feature map made {X.shape[0]} rows of {X.shape[1]} features out of "
            f"{batch.num_rows} rows; it says it makes {features.n_features} features"
        )
    return X.data.astype(np.float32, copy=False), _uint32(X.indices), _uint32(X.indptr)


def _uint32(integers: np.ndarray) -> np.ndarray:
    """Return integers that fit uint32 as uint32, without a copy if they have 32 bits."""
    return integers.view(np.uint32) if integers.itemsize == 4 else integers.astype(np.uint32)


def narrowed(arrays: Arrays, n_features: int) -> Arrays:
    """Return the rows without the entries in columns from `n_features` on."""
    values, indices, indptr = arrays
    kept = indices < n_features
    kept_before = np.concatenate([[0], np.cumsum(kept)])
    return values[kept], indices[kept], kept_before[indptr].astype(np.uint32)
