"""Output of the commands: one JSON object, or lines of text."""

import json
import math
import numbers
import sys
from typing import Any

from widemargin.cli.errors import BadInput, naming


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object and nothing else."""
    write_stdout(json.dumps(_plain(values)) + "\n")


def print_lines(pairs: dict[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, pairs))
    write_stdout("".join(f"{name:<{width}}  {value}\n" for name, value in pairs.items()))


def write_stdout(text: str) -> None:
    """Write and flush, so that a closed pipe raises here and not when Python exits."""
    if sys.stdout is None:
        raise BadInput("standard output: it is closed")
    with naming("standard output"):
        sys.stdout.write(text)
        sys.stdout.flush()


def columns_as_text(first: list[Any], second: list[Any] | None = None) -> str:
    """Return one line per row: its value and, separated by tabs, its second value or values."""
    if second is None:
        return "".join(f"{value}\n" for value in first)
    lines = []
    for value, more in zip(first, second):
        more = more if isinstance(more, list) else [more]
        lines.append("\t".join(map(str, [value, *more])) + "\n")
    return "".join(lines)


def _plain(value: Any) -> Any:
    """Return a value for strict JSON: NumPy scalars as Python numbers, NaN and inf as None."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    return value
