"""Named data sets: without the real data, with small files laid out like the real ones."""

import bz2
import gzip
import lzma
import os
import struct

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin.datasets import (
    DATA_VARIABLE,
    DEBIAN_SECTIONS,
    DatasetMissing,
    debian_paths_batches,
    equal_frequency_ranks,
    load,
    named,
    names,
    splice_worm_batches,
)

# Rows, features, distinct labels.
REAL_SHAPES = {
    "a9a": (32_561, 123, 2),
    "abalone": (4_177, 10, 28),
    "bank8fm": (8_192, 8, 7_913),
    "california": (20_640, 8, 3_842),
    "covtype": (581_012, 54, 7),
    "covtype_binary": (581_012, 54, 2),
    "ijcnn1": (49_990, 22, 2),
    "mnist": (60_000, 784, 10),
    "mq2007_agg": (69_623, 21, 3),
    "mslr": (5_000, 136, 5),
    "news20": (15_935, 62_061, 20),
    "news20_one": (15_935, 62_061, 2),
    "poker": (25_010, 10, 10),
    "rcv1": (23_749, 47_236, 2),
    "rcv1_multi": (18_554, 47_236, 52),
    "splice_worm": (100_000, 1_592, 2),
    "stock": (950, 9, 203),
    "winequality": (4_898, 11, 7),
}
REAL_QUERIES = {"mq2007_agg": 1_692, "mslr": 43}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that ``$WIDEMARGIN_DATA`` names."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    return tmp_path


def save_csr(path, **labels):
    X = sp.csr_matrix(np.array([[0, 2, 0], [1, 0, 3], [0, 0, 4], [5, 0, 0]], dtype=np.float32))
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, **labels)
    return X


def write_idx(path, values):
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))


def test_names_are_the_ones_promised():
    assert names() == sorted(REAL_SHAPES)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="rcv1_multi"):
        load("rcv2")


@pytest.mark.parametrize("name", sorted(REAL_SHAPES))
def test_missing_data_says_what_and_where(name, folder):
    with pytest.raises(DatasetMissing, match="can be had from") as caught:
        load(name, download=False)
    for file in named._ENTRIES[name].files:
        assert file in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)


def test_missing_variable_is_named(monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(DatasetMissing, match=r"\$WIDEMARGIN_DATA is not set"):
        load("poker")


def test_fetcher_without_network_is_reported(folder, monkeypatch):
    def offline(**_):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", offline)
    with pytest.raises(DatasetMissing, match="no route to host"):
        load("covtype_binary")


def test_fetcher_serves_what_the_folder_lacks(folder, monkeypatch):
    class Bunch:
        data = np.array([[0.0, 7.0], [10.0, 7.0], [5.0, 7.0]])
        target = np.array([2, 1, 7], dtype=np.int32)

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", lambda **_: Bunch)
    data = load("covtype_binary")
    assert data.source == "scikit-learn"
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, [[0, 0], [1, 0], [0.5, 0]])
    np.testing.assert_array_equal(data.y, [1, -1, -1])


def test_rcv1_drops_rows_without_a_label(folder):
    X = save_csr(folder / "rcv1.npz", y_binary=[1, 0, -1, 1], y_multi=[-1, 4, 0, 51])
    binary, several = load("rcv1"), load("rcv1_multi")
    np.testing.assert_array_equal(binary.X.toarray(), X[[0, 2, 3]].toarray())
    np.testing.assert_array_equal(binary.y, [1, -1, 1])
    np.testing.assert_array_equal(several.y, [4, 0, 51])
    assert sp.isspmatrix_csr(binary.X)
    assert binary.X.dtype == np.float32
    assert binary.source == "folder"


def test_news20_and_its_first_class(folder):
    save_csr(folder / "news20.npz", y=[1, 20, 1, 3])
    np.testing.assert_array_equal(load("news20").y, [1, 20, 1, 3])
    np.testing.assert_array_equal(load("news20_one").y, [1, -1, 1, -1])


def test_covtype_is_scaled(folder):
    text = b"a,b,Cover_Type\n2596,51,5\n2600,51,2\n2598,51,7\n"
    (folder / "covtype.csv.gz").write_bytes(gzip.compress(text))
    data = load("covtype")
    np.testing.assert_array_equal(data.X, np.float32([[0, 0], [1, 0], [0.5, 0]]))
    np.testing.assert_array_equal(data.y, [5, 2, 7])


def test_poker(folder):
    (folder / "poker.data.gz").write_bytes(gzip.compress(b"1,10,9\n2,11,0\n"))
    data = load("poker")
    np.testing.assert_array_equal(data.X, np.float32([[1, 10], [2, 11]]))
    np.testing.assert_array_equal(data.y, [9, 0])


def test_mnist(folder):
    (folder / "mnist").mkdir()
    images = np.arange(3 * 2 * 2).reshape(3, 2, 2) * 20
    for part, count in (("train", 3), ("t10k", 2)):
        write_idx(folder / "mnist" / f"{part}-images-idx3-ubyte.gz", images[:count])
        write_idx(folder / "mnist" / f"{part}-labels-idx1-ubyte.gz", np.arange(count))
    data = load("mnist")
    np.testing.assert_allclose(data.X, images.reshape(3, 4) / 255, rtol=1e-6)
    assert data.X_test.shape == (2, 4)
    np.testing.assert_array_equal(data.y_test, [0, 1])


@pytest.mark.parametrize("content", [b"\x00\x00\x0d\x01", b""])
def test_idx_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="not an idx"):
        named._read_idx(path)


def test_cut_idx_is_refused(tmp_path):
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(struct.pack(">BBBBI", 0, 0, 8, 1, 5) + b"\x01\x02"))
    with pytest.raises(ValueError, match="truncated: 2 of 5 values"):
        named._read_idx(path)


def test_svmlight_sets_keep_their_published_width(folder):
    (folder / "adult").mkdir()
    (folder / "adult" / "a9a.gz").write_bytes(gzip.compress(b"-1 3:1 11:1\n+1 5:1\n"))
    (folder / "adult" / "a9a.t.gz").write_bytes(gzip.compress(b"-1 1:1 122:1\n"))
    (folder / "ijcnn1").mkdir()
    (folder / "ijcnn1" / "ijcnn1.trn.bz2").write_bytes(bz2.compress(b"-1.0 6:1 11:-0.73\n"))
    (folder / "ijcnn1" / "ijcnn1.tst.bz2").write_bytes(bz2.compress(b"1.0 7:1\n"))
    a9a, ijcnn1 = load("a9a"), load("ijcnn1")
    assert a9a.X.shape == (2, 123)
    assert a9a.X_test.shape == (1, 123)
    assert ijcnn1.X.shape == ijcnn1.X_test.shape == (1, 22)
    np.testing.assert_array_equal(a9a.y, [-1, 1])
    assert a9a.X.dtype == np.float32


def test_ranking_sets_have_queries(folder):
    (folder / "ltr" / "mq2007_agg").mkdir(parents=True)
    for part in range(1, 6):
        text = f"{part % 3} qid:{part} 1:{part} 2:NULL #docid = GX\n0 qid:{part} 2:NULL\n"
        path = folder / "ltr" / "mq2007_agg" / f"A{part}.txt.gz"
        path.write_bytes(gzip.compress(text.encode()))
    data = load("mq2007_agg")
    assert data.X.shape == (10, 21)
    np.testing.assert_array_equal(data.X[:, 0], [1, 0, 2, 0, 3, 0, 4, 0, 5, 0])
    np.testing.assert_array_equal(data.X[:, 1:], 0)
    np.testing.assert_array_equal(data.y, [1, 0, 2, 0, 0, 0, 1, 0, 2, 0])
    np.testing.assert_array_equal(data.qid, np.repeat(np.arange(1, 6), 2))
    assert data.y.dtype == data.qid.dtype == np.int64


def test_regression_sets_keep_their_target(folder):
    (folder / "ordinal").mkdir()
    text = (
        "% about it\r\n@relation 'abalone'\r\n@attribute 'Sex' { M, F, I}\r\n"
        "@attribute 'Whole weight' real\r\n@attribute 'Class_Rings' integer\r\n@data\r\n"
        "I,0.5,15\r\nM,0.25,7,\r\nF,0.75,9\r\n"
    )
    (folder / "ordinal" / "abalone.arff.gz").write_bytes(gzip.compress(text.encode()))
    data = load("abalone")
    np.testing.assert_array_equal(data.X, [[0, 0, 1, 0.5], [1, 0, 0, 0.25], [0, 1, 0, 0.75]])
    np.testing.assert_array_equal(data.y, [15, 7, 9])
    assert (data.X.dtype, data.y.dtype) == (np.float32, np.float64)


def test_california_of_scikit_learn_is_in_dollars(folder, monkeypatch):
    class Bunch:
        data = np.array([[8.3252, 41.0]])
        target = np.array([4.526])

    monkeypatch.setattr("sklearn.datasets.fetch_california_housing", lambda **_: Bunch)
    data = load("california")
    assert data.source == "scikit-learn"
    np.testing.assert_allclose(data.y, [452_600])


@pytest.mark.parametrize("separator", [";", ","])
def test_winequality(folder, separator):
    (folder / "ordinal").mkdir()
    text = '"fixed acidity";"pH";"quality"\n7;3.5;6\n6.5;3;9'.replace(";", separator)
    path = folder / "ordinal" / "winequality-white.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    data = load("winequality")
    np.testing.assert_array_equal(data.X, np.float32([[7, 3.5], [6.5, 3]]))
    np.testing.assert_array_equal(data.y, [6, 9])
    assert data.y.dtype == np.int64


def test_splice_worm_has_a_column_per_letter_and_position(folder):
    path = folder / "splice_worm.fasta.bz2"
    header = b"> chr_num=1, strand=+, position=7, label=%d\n"
    path.write_bytes(bz2.compress(header % -1 + b"GAT\n" + header % 1 + b"CC\nA\n"))
    data = load("splice_worm")
    expected = [[0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]]
    np.testing.assert_array_equal(data.X.toarray(), expected)
    np.testing.assert_array_equal(data.y, [-1, 1])
    data.X.check_format(full_check=True)
    path.write_bytes(bz2.compress(header % 1 + b"GNT\n"))
    with pytest.raises(ValueError, match="letters other than ACGT"):
        load("splice_worm")


DEBIAN_LINES = """\
bin/ash                                                 shells/ash
bin/live-boot                                           misc/live-boot,admin/open-system-boot
usr/share/Ultimaker 3 S.png misc/cura
usr/lib/aspell/català.alias\ttext/aspell-ca
"""


@pytest.mark.parametrize("rows_per_batch", [1, 3, 4, 100])
def test_debian_paths_are_streamed(folder, rows_per_batch):
    (folder / "debian_paths.xz").write_bytes(lzma.compress(DEBIAN_LINES.encode()))
    batches = list(debian_paths_batches(rows_per_batch))
    sizes = [batch.num_rows for batch in batches]
    assert sum(sizes) == 4
    assert set(sizes[:-1]) <= {rows_per_batch}
    assert [str(kind) for kind in batches[0].schema.types] == ["int64", "string"]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(DEBIAN_SECTIONS[row["label"]], row["path"]) for row in rows] == [
        ("shells", "bin/ash"),
        ("misc", "bin/live-boot"),
        ("misc", "usr/share/Ultimaker 3 S.png"),
        ("text", "usr/lib/aspell/català.alias"),
    ]


@pytest.mark.parametrize("line", ["usr/bin/x attic/x", "shells/ash", ""])
def test_bad_line_of_debian_paths_is_named(folder, line):
    text = DEBIAN_LINES + line + "\n"
    (folder / "debian_paths.xz").write_bytes(lzma.compress(text.encode()))
    batches = debian_paths_batches(2)
    assert [next(batches).num_rows, next(batches).num_rows] == [2, 2]
    with pytest.raises(ValueError, match=r"debian_paths\.xz, line 5"):
        next(batches)


def test_missing_debian_paths_are_reported_at_once(folder):
    with pytest.raises(DatasetMissing, match=r"has no debian_paths\.xz.*can be had from"):
        debian_paths_batches()


def test_splice_worm_is_streamed(folder):
    lines = (
        "> position=1, label=-1\nACGT\n> position=2, label=1\nTTNA\n> position=3, label=1\nAAAA\n"
    )
    (folder / "splice_worm.fasta.bz2").write_bytes(bz2.compress(lines.encode()))
    batches = list(splice_worm_batches(2))
    assert [batch.num_rows for batch in batches] == [2, 1]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["label"], row["sequence"]) for row in rows] == [
        (-1, "ACGT"),
        (1, "TTNA"),
        (1, "AAAA"),
    ]


def test_missing_splice_worm_is_reported_at_once(folder):
    with pytest.raises(DatasetMissing, match=r"has no splice_worm\.fasta\.bz2.*can be had from"):
        splice_worm_batches()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 10))
def test_equal_frequency_ranks_follow_the_target(target, n_ranks):
    target = np.array(target) / 3
    if len(np.unique(target)) < n_ranks:
        with pytest.raises(ValueError, match="ranks need as many distinct targets"):
            equal_frequency_ranks(target, n_ranks)
        return
    ranks = equal_frequency_ranks(target, n_ranks)
    assert ranks.dtype == np.int64
    np.testing.assert_array_equal(np.unique(ranks), np.arange(1, n_ranks + 1))
    for i in range(target.size):
        assert np.all(ranks[target == target[i]] == ranks[i])
        assert np.all(ranks[target < target[i]] <= ranks[i])


@given(st.integers(1, 100), st.integers(1, 12), st.integers(0, 100))
def test_ranks_of_distinct_targets_are_of_one_size(n_rows, n_ranks, seed):
    n_rows = max(n_rows, n_ranks)
    target = np.random.default_rng(seed).permutation(n_rows)
    sizes = np.bincount(equal_frequency_ranks(target, n_ranks))[1:]
    assert sizes.size == n_ranks
    assert sizes.max() - sizes.min() <= 1


def test_a_frequent_target_leaves_the_others_their_share():
    target = np.array([1, 2, 2, 2, 2, 2, 2, 3, 4, 5, 6])
    ranks = equal_frequency_ranks(target, 4)
    np.testing.assert_array_equal(ranks, [1, 2, 2, 2, 2, 2, 2, 3, 3, 4, 4])
    target = np.array([1, 2, 3, 3, 3, 3, 3, 3, 3])
    np.testing.assert_array_equal(equal_frequency_ranks(target, 3), target)


@pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"${DATA_VARIABLE} is not set")
@pytest.mark.parametrize("name", sorted(REAL_SHAPES))
def test_real_data(name):
    try:
        data = load(name, download=False)
    except DatasetMissing as missing:
        pytest.skip(str(missing))
    n_rows, n_features, n_classes = REAL_SHAPES[name]
    assert data.X.shape == (n_rows, n_features)
    assert data.X.dtype == np.float32
    assert data.y.shape == (n_rows,)
    assert len(np.unique(data.y)) == n_classes
    if name in REAL_QUERIES:
        changes = np.count_nonzero(np.diff(data.qid))
        assert len(np.unique(data.qid)) == REAL_QUERIES[name] == changes + 1
    if data.X_test is not None:
        assert data.X_test.shape == (len(data.y_test), n_features)


@pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"${DATA_VARIABLE} is not set")
@pytest.mark.slow
def test_real_debian_paths():
    try:
        batches = debian_paths_batches()
    except DatasetMissing as missing:
        pytest.skip(str(missing))
    counts = np.zeros(len(DEBIAN_SECTIONS), dtype=np.int64)
    for batch in batches:
        counts += np.bincount(batch["label"], minlength=counts.size)
    assert counts.sum() == 5_661_134
    assert counts.min() == 34
