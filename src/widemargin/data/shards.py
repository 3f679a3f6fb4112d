"""Write rows to a folder of parts that `open_rows` reads.

Record batches are small enough that a reader's memory stays small, and parts of a size that is
handled well. The default format, Arrow IPC compressed by lz4, is decoded several times faster
than lists in Parquet, which more programs read.
"""

import contextlib
import os
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from widemargin.data import blocks
from widemargin.data.files import SMALL_COLUMNS, record_batch
from widemargin.data.formats import MANIFEST, Manifest, Part, ShardError, part_name
from widemargin.data.memory import CsrRows

PART_BYTES = 256 << 20
# Record batches on their way to the disk: enough to keep its thread busy.
_BATCHES_AHEAD = 4


class ShardWriter:
    """Writes rows to a folder, piece by piece, with a thread that compresses and writes.

    As a context manager: leaving it writes the manifest, which makes the folder whole. Leaving
    it by an error removes what was written.

    Parameters
    ----------
    folder : path
        Made if it does not exist. If it does, it must be empty.
    format : {"arrow", "parquet"}, default="arrow"

    Attributes
    ----------
    manifest : Manifest
        What was written, once it is whole.

    Examples
    --------
    >>> with ShardWriter("rows") as writer:  # doctest: +SKIP
    ...     for X, y in pieces:
    ...         writer.add(X, y)
    """

    def __init__(self, folder: str | os.PathLike, format: str = "arrow") -> None:
        if format not in _SINKS:
            raise ValueError(f"format must be one of {', '.join(_SINKS)}, not {format!r}")
        self.folder = Path(folder)
        self.format = format
        self.n_features = 0
        self.has: tuple[bool, bool] | None = None  # qid, weight: as the first piece has them
        self.parts: list[Part] = []
        self._made_folder = not self.folder.exists()
        self.folder.mkdir(exist_ok=True)
        if any(self.folder.iterdir()):
            why = "the folder is not empty"
            if any(self.folder.glob("part-*")) and not (self.folder / MANIFEST).exists():
                why += ": it has parts of rows that were never written to their end"
            raise FileExistsError(17, why, os.fspath(folder))
        self._gathered: list[tuple] = []
        self._gathered_bytes = 0
        self._part: _Part | None = None
        self._thread = ThreadPoolExecutor(1)
        self._writing: deque[Future] = deque()

    def add(self, X, y, qid=None, weight=None) -> None:
        """Append rows.

        Parameters
        ----------
        X : SciPy sparse of shape (n, d)
            Values are rounded to float32. Pieces may differ in d: the largest one counts.
        y : array of shape (n,)
        qid, weight : array of shape (n,), optional
            Every piece has them or none has.
        """
        values, indices, indptr = _checked(X)
        columns = [
            None if c is None else _checked_column(name, c)
            for name, c in {"label": y, "qid": qid, "weight": weight}.items()
        ]
        if any(c is not None and c.shape != (len(indptr) - 1,) for c in columns):
            raise ValueError(f"{len(indptr) - 1} rows, but y, qid or weight has another length")
        has = (qid is not None, weight is not None)
        self.has = self.has or has
        if has != self.has:
            raise ValueError("qid or weight is missing in this piece, or was in earlier ones")
        self.n_features = max(self.n_features, X.shape[1])
        for begin, end in blocks.cuts(indptr):
            entries = slice(indptr[begin], indptr[end])
            size = blocks.decoded_bytes(end - begin, entries.stop - entries.start)
            if self._gathered_bytes + size > blocks.BLOCK_BYTES:
                self._flush()
            lengths = np.diff(indptr[begin : end + 1])
            some = (None if c is None else c[begin:end] for c in columns)
            self._gathered.append((values[entries], indices[entries], lengths, *some))
            self._gathered_bytes += size

    def _flush(self) -> None:
        """Hand what was gathered to the thread that writes, as one record batch."""
        if self._gathered:
            if len(self._writing) == _BATCHES_AHEAD:
                self._writing.popleft().result()
            self._writing.append(self._thread.submit(self._write, self._gathered))
            self._gathered, self._gathered_bytes = [], 0

    def _write(self, gathered: list[tuple]) -> None:
        joined: list[Any] = [
            None if pieces[0] is None else np.concatenate(pieces) for pieces in zip(*gathered)
        ]
        values, indices, lengths, *columns = joined
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        batch = record_batch(values, indices, indptr, *columns)
        if self._part is None:
            path = self.folder / part_name(len(self.parts), self.format)
            self._part = _Part(path, self.format, batch.schema)
        self._part.add(batch, values.size)
        if self._part.file.bytes >= PART_BYTES:
            self._finish_part()

    def _finish_part(self) -> None:
        if self._part is not None:
            self.parts.append(self._part.finish())
            self._part = None

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, error_type, error, traceback) -> None:
        try:
            if error is None:
                self._finish()
        except BaseException:
            self._discard()
            raise
        if error is not None:
            self._discard()

    def _finish(self) -> None:
        self._flush()
        while self._writing:
            self._writing.popleft().result()
        self._thread.submit(self._finish_part).result()
        self._thread.shutdown()
        if not self.parts:
            raise ShardError(f"{self.folder}: there were no rows to write")
        has_qid, has_weight = self.has or (False, False)
        self.manifest = Manifest(
            n_rows=sum(part.rows for part in self.parts),
            n_features=self.n_features,
            n_entries=sum(part.entries for part in self.parts),
            qid=has_qid,
            weight=has_weight,
            files=tuple(self.parts),
        )
        self.manifest.write(self.folder)

    def _discard(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        names = [part.name for part in self.parts]
        if self._part is not None:
            self._part.file.abandon()
            names.append(self._part.path.name)
        for name in names:
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()
        if self._made_folder:
            with contextlib.suppress(OSError):
                self.folder.rmdir()


def _checked(X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return CSR arrays of sparse X, sorted, its values as finite float32."""
    if not sparse.issparse(X):
        raise TypeError(f"X must be a SciPy sparse matrix, not {type(X).__name__}")
    matrix = CsrRows(X).matrix
    end = matrix.indptr[-1]
    with np.errstate(over="ignore"):
        values = matrix.data[:end].astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        entry = int(np.argmin(np.isfinite(values)))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise ValueError(f"row {row} of this piece has a value that is not a finite float32")
    return values, matrix.indices[:end], matrix.indptr


def _checked_column(name: str, column) -> np.ndarray:
    """Return numbers, one for each row, as the type they are kept in."""
    values = np.asarray(column)
    if values.dtype == object:
        values = np.array(values.tolist())
    dtype = np.dtype(SMALL_COLUMNS[name])
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers, not {values.dtype}")
    converted, wrong = blocks.as_type(values.ravel(), dtype)
    if wrong is not None:
        raise ValueError(
            f"row {wrong} of this piece has the {name} {values.flat[wrong]}, which is no {dtype}"
        )
    return converted.reshape(values.shape)


class _CheckedFile:
    """A file being written, which knows its size and checksum."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by `finish`
        self.bytes = 0
        self.crc32 = 0

    def write(self, data) -> int:
        if self._file.closed:  # abandoned, which Arrow's writers do not know
            return len(data)
        view = memoryview(data)
        self.crc32 = zlib.crc32(view, self.crc32)
        self.bytes += len(view)
        while len(view):  # a system call may take less than it is given
            view = view[self._file.write(view) :]
        return len(data)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Nothing is held back."""

    def finish(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        self._file.close()

    def close(self) -> None:
        """Left to `finish` and `abandon`."""

    closed = False


def _arrow_sink(file: _CheckedFile, schema: pa.Schema) -> Any:
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    return pa.ipc.new_file(file, schema, options=options)


_SINKS = {"arrow": _arrow_sink, "parquet": pq.ParquetWriter}


class _Part:
    """A part being written."""

    def __init__(self, path: Path, format: str, schema: pa.Schema) -> None:
        self.path = path
        self.file = _CheckedFile(path)
        try:
            self.sink = _SINKS[format](self.file, schema)
        except BaseException:  # a full disk: nobody else knows of the file yet
            self.file.abandon()
            path.unlink()
            raise
        self.rows = self.entries = self.batches = 0

    def add(self, batch: pa.RecordBatch, n_entries: int) -> None:
        self.sink.write_batch(batch)  # a row group of its own in Parquet
        self.rows += batch.num_rows
        self.entries += n_entries
        self.batches += 1

    def finish(self) -> Part:
        self.sink.close()
        self.file.finish()
        return Part(
            name=self.path.name,
            rows=self.rows,
            entries=self.entries,
            batches=self.batches,
            bytes=self.file.bytes,
            crc32=self.file.crc32,
        )
