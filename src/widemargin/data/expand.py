"""Feature maps: record batches of raw columns in, sparse rows out.

A reader applies a map to each batch it reads, so the disk stores the small raw column and only
memory holds the wide rows (Matsushima, Vishwanathan and Smola, "Linear support vector machines via
dual cached loops", 2012, "Expanding features on the fly").

Strings may be utf8 or binary, with 32- or 64-bit offsets, or dictionaries of these. A missing
string counts as empty. Maps are stateless, so threads may share them, and can be pickled.
"""

import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from scipy import sparse

from widemargin.data.memory import MOST_FEATURES, CsrRows, csr_in_place
from widemargin.kernels import expand as kernels

# Entries written by one kernel call, which takes about 0.05 s.
_ENTRIES_PER_CALL = 1 << 22


class FeatureMap(Protocol):
    """Protocol: turns columns of a record batch into rows of features."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns it reads."""

    @property
    def n_features(self) -> int:
        """Number of features of each row."""

    def __call__(self, batch: pa.RecordBatch) -> sparse.csr_matrix:
        """Return float32 rows of shape (batch.num_rows, n_features).

        Their indices are int32 and increase along a row; no zeros are stored.
        """


@dataclass(frozen=True)
class WeightedDegree:
    """Substrings of 1 .. max_degree letters at each position of strings of equal length.

    There is one feature for each position i and each substring of j letters that fits there,

        n_features = sum over j = 1 .. max_degree of (length - j + 1) a^j,

    with a letters in the alphabet: 16,893,456 for length 200, degree 8 and ACGT. (The paper's
    17,476,000 is length * sum_j a^j, which includes substrings that run over the end and never
    occur.) Features are sorted by position, then by length, then alphabetically.

    Inner products of rows are the normalised weighted degree kernel: a position at which two
    strings have the same j letters counts w_j = 2 (K - j + 1) / (K (K + 1)), K = max_degree, and
    rows have unit length.

    Case is ignored. A substring with a letter that is not in the alphabet, such as N, has no
    feature.

    Parameters
    ----------
    column : str
        Name of the column.
    length : int
        Number of letters of each string.
    max_degree : int, default=8
        Number of letters of the longest substrings.
    alphabet : str, default="ACGT"
        ASCII characters, all different.
    weighted : bool, default=True
        Whether substrings of j letters have the value sqrt(w_j) before rows are scaled. If not,
        all substrings have the same value.
    """

    column: str
    length: int
    max_degree: int = 8
    alphabet: str = "ACGT"
    weighted: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.max_degree <= self.length:
            raise ValueError(
                f"max_degree must lie in 1..length = {self.length}, not {self.max_degree}"
            )
        letters = set(self.alphabet.upper())
        if not letters or len(letters) != len(self.alphabet) or not self.alphabet.isascii():
            raise ValueError(
                f"alphabet must be ASCII characters, all different, not {self.alphabet!r}"
            )
        _check_n_features(self.n_features)

    @property
    def columns(self) -> list[str]:
        return [self.column]

    @property
    def n_features(self) -> int:
        n_letters = len(self.alphabet)
        degrees = range(1, self.max_degree + 1)
        return sum((self.length - degree + 1) * n_letters**degree for degree in degrees)

    def __call__(self, batch: pa.RecordBatch) -> sparse.csr_matrix:
        strings = _strings(batch, self.column)
        self._check_lengths(strings.ends - strings.begins)
        degrees = np.arange(1, self.max_degree + 1)
        n_fitting = np.minimum(self.length - np.arange(self.length), self.max_degree)
        n_features = np.cumsum(len(self.alphabet) ** degrees)[n_fitting - 1]  # of each position
        # w_j up to a factor, which scaling to unit length removes.
        weights = self.max_degree - degrees + 1.0 if self.weighted else np.ones(degrees.size)
        tables = (
            self._codes(),
            len(self.alphabet),
            np.cumsum(n_features) - n_features,
            np.sqrt(weights),
            np.append(0.0, np.cumsum(weights)),
        )

        def fill(low: int, high: int, *rows: np.ndarray) -> None:
            kernels.substrings(strings.text, strings.begins, low, high, *tables, *rows)

        return _filled(fill, np.full(batch.num_rows, n_fitting.sum()), self.n_features)

    def _check_lengths(self, lengths: np.ndarray) -> None:
        others = np.flatnonzero(lengths != self.length)
        if others.size:
            raise ValueError(
                f"column {self.column!r}, row {others[0]} of the batch: "
                f"{lengths[others[0]]} letters, not {self.length}"
            )

    def _codes(self) -> np.ndarray:
        """Return 1, 2, ... for the bytes of the alphabet and 0 for all others; (256,) int64."""
        codes = np.zeros(256, dtype=np.int64)
        for code, letter in enumerate(self.alphabet, start=1):
            codes[[ord(letter.upper()), ord(letter.lower())]] = code
        return codes


@dataclass(frozen=True)
class HashedNgrams:
    """Counts of n-grams, hashed into n_features features.

    Characters are bytes; a non-ASCII letter has several. Words are maximal runs of ASCII letters,
    digits, underscores and non-ASCII bytes; the separators between them are ignored. Case
    matters. N-grams with the same hash share a feature, whose value is the sum of their counts.
    A string too short for any n-gram gives an empty row.

    The features of a string depend on the parameters only; they are the same in every process
    and on every machine.

    Parameters
    ----------
    column : str
        Name of the column.
    n_features : int, default=2**20
        A power of two, 2 .. 2^30.
    lengths : (int, int), default=(3, 5)
        Number of characters or words of the shortest and of the longest n-grams.
    unit : {"char", "word"}, default="char"
    normalize : bool, default=True
        Whether rows are scaled to unit length; if not, values are counts.
    seed : int, default=0
        0 .. 2^64 - 1. The seed determines which n-grams share a feature.
    """

    column: str
    n_features: int = 2**20
    lengths: tuple[int, int] = (3, 5)
    unit: str = "char"
    normalize: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        _check_n_features(self.n_features)
        if self.n_features < 2 or self.n_features & (self.n_features - 1):
            raise ValueError(f"n_features must be a power of two, not {self.n_features}")
        shortest, longest = self.lengths
        if not 1 <= shortest <= longest:
            raise ValueError(f"lengths must be (shortest, longest), from 1 up, not {self.lengths}")
        if self.unit not in ("char", "word"):
            raise ValueError(f"unit must be 'char' or 'word', not {self.unit!r}")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed must lie in 0..2^64 - 1, not {self.seed}")

    @property
    def columns(self) -> list[str]:
        return [self.column]

    def __call__(self, batch: pa.RecordBatch) -> sparse.csr_matrix:
        strings = _strings(batch, self.column)
        most_tokens = strings.ends - strings.begins
        if self.unit == "word":
            most_tokens = (most_tokens + 1) // 2
        shortest = self.lengths[0]
        longest = max(shortest, min(self.lengths[1], int(most_tokens.max(initial=0))))
        most_entries = np.zeros(batch.num_rows, dtype=np.int64)
        for length in range(shortest, longest + 1):
            most_entries += np.maximum(most_tokens - length + 1, 0)
        options = (
            self.unit == "word",
            np.uint64(shortest),
            np.uint64(longest),
            np.uint64(self.seed),
            int(self.n_features).bit_length() - 1,
            bool(self.normalize),
        )

        def fill(low: int, high: int, *rows: np.ndarray) -> None:
            kernels.hashed_ngrams(*strings, low, high, *options, *rows)

        return _filled(fill, most_entries, self.n_features)


@dataclass(frozen=True)
class FromCallable:
    """A function as a feature map; its results are checked.

    Parameters
    ----------
    function : callable
        Takes a record batch with `columns`, in this order, and returns a SciPy sparse matrix of
        real numbers, shape (batch.num_rows, n_features). The matrix is not changed; if it is not
        canonical CSR of float32, it is copied. To pickle the map, the function must be
        importable.
    columns : list of str
    n_features : int
    """

    function: Callable[[pa.RecordBatch], sparse.spmatrix]
    columns: list[str]
    n_features: int

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError(f"columns must be a list of names, not {self.columns!r}")
        object.__setattr__(self, "columns", list(self.columns))
        _check_n_features(self.n_features)

    def __call__(self, batch: pa.RecordBatch) -> sparse.csr_matrix:
        batch = batch.select(self.columns)
        try:
            returned = self.function(batch)
        except Exception as error:
            error.add_note(f"raised by {self._name_with(batch)}")
            raise
        if not sparse.issparse(returned):
            kind = type(returned).__name__
            raise TypeError(f"{self._name_with(batch)} returned {kind}, not a SciPy sparse matrix")
        expected = (batch.num_rows, self.n_features)
        if returned.shape != expected:
            raise ValueError(
                f"{self._name_with(batch)} returned shape {returned.shape}, not {expected}"
            )
        if returned.dtype.kind not in "biuf":
            raise ValueError(
                f"{self._name_with(batch)} returned {returned.dtype}, which is not a real number"
            )
        try:
            return _canonical(returned)
        except ValueError as error:
            raise ValueError(f"{self._name_with(batch)} returned a bad matrix: {error}") from None

    def _name_with(self, batch: pa.RecordBatch) -> str:
        """Return the name of the function and the first row of the batch, for messages."""
        name = getattr(self.function, "__qualname__", repr(self.function))
        first = batch.slice(0, 1).to_pylist()
        return f"{name}, given {f'rows from {reprlib.repr(first[0])} on' if first else 'no rows'},"


def _check_n_features(n_features: int) -> None:
    if not 1 <= n_features <= MOST_FEATURES:
        raise ValueError(f"n_features must lie in 1..{MOST_FEATURES}, not {n_features}")


def _canonical(matrix: sparse.spmatrix) -> sparse.csr_matrix:
    """Return a matrix as float32 with increasing int32 indices and no zeros."""
    rows = CsrRows(matrix).matrix
    with np.errstate(over="ignore"):  # checked next, to name the row
        values = rows.data[: rows.indptr[-1]].astype(np.float32, copy=False)
    if not np.all(np.isfinite(values)):
        bad = int(np.argmin(np.isfinite(values)))
        row = int(np.searchsorted(rows.indptr, bad, side="right")) - 1
        raise ValueError(f"row {row} of the batch has a value that is not a finite float32")
    X = csr_in_place(values, rows.indices[: rows.indptr[-1]], rows.indptr, rows.shape[1])
    if not np.all(values):
        X = X.copy()
        X.eliminate_zeros()
    return X


class _Strings(NamedTuple):
    """Strings in the layout of the kernels."""

    text: np.ndarray  # (m,) uint8, read-only
    begins: np.ndarray  # (n,) int64, where each string begins in the text
    ends: np.ndarray  # (n,) int64


def _strings(batch: pa.RecordBatch, name: str) -> _Strings:
    column = batch.column(name)
    if pa.types.is_dictionary(column.type) and _has_offsets(column.type.value_type):
        text, begins, ends = _strings_in_place(column.dictionary)
        # Missing strings refer to an extra, empty entry.
        place = column.indices.cast(pa.int64()).fill_null(begins.size).to_numpy()
        return _Strings(text, np.append(begins, 0)[place], np.append(ends, 0)[place])
    if not _has_offsets(column.type):
        raise TypeError(f"column {name!r} must hold strings, not {column.type}")
    return _strings_in_place(column)


def _has_offsets(kind: pa.DataType) -> bool:
    """Return whether arrays of this type are stored as bytes and offsets."""
    return kind in (pa.utf8(), pa.large_utf8(), pa.binary(), pa.large_binary())


def _strings_in_place(array: pa.Array) -> _Strings:
    """Return the strings of an Arrow array without copying their bytes."""
    n = len(array)
    _, offsets_buffer, text_buffer = array.buffers()
    text = np.frombuffer(text_buffer or b"", dtype=np.uint8)
    text.flags.writeable = False  # always read-only, so that one compiled kernel is enough
    if n == 0:
        return _Strings(text, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    is_large = array.type in (pa.large_utf8(), pa.large_binary())
    offsets = np.frombuffer(
        offsets_buffer, dtype=np.int64 if is_large else np.int32, count=array.offset + n + 1
    )[array.offset :].astype(np.int64)
    begins, ends = offsets[:-1], offsets[1:]
    if array.null_count:
        ends = np.where(array.is_valid().to_numpy(zero_copy_only=False), ends, begins)
    return _Strings(text, begins, ends)


def _filled(
    fill: Callable[..., None], most_entries: np.ndarray, n_features: int
) -> sparse.csr_matrix:
    """Return the rows that ``fill(low, high, indices, values, row_ends)`` writes, range by range.

    See kernels/expand.py. `most_entries` (n,) int64 are upper bounds on the entries of each row.
    """
    capacity = int(most_entries.sum())
    indices, values = np.empty(capacity, dtype=np.int32), np.empty(capacity, dtype=np.float32)
    row_ends = np.zeros(most_entries.size + 1, dtype=np.int64)
    for low, high in _ranges(most_entries):
        fill(low, high, indices, values, row_ends)
    for array in (indices, values):
        array.resize(row_ends[-1], refcheck=False)  # frees the rest without a copy
    return csr_in_place(values, indices, row_ends, n_features)


def _ranges(most_entries: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges (low, high) of rows with at most _ENTRIES_PER_CALL entries, or of one row."""
    entries_up_to = np.append(0, np.cumsum(most_entries))
    low = 0
    while low < most_entries.size:
        limit = entries_up_to[low] + _ENTRIES_PER_CALL
        high = max(low + 1, int(np.searchsorted(entries_up_to, limit, side="right")) - 1)
        yield low, high
        low = high
