"""Writing rows to a folder, and reading back what is whole; refusing what is not."""

import json
import os

import numpy as np
import pytest
import scipy.sparse as sp
from data.on_disk import assert_same, matrix, read_back, write
from hypothesis import given
from hypothesis import strategies as st

from widemargin.data import shards
from widemargin.data.blocks import Sizes
from widemargin.data.disk import open_rows
from widemargin.data.formats import MANIFEST, ShardError
from widemargin.data.shards import ShardWriter

FORMATS = ["arrow", "parquet"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("extra", [{}, {"qid"}, {"weight"}, {"qid", "weight"}])
def test_round_trip(tmp_path, format, extra):
    X = matrix()
    columns = {"qid": np.arange(40) // 7 - 2, "weight": np.linspace(0, 1, 40)}
    columns = {name: columns[name] for name in extra}
    rows = open_rows(write(tmp_path / "rows", X, format=format, **columns))
    assert_same(read_back(rows), X)
    assert (rows.n_rows, rows.n_features, rows.n_entries, rows.shape) == (40, 12, X.nnz, X.shape)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows.labels, np.arange(40) % 3)
    assert rows.labels.dtype == np.int64
    for name, ours in {"qid": rows.qid, "weight": rows.weights}.items():
        if name in extra:
            np.testing.assert_array_equal(ours, columns[name])
        else:
            assert ours is None


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    pieces=st.integers(1, 7),
    block_bytes=st.integers(1, 800),
    part_bytes=st.integers(1, 20_000),
    format=st.sampled_from(FORMATS),
)
def test_any_sizes(tmp_path_factory, lengths, pieces, block_bytes, part_bytes, format):
    """Blocks, record batches and parts of whatever sizes hold the same rows."""
    indptr = np.cumsum([0, *lengths])
    indices = np.concatenate([np.arange(n) for n in lengths])
    X = sp.csr_matrix(
        (np.arange(indptr[-1], dtype=np.float32), indices, indptr), (len(lengths), 9)
    )
    sizes = Sizes(block_bytes, part_bytes)
    folder = tmp_path_factory.mktemp("any") / "rows"
    rows = open_rows(write(folder, X, format=format, pieces=pieces, sizes=sizes), sizes=sizes)
    assert_same(read_back(rows), X)
    for block in rows.blocks():
        one_row = block.end - block.begin == 1
        size = block.arrays[0].size * 8 + (block.end - block.begin) * 32
        assert one_row or size <= block_bytes
    assert len(list(rows.blocks())) == rows.n_blocks
    np.testing.assert_array_equal(rows.labels, np.arange(len(lengths)) % 3)


def test_single_rows_are_gathered_into_batches(tmp_path):
    X = matrix(100)
    rows = open_rows(write(tmp_path / "rows", X, pieces=100))
    assert rows.n_blocks == 1
    assert_same(read_back(rows), X)


def test_parts_have_about_the_size_they_should(tmp_path):
    X = matrix(3000, 40, density=0.5)
    folder = write(tmp_path / "rows", X, sizes=Sizes(10_000, 50_000))
    sizes = [path.stat().st_size for path in sorted(folder.glob("part-*.arrow"))]
    assert len(sizes) > 3
    assert all(40_000 < size < 70_000 for size in sizes[:-1])
    assert_same(read_back(open_rows(folder)), X)


def test_unsorted_indices_and_other_types(tmp_path):
    X = sp.csr_matrix((np.array([1.5, 2.0]), np.array([3, 1]), np.array([0, 2])), (1, 5))
    with ShardWriter(tmp_path / "rows") as writer:
        writer.add(X, [0.5])
    rows = open_rows(tmp_path / "rows")
    np.testing.assert_array_equal(read_back(rows).toarray(), [[0, 2, 0, 1.5, 0]])
    assert rows.labels.tolist() == [0.5]
    assert X.indices.tolist() == [3, 1]


def test_pieces_that_cannot_be_written(tmp_path):
    X = matrix(4)
    bad = X.astype(np.float64) * 1e300
    with pytest.raises(ValueError, match=r"row 0 of this piece .* not a finite float32"):
        write(tmp_path / "a", bad)
    with pytest.raises(TypeError, match="sparse"):
        write(tmp_path / "b", X.toarray())
    with pytest.raises(ValueError, match="another length"), ShardWriter(tmp_path / "c") as writer:
        writer.add(X, [1, 2])
    with ShardWriter(tmp_path / "whole") as writer:
        writer.add(X, np.ones(4))
        with pytest.raises(ValueError, match="qid or weight"):
            writer.add(X, np.ones(4), qid=np.ones(4))
    with pytest.raises(ShardError, match="no rows"), ShardWriter(tmp_path / "e"):
        pass
    with pytest.raises(ValueError, match="arrow, parquet"):
        ShardWriter(tmp_path / "f", "csv")
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_folder_that_is_not_empty(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        ShardWriter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, MemoryError])
def test_errors_leave_nothing_behind(tmp_path, error):
    def write_some(folder):
        with ShardWriter(folder, sizes=Sizes(1000, 1000)) as writer:
            writer.add(matrix(200), np.ones(200))
            raise error

    for folder in (tmp_path / "new", tmp_path):
        with pytest.raises(error):
            write_some(folder)
        assert not list(tmp_path.iterdir())


def test_full_disk(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards._CheckedFile, "write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "rows", matrix(500), pieces=50, sizes=Sizes(1000))
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    for format in FORMATS:  # before a part's first byte
        monkeypatch.setitem(shards._SINKS, format, full_disk)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / "rows", matrix(), format=format)
        assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "rows", matrix())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [1, np.nan, 2]}, "row 1 of this piece has the label nan, which is no float64"),
        ({"y": [1, 2, np.inf]}, "row 2 of this piece has the label inf, which is no float64"),
        ({"y": [1, 2**53 + 1, 2]}, "row 1 of this piece has the label 9007199254740993, which"),
        ({"y": np.array([1, 2, 2**64 - 1], np.uint64)}, "row 2 .* label 18446744073709551615"),
        ({"qid": [1, 1.5, 2]}, "row 1 of this piece has the qid 1.5, which is no int64"),
        ({"qid": np.array([1, 2, 2**63], np.uint64)}, "row 2 .* qid 9223372036854775808, which"),
        ({"weight": [1, np.nan, 2]}, "row 1 of this piece has the weight nan, which is no float"),
    ],
)
def test_columns_of_numbers_that_cannot_be(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message), ShardWriter(tmp_path / "rows") as writer:
        writer.add(matrix(3), **{"y": np.arange(3), **columns})
    assert not (tmp_path / "rows").exists()


def test_columns_that_are_no_numbers(tmp_path):
    for y in (["a", "b", "c"], [1j, 2, 3], [None, 1, 2]):
        message = "label must be numbers, not"
        with pytest.raises(TypeError, match=message), ShardWriter(tmp_path / "rows") as writer:
            writer.add(matrix(3), y)
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize("format", FORMATS)
def test_unfinished_folder(tmp_path, format):
    folder = write(tmp_path / "rows", matrix(), format=format)
    (folder / MANIFEST).unlink()
    with pytest.raises(ShardError, match=r"rows: has parts but no widemargin\.json"):
        open_rows(folder)


def test_manifests_that_cannot_be_used(tmp_path):
    folder = write(tmp_path / "rows", matrix())
    path = folder / MANIFEST
    whole = json.loads(path.read_text())
    for text in ("", "{", "[]", "{}", '{"version": 1, "format": "x"}'):
        path.write_text(text)
        with pytest.raises(ShardError, match=r"widemargin\.json: not a manifest"):
            open_rows(folder)
    path.write_text(json.dumps(whole | {"version": 2}))
    with pytest.raises(ShardError, match="version 2, and this widemargin reads version 1"):
        open_rows(folder)
    path.write_text(json.dumps(whole | {"n_rows": 41}))
    with pytest.raises(ShardError, match="do not add up"):
        open_rows(folder)
    part = whole["files"][0]
    path.write_text(json.dumps(whole | {"files": [part | {"name": "../part-00000.arrow"}]}))
    with pytest.raises(ShardError, match="outside of its folder"):
        open_rows(folder)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_rows": "x"}, "'n_rows' is 'x', not a whole number"),
        ({"n_features": -1}, "'n_features' is -1, not a whole number"),
        ({"n_features": 12.0}, "'n_features' is 12.0, not a whole number"),
        ({"n_features": 2**40}, "1099511627776 features"),
        ({"n_entries": None}, "'n_entries' is None, not a whole number"),
        ({"qid": 0}, "'qid' is 0, not true or false"),
        ({"weight": "no"}, "'weight' is 'no', not true or false"),
        ({"files": {}}, r"'files' is \{\}, not a list"),
        ({"files": [3]}, "file 0: not an object"),
        ({"files": []}, "its numbers do not add up"),
        ({"colour": "blue"}, "'colour' is unknown"),
    ],
)
def test_manifest_with_a_field_that_is_wrong(tmp_path, change, match):
    folder = write(tmp_path / "rows", matrix())
    path = folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ShardError, match=rf"widemargin\.json: not a manifest of rows \({match}"):
        open_rows(folder)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"batches": "x"}, "file 0: 'batches' is 'x', not a whole number"),
        ({"batches": -1}, "file 0: 'batches' is -1, not a whole number"),
        ({"batches": True}, "file 0: 'batches' is True, not a whole number"),
        ({"batches": 0}, r"the numbers of part-00000\.arrow contradict"),
        ({"batches": 41}, r"the numbers of part-00000\.arrow contradict"),
        ({"rows": 40.0}, "file 0: 'rows' is 40.0, not a whole number"),
        ({"rows": -40}, "file 0: 'rows' is -40, not a whole number"),
        ({"entries": [1]}, r"file 0: 'entries' is \[1\], not a whole number"),
        ({"bytes": None}, "file 0: 'bytes' is None, not a whole number"),
        ({"bytes": 2**70}, "file 0: 'bytes' is 1180591620717411303424, not a whole number"),
        ({"crc32": "0"}, "file 0: 'crc32' is '0', not a whole number"),
        ({"name": 7}, "file 0: 'name' is 7, not text"),
        ({"name": ""}, "it names files outside of its folder"),
        ({"name": ".."}, "it names files outside of its folder"),
        ({"colour": "blue"}, "file 0: 'colour' is unknown"),
    ],
)
def test_manifest_with_a_file_that_is_wrong(tmp_path, change, match):
    folder = write(tmp_path / "rows", matrix())
    path = folder / MANIFEST
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"files": [whole["files"][0] | change]}))
    with pytest.raises(ShardError, match=rf"widemargin\.json: not a manifest of rows \({match}"):
        open_rows(folder)


def test_manifest_that_lacks_or_repeats_a_field(tmp_path):
    folder = write(tmp_path / "rows", matrix())
    path = folder / MANIFEST
    text = path.read_text()
    whole = json.loads(text)
    for name in whole.keys() - {"format", "version"}:
        path.write_text(json.dumps({key: whole[key] for key in whole if key != name}))
        with pytest.raises(ShardError, match=rf"widemargin\.json: .* \('{name}' is missing\)"):
            open_rows(folder)
    part = whole["files"][0]
    for name in part:
        less = {key: part[key] for key in part if key != name}
        path.write_text(json.dumps(whole | {"files": [less]}))
        with pytest.raises(ShardError, match=rf"widemargin\.json: .*file 0: '{name}' is missing"):
            open_rows(folder)
    path.write_text(text.replace('"n_rows": 40', '"n_rows": 41, "n_rows": 40'))
    with pytest.raises(ShardError, match=r"widemargin\.json: .*has the key 'n_rows' twice"):
        open_rows(folder)
    path.write_text(text.replace('"n_rows": 40', '"n_rows": NaN'))
    with pytest.raises(ShardError, match=r"widemargin\.json: .*NaN is not a finite number"):
        open_rows(folder)
    path.write_text(json.dumps(whole | {"files": [part, part]}))
    with pytest.raises(ShardError, match=r"do not add up"):
        open_rows(folder)
    path.write_text("[" * 100_000)
    with pytest.raises(ShardError, match=r"widemargin\.json: .*nested too deeply"):
        open_rows(folder)


@pytest.mark.parametrize("more", [-1, 1])
def test_manifest_with_another_number_of_entries(tmp_path, more):
    folder = write(tmp_path / "rows", matrix())
    path = folder / MANIFEST
    whole = json.loads(path.read_text())
    part = whole["files"][0]
    n_entries = part["entries"] + more
    files = [part | {"entries": n_entries}]
    path.write_text(json.dumps(whole | {"n_entries": n_entries, "files": files}))
    with pytest.raises(ShardError, match=rf"part-00000\.arrow: .* {n_entries} entries that"):
        open_rows(folder).in_memory()


def test_manifest_with_another_number_of_labels(tmp_path):
    folder = write(tmp_path / "rows", matrix())
    path = folder / MANIFEST
    whole = json.loads(path.read_text())
    files = [whole["files"][0] | {"rows": 41}]
    path.write_text(json.dumps(whole | {"n_rows": 41, "files": files}))
    with pytest.raises(ShardError, match=r"part-00000\.arrow: does not have the 41 rows"):
        open_rows(folder).labels  # noqa: B018 - reading is what fails


def test_manifest_that_disagrees_with_its_files(tmp_path):
    """Whatever the manifest says, arrays are never read beyond their ends."""
    folder = write(tmp_path / "rows", matrix())
    path = folder / MANIFEST
    whole = json.loads(path.read_text())
    for n_rows in (39, 41):
        files = [whole["files"][0] | {"rows": n_rows}]
        path.write_text(json.dumps(whole | {"n_rows": n_rows, "files": files}))
        rows = open_rows(folder)
        with pytest.raises(ShardError, match=r"part-00000\.arrow: does not have the .* rows"):
            assert all(block.end <= n_rows for block in rows.blocks())
    path.write_text(json.dumps(whole | {"n_features": 5}))
    with pytest.raises(ShardError, match=r"row \d+: column index \d+ is outside of 0\.\.4"):
        open_rows(folder).scores(np.ones(5))
