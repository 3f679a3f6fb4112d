"""Decompression of gzip, bzip2, xz and zstd, detected from the first bytes.

Concatenated streams are read as one text, as the command-line tools do. Truncated streams and
bytes after the last stream are errors. Decompression bombs are refused.
"""

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa

#: environment variable with the largest allowed ratio of decompressed to compressed size
MAX_RATIO_VARIABLE = "WIDEMARGIN_MAX_COMPRESSION_RATIO"
# Data files rarely compress by more than a factor of 50. Small outputs are always allowed.
_MAX_RATIO = 250.0
_HARMLESS_BYTES = 256 << 20
_COMPRESSED_READ = 1 << 16
_MAGIC_BYTES = 6  # enough to identify every format
_XZ_PADDING = 4  # xz streams may be followed by zero bytes, a multiple of this many


class CompressionError(ValueError):
    """Error in a compressed stream; the message does not name the stream."""


def decompressed(stream: BinaryIO, name: str) -> io.BufferedReader:
    """Return a reader of the decompressed text of `stream`; its first bytes tell the format.

    Reading raises CompressionError if the stream is damaged, truncated, followed by other bytes,
    or decompresses to too much. Closing the reader leaves `stream` open. Messages call it `name`.
    """
    head = b""
    while len(head) < _MAGIC_BYTES and (more := stream.read(_MAGIC_BYTES - len(head))):
        if not isinstance(more, bytes):
            raise TypeError(f"{name}: the stream must be opened in binary mode")
        head += more
    source = Rejoined(head, stream)
    whole: io.BufferedReader = io.BufferedReader(source, _COMPRESSED_READ)
    for magic, decompress in _DECOMPRESSORS.items():
        if head.startswith(magic):
            # Decompressors return small blocks; the buffer fills whole requests.
            return io.BufferedReader(_Text(decompress(whole), source))
    return whole


class Rejoined(io.RawIOBase):
    """A stream whose first bytes were already read, put back in front.

    Closing it leaves the stream open.
    """

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream
        self.n_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        data = self._head[: len(room)] or self._stream.read(len(room))
        self._head = self._head[len(data) :]
        room[: len(data)] = data
        self.n_bytes += len(data)
        return len(data)


class _Text(io.RawIOBase):
    """Output of a decompressor, limited in size; errors become CompressionError."""

    def __init__(self, stream: Any, source: Rejoined) -> None:
        self._stream = stream
        self._source = source
        self._n_bytes = 0
        self._max_ratio = _max_ratio()

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        try:
            size = self._stream.readinto(room)
        except EOFError:
            raise CompressionError("the compressed stream is truncated") from None
        except (OSError, zlib.error, lzma.LZMAError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # error of the operating system; decompressors raise OSError without errno
            if "Truncated" in str(error):  # the message of Arrow
                raise CompressionError("the compressed stream is truncated") from None
            raise CompressionError(f"the compressed stream is damaged ({error})") from None
        self._n_bytes += size
        allowed = max(_HARMLESS_BYTES, self._max_ratio * self._source.n_bytes)
        if self._n_bytes > allowed:
            raise CompressionError(
                f"the compressed stream unpacks to more than {self._max_ratio:g} times its size, "
                "which may be an attempt to fill memory; if you trust it, set the environment "
                f"variable {MAX_RATIO_VARIABLE} to a larger ratio"
            )
        return size


def _max_ratio() -> float:
    text = os.environ.get(MAX_RATIO_VARIABLE)
    if text is None:
        return _MAX_RATIO
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not ratio > 0.0:
        raise ValueError(
            f"the environment variable {MAX_RATIO_VARIABLE} must be a positive number, "
            f"not {text!r}"
        )
    return ratio


class _Streams(io.RawIOBase):
    """Contents of concatenated streams; bytes after the last stream are an error.

    Python's `bz2.open` and `lzma.open` ignore such bytes.
    """

    def __init__(
        self, stream: BinaryIO, decompressor: Callable[[], Any], magic: bytes, padding: int
    ) -> None:
        self._stream = stream
        self._new_decompressor = decompressor
        self._magic = magic
        self._padding = padding
        self._decompressor = decompressor()
        self._compressed = b""

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        while True:
            if self._decompressor.eof and not self._begin_next():
                return 0
            if not self._compressed and self._decompressor.needs_input:
                self._compressed = self._stream.read(_COMPRESSED_READ)
                if not self._compressed:
                    raise EOFError
            text = self._decompressor.decompress(self._compressed, len(room))
            self._compressed = b""
            if text:
                room[: len(text)] = text
                return len(text)

    def _begin_next(self) -> bool:
        """Start the next stream; return whether there is one."""
        rest, n_zeros = self._decompressor.unused_data, 0
        while True:
            if self._padding:
                n_zeros += len(rest) - len(rest.lstrip(b"\0"))
                rest = rest.lstrip(b"\0")
            if len(rest) >= len(self._magic) or not (more := self._stream.read(_COMPRESSED_READ)):
                break
            rest += more
        if not self._magic.startswith(rest[: len(self._magic)]) or (
            n_zeros and n_zeros % self._padding
        ):
            raise CompressionError("bytes follow the end of the compressed stream")
        if rest:
            self._decompressor, self._compressed = self._new_decompressor(), rest
        return bool(rest)


def _bzip2(stream: BinaryIO) -> _Streams:
    return _Streams(stream, bz2.BZ2Decompressor, b"BZh", padding=0)


def _xz(stream: BinaryIO) -> _Streams:
    magic = b"\xfd7zXZ\x00"
    return _Streams(stream, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), magic, _XZ_PADDING)


def _zstd(stream: BinaryIO) -> pa.CompressedInputStream:
    return pa.CompressedInputStream(stream, "zstd")


_DECOMPRESSORS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": _bzip2,
    b"\xfd7zXZ\x00": _xz,
    b"\x28\xb5\x2f\xfd": _zstd,
}
