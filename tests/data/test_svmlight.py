"""The svmlight reader against scikit-learn's, and against Python's own `float`."""

import bz2
import gzip
import io
import lzma
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from widemargin.data.svmlight import SvmlightError, read_svmlight, read_svmlight_pieces
from widemargin.kernels.svmlight import parse_lines

COMPRESSIONS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def read(text, **options):
    return read_svmlight(io.BytesIO(text), **options)


def zstd_compress(text):
    return pa.Codec("zstd").compress(text, asbytes=True)


@pytest.fixture(scope="module")
def text():
    """Some lines with everything in them that the format allows."""
    rng = np.random.default_rng(0)
    lines = ["# a comment", ""]
    for row in range(300):
        columns = np.flatnonzero(rng.random(40) < 0.2) + 1
        pairs = [f"{j}:{rng.standard_normal():.6g}" for j in columns]
        lines.append(" ".join([f"{row % 3 - 1:+d}", *pairs]) + " # row" * (row % 5 == 0))
    return "\n".join(lines).encode() + b"\n"


def assert_same(data, expected):
    assert data.X.shape == expected.X.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(data.X, name), getattr(expected.X, name))
    np.testing.assert_array_equal(data.y, expected.y)


def test_small_file_in_full():
    data = read(b"# head\n\n+1 1:0.5\t3:-2e3 # tail\r\n   \n-1\n0.5 2:.25 4:1.#5:9")
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, -2000, 0], [0] * 4, [0, 0.25, 0, 1]])
    np.testing.assert_array_equal(data.y, [1, -1, 0.5])
    assert data.qid is None
    assert isinstance(data.X, sparse.csr_matrix)
    assert data.X.has_sorted_indices
    assert (data.X.dtype, data.X.indices.dtype, data.X.indptr.dtype) == ("f4", "i4", "i4")
    assert data.y.dtype == np.float64
    data.X.check_format(full_check=True)


def test_query_ids():
    data = read(b"2 qid:1 1:1\n1 qid:1\n3\tqid:-7 2:1\n")
    np.testing.assert_array_equal(data.qid, [1, 1, -7])
    assert data.qid.dtype == np.int64


def test_null_is_a_missing_value():
    data = read(
        b"0 qid:10 1:4 2:NULL 3:0 #docid = GX1\n2 qid:10 1:NULL\t4:NULL\r\n1 qid:11 5:NULL"
    )
    np.testing.assert_array_equal(data.X.toarray(), [[4, 0, 0, 0, 0], [0] * 5, [0] * 5])
    assert data.X.indices.tolist() == [0, 2]
    assert data.X.indptr.tolist() == [0, 2, 2, 2]
    np.testing.assert_array_equal(data.y, [0, 2, 1])
    assert read(b"1 1:NULL#tail\n").X.shape == (1, 1)


def test_null_between_numbers_left_to_the_caller():
    """Numbers too long for the parser find their places whatever was left out before them."""
    digits = "0.1234567890123456789012345"
    data = read(f"1 1:NULL 2:{digits} 3:NULL 4:2\n".encode(), dtype=np.float64)
    np.testing.assert_array_equal(data.X.toarray(), [[0, float(digits), 0, 2]])


@pytest.mark.parametrize("chunk_bytes", range(1, 20))
def test_null_is_read_whole_however_the_text_is_cut(chunk_bytes):
    data = read(b"1 1:NULL 2:3\n0 2:NULL", _chunk_bytes=chunk_bytes)
    np.testing.assert_array_equal(data.X.toarray(), [[0, 3], [0, 0]])


def test_rows_without_entries():
    data = read(b"1\n-1\n")
    assert data.X.shape == (2, 0)
    assert read(b"1\n-1\n", n_features=0).X.shape == (2, 0)


def test_n_features_widens():
    assert read(b"1 3:1\n", n_features=10).X.shape == (1, 10)


def test_largest_index():
    data = read(b"1 2147483647:1\n")
    assert data.X.shape == (1, 2**31 - 1)
    assert data.X.indices.tolist() == [2**31 - 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_qid", [False, True])
def test_agrees_with_scikit_learn(tmp_path, dtype, with_qid):
    rng = np.random.default_rng(1)
    X = sparse.random(200, 50, density=0.1, random_state=1, format="csr", dtype=dtype)
    y = rng.standard_normal(200)
    query_id = np.arange(200) // 7 if with_qid else None
    path = tmp_path / "train.txt"
    dump_svmlight_file(X, y, str(path), zero_based=False, query_id=query_id, comment="made up")
    data = read_svmlight(path, n_features=50, dtype=dtype)
    theirs = load_svmlight_file(
        str(path), n_features=50, dtype=np.float64, zero_based=False, query_id=with_qid
    )
    assert (theirs[0].astype(dtype) != data.X).nnz == 0
    np.testing.assert_array_equal(data.y, theirs[1])
    if with_qid:
        np.testing.assert_array_equal(data.qid, theirs[2])


finite = st.floats(allow_nan=False, allow_infinity=False)
rows = st.lists(
    st.tuples(finite, st.dictionaries(st.integers(1, 100), finite, max_size=6)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(rows, st.integers(1, 64), st.booleans())
def test_every_double_is_read_back(rows, chunk_bytes, final_newline):
    lines = [
        " ".join([repr(label), *(f"{j}:{row[j]!r}" for j in sorted(row))]) for label, row in rows
    ]
    text = ("\n".join(lines) + "\n" * final_newline).encode()
    data = read(text, n_features=100, dtype=np.float64, _chunk_bytes=chunk_bytes)
    assert data.y.tolist() == [label for label, _ in rows]
    assert data.X.indptr.tolist() == np.cumsum([0] + [len(row) for _, row in rows]).tolist()
    assert data.X.indices.tolist() == [j - 1 for _, row in rows for j in sorted(row)]
    assert data.X.data.tolist() == [row[j] for _, row in rows for j in sorted(row)]


digits = st.text("0123456789", max_size=25)
exponents = st.just("") | st.integers(-99, 99).map("e{:+d}".format)
decimals = st.tuples(st.sampled_from(["", "+", "-"]), digits, st.just("."), digits, exponents).map(
    "".join
)
decimals_of_python = decimals.filter(lambda token: any(map(str.isdigit, token.split("e")[0])))


@settings(max_examples=300, deadline=None)
@given(st.lists(decimals_of_python, min_size=1, max_size=20))
def test_every_decimal_is_what_python_makes_of_it(tokens):
    text = "\n".join(f"{token} 1:{token}" for token in tokens).encode()
    data = read(text, dtype=np.float64)
    expected = np.array([float(token) for token in tokens])
    np.testing.assert_array_equal(data.X.data.view(np.int64), expected.view(np.int64))
    np.testing.assert_array_equal(data.y, expected)


def test_decimals_halfway_between_doubles():
    """Where a second rounding would show: 17 and 18 digits of midpoints, and exact midpoints."""
    rng = np.random.default_rng(2)
    tokens = [str(2**53 + k) for k in range(200)] + [str(2**54 + 2 * k) for k in range(200)]
    x = rng.random(2000) * 10.0 ** rng.integers(-3, 4, 2000)
    for low, high in zip(x.tolist(), np.nextafter(x, np.inf).tolist()):
        midpoint = (Decimal(low) + Decimal(high)) / 2
        tokens += [f"{midpoint:.17g}", f"{midpoint:.18g}"]
    text = "\n".join(f"0 1:{token}" for token in tokens).encode()
    data = read(text, dtype=np.float64)
    assert data.X.data.tolist() == [float(token) for token in tokens]


def test_float32_is_the_rounded_double():
    tokens = ["0.1", "16777217", "1e-50", "3.4028235e38", "0.12345678901234567"]
    data = read("\n".join(f"1 1:{token}" for token in tokens).encode())
    np.testing.assert_array_equal(data.X.data, np.array(list(map(float, tokens)), np.float32))


@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 64, 1000])
def test_chunk_size_changes_nothing(text, chunk_bytes):
    assert_same(read(text, _chunk_bytes=chunk_bytes), read(text))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\n"])
def test_line_ends(text, ending):
    changed = text.rstrip().replace(b"\n", b"\r\n") + ending
    assert_same(read(changed, _chunk_bytes=50), read(text))


@pytest.mark.parametrize("compress", [*COMPRESSIONS.values(), zstd_compress])
def test_compressions(tmp_path, text, compress):
    path = tmp_path / "named_as_if_plain.txt"
    path.write_bytes(compress(text))
    assert_same(read_svmlight(path), read(text))
    assert_same(read_svmlight(str(path), _chunk_bytes=100), read(text))
    two_members = compress(text[:50]) + compress(text[50:])
    assert_same(read(two_members), read(text))


@pytest.mark.parametrize("compress", [*COMPRESSIONS.values(), zstd_compress])
@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_truncated_stream(tmp_path, text, compress, kept):
    path = tmp_path / "cut.bin"
    compressed = compress(text)
    path.write_bytes(compressed[: int(len(compressed) * kept)])
    with pytest.raises(SvmlightError, match=r"cut\.bin: the compressed stream is truncated$"):
        read_svmlight(path)


@pytest.mark.parametrize("compress", [*COMPRESSIONS.values(), zstd_compress])
def test_damaged_stream(text, compress):
    compressed = bytearray(compress(text))
    middle = len(compressed) // 2
    compressed[middle : middle + 40] = bytes(40)
    # Some damage looks like an early end to the decompressor.
    with pytest.raises(SvmlightError, match=r"stream is (damaged|truncated)"):
        read(bytes(compressed))


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1 1:x\n")))
    with pytest.raises(SvmlightError, match=r"^standard input, line 1: "):
        read_svmlight("-")


def test_file_object_is_read_from_where_it_stands_and_left_open():
    stream = io.BytesIO(b"skipped\n1 1:2\n")
    stream.readline()
    assert read_svmlight(stream).X.toarray().tolist() == [[2]]
    assert not stream.closed


def test_stream_that_answers_byte_by_byte(text):
    class Trickle(io.RawIOBase):
        source = io.BytesIO(gzip.compress(text))

        def read(self, size=-1):
            return self.source.read(1)

    assert_same(read_svmlight(Trickle()), read(text))


def test_text_stream_is_refused():
    with pytest.raises(TypeError, match="binary mode"):
        read_svmlight(io.StringIO("1 1:2\n"))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_svmlight(tmp_path / "absent")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 0:5", "index 0 in '0:5': indices start at 1; is the file zero-based?"),
        (b"1 2147483648:1", "index of '2147483648:1' is over 2147483647"),
        (b"1 99999999999999999999999:1", "is over 2147483647"),
        (b"1 3:1 2:1", "index of '2:1' repeats or precedes"),
        (b"1 3:1 3:2", "index of '3:2' repeats or precedes"),
        (b"1 1:abc", "value in '1:abc' is not a finite number"),
        (b"1 1:1e", "value in '1:1e' is not"),
        (b"1 1:-", "value in '1:-' is not"),
        (b"1 1:1_0", "value in '1:1_0' is not"),
        (b"1 1:0x10", "value in '1:0x10' is not"),
        (b"1 1:1:2", "value in '1:1:2' is not"),
        (b"1 1:nan", "value in '1:nan' is not a finite number"),
        (b"1 1:-inf", "value in '1:-inf' is not a finite number"),
        (b"1 1:NULLX", "value in '1:NULLX' is not a finite number"),
        (b"1 1:NULL0", "value in '1:NULL0' is not"),
        (b"1 1:NUL", "value in '1:NUL' is not"),
        (b"1 1:N", "value in '1:N' is not"),
        (b"1 1:null", "value in '1:null' is not"),
        (b"1 1:-NULL", "value in '1:-NULL' is not"),
        (b"1 1:0NULL", "value in '1:0NULL' is not"),
        (b"1 3:NULL 2:1", "index of '2:1' repeats or precedes"),
        (b"1 3:1 3:NULL", "index of '3:NULL' repeats or precedes"),
        (b"1 0:NULL", "index 0 in '0:NULL'"),
        (b"NULL 1:1", "label 'NULL' is not a number"),
        (b"1 1:1e400", "a value overflows float32"),
        (b"1 1:1e39", "a value overflows float32"),
        (b"1 12", "'12' has no colon; expected index:value"),
        (b"1 a:1", "'a:1' is not index:value"),
        (b"1 -1:1", "'-1:1' is not index:value"),
        (b"1 1.5:1", "'1.5:1' is not index:value"),
        (b"1 1:1 qid:3", "'qid:3' is not index:value"),
        (b"1 12:", "'12:' has no value; is the file cut short?"),
        (b"1 12: 3", "'12:' has no value"),
        (b"1 12:#", "'12:#' has no value"),
        (b"1:2 2:3", "the label is missing: the line begins with '1:2'"),
        (b"qid:1 2:3", "the label is missing: the line begins with 'qid:1'"),
        (b"spam 1:1", "label 'spam' is not a number"),
        (b"1,2 1:1", "label '1,2' is not a number"),
        (b"nan 1:1", "label 'nan' is not a number"),
        (b"1e999 1:1", "the label overflows float64"),
        (b"\xff\xfe 1:1", r"label '\xff\xfe' is not a number"),
        (b"1 " + b"x" * 100, "'" + "x" * 40 + "...' is not index:value"),
        (b"1 qid:3 1:1", "'qid:3' given, but earlier lines have no qid"),
    ],
)
@pytest.mark.parametrize("after", [b"", b"\n", b"\n1 1:1\n"])
def test_malformed_line(tmp_path, line, message, after):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"# head\n\n1 1:1 # tail\n-1\n" + line + after)
    for chunk_bytes in (5, 1000):
        with pytest.raises(SvmlightError) as caught:
            read_svmlight(path, _chunk_bytes=chunk_bytes)
        assert str(caught.value).startswith(f"{path}, line 5: ")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("qid", [b"qid:", b"qid:x", b"qid:1.5", b"qid:" + b"1" * 19])
def test_malformed_qid(qid):
    with pytest.raises(SvmlightError, match=r"line 1: 'qid:.*' is not qid:N with a whole number"):
        read(b"1 " + qid + b" 1:1\n")


def test_qid_missing_later():
    with pytest.raises(SvmlightError, match="line 2: qid is missing, but earlier lines have one"):
        read(b"1 qid:1 1:1\n1 1:1\n")


def test_n_features_exceeded():
    with pytest.raises(SvmlightError, match="line 2: index of '4:1' is over n_features = 3"):
        read(b"1 3:1\n1 4:1\n", n_features=3)
    with pytest.raises(SvmlightError, match="index of '4:NULL' is over n_features = 3"):
        read(b"1 4:NULL\n", n_features=3)


@pytest.mark.parametrize("empty", [b"", b"\n\n", b"# only this", gzip.compress(b"", mtime=0)])
def test_no_rows(empty):
    with pytest.raises(SvmlightError, match=r"^the given stream: no rows"):
        read(empty)


@pytest.mark.parametrize(
    "options",
    [{"dtype": np.int32}, {"dtype": np.float16}, {"n_features": -1}, {"n_features": 2**31}],
)
def test_bad_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        read(b"1 1:1\n", **options)


def read_by_threads(text, chunk_bytes):
    pieces = read_svmlight_pieces(io.BytesIO(text), n_threads=3, _chunk_bytes=chunk_bytes)
    pieces = list(pieces)
    assert all(piece.y.size for piece in pieces)
    X = sparse.vstack([sparse.csr_matrix(p.X, shape=(p.X.shape[0], 2**31)) for p in pieces])
    X = X.tocsr()
    X.resize(X.shape[0], pieces[-1].X.shape[1])
    return X, pieces


@pytest.mark.parametrize("chunk_bytes", [1, 10, 50, 1000, 100_000])
def test_threads_change_nothing(text, chunk_bytes):
    expected = read(text)
    X, pieces = read_by_threads(text, chunk_bytes)
    assert (len(pieces) > 1) == (chunk_bytes < len(text))
    assert X.shape == expected.X.shape
    assert (X != expected.X).nnz == 0
    np.testing.assert_array_equal(np.concatenate([p.y for p in pieces]), expected.y)


@pytest.mark.parametrize("chunk_bytes", [1, 12, 30, 1000])
def test_threads_and_query_ids(chunk_bytes):
    """Pieces are parsed before it is known whether there are query ids."""
    text = b"# head\n" * 9 + b"".join(b"%d qid:%d 1:%d\n" % (k % 3, k // 4, k) for k in range(60))
    _, pieces = read_by_threads(text + b"#\n" * 9, chunk_bytes)
    np.testing.assert_array_equal(np.concatenate([p.qid for p in pieces]), np.arange(60) // 4)
    for begin in (0, 1, 30, 59):
        lines = text.splitlines(keepends=True)
        lines[9 + begin] = b"1 1:1\n"
        with pytest.raises(SvmlightError) as caught:
            read(b"".join(lines), _chunk_bytes=chunk_bytes)
        with pytest.raises(SvmlightError) as caught_by_threads:
            read_by_threads(b"".join(lines), chunk_bytes)
        assert str(caught_by_threads.value) == str(caught.value)


@pytest.mark.parametrize("bad", [b"1 0:1", b"1 1:1e39", b"1 qid:3 1:1", b"x"])
@pytest.mark.parametrize("at", [0, 1, 20, 39])
def test_threads_name_the_first_bad_line(bad, at):
    lines = [b"1 1:1"] * 40
    lines[at] = bad
    if at < 39:
        lines[-1] = b"worse"
    for chunk_bytes in (1, 20, 1000):
        with pytest.raises(SvmlightError) as caught:
            read(b"\n".join(lines), _chunk_bytes=chunk_bytes)
        with pytest.raises(SvmlightError) as caught_by_threads:
            read_by_threads(b"\n".join(lines), chunk_bytes)
        assert str(caught_by_threads.value) == str(caught.value)


def test_kernel_is_compiled_once(text):
    read(text, dtype=np.float32)
    read(text, dtype=np.float64, n_features=np.int32(100))
    assert len(parse_lines.signatures) == 1
