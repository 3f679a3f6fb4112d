"""Read single files of rows as Arrow record batches: Arrow IPC, Parquet, svmlight text.

Memory holds a few record batches, no matter how large the file is. The columns of a batch are
``label`` (numbers), ``indices`` (lists of column numbers from 0, increasing) and ``values`` (lists
of the values in these columns). The columns ``qid`` and ``weight`` are optional.
"""

import os
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from widemargin.data.formats import TEXT, ShardError, format_of
from widemargin.data.svmlight import SvmlightError, read_svmlight_pieces

# Columns of one number per row.
SMALL_COLUMNS = {"label": np.float64, "qid": np.int64, "weight": np.float64}
# The largest decoded size of a batch of a Parquet file in bytes. A row group that this library
# writes is smaller.
_PARQUET_BATCH_BYTES = 16 << 20
_READ_BYTES = 1 << 20
_N_FEATURES = b"n_features"


class RowFile:
    """One file, and its size and modification time when it was opened.

    Parameters
    ----------
    expected_bytes, crc32 : int, optional
        Size and checksum from a manifest.
    """

    def __init__(
        self, path: str | os.PathLike, expected_bytes: int | None = None, crc32: int | None = None
    ):
        self.path = os.fspath(path)
        self.crc32 = crc32
        self.stamp = self._stamp()
        if expected_bytes is not None and self.stamp[0] != expected_bytes:
            raise ShardError(
                f"{self.path}: {self.stamp[0]} bytes, and its manifest says {expected_bytes}; "
                "is it cut short?"
            )
        self.format = format_of(path)
        if crc32 is not None and self.format == TEXT:
            raise ShardError(f"{self.path}: damaged: it is neither Arrow nor Parquet")

    def batches(self, columns: Sequence[str], check: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in order, with those of `columns` that the file has.

        With `check`, all offsets of lists and strings are checked to lie within their data.
        Without it, Arrow makes only its constant-time checks.

        Raises ShardError if the file cannot be read, or has changed since it was opened.
        """
        self._check_unchanged()
        try:
            for batch in _READERS[self.format](self.path, columns, check):
                batch.validate(full=check)
                yield batch
        except (ShardError, SvmlightError):
            self._check_unchanged()
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            self._check_unchanged()
            self.verify()  # a damaged file may ask for any amount of memory
            if isinstance(error, MemoryError):
                raise MemoryError(f"to read {self.path} ({_in_a_line(error)})") from error
            raise ShardError(f"{self.path}: cannot be read ({_in_a_line(error)})") from error
        self._check_unchanged()

    def verify(self) -> None:
        """Raise ShardError if the file has a checksum and does not match it."""
        if self.crc32 is None:
            return
        crc = 0
        try:
            with open(self.path, "rb", buffering=0) as file:
                while data := file.read(_READ_BYTES):
                    crc = zlib.crc32(data, crc)
        except OSError as error:
            raise ShardError(f"{self.path}: {error.strerror or error}") from error
        if crc != self.crc32:
            self._check_unchanged()
            raise ShardError(f"{self.path}: damaged: its checksum is not the manifest's")

    def _check_unchanged(self) -> None:
        if self._stamp() != self.stamp:
            raise ShardError(f"{self.path}: changed while it was being read")

    def _stamp(self) -> tuple[int, int]:
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise ShardError(f"{self.path}: {error.strerror or error}") from error
        return status.st_size, status.st_mtime_ns


def record_batch(
    values: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    labels: np.ndarray,
    qid: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> pa.RecordBatch:
    """Return CSR rows as a record batch, without copying the arrays if their types allow."""
    offsets = pa.array(indptr, type=pa.int32())
    columns = {
        "label": pa.array(labels, type=pa.float64()),
        "indices": pa.ListArray.from_arrays(offsets, pa.array(indices, type=pa.uint32())),
        "values": pa.ListArray.from_arrays(offsets, pa.array(values, type=pa.float32())),
    }
    if qid is not None:
        columns["qid"] = pa.array(qid, type=pa.int64())
    if weight is not None:
        columns["weight"] = pa.array(weight, type=pa.float64())
    return pa.RecordBatch.from_pydict(columns)


def stated_features(batch: pa.RecordBatch) -> int:
    """Return the number of features stated with a batch of text, even if not all occur; or 0."""
    return int((batch.schema.metadata or {}).get(_N_FEATURES, 0))


def _arrow_batches(path: str, columns: Sequence[str], check: bool) -> Iterator[pa.RecordBatch]:
    # The file is not memory-mapped. Mapped pages would count as memory of the process, and if the
    # file were cut short, reading them would kill the process.
    with pa.OSFile(path) as file:
        names = pa.ipc.open_file(file).schema.names
        wanted = [place for place, name in enumerate(names) if name in columns]
        if not wanted:  # for an empty list, Arrow would read all columns
            raise ShardError(_none_of(path, columns, names))
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        reader = pa.ipc.open_file(file, options=options)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _parquet_batches(path: str, columns: Sequence[str], check: bool) -> Iterator[pa.RecordBatch]:
    # With a buffer size, single pages are read when they are needed, instead of whole row groups.
    with pq.ParquetFile(path, buffer_size=_READ_BYTES, pre_buffer=False) as file:
        names = file.schema_arrow.names
        wanted = [name for name in names if name in columns]
        if not wanted:
            raise ShardError(_none_of(path, columns, names))
        for number in range(file.num_row_groups):
            if check:
                # If the metadata of a column is damaged, this raises an error. Without it,
                # the next lines would kill the process.
                next(file.iter_batches(1, [number], wanted, use_threads=False), None)
            rows = _rows_at_once(file, number, set(wanted))
            yield from file.iter_batches(rows, [number], wanted, use_threads=False)


def _rows_at_once(file: pq.ParquetFile, number: int, columns: set[str]) -> int:
    """Return how many rows of a row group make a batch, from the mean size of its rows.

    Small columns do not count. So batches and blocks are the same if these are read as well.
    """
    group = file.metadata.row_group(number)
    large = columns - SMALL_COLUMNS.keys()
    paths = [file.schema.column(k).path for k in range(group.num_columns)]
    chunks = [group.column(k) for k, path in enumerate(paths) if path.split(".")[0] in large]
    size = sum(
        # The size in the metadata is that of encoded values. Dictionary encoding can make it
        # almost zero.
        max(8 * chunk.num_values, chunk.total_uncompressed_size)
        for chunk in chunks
    )
    return max(1, group.num_rows * _PARQUET_BATCH_BYTES // max(size, _PARQUET_BATCH_BYTES))


def _text_batches(path: str, columns: Sequence[str], check: bool) -> Iterator[pa.RecordBatch]:
    for piece in read_svmlight_pieces(path):
        X = piece.X
        batch = record_batch(X.data, X.indices.view(np.uint32), X.indptr, piece.y, piece.qid)
        yield batch.replace_schema_metadata({_N_FEATURES: str(X.shape[1])})


_READERS = {"arrow": _arrow_batches, "parquet": _parquet_batches, TEXT: _text_batches}


def _none_of(path: str, columns: Sequence[str], names: Sequence[str]) -> str:
    return f"{path}: has none of the columns {', '.join(columns)}, but {', '.join(names)}"


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())
