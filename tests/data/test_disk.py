"""Rows on disk: the same products as in memory, from files of all kinds; and what is refused."""

import contextlib
import gzip
import io
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from data.on_disk import as_table, assert_same, matrix, read_back, write
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

import widemargin
from widemargin import threads
from widemargin.data import Rows, as_rows, files
from widemargin.data.ahead import ahead
from widemargin.data.blocks import Sizes
from widemargin.data.disk import open_rows
from widemargin.data.formats import ShardError
from widemargin.data.rows import SingleRows
from widemargin.data.svmlight import SvmlightError, read_svmlight
from widemargin.kernels import rows as kernels

SMALL = Sizes(block_bytes=1500, part_bytes=1500)


def write_ipc(table, path, **options):
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, **options)
    return path


class TestProducts:
    @pytest.mark.parametrize("n_threads", [1, 3])
    @pytest.mark.parametrize("k", [None, 4])
    def test_as_in_memory(self, tmp_path, k, n_threads, monkeypatch):
        monkeypatch.setattr(threads, "_WORTH_A_THREAD", 1000)
        X = matrix(3000, 50)
        rows = open_rows(write(tmp_path / "rows", X, sizes=Sizes(block_bytes=1 << 16)))
        in_memory = as_rows(X)
        assert rows.n_blocks > 5
        rng = np.random.default_rng(1)
        tail = () if k is None else (k,)
        W, G = rng.standard_normal((50, *tail)), rng.standard_normal((3000, *tail))
        with threads.lent(n_threads):
            np.testing.assert_array_equal(rows.scores(W), in_memory.scores(W))
            np.testing.assert_allclose(rows.combine(G), in_memory.combine(G), rtol=1e-12)
            np.testing.assert_array_equal(rows.combine(G), rows.combine(G))
            if n_threads == 1:
                np.testing.assert_array_equal(rows.combine(G), in_memory.combine(G))
        np.testing.assert_array_equal(rows.squared_norms(), in_memory.squared_norms())

    def test_contract(self, tmp_path):
        rows = open_rows(write(tmp_path / "rows", matrix()))
        assert isinstance(rows, Rows)
        assert as_rows(rows) is rows
        assert not isinstance(rows, SingleRows)
        assert widemargin.open_rows is open_rows
        with pytest.raises(TypeError, match="cannot be picked"):
            rows.take([0])
        assert repr(rows).startswith("<DiskRows: 40 rows, 12 features, in ")
        assert rows.nbytes == sum(a.nbytes for block in rows.blocks() for a in block.arrays)

    def test_kernels_are_not_compiled_anew(self, tmp_path):
        """Arrow's memory is read-only to NumPy, which would be another signature."""
        X = matrix()
        as_rows(X).scores(np.ones(12))
        before = len(kernels.scores.signatures)
        open_rows(write(tmp_path / "rows", X)).scores(np.ones(12))
        open_rows(write(tmp_path / "parquet", X, format="parquet")).scores(np.ones(12))
        assert len(kernels.scores.signatures) == before

    def test_other_numbers_of_features(self, tmp_path):
        X = matrix()
        rows = open_rows(write(tmp_path / "rows", X))
        norms = rows.squared_norms()
        for d in (0, 5, 12, 20):
            expected = X.copy()
            expected.resize(40, d)
            resized = rows.resized(d)
            np.testing.assert_array_equal(read_back(resized).toarray(), expected.toarray())
            np.testing.assert_allclose(resized.scores(np.ones(d)), expected @ np.ones(d))
            squares = expected.multiply(expected).sum(axis=1)
            np.testing.assert_allclose(resized.squared_norms(), np.ravel(squares), rtol=1e-5)
        assert rows.squared_norms() is norms

    @pytest.mark.parametrize("with_manifest", [True, False])
    def test_labels_of_other_numbers_of_features(self, tmp_path, with_manifest):
        """Whoever is asked first."""
        folder = write(tmp_path / "rows", matrix(), qid=np.arange(40))
        for first in (0, 1):
            rows = open_rows(folder if with_manifest else [folder / "part-00000.arrow"])
            assert rows.qid is not None
            both = rows, rows.resized(5)
            for one in (both[first], both[1 - first]):
                np.testing.assert_array_equal(one.labels, np.arange(40) % 3)
                assert one.labels.dtype == np.int64

    def test_passes_at_once(self, tmp_path):
        rows = open_rows(write(tmp_path / "rows", matrix(500), sizes=SMALL), sizes=SMALL)
        together = zip(rows.blocks(), rows.blocks())
        assert all(a.begin == b.begin for a, b in together)

    def test_nothing_heavy_before_it_is_needed(self):
        code = (
            "import sys\n"
            "sys.modules['pandas'] = None\n"  # scikit-learn imports it, and it imports pyarrow
            "import numpy as np, widemargin\n"
            "model = widemargin.LinearSVC()\n"
            "del sys.modules['pandas']\n"  # scikit-learn 1.6 looks into what is there
            "model.fit(np.eye(4), [0, 1, 0, 1])\n"
            "sys.exit('pyarrow' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class TestText:
    def test_plain_and_compressed(self, tmp_path):
        text = io.BytesIO()
        qid = np.arange(300) // 9
        dump_svmlight_file(matrix(300), qid % 2, text, query_id=qid, zero_based=False)
        path = tmp_path / "text"
        for compress in (bytes, gzip.compress):
            path.write_bytes(compress(text.getvalue()))
            expected = read_svmlight(path)
            rows = open_rows(path, sizes=SMALL)
            assert rows.n_blocks > 3
            assert_same(read_back(rows), expected.X)
            np.testing.assert_array_equal(rows.labels, expected.y)
            np.testing.assert_array_equal(rows.qid, expected.qid)

    def test_features_that_never_occur(self, tmp_path):
        (tmp_path / "a").write_bytes(b"1 1:1 9:NULL\n0 2:1\n")
        assert open_rows(tmp_path / "a").shape == read_svmlight(tmp_path / "a").X.shape == (2, 9)

    def test_errors_name_the_line(self, tmp_path):
        (tmp_path / "a").write_bytes(b"1 1:1\n1 0:2\n")
        with pytest.raises(SvmlightError, match=r"a, line 2: index 0"):
            open_rows(tmp_path / "a")
        with pytest.raises(FileNotFoundError):
            open_rows(tmp_path / "none")
        with pytest.raises(ValueError, match="standard input cannot be read anew"):
            open_rows("-")


class TestForeignFiles:
    @pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
    @pytest.mark.parametrize("index", [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()])
    @pytest.mark.parametrize("value", [pa.float32(), pa.float64()])
    @pytest.mark.parametrize("write_file", [pq.write_table, write_ipc])
    def test_types(self, tmp_path, list_of, index, value, write_file):
        X = matrix()
        table = as_table(X, np.arange(40) - 0.5, index, value, list_of)
        write_file(table, tmp_path / "file")
        rows = open_rows(tmp_path / "file")
        expected = X.copy()
        expected.resize(40, X.indices.max() + 1)
        assert_same(read_back(rows), expected)
        np.testing.assert_array_equal(rows.labels, np.arange(40) - 0.5)

    @given(
        n=st.integers(1, 60),
        row_group_size=st.integers(1, 70),
        compression=st.sampled_from(["snappy", "zstd", "none"]),
        use_dictionary=st.booleans(),
        batch_bytes=st.integers(1, 5000),
    )
    def test_parquet_of_any_layout(
        self, tmp_path_factory, n, row_group_size, compression, use_dictionary, batch_bytes
    ):
        X = matrix(n, seed=n)
        path = tmp_path_factory.mktemp("any") / "rows"
        pq.write_table(
            as_table(X, np.arange(n)),
            path,
            row_group_size=row_group_size,
            compression=compression,
            use_dictionary=use_dictionary,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_PARQUET_BATCH_BYTES", batch_bytes)
            rows = open_rows(path)
            X.resize(n, rows.n_features)
            assert_same(read_back(rows), X)

    def test_polars(self, tmp_path):
        polars = pytest.importorskip("polars")
        X = matrix()
        frame = polars.DataFrame(
            {
                "label": np.arange(40) % 2,
                "name": [f"row {i}" for i in range(40)],
                "indices": [row.indices.tolist() for row in X],
                "values": [row.data.tolist() for row in X],
            },
            schema_overrides={"values": polars.List(polars.Float32)},
        )
        frame.write_parquet(tmp_path / "a.parquet")
        frame.write_ipc(tmp_path / "a.arrow", compression="lz4")
        for name in ("a.parquet", "a.arrow"):
            rows = open_rows(tmp_path / name)
            np.testing.assert_array_equal(
                read_back(rows).toarray(), X.toarray()[:, : rows.n_features]
            )
            np.testing.assert_array_equal(rows.labels, np.arange(40) % 2)

    def test_folders_and_lists(self, tmp_path):
        X = matrix(60)
        for k in range(3):
            part = slice(20 * k, 20 * k + 20)
            table = as_table(X[part], np.arange(60)[part])
            pq.write_table(table, tmp_path / f"part-0000{k}-9af3.snappy.parquet")
        (tmp_path / "_SUCCESS").touch()
        (tmp_path / ".part.crc").write_bytes(b"crc")
        for source in (tmp_path, str(tmp_path), sorted(tmp_path.glob("*.parquet"))):
            rows = open_rows(source)
            np.testing.assert_array_equal(read_back(rows).toarray(), X.toarray())
            np.testing.assert_array_equal(rows.labels, np.arange(60))
            assert [b.begin for b in rows.blocks()] == [0, 20, 40]

    def test_lists_that_begin_within_their_values(self, tmp_path):
        X = matrix()
        table = as_table(X, np.arange(40)).slice(7, 20)
        rows = open_rows(write_ipc(table, tmp_path / "a"))
        np.testing.assert_array_equal(read_back(rows).toarray(), X[7:27].toarray())

    def test_no_labels(self, tmp_path):
        pq.write_table(as_table(matrix()), tmp_path / "a")
        rows = open_rows(tmp_path / "a")
        assert rows.labels is rows.qid is rows.weights is None

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"indices": [[0], [1, 1]]}, "row 1: column index 1 repeats or precedes"),
            ({"indices": [[0], [2, 1]]}, "row 1: column index 1 repeats or precedes"),
            ({"indices": [[0], [-1, 1]]}, "row 1: column index -1 is outside of"),
            ({"indices": [[0], [1, 2**32]]}, "row 1: column index 4294967296 is outside of"),
            ({"indices": [[0], [1]]}, "row 1: indices and values are lists of different lengths"),
            ({"indices": [[0], None]}, "row 1: indices is missing, or has a missing number"),
            ({"indices": [[0], [1, None]]}, "row 1: indices is missing, or has a missing number"),
            ({"indices": [[0.5], [1, 2]]}, "indices are float64, not whole numbers"),
            ({"indices": [0, 1]}, "column indices is int64, not lists of numbers"),
            ({"indices": [["a"], ["b", "c"]]}, "column indices is string, not numbers"),
            ({"values": [[1.0], [2, np.nan]]}, "row 1: the value of column 2 is nan"),
            ({"values": [[1.0], [2, -np.inf]]}, "row 1: the value of column 2 is -inf"),
            ({"values": [[1.0], [1e39, 2.0]]}, "row 1: the value of column 1 is inf"),
            ({"values": [[1.0], [None, 2.0]]}, "row 1: values is missing, or has a missing"),
            ({"label": [1.0, None]}, "row 1: label is missing"),
            ({"label": [1.0, np.nan]}, "row 1: label is nan, which is no float64"),
            ({"label": ["yes", "no"]}, "column label is string, not numbers"),
            ({"label": [2**53, 2**53 + 1]}, "row 1: label is 9007199254740993, which is no float"),
            ({"label": [0, -(2**53) - 1]}, "row 1: label is -9007199254740993, which is no float"),
            ({"label": [0, 2**63 - 1]}, "row 1: label is 9223372036854775807, which is no float"),
            (
                {"label": pa.array([0, 2**64 - 1], pa.uint64())},
                "row 1: label is 18446744073709551615, which is no float",
            ),
            ({"weight": [1, 2**60 + 1]}, "row 1: weight is 1152921504606846977, which is no f"),
            ({"qid": [1.0, 1.5]}, "row 1: qid is 1.5, which is no int64"),
        ],
    )
    @pytest.mark.parametrize("write_file", [pq.write_table, write_ipc])
    def test_what_is_wrong_is_named(self, tmp_path, columns, message, write_file):
        good = {"label": [1.0, 0.0], "indices": [[0], [1, 2]], "values": [[1.0], [2.0, 3.0]]}
        path = tmp_path / "file"
        write_file(pa.table(good | columns), path)
        with pytest.raises(ShardError) as caught:
            open_rows(path)
        assert str(caught.value).startswith(str(path))
        assert message in str(caught.value)

    def test_columns_that_are_not_there(self, tmp_path):
        pq.write_table(pa.table({"a": [1]}), tmp_path / "a")
        with pytest.raises(ShardError, match=r"a: has none of the columns label, .* but a"):
            open_rows(tmp_path / "a")
        pq.write_table(pa.table({"label": [1], "values": [[1.0]]}), tmp_path / "b")
        with pytest.raises(ShardError, match="b: there is no column indices"):
            open_rows(tmp_path / "b")
        table = as_table(matrix(), np.ones(40))
        pq.write_table(table, tmp_path / "c")
        pq.write_table(table.drop_columns("label"), tmp_path / "d")
        with pytest.raises(ShardError, match="d: some files have a column label"):
            open_rows([tmp_path / "c", tmp_path / "d"])

    def test_no_rows(self, tmp_path):
        pq.write_table(as_table(matrix()).slice(0, 0), tmp_path / "a")
        with pytest.raises(ShardError, match="a: no rows"):
            open_rows(tmp_path / "a")
        (tmp_path / "empty").mkdir()
        with pytest.raises(ShardError, match=r"empty: a directory with neither a manifest"):
            open_rows(tmp_path / "empty")
        with pytest.raises(ValueError, match="empty list"):
            open_rows([])


EVERY_BYTE_OF_THE_FOOTER = """
import sys
from widemargin.data.disk import open_rows
from widemargin.data.formats import ShardError
path = sys.argv[1]
whole = open(path, "rb").read()
refused = 0
for place in range(len(whole) - int.from_bytes(whole[-8:-4], "little") - 8, len(whole)):
    content = bytearray(whole)
    content[place] ^= 16
    open(path, "wb").write(content)
    try:
        open_rows(path).in_memory()
    except (ShardError, MemoryError) as error:
        assert path in str(error), error
        refused += 1
print(refused)
"""


def test_no_damage_to_a_parquet_footer_ends_the_process(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(as_table(matrix(), np.arange(40)), path, store_schema=False)
    done = subprocess.run(
        [sys.executable, "-c", EVERY_BYTE_OF_THE_FOOTER, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


class TestDamage:
    """Every pass says which file is not what it was."""

    @pytest.fixture(params=["arrow", "parquet"])
    def folder(self, tmp_path, request):
        return write(tmp_path / "rows", matrix(300), format=request.param, sizes=SMALL)

    def second(self, folder):
        return sorted(folder.glob("part-*"))[1]

    def damaged(self, path, at, times=1):
        content = bytearray(path.read_bytes())
        content[at : at + times] = bytes(byte ^ 255 for byte in content[at : at + times])
        path.write_bytes(content)

    @pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
    def test_cut_short(self, folder, kept):
        path = self.second(folder)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(kept * len(whole))])
        with pytest.raises(ShardError, match=rf"{path.name}: \d+ bytes, and its manifest says"):
            open_rows(folder)

    def test_not_even_the_first_bytes_are_right(self, folder):
        path = self.second(folder)
        self.damaged(path, 0)
        with pytest.raises(ShardError, match=rf"{path.name}: damaged: it is neither"):
            open_rows(folder)

    def test_labels_are_not_read_from_a_damaged_file(self, folder):
        path = self.second(folder)
        self.damaged(path, path.stat().st_size // 2)
        with pytest.raises(ShardError, match=rf"{path.name}: damaged: its checksum"):
            open_rows(folder).labels  # noqa: B018 - reading is what fails

    @pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
    def test_one_byte_is_wrong(self, folder, place):
        path = self.second(folder)
        self.damaged(path, int(place * path.stat().st_size))
        rows = open_rows(folder)
        with pytest.raises(ShardError, match=rf"{path.name}: damaged"):
            rows.scores(np.ones(12))
        with pytest.raises(ShardError, match=rf"{path.name}: damaged"):  # no pass trusts it
            rows.combine(np.ones(300))

    def test_labels_of_damaged_files(self, folder):
        """They are read before checksums are compared: wrong perhaps, or an error, no crash."""
        path = self.second(folder)
        whole = path.read_bytes()
        for at in range(0, len(whole), 31):
            path.write_bytes(whole)
            self.damaged(path, at, times=3)
            with contextlib.suppress(ShardError):
                assert open_rows(folder).labels.shape == (300,)

    def test_missing(self, folder):
        rows, path = open_rows(folder), self.second(folder)
        path.unlink()
        with pytest.raises(ShardError, match=rf"{path.name}: No such file"):
            rows.scores(np.ones(12))
        with pytest.raises(ShardError, match=rf"{path.name}: No such file"):
            open_rows(folder)

    def test_changed_between_passes(self, folder):
        rows, path = open_rows(folder), self.second(folder)
        rows.scores(np.ones(12))
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        with pytest.raises(ShardError, match=rf"{path.name}: changed while it was being read"):
            rows.scores(np.ones(12))

    def test_changed_during_a_pass(self, folder):
        rows, path = open_rows(folder), self.second(folder)
        passing = rows.blocks()
        while next(passing).begin < rows._counts[0].rows:
            pass
        path.write_bytes(path.read_bytes())
        with pytest.raises(ShardError, match=rf"{path.name}: changed while it was being read"):
            list(passing)

    @pytest.mark.parametrize("format", ["arrow", "parquet"])
    def test_without_a_manifest(self, tmp_path, format):
        """No checksum tells, so Arrow itself has to: an error, or the rows as they are."""
        writer = {"arrow": write_ipc, "parquet": pq.write_table}[format]
        writer(as_table(matrix(), np.ones(40)), tmp_path / "a")
        whole = (tmp_path / "a").read_bytes()
        for size in (10, len(whole) // 2, len(whole) - 1):
            (tmp_path / "a").write_bytes(whole[:size])
            with pytest.raises(ShardError, match=r"a: cannot be read \("):
                open_rows(tmp_path / "a")
        for at in range(0, len(whole), 97):
            (tmp_path / "a").write_bytes(whole)
            self.damaged(tmp_path / "a", at)
            with contextlib.suppress(ValueError):
                list(open_rows(tmp_path / "a").blocks())


class TestFeatureMaps:
    class Lengths:
        """One feature for each number of letters; the value counts them."""

        columns = ("word",)
        n_features = 30

        def __init__(self):
            self.calls = []

        def __call__(self, batch):
            self.calls.append(batch.num_rows)
            assert batch.schema.names == ["word"]
            lengths = np.array([len(word) for word in batch.column("word").to_pylist()])
            indptr = np.arange(len(lengths) + 1)
            shape = (len(lengths), self.n_features)
            return sp.csr_array((lengths.astype(np.float32), lengths, indptr), shape=shape)

    @pytest.fixture
    def words(self, tmp_path):
        lengths = np.arange(1000) % 29
        table = pa.table({"word": ["a" * n for n in lengths], "label": lengths % 2})
        pq.write_table(table, tmp_path / "words", row_group_size=300)
        return tmp_path / "words", lengths

    def test_rows_are_made_as_they_are_read(self, words):
        path, lengths = words
        features = self.Lengths()
        rows = open_rows(path, features, Sizes(block_bytes=4000))
        assert rows.shape == (1000, 30)
        assert rows.n_entries == 1000
        X = read_back(rows)
        np.testing.assert_array_equal(X.indices, lengths)
        np.testing.assert_array_equal(rows.scores(np.arange(30)), lengths**2)
        np.testing.assert_array_equal(rows.labels, lengths % 2)
        assert max(features.calls) == 4000 // 40

    def test_maps_of_sparse_rows(self, tmp_path):
        class Doubled:
            columns = ("indices", "values")
            n_features = 12

            def __call__(self, batch):
                values, indices = batch.column("values"), batch.column("indices")
                return 2 * sp.csr_matrix(
                    (values.flatten(), indices.flatten(), indices.offsets), (batch.num_rows, 12)
                )

        X = matrix()
        rows = open_rows(write(tmp_path / "rows", X), Doubled())
        np.testing.assert_array_equal(read_back(rows).toarray(), 2 * X.toarray())

    def test_maps_that_do_not_keep_their_word(self, words):
        path, _ = words
        features = self.Lengths()
        features.columns = ("sentence",)
        with pytest.raises(ShardError, match="words: there is no column sentence"):
            open_rows(path, features)
        features = self.Lengths()
        features.n_features = 20
        with pytest.raises(ShardError, match=r"words, rows 0\.\.63: X is not valid CSR: row 20"):
            open_rows(path, features)

        class Narrow(self.Lengths):
            def __call__(self, batch):
                return super().__call__(batch)[:, :29]

        with pytest.raises(ValueError, match="made 64 rows of 29 features out of 64 rows"):
            open_rows(path, Narrow())

        class NotANumber(self.Lengths):
            def __call__(self, batch):
                return super().__call__(batch) * np.nan

        with pytest.raises(ShardError, match="words, row 0: the value of column 0 is nan"):
            open_rows(path, NotANumber())


class TestAhead:
    def test_order_and_end(self):
        assert list(ahead(k for k in range(50))) == list(range(50))
        assert list(ahead(k for k in ())) == []

    def test_no_farther_than_it_should(self):
        begun = []
        items = ahead((begun.append(k) or k for k in range(50)), depth=3)
        assert next(items) == 0
        time.sleep(0.05)
        assert len(begun) <= 4
        items.close()
        assert len(begun) <= 5

    def test_errors_come_in_their_place(self):
        def failing():
            yield 1
            yield 2
            raise ValueError("third")

        items = ahead(failing())
        assert [next(items), next(items)] == [1, 2]
        with pytest.raises(ValueError, match="third"):
            next(items)

    def test_leaving_closes_what_was_read(self):
        closed = threading.Event()

        def items():
            try:
                yield from range(50)
            finally:
                closed.set()

        source = items()
        for item in (reading := ahead(source)):
            if item == 3:
                break
        reading.close()
        assert closed.is_set()
