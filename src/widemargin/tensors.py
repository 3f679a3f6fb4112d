"""Arrays and headers of safetensors files, each checked when it is read."""

from typing import Any

import numpy as np
from safetensors import safe_open

from widemargin.strict import parse_json

FLOAT = ("F64",)


class Malformed(Exception):
    """What is wrong with a file, without its name."""


def read_header(file: safe_open, name: str) -> Any:
    """Return the JSON under `name` in the metadata of an open file; None if there is none.

    Raises ValueError, which says what is wrong with it.
    """
    text = (file.metadata() or {}).get(name)
    return None if text is None else parse_json(text)


def read_field(fields: dict, key: str, kind: type | tuple[type, ...]) -> Any:
    """Return what a header says under `key`, if it is of that type."""
    value = fields.get(key)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Malformed(f"the header's {key!r} is missing or malformed")
    return value


def read_tensor(
    file: safe_open, name: str, dtypes: tuple[str, ...], shape: tuple, *, finite: bool = True
) -> np.ndarray:
    """Return a tensor of an open file, after checking its type and shape (None: any length)."""
    if name not in file.keys():  # noqa: SIM118 (an open safetensors file is no mapping)
        raise Malformed(f"the tensor {name!r} is missing")
    stored = file.get_slice(name)
    found = tuple(stored.get_shape())
    if len(found) != len(shape) or any(
        want is not None and have != want for have, want in zip(found, shape)
    ):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise Malformed(f"the tensor {name!r} has shape {found}, expected {wanted}")
    if stored.get_dtype() not in dtypes:
        raise Malformed(f"the tensor {name!r} has the unexpected type {stored.get_dtype()}")
    array = file.get_tensor(name)
    if finite and not np.all(np.isfinite(array)):
        raise Malformed(f"the tensor {name!r} holds values that are not finite")
    return array
