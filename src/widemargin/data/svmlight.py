"""Read svmlight (LIBSVM) text, plain or compressed, into a CSR matrix.

The text is parsed in chunks of whole lines, so memory holds only the result and one chunk.
"""

import io
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from widemargin.data.compression import CompressionError, decompressed
from widemargin.data.memory import csr_in_place
from widemargin.kernels import svmlight as grammar

_CHUNK_BYTES = 4 << 20
_SHOWN_CHARACTERS = 40
_NEWLINE = b"\n"

_MESSAGES = {
    grammar.BAD_LABEL: "label {token} is not a number",
    grammar.LABEL_MISSING: "the label is missing: the line begins with {token}",
    grammar.BAD_QID: f"{{token}} is not qid:N with a whole number N of at most "
    f"{grammar.QID_DIGITS} digits",
    grammar.QID_MISSING: "qid is missing, but earlier lines have one",
    grammar.QID_UNEXPECTED: "{token} given, but earlier lines have no qid",
    grammar.BAD_INDEX: "{token} is not index:value with a whole number as index",
    grammar.COLON_MISSING: "{token} has no colon; expected index:value",
    grammar.INDEX_ZERO: "index 0 in {token}: indices start at 1; is the file zero-based?",
    grammar.INDEX_NOT_INCREASING: "index of {token} repeats or precedes the one before it; "
    "indices must increase along a line",
    grammar.VALUE_MISSING: "{token} has no value; is the file cut short?",
    grammar.BAD_VALUE: "value in {token} is not a finite number",
}


class SvmlightError(ValueError):
    """The text is malformed or truncated; the message names the file and the line."""


@dataclass(frozen=True)
class SvmlightData:
    """Contents of an svmlight file.

    Attributes
    ----------
    X : csr_matrix of shape (n_rows, n_features)
        The rows; column j holds index j + 1 of the text. Indices are sorted.
    y : ndarray of shape (n_rows,), float64
        The labels.
    qid : ndarray of shape (n_rows,), int64, or None
        The query ids, if the file has them.
    """

    X: sparse.csr_matrix
    y: np.ndarray
    qid: np.ndarray | None


def read_svmlight(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    n_features: int | None = None,
    dtype: DTypeLike = np.float32,
    _chunk_bytes: int = _CHUNK_BYTES,
) -> SvmlightData:
    """Read svmlight text.

    Lines are ``label [qid:N] index:value ... [# comment]``. Indices start at 1 and increase
    along a line. Each number is the double nearest to its decimal text, then rounded to `dtype`.
    A value ``NULL``, which LETOR uses for a missing value, is not stored, so it is zero; its
    index still counts towards the number of features.

    Parameters
    ----------
    source : path, "-" or binary file object
        "-" is standard input. Compression by gzip, bzip2, xz or zstd is detected from the first
        bytes, not from the name. Text that decompresses to more than 250 times its size and more
        than 256 MiB is refused, unless the environment variable
        ``WIDEMARGIN_MAX_COMPRESSION_RATIO`` allows more. A file object is read to its end and
        not closed.
    n_features : int, optional
        Number of columns; larger indices are an error. Default: the largest index in the file.
    dtype : float32 or float64
        Type of the values of X.

    Returns
    -------
    SvmlightData

    Raises
    ------
    SvmlightError
        If the text is malformed, truncated or has no rows; names the file and the line.
    """
    pieces = list(read_svmlight_pieces(source, n_features, dtype, _chunk_bytes=_chunk_bytes))
    return _joined_pieces(pieces)


def read_svmlight_pieces(
    source: str | os.PathLike[str] | BinaryIO,
    n_features: int | None = None,
    dtype: DTypeLike = np.float32,
    *,
    n_threads: int = 1,
    _chunk_bytes: int = _CHUNK_BYTES,
) -> Iterator[SvmlightData]:
    """Yield the contents of an svmlight file in pieces, each from a few megabytes of text.

    Parameters and errors are those of `read_svmlight`; `n_threads` pieces are parsed in parallel.
    Every piece has rows. Without `n_features`, it has as many columns as the largest index so far.
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, not {dtype}")
    if n_features is not None and not 0 <= n_features <= grammar.MAX_INDEX:
        raise ValueError(f"n_features must lie in 0..{grammar.MAX_INDEX}, not {n_features}")

    with ExitStack() as stack:
        stream: BinaryIO
        if not isinstance(source, str | os.PathLike):
            stream, name = source, _name_of(source)
        elif source == "-":
            stream, name = sys.stdin.buffer, "standard input"
        else:
            name = os.fspath(source)
            # Unbuffered: reads are large, and a buffer would only copy them.
            stream = stack.enter_context(open(source, "rb", buffering=0))
        parser = _Parser(name, n_features, dtype)
        texts = _whole_lines(decompressed(stream, name), name, _chunk_bytes)
        for piece in parser.pieces(texts, n_threads):
            if piece.y.size:
                yield piece
        parser.check_not_empty()


class _Scanned(NamedTuple):
    """Parsed chunk of text, independent of the chunks before it."""

    parsed: grammar.Parsed
    values: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    labels: np.ndarray
    qids: np.ndarray | None


class _Parser:
    """Parses chunks of text into pieces of a matrix."""

    def __init__(self, name: str, n_features: int | None, dtype: np.dtype) -> None:
        self.name = name
        self.n_features = n_features
        self.dtype = dtype
        self.lines = 0
        self.largest_index = 0
        self.qid_state = grammar.QID_UNKNOWN
        self._thread_local = threading.local()

    def pieces(
        self, texts: Iterator[tuple[bytearray, int]], n_threads: int
    ) -> Iterator[SvmlightData]:
        """Yield the rows of the chunks ``buffer[:stop]``, each of whole lines.

        Threads scan chunks before the earlier ones are accepted, and so have to guess whether
        the file has query ids. A chunk scanned with a wrong guess is scanned again.
        """
        if n_threads == 1:
            for buffer, stop in texts:
                yield self._accept(buffer, self._scan(buffer, stop, self.qid_state))
            return
        pending: deque[tuple[bytearray, int, int, Future]] = deque()

        def first() -> SvmlightData:
            buffer, stop, assumed, scanning = pending.popleft()
            scanned = scanning.result()
            if assumed != self.qid_state:
                scanned = self._scan(buffer, stop, self.qid_state)
            return self._accept(buffer, scanned)

        with ThreadPoolExecutor(n_threads) as pool:
            for buffer, stop in texts:
                scanning = pool.submit(self._scan, buffer, stop, self.qid_state)
                pending.append((buffer, stop, self.qid_state, scanning))
                if len(pending) > n_threads:
                    yield first()
            while pending:
                yield first()

    def _scan(self, buffer: bytearray, stop: int, qid_state: int) -> "_Scanned":
        """Parse ``buffer[:stop]``; uses no state that other chunks change."""
        local = self._thread_local
        if getattr(local, "n_bytes", -1) < len(buffer):
            local.n_bytes, local.workspace = len(buffer), _workspace(len(buffer))
        max_index = grammar.MAX_INDEX if self.n_features is None else int(self.n_features)
        text = np.frombuffer(buffer, dtype=np.uint8)
        parsed = grammar.parse_lines(text, stop, max_index, qid_state, *local.workspace)
        indices, values, row_ends, labels, qids, left_slots, left_spans = local.workspace
        values, labels = values[: parsed.entries], labels[: parsed.rows]
        if parsed.n_left and parsed.error == grammar.OK:
            slots = left_slots[: parsed.n_left]
            spans = left_spans[: parsed.n_left].tolist()
            numbers = np.array([float(buffer[begin:end]) for begin, end in spans])
            in_entry = slots >= 0
            values[slots[in_entry]] = numbers[in_entry]
            labels[~slots[~in_entry]] = numbers[~in_entry]
        with np.errstate(over="ignore"):  # `_check_range` reports overflow with its line
            rounded = values.astype(self.dtype)
        return _Scanned(
            parsed,
            rounded,
            indices[: parsed.entries].copy(),
            np.concatenate([[0], row_ends[: parsed.rows]]),
            labels.copy(),
            qids[: parsed.rows].copy() if parsed.qid_state == grammar.QID_PRESENT else None,
        )

    def _accept(self, buffer: bytearray, scanned: "_Scanned") -> SvmlightData:
        """Return a scanned chunk as rows, after all chunks before it were accepted."""
        parsed = scanned.parsed
        if parsed.error != grammar.OK:
            self._fail(buffer, parsed)
        self._check_range(buffer, scanned.values, scanned.indptr[1:], scanned.labels)
        self.lines += parsed.lines
        self.largest_index = max(self.largest_index, parsed.largest_index)
        self.qid_state = parsed.qid_state
        n_features = self.largest_index if self.n_features is None else self.n_features
        X = csr_in_place(scanned.values, scanned.indices, scanned.indptr, n_features)
        return SvmlightData(X, scanned.labels, scanned.qids)

    def check_not_empty(self) -> None:
        if self.lines == 0:
            raise SvmlightError(f"{self.name}: no rows; the file is empty")
        if self.qid_state == grammar.QID_UNKNOWN:
            raise SvmlightError(f"{self.name}: no rows; there are only comments and blank lines")

    def _fail(self, buffer: bytearray, parsed: grammar.Parsed) -> NoReturn:
        token = _shown(buffer, parsed.position)
        if parsed.error == grammar.INDEX_TOO_LARGE:
            if self.n_features is None:
                message = f"index of {token} is over {grammar.MAX_INDEX}, the largest supported"
            else:
                message = f"index of {token} is over n_features = {self.n_features}"
        else:
            message = _MESSAGES[parsed.error].format(token=token)
        raise SvmlightError(f"{self.name}, line {self.lines + parsed.lines + 1}: {message}")

    def _check_range(
        self, buffer: bytearray, rounded: np.ndarray, row_ends: np.ndarray, labels: np.ndarray
    ) -> None:
        bad_labels = np.flatnonzero(~np.isfinite(labels))
        bad_values = np.flatnonzero(~np.isfinite(rounded))
        if bad_labels.size:
            row, message = bad_labels[0], "the label overflows float64"
        elif bad_values.size:
            row = np.searchsorted(row_ends, bad_values[0], side="right")
            message = f"a value overflows {self.dtype}"
        else:
            return
        line = self.lines + _line_of_row(buffer, row)
        raise SvmlightError(f"{self.name}, line {line}: {message}")


def _workspace(n_bytes: int) -> tuple[np.ndarray, ...]:
    """Return arrays for everything in `n_bytes` of text; unwritten pages take no memory."""
    most_entries, most_rows = n_bytes // 4, n_bytes // 2
    return (
        np.empty(most_entries, dtype=np.int32),
        np.empty(most_entries, dtype=np.float64),
        np.empty(most_rows, dtype=np.int64),
        np.empty(most_rows, dtype=np.float64),
        np.empty(most_rows, dtype=np.int64),
        np.empty(most_rows, dtype=np.int64),
        np.empty((most_rows, 2), dtype=np.int64),
    )


def _joined_pieces(pieces: list[SvmlightData]) -> SvmlightData:
    """Concatenate the pieces of one file."""
    n_features = pieces[-1].X.shape[1]
    row_ends, entries = [np.zeros(1, dtype=np.int64)], 0
    for piece in pieces:
        row_ends.append(piece.X.indptr[1:].astype(np.int64) + entries)
        entries += piece.X.nnz
    indices = [piece.X.indices for piece in pieces]
    values = [piece.X.data for piece in pieces]
    labels = [piece.y for piece in pieces]
    qids = [piece.qid for piece in pieces if piece.qid is not None]
    pieces.clear()  # from here on only the lists hold the arrays, so `_joined` can free them
    X = csr_in_place(_joined(values), _joined(indices), _joined(row_ends), n_features)
    return SvmlightData(X, _joined(labels), _joined(qids) if qids else None)


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    """Concatenate, and free each piece once it is copied, so that memory does not double."""
    whole = np.empty(sum(map(len, pieces)), dtype=pieces[0].dtype)
    end = len(whole)
    while pieces:
        piece = pieces.pop()
        whole[end - len(piece) : end] = piece
        end -= len(piece)
    return whole


def _shown(buffer: bytearray, position: int) -> str:
    """Return the token at `position`, quoted, and shortened if it is long."""
    head = bytes(buffer[position : position + _SHOWN_CHARACTERS + 1])
    token = head.split(None, 1)[0]
    if len(token) > _SHOWN_CHARACTERS:
        token = token[:_SHOWN_CHARACTERS] + b"..."
    return repr(token)[1:]  # without Python's b


def _line_of_row(buffer: bytearray, row: int) -> int:
    """Return the line number, from 1, of row `row` (from 0) of a chunk."""
    for number, line in enumerate(buffer.split(_NEWLINE), start=1):
        if line.split(b"#", 1)[0].strip():
            row -= 1
            if row < 0:
                return number
    raise AssertionError("the chunk has fewer rows than the parser found")


def _name_of(stream: BinaryIO) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) else "the given stream"


def _whole_lines(
    stream: io.BufferedReader, name: str, chunk_bytes: int
) -> Iterator[tuple[bytearray, int]]:
    """Yield (buffer, stop): ``buffer[:stop]`` are whole lines. Buffers are not reused."""
    buffer = bytearray(chunk_bytes + 1)  # one extra byte for a missing newline at the end
    filled = 0
    while True:
        begin = filled
        filled += _fill(stream, memoryview(buffer)[begin:-1], name)
        if filled == begin:
            break
        stop = buffer.rfind(_NEWLINE, begin, filled) + 1
        if stop:
            rest = buffer[stop:filled]
            yield buffer, stop
            buffer = rest + bytearray(len(buffer) - len(rest))
            filled = len(rest)
        elif filled == len(buffer) - 1:  # a line longer than the buffer
            buffer = buffer + bytearray(len(buffer))
    if filled:
        buffer[filled : filled + 1] = _NEWLINE
        yield buffer, filled + 1


def _fill(stream: io.BufferedReader, room: memoryview, name: str) -> int:
    """Read until `room` is full or the stream ends; return the number of bytes."""
    try:
        return stream.readinto(room)
    except CompressionError as error:
        raise SvmlightError(f"{name}: {error}") from None
