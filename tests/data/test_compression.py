"""Compressed text: every stream of it, nothing beside it, and no more than it should be."""

import bz2
import gzip
import io
import lzma

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.data import compression
from widemargin.data.svmlight import SvmlightError, read_svmlight

TEXT = b"".join(b"%d 1:%d 2:0.5\n" % (row % 2, row) for row in range(300))


def zstd_compress(text):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text)
    return sink.getvalue().to_pybytes()


COMPRESSIONS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd_compress,
}
every_compression = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)


def n_rows(content):
    return read_svmlight(io.BytesIO(content)).X.shape[0]


def refuse(tmp_path, content, match):
    path = tmp_path / "rows.packed"
    path.write_bytes(content)
    with pytest.raises(SvmlightError, match=match) as caught:
        read_svmlight(path)
    assert str(caught.value).startswith(f"{path}: ")


@every_compression
@pytest.mark.parametrize("garbage", [b"x", b"garbage", b"1 1:5\n", b"B", b"\xff" * 100_000])
def test_bytes_after_the_end(tmp_path, compress, garbage):
    refuse(tmp_path, compress(TEXT) + garbage, "bytes follow the end|stream is (damaged|trunc)")


@every_compression
def test_bytes_between_two_streams(tmp_path, compress):
    refuse(
        tmp_path,
        compress(TEXT) + b"garbage" + compress(TEXT),
        "bytes follow the end|stream is damaged",
    )


@every_compression
def test_a_second_stream_cut_short(tmp_path, compress):
    second = compress(TEXT)
    for length in (3, 5, len(second) // 2, len(second) - 1):
        refuse(tmp_path, compress(TEXT) + second[:length], "bytes follow|stream is truncated")


@every_compression
def test_many_streams_even_empty_ones(compress):
    parts = [TEXT[begin : begin + 1000] for begin in range(0, len(TEXT), 1000)]
    assert n_rows(b"".join(map(compress, [b"", *parts, b"", b""]))) == 300


@every_compression
def test_nothing_inside(tmp_path, compress):
    refuse(tmp_path, compress(b""), "no rows; the file is empty")


@every_compression
@given(data=st.data())
def test_cut_anywhere(compress, data):
    whole = compress(TEXT)
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with pytest.raises(SvmlightError):
        n_rows(cut)


def test_zeros_between_and_after_xz_streams(tmp_path):
    """The format has them as padding, in fours; `gzip` ignores zeros at the end as well."""
    for zeros in (4, 400, 4 * 2**16):
        padding = bytes(zeros)
        assert n_rows(lzma.compress(TEXT) + padding + lzma.compress(TEXT) + padding) == 600
    refuse(tmp_path, lzma.compress(TEXT) + bytes(3), "bytes follow the end")
    refuse(tmp_path, bz2.compress(TEXT) + bytes(4), "bytes follow the end")
    assert n_rows(gzip.compress(TEXT) + bytes(512)) == 300


def test_a_skippable_zstd_frame():
    frame = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    assert n_rows(zstd_compress(TEXT) + frame + zstd_compress(TEXT)) == 600


class TestBombs:
    @pytest.fixture(autouse=True)
    def small_harm(self, monkeypatch):
        """A file of a few kilobytes stands for one of gigabytes."""
        monkeypatch.setattr(compression, "_HARMLESS_BYTES", 1 << 20)
        monkeypatch.delenv(compression.MAX_RATIO_VARIABLE, raising=False)

    @every_compression
    def test_refused_unless_the_limit_is_raised(self, tmp_path, compress, monkeypatch):
        bomb = compress(b"1 1:1\n" * (1 << 20))
        refuse(
            tmp_path,
            bomb,
            "more than 250 times its size.*set the environment variable "
            "WIDEMARGIN_MAX_COMPRESSION_RATIO to a larger ratio",
        )
        monkeypatch.setenv(compression.MAX_RATIO_VARIABLE, "1e6")
        assert n_rows(bomb) == 1 << 20

    def test_a_line_without_end_ends(self, tmp_path):
        refuse(tmp_path, bz2.compress(b"1" * (16 << 20)), "more than 250 times its size")

    @every_compression
    def test_small_texts_may_be_packed_as_well_as_they_like(self, compress):
        assert n_rows(compress(b"1 1:1\n" * 100_000)) == 100_000

    @pytest.mark.parametrize("value", ["", "many", "nan", "0", "-1"])
    def test_a_limit_that_is_none(self, monkeypatch, value):
        monkeypatch.setenv(compression.MAX_RATIO_VARIABLE, value)
        with pytest.raises(ValueError, match="WIDEMARGIN_MAX_COMPRESSION_RATIO must be a pos"):
            n_rows(gzip.compress(TEXT))

    def test_none_at_all(self, monkeypatch):
        monkeypatch.setenv(compression.MAX_RATIO_VARIABLE, "inf")
        assert n_rows(gzip.compress(b"1 1:1\n" * (1 << 20))) == 1 << 20
