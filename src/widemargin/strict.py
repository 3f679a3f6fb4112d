"""JSON of our own files, read as if a stranger had written it."""

import json
import math
from typing import Any, NoReturn


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says, if it says everything once, in finite numbers and in Unicode.

    Raises ValueError, which says what is wrong.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_repetition,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeError:
        raise ValueError("it is not all Unicode") from None
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in values if names.count(name) > 1)
        raise ValueError(f"it says {repeated!r} twice")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is more than a number can be")
    return number
