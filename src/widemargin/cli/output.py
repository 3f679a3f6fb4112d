"""Output of the commands: one JSON object, or lines of text."""

import json
import math
import numbers
import sys
import tempfile
from pathlib import Path
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


def save_model(model: Any, path: str) -> None:
    """Write a model to a file, or to standard output for "-"."""
    from widemargin.model_io import save_model

    if path != "-":
        with naming(path):
            save_model(model, path)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.wm")
        save_model(model, file)
        write_bytes(file.read_bytes())


def write_file(data: bytes, path: str) -> None:
    """Write bytes to a file, atomically, or to standard output for "-"."""
    if path == "-":
        write_bytes(data)
        return
    from widemargin.model_io import atomic_write

    with naming(path), atomic_write(path) as file:
        file.write(data)


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output."""
    if sys.stdout is None:
        raise BadInput("standard output: it is closed")
    with naming("standard output"):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def one_or_all(paths: list[str]) -> str | list[str]:
    """Return the only path, or all of several."""
    return paths[0] if len(paths) == 1 else paths


def print_table(columns: dict[str, list[str]]) -> None:
    """Print columns under their names; the first is aligned left, the others right."""
    widths = [max(map(len, [name, *cells])) for name, cells in columns.items()]
    lines = []
    for row in zip(*([name, *cells] for name, cells in columns.items())):
        first, *others = (
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths))
        )
        lines.append("  ".join([first, *others]).rstrip() + "\n")
    write_stdout("".join(lines))


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
