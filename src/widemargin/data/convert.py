"""Convert svmlight text to a folder of Arrow or Parquet files."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, BinaryIO

from widemargin.data.blocks import SIZES, Sizes
from widemargin.data.formats import Manifest
from widemargin.data.shards import ShardWriter
from widemargin.data.svmlight import read_svmlight_pieces

# More threads would parse faster than the writer thread can compress and write.
_THREADS = min(4, os.cpu_count() or 1)


def convert(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    format: str = "arrow",
    progress: Callable[[int], None] = lambda n_bytes: None,
    sizes: Sizes = SIZES,
) -> Manifest:
    """Write the rows of svmlight text to `folder`, in little memory.

    Parameters
    ----------
    source : path or "-"
        As for `read_svmlight`.
    folder : path
        Created if it does not exist; must be empty otherwise. After an error it is empty.
    format : {"arrow", "parquet"}, default="arrow"
    progress : callable, optional
        Called from time to time with the number of bytes read so far.
    sizes : Sizes
        How large blocks and parts are.

    Returns
    -------
    Manifest
        What was written.

    Raises
    ------
    SvmlightError
        If the text is malformed, truncated or has no rows; names the file and the line.
    """
    with ExitStack() as stack:
        if source == "-":
            stream = _Counted(sys.stdin.buffer, "standard input")
        else:
            file = stack.enter_context(open(source, "rb", buffering=0))
            stream = _Counted(file, os.fspath(source))
        # This thread reads, the writer's thread compresses, and _THREADS threads parse.
        writer = stack.enter_context(ShardWriter(folder, format, sizes))
        pieces = read_svmlight_pieces(stream, n_threads=_THREADS)  # type: ignore[arg-type]
        for piece in pieces:
            writer.add(piece.X, piece.y, piece.qid)
            progress(stream.bytes)
    return writer.manifest


class _Counted:
    """A stream that counts the bytes read."""

    def __init__(self, stream: io.RawIOBase | BinaryIO, name: str) -> None:
        self._stream: Any = stream
        self.name = name
        self.bytes = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.bytes += len(data)
        return data
