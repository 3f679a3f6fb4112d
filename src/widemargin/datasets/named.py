"""Named data sets for benchmarks, demonstrations and tests by hand.

>>> from widemargin.datasets import load
>>> rcv1 = load("rcv1")  # doctest: +SKIP

The package contains no data. `load` looks in the folder ``$WIDEMARGIN_DATA``, then tries
scikit-learn's fetchers, and otherwise raises `DatasetMissing`, which names the missing files and
their source.

Features are as published, with these exceptions: covtype and mnist are scaled to [0, 1]; the sex
in abalone and the letters of splice_worm are one-hot encoded. mslr and mq2007_agg are ranking
sets with queries. A feature of mq2007_agg is the position of a document in one of 21 lists,
starting at 1, and 0 if it is not in the list. abalone, bank8fm, california and stock are
regression sets; `equal_frequency_ranks` turns their targets into ranks, as in the literature on
ordinal regression. winequality has ranks.

debian_paths has file paths and the sections of their packages. Its features are meant to be larger
than memory, so `load` does not return it; `debian_paths_batches` streams it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin.datasets.folder import DatasetMissing, folder_with
from widemargin.datasets.strings import SPLICE, SPLICE_HOME, read_splice_worm

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_UCI = "https://archive.ics.uci.edu"
_MICROSOFT = "https://www.microsoft.com/en-us/research/project"
_TORGO = "https://www.dcc.fc.up.pt/~ltorgo/Regression/DataSets.html"

_DNA = b"ACGT"


@dataclass(frozen=True, eq=False)
class Dataset:
    """One named data set.

    Attributes
    ----------
    name : str
    X : ndarray or csr_matrix of float32, shape (n, d)
    y : ndarray of int64, shape (n,)
        Labels: -1 and +1 in two-class sets, grades in ranking sets, ranks in ordinal sets. In
        regression sets the float64 target.
    X_test, y_test : as X and y, or None
        The published test set, if there is one.
    qid : ndarray of int64 or None
        Query of each row, in ranking sets.
    source : {"folder", "scikit-learn"}
        Where it was loaded from. scikit-learn's rcv1, news20 and california have other rows or
        features than the files, so their results are not comparable.
    """

    name: str
    X: np.ndarray | sp.csr_matrix
    y: np.ndarray
    X_test: np.ndarray | sp.csr_matrix | None = None
    y_test: np.ndarray | None = None
    qid: np.ndarray | None = None
    source: str = "folder"


def names() -> list[str]:
    """Names that `load` knows, sorted."""
    return sorted(_ENTRIES)


def load(name: str, *, download: bool = True) -> Dataset:
    """Load the data set `name`.

    Parameters
    ----------
    name : str
        One of `names()`.
    download : bool, default=True
        Whether to try scikit-learn's fetchers for sets that are not in ``$WIDEMARGIN_DATA``.

    Raises
    ------
    DatasetMissing
        It is not in ``$WIDEMARGIN_DATA``, and scikit-learn cannot fetch it.
    ValueError
        `name` is not one of `names()`.
    """
    entry = _ENTRIES.get(name)
    if entry is None:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(names())}")
    folder, lacking = folder_with(entry.files)
    if folder is not None:
        return Dataset(name, **entry.read(folder), source="folder")
    if entry.fetch is None:
        tried, cause = "scikit-learn has no fetcher for it", None
    elif not download:
        tried, cause = "scikit-learn's fetcher was not asked", None
    else:
        try:
            return Dataset(name, **entry.fetch(), source="scikit-learn")
        except (OSError, HTTPException, ValueError) as error:  # ValueError: OpenML's own errors
            tried, cause = f"scikit-learn's fetcher failed ({error})", error
    raise DatasetMissing(
        f"data set {name!r} is missing: {lacking}; {tried}. It can be had from {entry.home}"
    ) from cause


def equal_frequency_ranks(target: np.ndarray, n_ranks: int) -> np.ndarray:
    """Cut a regression target into ranks with about the same number of rows.

    Equal targets get equal ranks. Starting from the lowest, each rank takes distinct targets until
    its number of rows is closest to an equal part of the remaining rows; no rank is empty.

    Parameters
    ----------
    target : ndarray of shape (n,)
    n_ranks : int

    Returns
    -------
    ndarray of int64, shape (n,)
        Ranks, 1 .. n_ranks.

    Raises
    ------
    ValueError
        If there are fewer distinct targets than ranks.
    """
    distinct, place, counts = np.unique(target, return_inverse=True, return_counts=True)
    if distinct.size < n_ranks:
        raise ValueError(f"{n_ranks} ranks need as many distinct targets, not {distinct.size}")
    rows_up_to = np.cumsum(counts)
    ends: list[int] = []  # of all ranks but the last, as indices of distinct targets
    begin = ranked = 0
    for still_to_come in range(n_ranks - 1, 0, -1):
        wanted = ranked + (rows_up_to[-1] - ranked) / (still_to_come + 1)
        candidates = rows_up_to[begin : distinct.size - still_to_come]
        begin += int(np.argmin(np.abs(candidates - wanted))) + 1
        ranked = int(rows_up_to[begin - 1])
        ends.append(begin)
    return np.searchsorted(ends, place, side="right") + 1


# --- readers, one per file layout; they return the fields of Dataset -----------------------


def _csr_from_npz(path: Path, label_key: str) -> tuple[sp.csr_matrix, np.ndarray]:
    with np.load(path) as pieces:
        X = sp.csr_matrix(
            (pieces["data"], pieces["indices"], pieces["indptr"]), shape=tuple(pieces["shape"])
        )
        return X.astype(np.float32, copy=False), pieces[label_key].astype(np.int64)


def _read_rcv1(label_key: str, dropped_label: int, folder: Path) -> dict:
    X, y = _csr_from_npz(folder / "rcv1.npz", label_key)
    kept = y != dropped_label
    return {"X": X[kept], "y": y[kept]}


def _read_news20(folder: Path) -> dict:
    X, y = _csr_from_npz(folder / "news20.npz", "y")
    return {"X": X, "y": y}


def _read_covtype(folder: Path) -> dict:
    table = np.loadtxt(folder / "covtype.csv.gz", delimiter=",", skiprows=1, dtype=np.float32)
    return {"X": _scaled_to_unit_interval(table[:, :-1]), "y": table[:, -1].astype(np.int64)}


def _read_poker(folder: Path) -> dict:
    table = np.loadtxt(folder / "poker.data.gz", delimiter=",", dtype=np.float32)
    return {"X": np.ascontiguousarray(table[:, :-1]), "y": table[:, -1].astype(np.int64)}


def _read_mnist(folder: Path) -> dict:
    def part(stem: str) -> tuple[np.ndarray, np.ndarray]:
        images = _read_idx(folder / "mnist" / f"{stem}-images-idx3-ubyte.gz")
        labels = _read_idx(folder / "mnist" / f"{stem}-labels-idx1-ubyte.gz")
        pixels = images.reshape(len(images), -1).astype(np.float32)
        return pixels / np.float32(255), labels.astype(np.int64)

    return _with_test_part(part("train"), part("t10k"))


def _read_idx(path: Path) -> np.ndarray:
    """Return the uint8 array of an idx file: magic number, big-endian shape, bytes."""
    with gzip.open(path) as file:
        content = file.read()
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path.name} is not an idx file of unsigned bytes")
    n_dimensions = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=n_dimensions, offset=4).astype(np.int64)
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * n_dimensions)
    if values.size != shape.prod():
        raise ValueError(f"{path.name} is truncated: {values.size} of {shape.prod()} values")
    return values.reshape(shape)


def _read_svmlight_pair(folder: Path, train: str, test: str, n_features: int) -> dict:
    # Imported here: few of the sets are svmlight text, and the reader compiles a kernel.
    from widemargin.data.svmlight import read_svmlight

    def part(file: str) -> tuple[sp.csr_matrix, np.ndarray]:
        rows = read_svmlight(folder / file, n_features=n_features, dtype=np.float32)
        return rows.X, rows.y.astype(np.int64)

    return _with_test_part(part(train), part(test))


def _read_queries(folder: Path, files: tuple[str, ...], n_features: int) -> dict:
    from widemargin.data.svmlight import read_svmlight

    parts = [read_svmlight(folder / file, n_features=n_features) for file in files]
    return {
        "X": np.vstack([part.X.toarray() for part in parts]),
        "y": np.concatenate([part.y for part in parts]).astype(np.int64),
        "qid": np.concatenate([part.qid for part in parts]),
    }


def _read_arff(file: str, folder: Path) -> dict:
    """Read an ARFF file; the last attribute is the target, nominal ones are one-hot encoded."""
    from scipy.io.arff import loadarff

    with gzip.open(folder / file, "rt", encoding="ascii") as stream:
        table, attributes = loadarff(stream)
    *features, target = attributes.names()
    columns = []
    for name in features:
        kind, values = attributes[name]
        if kind == "nominal":
            columns += [table[name] == value.encode() for value in values]
        else:
            columns.append(table[name])
    return {
        "X": np.column_stack(columns).astype(np.float32),
        "y": table[target].astype(np.float64),
    }


def _read_winequality(folder: Path) -> dict:
    with gzip.open(folder / _WINE, "rt", encoding="ascii") as stream:
        next(stream)
        # Semicolons as published, or commas.
        table = np.loadtxt((line.replace(";", ",") for line in stream), delimiter=",", ndmin=2)
    return {"X": table[:, :-1].astype(np.float32), "y": table[:, -1].astype(np.int64)}


def _read_splice_worm(folder: Path) -> dict:
    """DNA strings of one length; letter A, C, G, T at position p is a 1 in column 4 p + 0 .. 3."""
    labels, strings = read_splice_worm(folder)
    letters = b"".join(strings)
    if letters.translate(None, _DNA):
        raise ValueError(f"{SPLICE} has letters other than {_DNA.decode()}")
    codes = letters.translate(bytes.maketrans(_DNA, bytes(range(4))))
    columns = np.frombuffer(codes, dtype=np.uint8).reshape(len(labels), -1).astype(np.int32)
    n, length = columns.shape
    columns += 4 * np.arange(length, dtype=np.int32)
    ones = np.ones(n * length, dtype=np.float32)
    row_starts = np.arange(0, n * length + 1, length, dtype=np.int32)
    X = sp.csr_matrix((ones, columns.ravel(), row_starts), shape=(n, 4 * length))
    return {"X": X, "y": np.array(labels, dtype=np.int64)}


# --- scikit-learn's fetchers, with one attempt each, so that they fail fast offline -----


def _fetch_rcv1() -> dict:
    from sklearn.datasets import fetch_rcv1

    bunch = fetch_rcv1(subset="train", n_retries=1)
    topics = list(bunch.target_names)

    def any_of(*wanted: str) -> np.ndarray:
        columns = bunch.target[:, [topics.index(topic) for topic in wanted]]
        return np.asarray(columns.sum(axis=1)).ravel() > 0

    positive, negative = any_of("CCAT", "ECAT"), any_of("GCAT", "MCAT")
    kept = positive != negative
    return {"X": bunch.data[kept].astype(np.float32), "y": _plus_minus(positive[kept])}


def _fetch_news20() -> dict:
    from sklearn.datasets import fetch_20newsgroups_vectorized

    def part(subset: str) -> tuple[sp.csr_matrix, np.ndarray]:
        # Raw counts and classes from 1, as LIBSVM has them; the vocabulary is scikit-learn's.
        bunch = fetch_20newsgroups_vectorized(subset=subset, normalize=False, n_retries=1)
        return sp.csr_matrix(bunch.data, dtype=np.float32), bunch.target.astype(np.int64) + 1

    return _with_test_part(part("train"), part("test"))


def _fetch_covtype() -> dict:
    from sklearn.datasets import fetch_covtype

    bunch = fetch_covtype(n_retries=1)
    X = _scaled_to_unit_interval(bunch.data.astype(np.float32))
    return {"X": X, "y": bunch.target.astype(np.int64)}


def _fetch_california() -> dict:
    from sklearn.datasets import fetch_california_housing

    bunch = fetch_california_housing(n_retries=1)
    return {"X": bunch.data.astype(np.float32), "y": 100_000.0 * bunch.target}


def _fetch_mnist() -> dict:
    from sklearn.datasets import fetch_openml

    bunch = fetch_openml("mnist_784", version=1, as_frame=False, n_retries=1)
    X, y = bunch.data.astype(np.float32) / np.float32(255), bunch.target.astype(np.int64)
    return _with_test_part((X[:60_000], y[:60_000]), (X[60_000:], y[60_000:]))


# --- small shared steps ---------------------------------------------------------------------


def _with_test_part(train: tuple, test: tuple) -> dict:
    return {"X": train[0], "y": train[1], "X_test": test[0], "y_test": test[1]}


def _plus_minus(is_positive: np.ndarray) -> np.ndarray:
    return np.where(is_positive, 1, -1).astype(np.int64)


def _scaled_to_unit_interval(X: np.ndarray) -> np.ndarray:
    """Scale each column to [0, 1]; a constant column becomes 0."""
    low = X.min(axis=0)
    width = X.max(axis=0) - low
    return (X - low) / np.where(width > 0, width, 1)


@dataclass(frozen=True)
class _Entry:
    """How to read or fetch a data set, and the source of its files."""

    files: tuple[str, ...]
    read: Callable[[Path], dict]
    home: str
    fetch: Callable[[], dict] | None = None

    def one_against_rest(self, positive_label: int) -> _Entry:
        """Return the two-class version of this set: `positive_label` is +1, all else -1."""

        def relabelled(get: Callable[..., dict], *args: Any) -> dict:
            fields = get(*args)
            for labels in ("y", "y_test"):
                if labels in fields:
                    fields[labels] = _plus_minus(fields[labels] == positive_label)
            return fields

        fetch = self.fetch and partial(relabelled, self.fetch)
        return _Entry(self.files, partial(relabelled, self.read), self.home, fetch)


def _svmlight_pair(train: str, test: str, n_features: int, page: str) -> _Entry:
    read = partial(_read_svmlight_pair, train=train, test=test, n_features=n_features)
    return _Entry((train, test), read, f"{_LIBSVM}/{page}")


def _queries(files: tuple[str, ...], n_features: int, home: str) -> _Entry:
    read = partial(_read_queries, files=files, n_features=n_features)
    return _Entry(files, read, f"{_MICROSOFT}/{home}")


def _regression(file: str, home: str, fetch: Callable[[], dict] | None = None) -> _Entry:
    return _Entry((file,), partial(_read_arff, file), home, fetch)


_WINE = "ordinal/winequality-white.csv.gz"
_PIECES = "to be saved with numpy.savez as CSR pieces data, indices, indptr, shape"
_RCV1_HOME = f"scikit-learn's fetch_rcv1 (RCV1-v2), {_PIECES}, y_binary, y_multi"
_NEWS20_HOME = f"{_LIBSVM}/multiclass.html#news20, {_PIECES}, y"
_NEWS20 = _Entry(("news20.npz",), _read_news20, _NEWS20_HOME, _fetch_news20)
_COVTYPE = _Entry(("covtype.csv.gz",), _read_covtype, f"{_UCI}/dataset/31", _fetch_covtype)

_ENTRIES = {
    "rcv1": _Entry(("rcv1.npz",), partial(_read_rcv1, "y_binary", 0), _RCV1_HOME, _fetch_rcv1),
    "rcv1_multi": _Entry(("rcv1.npz",), partial(_read_rcv1, "y_multi", -1), _RCV1_HOME),
    "news20": _NEWS20,
    "news20_one": _NEWS20.one_against_rest(1),
    "covtype": _COVTYPE,
    "covtype_binary": _COVTYPE.one_against_rest(2),
    "mnist": _Entry(
        tuple(
            f"mnist/{part}-{kind}-ubyte.gz"
            for part in ("train", "t10k")
            for kind in ("images-idx3", "labels-idx1")
        ),
        _read_mnist,
        "https://www.openml.org/d/554 (MNIST)",
        _fetch_mnist,
    ),
    "a9a": _svmlight_pair("adult/a9a.gz", "adult/a9a.t.gz", 123, "binary.html#a9a"),
    "ijcnn1": _svmlight_pair(
        "ijcnn1/ijcnn1.trn.bz2", "ijcnn1/ijcnn1.tst.bz2", 22, "binary.html#ijcnn1"
    ),
    "poker": _Entry(("poker.data.gz",), _read_poker, f"{_UCI}/dataset/158"),
    "splice_worm": _Entry((SPLICE,), _read_splice_worm, SPLICE_HOME),
    "mslr": _queries(("ltr/mslr_sample.txt.gz",), 136, "mslr/ (MSLR-WEB10K, of which 43 queries)"),
    "mq2007_agg": _queries(
        tuple(f"ltr/mq2007_agg/A{part}.txt.gz" for part in range(1, 6)),
        21,
        "letor-learning-rank-information-retrieval/ (LETOR 4.0, MQ2007-agg)",
    ),
    "abalone": _regression("ordinal/abalone.arff.gz", f"{_UCI}/dataset/1, as ARFF"),
    "bank8fm": _regression("ordinal/bank8FM.arff.gz", f"{_TORGO} (bank8FM), as ARFF"),
    "california": _regression(
        "ordinal/cal.housing.arff.gz", f"{_TORGO} (California housing), as ARFF", _fetch_california
    ),
    "stock": _regression("ordinal/stock.arff.gz", f"{_TORGO} (stocks), as ARFF"),
    "winequality": _Entry((_WINE,), _read_winequality, f"{_UCI}/dataset/186"),
}
