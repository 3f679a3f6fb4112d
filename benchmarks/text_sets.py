"""Sparse data sets of many features, for ablations of coordinate descent.

Two took part when the settings were chosen, `TUNED`; the others did not. Real ones are read from
``$WIDEMARGIN_DATA``, the others are made of random numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from widemargin import datasets

Labelled: TypeAlias = tuple[sp.csr_matrix, np.ndarray]

_HASHED = 1 << 16

#: Sets by which settings were chosen.
TUNED = ("rcv1", "news20_one")


def names() -> list[str]:
    return list(_SETS)


def load(folder: Path, name: str) -> Labelled:
    """Return the set `name` of `names()`: float32 rows of length 1, and labels -1 and +1.

    `folder` is not used; tall_sets.py has files there.
    """
    X, positive = _SETS[name]()
    return normalize(X).astype(np.float32).tocsr(), np.where(positive, 1, -1)


def _named(name: str) -> Labelled:
    data = datasets.load(name, download=False)
    return data.X, data.y > 0


def _news_groups() -> Labelled:
    """Return the first ten groups against the others."""
    data = datasets.load("news20", download=False)
    return data.X, np.unique(data.y, return_inverse=True)[1] < 10


def _news_group(group: int) -> Labelled:
    data = datasets.load("news20", download=False)
    return data.X, np.unique(data.y, return_inverse=True)[1] == group


def _debian_paths(one_in: int = 60) -> Labelled:
    """Hash the parts of the words of some paths; is it documentation?"""
    doc = datasets.DEBIAN_SECTIONS.index("doc")
    indices: list[int] = []
    lengths, labels = [], []
    for batch in datasets.debian_paths_batches():
        labels += batch["label"].to_numpy()[::one_in].tolist()
        for path in batch["path"].to_pylist()[::one_in]:
            parts = path.replace("-", "/").replace(".", "/").split("/")
            words = {zlib.crc32(part.encode()) % _HASHED for part in parts}
            indices += sorted(words)
            lengths.append(len(words))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.ones(len(indices), np.float32), indices, starts
    return sp.csr_matrix(entries, shape=(len(lengths), _HASHED)), np.array(labels) == doc


def _splice() -> Labelled:
    """Return the letters at all places around some splice sites."""
    X, y = _named("splice_worm")
    return X[:20_000], y[:20_000]


def _words(
    n: int, d: int, length: float, zipf: float, noise: float, seed: int, twins: int = 0
) -> Labelled:
    """Return texts of random words, whose frequencies follow Zipf's law.

    `noise` is relative to the scores that decide on labels. `twins` texts occur twice, with both
    labels.
    """
    rng = np.random.default_rng(seed)
    frequencies = 1.0 / np.arange(1, d + 1) ** zipf
    lengths = np.maximum(3, rng.poisson(length, n))
    indices = rng.choice(d, lengths.sum(), p=frequencies / frequencies.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)])
    X = sp.csr_matrix((np.ones(indices.size, np.float32), indices, starts), shape=(n, d))
    X.sum_duplicates()
    rarity = np.log(n / (1.0 + np.bincount(X.indices, minlength=d)) + 1.0)
    X = normalize(X @ sp.diags(rarity)).tocsr()
    scores = X @ (rng.standard_normal(d) * (rng.random(d) < 0.2))
    positive = scores + noise * scores.std() * rng.standard_normal(n) > np.median(scores)
    X = sp.vstack([X, X[:twins]], format="csr")
    return X, np.concatenate([positive, ~positive[:twins]])


_SETS: dict[str, Callable[[], Labelled]] = {
    "rcv1": partial(_named, "rcv1"),
    "news20_one": partial(_named, "news20_one"),
    "news20_groups": _news_groups,
    "news20_last": partial(_news_group, 19),
    "debian_paths": _debian_paths,
    "splice": _splice,
    "articles": partial(_words, 8_000, 20_000, 60, 1.1, 0.1, seed=1),
    "titles": partial(_words, 30_000, 50_000, 12, 1.3, 0.5, seed=2),
    "reports": partial(_words, 3_000, 8_000, 120, 0.9, 0.3, seed=3),
    "messages": partial(_words, 20_000, 5_000, 40, 1.0, 1.0, seed=4),
    "reviews": partial(_words, 10_000, 15_000, 50, 1.1, 0.5, seed=5, twins=500),
    "abstracts": partial(_words, 1_500, 30_000, 80, 1.0, 0.2, seed=6),
}
