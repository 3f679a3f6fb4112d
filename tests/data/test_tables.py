"""Tables from files: every format, several files, types that change, and files that are none."""

import gzip
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from widemargin.data import tables
from widemargin.data.tables import Table, TableError, Widened, expanded, format_by_name

ROWS = pa.table(
    {
        "size": [1.5, None, 3.0],
        "hue": ["red", "green, light", None],
        "n": [1, 2, 3],
        "ok": [True, False, True],
    }
)
CSV = 'size,hue,n,ok\n1.5,red,1,true\n,"green, light",2,false\n3,NA,3,true\n'


def read(*paths, **settings):
    """The whole table, after as many attempts as its types need."""
    table = Table([str(path) for path in paths], **settings)
    while True:
        try:
            return pa.Table.from_batches(list(table.batches()))
        except Widened:
            continue


def write(path, format):
    if format == "parquet":
        pq.write_table(ROWS, path)
    elif format == "arrow":
        with pa.ipc.new_file(path, ROWS.schema) as writer:
            writer.write_table(ROWS)
    elif format == "stream":
        with pa.ipc.new_stream(path, ROWS.schema) as writer:
            writer.write_table(ROWS)
    elif format == "feather":
        feather.write_feather(ROWS, str(path))
    elif format == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS.to_pylist()))
    elif format == "json":
        path.write_text(json.dumps(ROWS.to_pylist()))
    else:
        path.write_text(CSV)
    return path


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("t.csv", "csv"),
        ("t.parquet", "parquet"),
        ("t.arrow", "arrow"),
        ("t.arrow", "stream"),
        ("t.feather", "feather"),
        ("t.jsonl", "jsonl"),
        ("t.json", "json"),
        ("t.json", "jsonl"),
        ("t", "parquet"),
    ],
)
def test_formats(tmp_path, name, format):
    found = read(write(tmp_path / name, format))
    assert found.to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("compress", ["gz", "bz2", "xz", "zst"])
def test_compressed(tmp_path, compress):
    path = tmp_path / f"t.csv.{compress}"
    codec = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
    if compress == "xz":
        import lzma

        path.write_bytes(lzma.compress(CSV.encode()))
    else:
        with pa.CompressedOutputStream(str(path), codec[compress]) as file:
            file.write(CSV.encode())
    assert read(path).to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_delimiters(tmp_path, delimiter):
    path = tmp_path / "t.csv"
    path.write_text(f'a{delimiter}"b, c"\n1{delimiter}2\n')
    assert read(path).to_pylist() == [{"a": 1, "b, c": 2}]


def test_tsv(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("a\tb, c, d\n1\t2\n")
    assert read(path).column_names == ["a", "b, c, d"]


def test_encodings(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,b\né,1\nè,2\n".encode("latin-1"))
    assert read(path, encoding="latin-1").column("größe").to_pylist() == ["é", "è"]
    with pytest.raises(TableError, match="not utf-8 text; name its encoding"):
        read(path)
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    assert read(path, encoding="utf-16").to_pylist() == [{"a": 1, "b": 2}]
    path.write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert read(path).column_names == ["a", "b"]


def test_no_header(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("1,2\n3,4\n")
    assert read(path, header=False).to_pylist() == [{"1": 1, "2": 2}, {"1": 3, "2": 4}]
    with pytest.raises(TableError, match="the first line holds numbers, not names"):
        read(path)


def test_lines_within_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"x\ny",2\nz,3\n')
    assert read(path).column("a").to_pylist() == ["x\ny", "z"]


class TestTypesThatChange:
    """Past the first block, of which Arrow infers the types."""

    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch):
        monkeypatch.setattr(tables, "_BLOCK_BYTES", 64)

    def test_csv(self, tmp_path):
        path = tmp_path / "t.csv"
        rows = [f"{i},{i},{i},\n" for i in range(100)] + ["1.5,x,,2024-01-01\n"]
        path.write_text("a,b,c,d\n" + "".join(rows))
        found = read(path)
        assert found.num_rows == 101
        assert found.schema.types[:3] == [pa.float64(), pa.string(), pa.int64()]
        assert found.column("b").to_pylist()[-2:] == ["99", "x"]
        assert found.column("d").to_pylist()[-1] == "2024-01-01"

    def test_json(self, tmp_path):
        path = tmp_path / "t.jsonl"
        path.write_text("".join(f'{{"a": {i}}}\n' for i in range(50)) + '{"a": 1.5}\n')
        values = [
            value
            for batch in Table([str(path)]).batches()
            for value in batch.column("a").to_pylist()
        ]
        assert values == [*range(50), 1.5]
        path.write_text('{"a": 1}\n' * 50 + '{"a": "x"}\n')
        with pytest.raises(TableError, match="column 'a'"):
            list(Table([str(path)]).batches())

    def test_types_of_a_model(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a,b\n" + "1,2\n" * 30 + "1,x\n")
        with pytest.raises(TableError, match="row 30, column 'b': 'x' is no number"):
            read(path, types={"b": pa.float64()})
        assert read(path, types={"a": pa.string()}).column("a").type == pa.string()


class TestSeveralFiles:
    def test_rows_follow_one_another(self, tmp_path):
        for j in range(3):
            (tmp_path / f"part{j}.csv").write_text(f"a,b\n{j},x\n")
        (tmp_path / "part9.csv").write_text("b,a\ny,9\n")
        (tmp_path / "readme.md").write_text("no table")
        for paths in (["part*.csv"], ["."], ["part0.csv", "part[1-9].csv"]):
            found = read(*expanded(f"{tmp_path}/{path}" for path in paths))
            assert found.to_pylist() == [
                {"a": a, "b": b} for a, b in [(0, "x"), (1, "x"), (2, "x"), (9, "y")]
            ]

    def test_formats_mix(self, tmp_path):
        paths = [write(tmp_path / "a.parquet", "parquet"), write(tmp_path / "b.csv", "csv")]
        batches = list(Table(list(map(str, paths))).batches())
        assert sum(batch.num_rows for batch in batches) == 6

    def test_a_column_is_missing(self, tmp_path):
        (tmp_path / "a.csv").write_text("a,b\n1,2\n")
        (tmp_path / "b.csv").write_text("a,c\n1,2\n")
        with pytest.raises(
            TableError, match=r"b\.csv: there is no column 'b', which .*a\.csv has"
        ):
            read(tmp_path / "a.csv", tmp_path / "b.csv")

    def test_another_type(self, tmp_path):
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
        pq.write_table(pa.table({"a": ["x", "y"]}), tmp_path / "b.parquet")
        with pytest.raises(TableError, match=r"b\.parquet: column 'a' holds string, and a number"):
            read(tmp_path / "a.parquet", tmp_path / "b.parquet")
        (tmp_path / "a.csv").write_text("a\n1\n")
        (tmp_path / "b.csv").write_text("a\nx\n")
        found = read(tmp_path / "a.csv", tmp_path / "b.csv")
        assert found.column("a").to_pylist() == ["1", "x"]

    def test_no_match(self, tmp_path):
        with pytest.raises(TableError, match="no file matches"):
            expanded([f"{tmp_path}/*.csv"])
        with pytest.raises(TableError, match="a folder without tables"):
            expanded([str(tmp_path)])


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(CSV.encode())))
    table = Table(["-"])
    for _ in range(2):  # it is read again
        assert pa.Table.from_batches(list(table.batches())).to_pylist() == ROWS.to_pylist()


def test_names():
    assert format_by_name("a.CSV.GZ") == "csv"
    assert format_by_name("a.ndjson") == "json"
    assert format_by_name("a.svm.gz") is None


def test_many_rows_come_in_batches(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(200_000)}), path)
    sizes = [batch.num_rows for batch in Table([str(path)]).batches()]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 65_536


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b" \n\n", "the file is empty"),
        ("t.csv", b"a,b\n", "there are no rows"),
        ("t.csv", b"a,b\n1,2\n3\n", "line 3 has 1 fields, and the first has 2"),
        ("t.csv", b"a,a\n1,2\n", "names the column 'a' twice"),
        ("t.csv", b"PK\x03\x04rest", "Excel"),
        ("t.csv", b"a,\x00b\n1,2\n", "zero bytes"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-4], "truncated"),
        ("t.parquet", b"a,b\n1,2\n", "not a file of Parquet's format"),
        ("t.parquet", b"PAR1 and no more", "Parquet|too small"),
        ("t.arrow", b"", "empty"),
        ("t.arrow", b"ARROW1\x00\x00 and no more", "."),
        ("t.feather", b"FEA1 and no more", "version 1"),
        ("t.json", b"[1, 2]", "not JSON objects"),
        ("t.json", b'[{"a": 1}', "not JSON"),
        ("t.json", b"[" * 100_000, "nested too deeply|not JSON"),
        ("t.json", b'[{"a": 1}, {"a": "x"}]', "column 'a': its values are of different types"),
        ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n', "line 2: column 'a' is a string, and a number"),
        ("t.jsonl", b'{"a": 1}\n{"a":\n', "line 2: not JSON lines"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_files_that_are_no_tables(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=words) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
