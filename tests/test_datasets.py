"""Named data sets: without the real data, with small files laid out like the real ones."""

import bz2
import gzip
import os
import struct

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import datasets
from widemargin.datasets import DATA_VARIABLE, DatasetMissing, load, names

REAL_SHAPES = {
    "a9a": (32_561, 123, 2),
    "covtype": (581_012, 54, 7),
    "covtype_binary": (581_012, 54, 2),
    "ijcnn1": (49_990, 22, 2),
    "mnist": (60_000, 784, 10),
    "news20": (15_935, 62_061, 20),
    "news20_one": (15_935, 62_061, 2),
    "poker": (25_010, 10, 10),
    "rcv1": (23_749, 47_236, 2),
    "rcv1_multi": (18_554, 47_236, 52),
}


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
    for file in datasets._ENTRIES[name].files:
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
        datasets._read_idx(path)


def test_cut_idx_is_refused(tmp_path):
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(struct.pack(">BBBBI", 0, 0, 8, 1, 5) + b"\x01\x02"))
    with pytest.raises(ValueError, match="cut: 2 values where 5"):
        datasets._read_idx(path)


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
    if data.X_test is not None:
        assert data.X_test.shape == (len(data.y_test), n_features)
