"""Columns of dates as features: days, and months, weekdays and hours."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from widemargin.data.columns import (
    ColumnError,
    Encoder,
    Number,
    NumberLearner,
    is_text,
    one_hot,
    side_by_side,
)

_MICROSECONDS_PER_DAY = 86_400e6
#: what the parts of a date are, as numbers
PART_RANGES = {
    "month": "month, 1 to 12",
    "weekday": "weekday, 0 is Monday",
    "hour": "hour, 0 to 23",
}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class DateLearner:
    """Days since 1970, and the months, weekdays and hours that occur."""

    def __init__(self, name: str, scale: bool) -> None:
        self.name = name
        self.days = NumberLearner(name, scale)
        self.seen: dict[str, set[int]] = {part: set() for part in _PARTS}

    def add(self, values: pa.Array) -> None:
        """Take in a batch."""
        moments = as_moments(self.name, values)
        self.days.add_floats(_days(moments))
        for part, values_of in _PARTS.items():
            self.seen[part].update(pc.unique(values_of(moments).drop_null()).to_pylist())

    def finish(self) -> "Date | str":
        """Return the encoder, or why the column is left out."""
        days = self.days.finish()
        if isinstance(days, str):
            return days
        parts = {part: tuple(sorted(seen)) for part, seen in self.seen.items() if len(seen) > 1}
        return Date(self.name, days, parts)


@dataclass(frozen=True)
class Date(Encoder):
    """Days since 1970 as a number, and one feature per month, weekday and hour that occurred.

    `parts` maps month, weekday and hour to the values that occurred, where these are several.
    """

    kind: ClassVar[str] = "date"
    name: str
    days: Number
    parts: dict[str, tuple[int, ...]]

    def names(self) -> list[str]:
        names = [f"{self.name} (days)"] + [f"{self.name} is missing"] * self.days.gaps
        for part, seen in self.parts.items():
            names += [f"{self.name} {part}={_part_name(part, value)}" for value in seen]
        return names

    def inputs(self) -> list[str]:
        return [self.name, *(f"{self.name} {part}" for part in self.parts)]

    def entries(self) -> int:
        return 1 + len(self.parts)

    def encode(self, values: pa.Array) -> sp.csr_array:
        moments = as_moments(self.name, values)
        features = [self.days.encode_floats(_days(moments))]
        for part, seen in self.parts.items():
            found = _PARTS[part](moments).fill_null(-1).to_numpy(zero_copy_only=False)
            places = np.minimum(np.searchsorted(seen, found), len(seen) - 1)
            places[np.asarray(seen)[places] != found] = -1
            features.append(one_hot(places, len(seen)))
        return side_by_side(features, len(values), np.float64)


def as_moments(name: str, values: pa.Array) -> pa.Array:
    """Return dates as timestamps, in the time zone that they have."""
    dtype = values.type
    if pa.types.is_dictionary(dtype):
        return as_moments(name, values.dictionary_decode())
    try:
        if pa.types.is_date(dtype) or is_text(dtype):
            return values.cast(pa.timestamp("us"))
        if pa.types.is_timestamp(dtype):
            return values.cast(pa.timestamp("us", dtype.tz), safe=False)
        if pa.types.is_null(dtype):
            return values.cast(pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        if is_text(dtype):
            raise ColumnError(name, f"no date ({_first_sentence(error)})") from error
        raise ColumnError(name, f"a date out of range ({_first_sentence(error)})") from error
    raise ColumnError(name, f"holds {dtype}, and had dates in training")


def _first_sentence(error: Exception) -> str:
    return " ".join(str(error).split())


def _days(moments: pa.Array) -> np.ndarray:
    micros = moments.cast(pa.int64()).cast(pa.float64(), safe=False)
    days: np.ndarray = micros.to_numpy(zero_copy_only=False) / _MICROSECONDS_PER_DAY
    return days


_PARTS: dict[str, Any] = {
    "month": pc.month,
    "weekday": pc.day_of_week,
    "hour": pc.hour,
}


def _part_name(part: str, value: int) -> str:
    return _WEEKDAYS[value] if part == "weekday" else str(value)
