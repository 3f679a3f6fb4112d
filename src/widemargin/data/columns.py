"""Columns of tables as features, learned batch by batch; and columns of numbers.

A learner sees the values of a column once, batch by batch, in memory that does not grow with the
rows. It returns an encoder, which holds what it learned and makes features of values: an array
with the few features of a number, or a CSR array for one-hot features.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class ColumnError(ValueError):
    """A column cannot be used as it is.

    Attributes
    ----------
    column : str
    row : int or None
        Row within the values that were given.
    """

    def __init__(self, column: str, problem: str, row: int | None = None) -> None:
        where = f"column {column!r}" if row is None else f"row {row}, column {column!r}"
        super().__init__(f"{where}: {problem}")
        self.column, self.problem, self.row = column, problem, row

    def moved(self, rows: int) -> "ColumnError":
        """Return the same error for values that come after that many others."""
        return ColumnError(
            self.column, self.problem, None if self.row is None else self.row + rows
        )


class Encoder(ABC):
    """What was learned of a column; turns values into features."""

    kind: ClassVar[str]
    name: str

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the features."""

    def inputs(self) -> list[str]:
        """Return the names of the values of a row that other programs give."""
        return [self.name]

    @abstractmethod
    def entries(self) -> int:
        """Return how many features of a row are not zero, about."""

    @abstractmethod
    def encode(self, values: pa.Array) -> Any:
        """Return the features of values, (n, k): an array, or a CSR array."""

    def describe(self) -> dict[str, Any]:
        """Return the fields as values of JSON, without arrays."""
        fields = asdict(self)  # type: ignore[call-overload]
        plain = {key: value for key, value in fields.items() if not _is_array(value)}
        return {"kind": self.kind, **plain}


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def kind_of(dtype: pa.DataType) -> str | None:
    """Return "number", "flag", "category", "date" or "empty"; None for other types."""
    types = pa.types
    if types.is_dictionary(dtype):
        return "category"
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_duration(dtype) or types.is_time(dtype):
        return "number"
    if types.is_boolean(dtype):
        return "flag"
    if is_text(dtype):
        return "category"
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return "date"
    return "empty" if types.is_null(dtype) else None


def is_text(dtype: pa.DataType) -> bool:
    """Return whether values are strings of any Arrow type."""
    types = pa.types
    return types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)


def as_floats(name: str, values: pa.Array) -> np.ndarray:
    """Return numbers as float64, (n,), NaN where they are missing; refuse infinite ones."""
    dtype = values.type
    if pa.types.is_dictionary(dtype):
        return as_floats(name, values.dictionary_decode())
    if is_text(dtype):
        floats = _parsed(name, values)
    elif pa.types.is_boolean(dtype):
        floats = values.cast(pa.uint8()).cast(pa.float64())
    elif pa.types.is_duration(dtype) or pa.types.is_time64(dtype):
        floats = pc.multiply(values.cast(pa.int64()).cast(pa.float64()), _UNITS[dtype.unit])
    elif pa.types.is_time32(dtype):
        floats = pc.multiply(values.cast(pa.int32()).cast(pa.float64()), _UNITS[dtype.unit])
    elif kind_of(dtype) in ("number", "empty"):
        floats = values.cast(pa.float64(), safe=False)
    else:
        raise ColumnError(name, f"holds {dtype}, not numbers")
    numbers: np.ndarray = floats.to_numpy(zero_copy_only=False)
    if np.isinf(numbers).any():
        raise ColumnError(name, "an infinite number", int(np.argmax(np.isinf(numbers))))
    return numbers


def _parsed(name: str, values: pa.Array) -> pa.Array:
    """Return the numbers that strings spell; empty ones are missing."""
    words = pc.utf8_trim_whitespace(values)
    words = pc.if_else(pc.equal(words, ""), pa.scalar(None, words.type), words)
    try:
        return words.cast(pa.float64())
    except pa.ArrowInvalid:
        for row, word in enumerate(words.to_pylist()):
            if not spells_number(word):
                raise ColumnError(name, f"{word!r} is no number", row) from None
        raise


def spells_number(word: str | None) -> bool:
    """Return whether a word is missing or a finite number."""
    try:
        return word is None or math.isfinite(float(word))
    except ValueError:
        return False


class NumberLearner:
    """Count, mean and variance of numbers (Chan, Golub and LeVeque's update).

    Parameters
    ----------
    name : str
    scale : bool
        Whether to standardise the numbers.
    flag : bool
        Whether they are true and false, as 1 and 0.
    """

    def __init__(self, name: str, scale: bool, flag: bool = False) -> None:
        self.name, self.scales, self.encoder = name, scale, Flag if flag else Number
        self.n = self.n_missing = 0
        self.mean = self.squares = 0.0
        self.low, self.high = math.inf, -math.inf

    def add(self, values: pa.Array) -> None:
        """Take in a batch."""
        self.add_floats(as_floats(self.name, values))

    def add_floats(self, numbers: np.ndarray) -> None:
        """Take in a batch of floats, NaN where they are missing."""
        known = numbers[~np.isnan(numbers)]
        self.n_missing += numbers.size - known.size
        if not known.size:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            mean, total = float(known.mean()), self.n + known.size
            step = mean - self.mean
            self.squares += float(np.square(known - mean).sum())
            self.squares += step * step * (self.n * known.size / total)
            self.mean += step * (known.size / total)
        self.n = total
        self.low, self.high = min(self.low, known.min()), max(self.high, known.max())
        if not math.isfinite(self.squares):
            raise ColumnError(self.name, "its numbers are too large: their squares overflow")

    def finish(self) -> "Number | str":
        """Return the encoder, or why the column is left out."""
        if not self.n:
            return "every value is missing"
        gaps = self.n_missing > 0
        if self.low == self.high and not gaps:
            return "every value is the same"
        deviation = math.sqrt(self.squares / self.n)
        # Rounding of large numbers is no spread.
        tiny = 1e-12 * max(abs(self.low), abs(self.high))
        if self.low == self.high or deviation <= tiny:
            deviation = 1.0
        shift = float(self.mean) if self.scales else 0.0
        scale = float(deviation) if self.scales else 1.0
        return self.encoder(self.name, float(self.mean), shift, scale, gaps)


@dataclass(frozen=True)
class Number(Encoder):
    """A number: (value - shift) / scale; `fill` stands for missing values.

    With `gaps`, a second feature is 1 where the value is missing.
    """

    kind: ClassVar[str] = "number"
    name: str
    fill: float
    shift: float
    scale: float
    gaps: bool

    def names(self) -> list[str]:
        return [self.name] + [f"{self.name} is missing"] * self.gaps

    def entries(self) -> int:
        return 1

    def encode(self, values: pa.Array) -> np.ndarray:
        return self.encode_floats(as_floats(self.name, values))

    def encode_floats(self, numbers: np.ndarray) -> np.ndarray:
        """Return the features of floats, (n, 1) or (n, 2)."""
        missing = np.isnan(numbers)
        features = np.empty((numbers.size, 1 + self.gaps))
        features[:, 0] = (np.where(missing, self.fill, numbers) - self.shift) / self.scale
        if self.gaps:
            features[:, 1] = missing
        return features


class Flag(Number):
    """True and false as 1 and 0."""

    kind: ClassVar[str] = "flag"


def one_hot(places: np.ndarray, n_features: int) -> sp.csr_array:
    """Return a CSR array with a one at each row's place, and none where that is below zero."""
    present = places >= 0
    indptr = np.concatenate([[0], np.cumsum(present)])
    indices = places[present]
    return sp.csr_array((np.ones(indices.size), indices, indptr), (places.size, n_features))


def side_by_side(parts: list[Any], n_rows: int, dtype: Any) -> sp.csr_array:
    """Return arrays and CSR arrays side by side, as one CSR array without stored zeros."""
    pieces = [part if sp.issparse(part) else sp.csr_array(part) for part in parts]
    lengths = [np.diff(piece.indptr) for piece in pieces]
    indptr = np.concatenate([[0], np.cumsum(sum(lengths, np.zeros(n_rows, dtype=np.int64)))])
    indices = np.empty(indptr[-1], dtype=np.int32 if indptr[-1] < 2**31 else np.int64)
    values = np.empty(indptr[-1], dtype=dtype)
    free, first = indptr[:-1].copy(), 0
    for piece, length in zip(pieces, lengths):
        where = np.repeat(free - piece.indptr[:-1], length) + np.arange(piece.indptr[-1])
        indices[where] = piece.indices + first
        values[where] = piece.data
        free += length
        first += piece.shape[1]
    return sp.csr_array((values, indices, indptr.astype(indices.dtype)), (n_rows, first))


def in_order(encoders: list[Encoder]) -> Iterator[str]:
    """Yield the names of all features."""
    for encoder in encoders:
        yield from encoder.names()
