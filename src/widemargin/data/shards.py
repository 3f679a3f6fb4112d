"""Write rows to a folder of parts that `open_rows` reads.

Record batches are small, so that readers need little memory. The default format, Arrow IPC with
lz4 compression, is decoded several times faster than lists in Parquet; more programs read Parquet.
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
from numpy.typing import ArrayLike
from scipy import sparse

from widemargin.data import blocks
from widemargin.data.blocks import SIZES, Sizes
from widemargin.data.files import SMALL_COLUMNS, record_batch
from widemargin.data.formats import MANIFEST, Manifest, Part, ShardError, part_name
from widemargin.data.memory import CsrRows

# Record batches waiting to be written: enough to keep the writer thread busy.
_MAX_QUEUED = 4


class ShardWriter:
    """Writes rows to a folder, piece by piece; a thread compresses and writes them.

    Use it as a context manager: the manifest is written on exit. After an error, all written
    files are removed.

    Parameters
    ----------
    folder : path
        Created if it does not exist; must be empty otherwise.
    format : {"arrow", "parquet"}, default="arrow"
    sizes : Sizes
        How large blocks and parts are.

    Attributes
    ----------
    manifest : Manifest
        Contents of the folder, after exit.

    Examples
    --------
    >>> with ShardWriter("rows") as writer:  # doctest: +SKIP
    ...     for X, y in pieces:
    ...         writer.add(X, y)
    """

    def __init__(
        self, folder: str | os.PathLike, format: str = "arrow", sizes: Sizes = SIZES
    ) -> None:
        if format not in _SINKS:
            raise ValueError(f"format must be one of {', '.join(_SINKS)}, not {format!r}")
        self.folder = Path(folder)
        self.format, self.sizes = format, sizes
        self.n_features = 0
        self.has: tuple[bool, bool] | None = None  # whether the first piece has (qid, weight)
        self.parts: list[Part] = []
        self._made_folder = not self.folder.exists()
        self.folder.mkdir(exist_ok=True)
        if any(self.folder.iterdir()):
            why = "the folder is not empty"
            if any(self.folder.glob("part-*")) and not (self.folder / MANIFEST).exists():
                why += ": it has parts of an unfinished conversion"
            raise FileExistsError(17, why, os.fspath(folder))
        self._buffered: list[tuple] = []
        self._buffered_bytes = 0
        self._part: _Part | None = None
        self._thread = ThreadPoolExecutor(1)
        self._writing: deque[Future] = deque()

    def add(
        self,
        X: sparse.spmatrix,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> None:
        """Append rows.

        Parameters
        ----------
        X : SciPy sparse of shape (n, d)
            Values are rounded to float32. Pieces may differ in d; the largest d is used.
        y : array of shape (n,)
        qid, weight : array of shape (n,), optional
            Given for every piece or for none.
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
        for begin, end in blocks.cuts(indptr, self.sizes.block_bytes):
            entries = slice(indptr[begin], indptr[end])
            size = blocks.decoded_bytes(end - begin, entries.stop - entries.start)
            if self._buffered_bytes + size > self.sizes.block_bytes:
                self._flush()
            lengths = np.diff(indptr[begin : end + 1])
            some = (None if c is None else c[begin:end] for c in columns)
            self._buffered.append((values[entries], indices[entries], lengths, *some))
            self._buffered_bytes += size

    def _flush(self) -> None:
        """Submit the buffered rows to the writer thread, as one record batch."""
        if self._buffered:
            if len(self._writing) == _MAX_QUEUED:
                self._writing.popleft().result()
            self._writing.append(self._thread.submit(self._write, self._buffered))
            self._buffered, self._buffered_bytes = [], 0

    def _write(self, buffered: list[tuple]) -> None:
        joined: list[Any] = [
            None if pieces[0] is None else np.concatenate(pieces) for pieces in zip(*buffered)
        ]
        values, indices, lengths, *columns = joined
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        batch = record_batch(values, indices, indptr, *columns)
        if self._part is None:
            path = self.folder / part_name(len(self.parts), self.format)
            self._part = _Part(path, self.format, batch.schema)
        self._part.add(batch, values.size)
        if self._part.file.bytes >= self.sizes.part_bytes:
            self._finish_part()

    def _finish_part(self) -> None:
        if self._part is not None:
            self.parts.append(self._part.finish())
            self._part = None

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self, error_type: type | None, error: BaseException | None, traceback: Any
    ) -> None:
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


def _checked(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CSR arrays of sparse X, with sorted indices and finite float32 values."""
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


def _checked_column(name: str, column: ArrayLike) -> np.ndarray:
    """Return a column of numbers in the type it is stored in."""
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
    """A file being written; keeps track of its size and checksum."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - `finish` closes it
        self.bytes = 0
        self.crc32 = 0

    def write(self, data: Any) -> int:
        if self._file.closed:  # abandoned; Arrow's writers may still write
            return len(data)
        view = memoryview(data)
        self.crc32 = zlib.crc32(view, self.crc32)
        self.bytes += len(view)
        while len(view):  # a system call may write fewer bytes
            view = view[self._file.write(view) :]
        return len(data)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Do nothing: the file is unbuffered."""

    def finish(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        self._file.close()

    def close(self) -> None:
        """Do nothing: `finish` and `abandon` close the file."""

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
        except BaseException:  # for example a full disk: no one else would remove the file
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
