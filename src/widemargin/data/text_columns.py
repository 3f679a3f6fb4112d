"""Columns of text as features: TF-IDF with a vocabulary, or hashed words.

Words are those of scikit-learn's vectorizers: two letters or digits and more, in lower case.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from widemargin.data.columns import ColumnError, Encoder, is_text

ENCODINGS = ("tfidf", "hash")
# Terms counted at a time; beyond it, terms seen in one row only are forgotten.
_MOST_TERMS_COUNTED = 2_000_000
# Words of a short text: a guess, to foresee whether features are mostly zero.
_WORDS = 20


def as_texts(name: str, values: pa.Array) -> list[str]:
    """Return strings; missing ones are empty."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not is_text(values.type) and not pa.types.is_null(values.type):
        raise ColumnError(name, f"holds {values.type}, not text")
    return [text or "" for text in values.to_pylist()]


class TextLearner:
    """Counts in how many rows each term occurs.

    Parameters
    ----------
    name : str
    encoding : {"tfidf", "hash"}
    ngrams : int
        Terms are runs of up to that many words.
    max_terms : int
        The largest number of features: of the most frequent terms, or of hashes.
    """

    def __init__(self, name: str, encoding: str, ngrams: int, max_terms: int) -> None:
        self.name, self.encoding = name, encoding
        self.ngrams, self.max_terms = ngrams, max_terms
        # Imported when needed: most tables have no text.
        from sklearn.feature_extraction.text import CountVectorizer

        self.analyse = CountVectorizer(ngram_range=(1, ngrams)).build_analyzer()
        self.rows: Counter[str] = Counter()
        self.n_rows = self.n_missing = 0

    def add(self, values: pa.Array) -> None:
        """Take in a batch."""
        texts = as_texts(self.name, values)
        self.n_rows += len(texts)
        self.n_missing += values.null_count
        if self.encoding == "hash":
            return
        for text in texts:
            self.rows.update(set(self.analyse(text)))
        if len(self.rows) > _MOST_TERMS_COUNTED:
            self.rows = Counter({term: n for term, n in self.rows.items() if n > 1})

    def finish(self) -> "HashedText | TfidfText | str":
        """Return the encoder, or why the column is left out."""
        gaps = self.n_missing > 0
        if self.n_missing == self.n_rows:
            return "every value is missing"
        if self.encoding == "hash":
            return HashedText(self.name, self.ngrams, self.max_terms, gaps)
        counted = [pair for pair in self.rows.items() if pair[1] > 1] or list(self.rows.items())
        if not counted:
            return "it holds no words"
        counted = sorted(counted, key=lambda pair: (-pair[1], pair[0]))[: self.max_terms]
        terms = sorted(term for term, _ in counted)
        n_with = np.array([self.rows[term] for term in terms], dtype=float)
        # As scikit-learn's TfidfTransformer: as if one more row had every term.
        weights = np.log((1.0 + self.n_rows) / (1.0 + n_with)) + 1.0
        return TfidfText(self.name, self.ngrams, tuple(terms), weights, gaps)


def _with_gaps(features: sp.csr_array, values: pa.Array, gaps: bool) -> sp.csr_array:
    if not gaps:
        return features
    missing = sp.csr_array(values.is_null().to_numpy(zero_copy_only=False)[:, None].astype(float))
    return sp.hstack([features, missing], format="csr")


@dataclass(frozen=True)
class HashedText(Encoder):
    """Counts of hashed terms, with signs, in rows of length one."""

    kind: ClassVar[str] = "hashed text"
    name: str
    ngrams: int
    n_hashes: int
    gaps: bool

    def names(self) -> list[str]:
        names = [f"{self.name} #{number}" for number in range(self.n_hashes)]
        return names + [f"{self.name} is missing"] * self.gaps

    def entries(self) -> int:
        return min(_WORDS, self.n_hashes)

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(n_features=self.n_hashes, ngram_range=(1, self.ngrams))

    def encode(self, values: pa.Array) -> sp.csr_array:
        features = sp.csr_array(self._vectorizer.transform(as_texts(self.name, values)))
        features.sort_indices()
        return _with_gaps(features, values, self.gaps)


@dataclass(frozen=True, eq=False)
class TfidfText(Encoder):
    """Counts of terms times the weights of the terms, in rows of length one."""

    kind: ClassVar[str] = "text"
    name: str
    ngrams: int
    terms: tuple[str, ...]
    weights: np.ndarray = field(repr=False)
    gaps: bool

    def names(self) -> list[str]:
        names = [f"{self.name}: {term}" for term in self.terms]
        return names + [f"{self.name} is missing"] * self.gaps

    def entries(self) -> int:
        return min(_WORDS, len(self.terms))

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(ngram_range=(1, self.ngrams), vocabulary=list(self.terms))

    def encode(self, values: pa.Array) -> sp.csr_array:
        from sklearn.preprocessing import normalize

        counts = sp.csr_array(self._vectorizer.transform(as_texts(self.name, values)), dtype=float)
        counts.data *= self.weights[counts.indices]
        counts.sort_indices()
        return _with_gaps(normalize(counts, copy=False), values, self.gaps)
