"""Data sets of many rows and few features, for ablations of solvers.

Some took part when the solvers' constants were chosen, `TUNED`; the others did not. All are made
of a few source sets, which `prepare` stores as one small file each, and of random numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from widemargin import datasets

Matrix: TypeAlias = np.ndarray | sp.csr_matrix
Labelled: TypeAlias = tuple[Matrix, np.ndarray]

# Letters of splice_worm around the splice site, at 197 and 198.
_WINDOW = slice(180, 220)
_WORD_FEATURES = 256
_MNIST_ROWS = 30_000


# --- source sets, and their files -----------------------------------------------------------


def prepare(folder: Path) -> None:
    """Write the source sets into `folder`, from ``$WIDEMARGIN_DATA``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, read in _SOURCES.items():
        path = folder / f"{name}.npz"
        if not path.exists():
            X, y = read()
            np.savez_compressed(path, y=y.astype(np.int32), **_packed(X))


def _packed(X: Matrix) -> dict[str, np.ndarray]:
    """Return X as small integers: for each column, the values it has and the place of each."""
    if sp.issparse(X):
        values, places = np.unique(X.data, return_inverse=True)
        kind = np.uint8 if values.size <= 256 else np.uint32
        shape = np.array(X.shape)
        parts = {"values": values, "places": places.astype(kind), "shape": shape}
        lengths = np.diff(X.indptr).astype(np.uint16)
        return parts | {"indices": X.indices.astype(np.uint16), "lengths": lengths}
    packed = {}
    for j, column in enumerate(X.T):
        values, places = np.unique(column, return_inverse=True)
        kind = np.uint8 if values.size <= 256 else np.uint16
        packed |= {f"values{j}": values, f"places{j}": places.astype(kind)}
    return packed


def _stored(folder: Path, name: str) -> Labelled:
    """Return a source set as it was before it was packed."""
    with np.load(folder / f"{name}.npz") as parts:
        y = parts["y"]
        if "shape" in parts:
            ends = np.cumsum(parts["lengths"], dtype=np.int32)
            starts = np.concatenate([np.zeros(1, np.int32), ends])
            entries = parts["values"][parts["places"]], parts["indices"].astype(np.int32), starts
            return sp.csr_matrix(entries, shape=tuple(parts["shape"])), y
        d = sum(key.startswith("values") for key in parts)
        X = np.empty((y.size, d), np.float32)
        for j in range(d):
            X[:, j] = parts[f"values{j}"][parts[f"places{j}"]]
        return X, y


def _named(name: str) -> Labelled:
    data = datasets.load(name, download=False)
    return data.X, data.y


def _california() -> Labelled:
    X, price = _named("california")
    return X, price > np.median(price)


def _mnist() -> Labelled:
    X, y = _named("mnist")
    return X[:_MNIST_ROWS], y[:_MNIST_ROWS]


def _splice_window() -> Labelled:
    letters, y = _splice_letters()
    return letters[:, _WINDOW], y


def _splice_counts() -> Labelled:
    """Count the 64 words of three letters."""
    letters, y = _splice_letters()
    words = 16 * letters[:, :-2] + 4 * letters[:, 1:-1] + letters[:, 2:]
    return np.stack([(words == word).sum(axis=1) for word in range(64)], axis=1), y


def _splice_letters() -> tuple[np.ndarray, np.ndarray]:
    X, y = _named("splice_worm")
    return (X.indices % 4).astype(np.uint8).reshape(X.shape[0], -1), y


def _debian_words(one_in: int = 28) -> Labelled:
    """Hash the words of some paths; is it documentation?"""
    doc = datasets.DEBIAN_SECTIONS.index("doc")
    indices: list[int] = []
    lengths, labels = [], []
    for batch in datasets.debian_paths_batches():
        labels += batch["label"].to_numpy()[::one_in].tolist()
        for path in batch["path"].to_pylist()[::one_in]:
            words = {zlib.crc32(word.encode()) % _WORD_FEATURES for word in path.split("/")}
            indices += sorted(words)
            lengths.append(len(words))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    shape = len(lengths), _WORD_FEATURES
    X = sp.csr_matrix((np.ones(len(indices), np.float32), indices, starts), shape=shape)
    return X, np.array(labels) == doc


_SOURCES: dict[str, Callable[[], Labelled]] = {
    "covtype": partial(_named, "covtype"),
    "ijcnn1": partial(_named, "ijcnn1"),
    "a9a": partial(_named, "a9a"),
    "mnist": _mnist,
    "poker": partial(_named, "poker"),
    "mslr": partial(_named, "mslr"),
    "mq2007": partial(_named, "mq2007_agg"),
    "california": _california,
    "splice_window": _splice_window,
    "splice_counts": _splice_counts,
    "debian_words": _debian_words,
}


# --- sets made of them ----------------------------------------------------------------------


def load(folder: Path, name: str) -> Labelled:
    """Return the set `name` of `names()`: float32 rows, labels -1 and +1."""
    X, positive = _MADE[name]() if name in _MADE else _DERIVED[name](partial(_stored, folder))
    X = X.astype(np.float32) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float32)
    return X, np.where(positive, 1, -1)


def names() -> list[str]:
    return [*_DERIVED, *_MADE]


Store = Callable[[str], Labelled]


def _against_rest(stored: Store, name: str, label: int) -> Labelled:
    X, y = stored(name)
    return X, y == label


def _scaled(X: np.ndarray) -> np.ndarray:
    deviations = X.std(axis=0, dtype=np.float64)
    return (X - X.mean(axis=0, dtype=np.float64)) / np.where(deviations > 0, deviations, 1)


def _products(X: np.ndarray, degree: int) -> np.ndarray:
    """Return all products of up to `degree` columns."""
    columns, last = list(X.T), [(column, j) for j, column in enumerate(X.T)]
    for _ in range(degree - 1):
        last = [(more * X[:, k], k) for more, j in last for k in range(j, X.shape[1])]
        columns += [column for column, _ in last]
    return np.stack(columns, axis=1)


def _some(n_rows: int, of: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).choice(of, n_rows, replace=False))


def _one_hot(X: np.ndarray, n_values: list[int]) -> np.ndarray:
    """Return a column for each value, 0 .. n_values - 1, of each column of X."""
    return np.hstack([X[:, [j]] == np.arange(n) for j, n in enumerate(n_values)])


def _covtype_quadratic(stored: Store) -> Labelled:
    X, y = stored("covtype")
    X, y = (part[_some(100_000, y.size)] for part in (X, y))
    return np.hstack([_products(_scaled(X[:, :10]), 2), X[:, 10:]]), y == 2


def _covtype_nystroem(stored: Store, n_landmarks: int = 200) -> Labelled:
    """Return features whose dot products are nearly a Gaussian kernel."""
    X, y = stored("covtype")
    X, y = (part[_some(60_000, y.size)] for part in (X, y))
    landmarks = X[_some(n_landmarks, y.size)]

    def similar(some: np.ndarray) -> np.ndarray:
        norms = (some**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1)
        return np.exp(-2.0 * np.maximum(norms - 2.0 * some @ landmarks.T, 0.0))

    values, vectors = np.linalg.eigh(similar(landmarks).astype(np.float64))
    return similar(X) @ (vectors / np.sqrt(np.maximum(values, 1e-6))), y == 2


def _mnist_some(stored: Store) -> Labelled:
    X, y = stored("mnist")
    return X[:20_000], y[:20_000] == 8


def _mnist_pair(stored: Store) -> Labelled:
    X, y = stored("mnist")
    pair = (y == 4) | (y == 9)
    return X[pair], y[pair] == 4


def _mnist_pooled(stored: Store) -> Labelled:
    """Return means of four pixels; is the digit even?"""
    X, y = stored("mnist")
    return X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(y.size, -1), y % 2 == 0


def _poker(stored: Store) -> Labelled:
    X, y = stored("poker")
    return _one_hot(X - 1, [4, 13] * 5), y > 0


def _mslr(stored: Store) -> Labelled:
    X, y = stored("mslr")
    return _scaled(X), y > 0


def _mq2007(stored: Store) -> Labelled:
    X, y = stored("mq2007")
    return _scaled(X), y > 0


def _california_cubic(stored: Store) -> Labelled:
    X, y = stored("california")
    return _scaled(_products(_scaled(X), 3)), y > 0


def _splice_letters_of_window(stored: Store) -> Labelled:
    X, y = stored("splice_window")
    return sp.csr_matrix(_one_hot(X, [4] * X.shape[1]), dtype=np.float32), y > 0


def _splice_scaled_counts(stored: Store) -> Labelled:
    X, y = stored("splice_counts")
    return X / np.linalg.norm(X, axis=1)[:, None], y > 0


_DERIVED: dict[str, Callable[[Store], Labelled]] = {
    "covtype_binary": partial(_against_rest, name="covtype", label=2),
    "ijcnn1": partial(_against_rest, name="ijcnn1", label=1),
    "a9a": partial(_against_rest, name="a9a", label=1),
    "mnist_8": _mnist_some,
    "covtype_3": partial(_against_rest, name="covtype", label=3),
    "covtype_quadratic": _covtype_quadratic,
    "covtype_nystroem": _covtype_nystroem,
    "mnist_pair": _mnist_pair,
    "mnist_pooled": _mnist_pooled,
    "poker": _poker,
    "mslr": _mslr,
    "mq2007": _mq2007,
    "california_cubic": _california_cubic,
    "splice_window": _splice_letters_of_window,
    "splice_counts": _splice_scaled_counts,
    "debian_words": partial(_against_rest, name="debian_words", label=1),
}


# --- sets made of random numbers ------------------------------------------------------------


def _labels(rng: np.random.Generator, X: Matrix, noise: float) -> np.ndarray:
    """Return which rows are positive: by a random plane, with noise relative to its scores."""
    scores = X @ rng.standard_normal(X.shape[1]).astype(np.float32)
    scores -= np.median(scores)
    return scores + noise * scores.std() * rng.standard_normal(scores.size) > 0


def _tall_random() -> Labelled:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300_000, 54), dtype=np.float32)
    return X, X @ rng.standard_normal(54) + 4.0 * rng.standard_normal(300_000) > 0


def _heavy_tailed() -> Labelled:
    rng = np.random.default_rng(1)
    X = np.clip(rng.standard_t(1.5, (200_000, 40)), -1e3, 1e3).astype(np.float32)
    return X, _labels(rng, np.clip(X, -3, 3), 1.0)


def _correlated() -> Labelled:
    """Return features that depend on ten numbers, and little on more."""
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((200_000, 10), dtype=np.float32)
    X = factors @ rng.standard_normal((10, 100), dtype=np.float32)
    X += 0.03 * rng.standard_normal(X.shape, dtype=np.float32)
    return X, _labels(rng, X, 0.7)


def _scales() -> Labelled:
    """Return features of lengths between 0.01 and 100."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200_000, 30), dtype=np.float32)
    y = _labels(rng, X, 0.5)
    return X * np.logspace(-2, 2, 30), y


def _indicators() -> Labelled:
    """Return ten indicators a row out of 250, some of them frequent and some rare."""
    rng = np.random.default_rng(4)
    n, d = 150_000, 250
    frequencies = 1.0 / np.arange(1, d + 1) ** 1.5
    indices = rng.choice(d, (n, 10), p=frequencies / frequencies.sum())
    rows = np.repeat(np.arange(n), 10)
    X = sp.csr_matrix((np.ones(rows.size, np.float32), (rows, indices.ravel())), shape=(n, d))
    X.data[:] = 1.0  # an indicator drawn twice is no larger
    return X, _labels(rng, X, 0.7)


def _duplicated() -> Labelled:
    """Return 20,000 rows, each of them 15 times."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((20_000, 30), dtype=np.float32)
    each = np.repeat(np.arange(20_000), 15)
    y = _labels(rng, X, 1.0)
    order = rng.permutation(each)
    return X[order], y[order]


def _nearly_separable() -> Labelled:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((250_000, 50), dtype=np.float32)
    return X, _labels(rng, X, 0.02)


def _few_positive() -> Labelled:
    """Return two clouds of points, the one with 1 % of the rows."""
    rng = np.random.default_rng(7)
    y = rng.random(400_000) < 0.01
    X = rng.standard_normal((y.size, 20), dtype=np.float32)
    X[y] += 0.6
    return X, y


_MADE: dict[str, Callable[[], Labelled]] = {
    "tall_random": _tall_random,
    "heavy_tailed": _heavy_tailed,
    "correlated": _correlated,
    "scales": _scales,
    "indicators": _indicators,
    "duplicated": _duplicated,
    "nearly_separable": _nearly_separable,
    "few_positive": _few_positive,
}

#: Sets by which constants of solvers were chosen.
TUNED = ("covtype_binary", "ijcnn1", "a9a", "mnist_8", "tall_random")
