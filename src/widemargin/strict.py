"""Strict JSON parser for files of untrusted origin."""

import json
import math
from typing import Any, NoReturn


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; refuse duplicate keys, NaN, infinity and invalid Unicode.

    Raises ValueError with the reason.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeError:
        raise ValueError("it is not valid Unicode") from None
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in values if names.count(name) > 1)
        raise ValueError(f"it has the key {repeated!r} twice")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} overflows float64")
    return number
