"""Columns of categories as one-hot features."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from widemargin.data.columns import ColumnError, Encoder, one_hot, spells_number

# Beyond it, levels that occurred only once so far are forgotten.
_MOST_LEVELS_COUNTED = 1_000_000
#: a column with such a fraction of numbers was meant to hold numbers only
MOSTLY_NUMBERS = 0.9


def as_categories(name: str, values: pa.Array) -> pa.DictionaryArray:
    """Return values as strings with a dictionary; whole numbers have no decimal point."""
    dtype = values.type
    if pa.types.is_dictionary(dtype):
        texts = _as_strings(name, values.dictionary)
        return pa.DictionaryArray.from_arrays(values.indices, texts)
    return _as_strings(name, values).dictionary_encode()


def _as_strings(name: str, values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_floating(values.type):
        floats = values.to_numpy(zero_copy_only=False)
        known = floats[np.isfinite(floats)]
        if np.array_equal(known, np.trunc(known)) and np.abs(known).max(initial=0.0) < 2**53:
            values = pa.array(floats, from_pandas=True).cast(pa.int64())
    try:
        return values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnError(name, f"holds {values.type}, which makes no categories") from error


class CategoryLearner:
    """Counts levels."""

    def __init__(self, name: str, min_count: int, max_levels: int) -> None:
        self.name, self.min_count, self.max_levels = name, min_count, max_levels
        self.counts: Counter[str] = Counter()
        self.n_missing = self.n_forgotten = 0

    def add(self, values: pa.Array) -> None:
        """Take in a batch."""
        self.n_missing += values.null_count
        texts = as_categories(self.name, values)
        for pair in texts.value_counts().to_pylist():
            if pair["values"] is not None:
                self.counts[pair["values"]] += pair["counts"]
        if len(self.counts) > _MOST_LEVELS_COUNTED:
            kept = {level: count for level, count in self.counts.items() if count > 1}
            self.n_forgotten += len(self.counts) - len(kept)
            self.counts = Counter(kept)

    def finish(self) -> "Category | str":
        """Return the encoder, or why the column is left out."""
        if not self.counts:
            return "every value is missing"
        if len(self.counts) == 1 and not self.n_missing and not self.n_forgotten:
            return "every value is the same"
        frequent = [pair for pair in self.counts.items() if pair[1] >= self.min_count]
        fraction, word = self.numbers_among_words()
        if not frequent and MOSTLY_NUMBERS <= fraction < 1.0:
            return f"most of its values are numbers, but {word!r} is none"
        if not frequent:
            return f"no value occurs {self.min_count} times: is it a name, or text?"
        frequent = sorted(frequent, key=lambda pair: (-pair[1], pair[0]))[: self.max_levels]
        levels = tuple(sorted(level for level, _ in frequent))
        rare = len(levels) < len(self.counts) or self.n_forgotten > 0
        return Category(self.name, levels, rare, self.n_missing > 0)

    def numbers_among_words(self) -> tuple[float, str]:
        """Return the fraction of rows whose level spells a number, and one that does not."""
        words = [level for level in self.counts if not spells_number(level)]
        n_words = sum(self.counts[level] for level in words)
        total = sum(self.counts.values())
        return (1.0 - n_words / total if total else 0.0), min(words, default="")


@dataclass(frozen=True)
class Category(Encoder):
    """One feature per level, one for rare and unseen levels, and one for missing values.

    The last two are there if training rows had them. Without `rare`, unseen levels have no
    feature; without `gaps`, missing values count as rare.
    """

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    rare: bool
    gaps: bool

    def names(self) -> list[str]:
        names = [f"{self.name}={level}" for level in self.levels]
        return (
            names + [f"{self.name} is rare"] * self.rare + [f"{self.name} is missing"] * self.gaps
        )

    def entries(self) -> int:
        return 1

    def encode(self, values: pa.Array) -> sp.csr_array:
        return one_hot(self.places(values), len(self.levels) + self.rare + self.gaps)

    def places(self, values: pa.Array) -> np.ndarray:
        """Return the feature of each row, (n,); -1 for none."""
        texts = as_categories(self.name, values)
        rare = len(self.levels) if self.rare else -1
        missing = len(self.levels) + self.rare if self.gaps else rare
        place = {level: j for j, level in enumerate(self.levels)}
        found = [
            missing if t is None else place.get(t, rare) for t in texts.dictionary.to_pylist()
        ]
        codes = texts.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        return np.array([*found, missing], dtype=np.int64)[codes]
