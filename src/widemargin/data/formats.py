"""File formats of rows on disk, detected from the first bytes, and the manifest.

A folder written by `widemargin convert` has parts, ``part-00000.arrow`` and so on, and a manifest,
``widemargin.json``. The manifest is written last and atomically, so a folder without one is
incomplete.
"""

import json
import os
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from widemargin.atomic import atomic_write
from widemargin.strict import parse_json

MANIFEST = "widemargin.json"
TEXT = "text"
_VERSION = 1
_MAGIC = {b"ARROW1": "arrow", b"PAR1": "parquet"}
_MAX_COUNT = 2**63 - 1
_IN_WORDS = {bool: "true or false", str: "text", list: "a list"}
MAX_FEATURES = 2**32 - 1  # indices are uint32
_OWN_PART = re.compile(r"part-\d{5,}\.(arrow|parquet)")


class ShardError(ValueError):
    """Rows on disk are damaged, incomplete or have changed; the message names the file."""


def format_of(path: str | os.PathLike) -> str:
    """Return "arrow", "parquet" or, for everything else, "text"."""
    with open(path, "rb", buffering=0) as file:
        head = file.read(max(map(len, _MAGIC)))
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), TEXT)


def part_name(number: int, format: str) -> str:
    return f"part-{number:05d}.{format}"


@dataclass(frozen=True)
class Part:
    """One file of a folder."""

    name: str
    rows: int
    entries: int  # stored values
    batches: int  # record batches; each is read as one block
    bytes: int  # size of the file
    crc32: int  # checksum of the file


@dataclass(frozen=True)
class Manifest:
    """Contents of a folder of parts; `qid` and `weight` tell whether it has these columns."""

    n_rows: int
    n_features: int
    n_entries: int
    qid: bool
    weight: bool
    files: tuple[Part, ...]

    def write(self, folder: str | os.PathLike) -> None:
        """Write to `folder`, atomically."""
        values = {"format": "widemargin rows", "version": _VERSION, **asdict(self)}
        with atomic_write(Path(folder, MANIFEST)) as file:
            file.write(json.dumps(values, indent=1).encode())


_Described = TypeVar("_Described", Part, Manifest)


def read_manifest(folder: str | os.PathLike) -> Manifest:
    """Read the manifest of a folder; raises ShardError if it is invalid."""
    path = Path(folder, MANIFEST)
    try:
        values = parse_json(path.read_bytes())
        if not isinstance(values, dict) or values.pop("format", None) != "widemargin rows":
            raise ValueError("its format is not 'widemargin rows'")
        version = values.pop("version", None)
        if version == _VERSION:
            parts = _typed(values, "files", list)
            files = tuple(_part(part, f"file {number}") for number, part in enumerate(parts))
            return _consistent(_made(Manifest, values | {"files": files}))
    except ValueError as error:
        raise ShardError(f"{path}: not a manifest of rows ({error})") from error
    raise ShardError(f"{path}: version {version}, and this widemargin reads version {_VERSION}")


def _part(values: Any, where: str) -> Part:
    try:
        if not isinstance(values, dict):
            raise ValueError("not an object")
        return _made(Part, values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _made(kind: type[_Described], values: dict) -> _Described:
    """Return a Part or a Manifest from its fields; raises ValueError if one is invalid."""
    kinds = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := values.keys() - kinds.keys():
        raise ValueError(f"{min(unknown)!r} is unknown")
    return kind(**{name: _typed(values, name, wanted) for name, wanted in kinds.items()})


def _typed(values: dict, name: str, kind: Any) -> Any:
    if name not in values:
        raise ValueError(f"{name!r} is missing")
    value = values[name]
    if kind is int:
        if type(value) is not int or not 0 <= value <= _MAX_COUNT:
            raise ValueError(f"{name!r} is {value!r}, not a whole number of at least 0")
    elif kind in (bool, str, list) and type(value) is not kind:
        raise ValueError(f"{name!r} is {value!r}, not {_IN_WORDS[kind]}")
    return value


def _consistent(manifest: Manifest) -> Manifest:
    sums = (sum(part.rows for part in manifest.files), sum(p.entries for p in manifest.files))
    if sums != (manifest.n_rows, manifest.n_entries) or manifest.n_rows < 1:
        raise ValueError("its numbers do not add up")
    names = [part.name for part in manifest.files]
    if any(Path(name).name != name or name in ("", "..") for name in names):
        raise ValueError("it names files outside of its folder")
    if len(set(names)) < len(names):
        raise ValueError("it names a file twice")
    if manifest.n_features > MAX_FEATURES:
        raise ValueError(f"{manifest.n_features} features; the limit is {MAX_FEATURES}")
    for part in manifest.files:
        if not min(1, part.rows) <= part.batches <= part.rows or part.entries > (
            part.rows * manifest.n_features
        ):
            raise ValueError(f"the numbers of {part.name} contradict each other")
    return manifest


def files_in(folder: str | os.PathLike) -> list[str]:
    """Return the Arrow and Parquet files in a folder without a manifest, sorted by name.

    Raises ShardError if the folder is an unfinished conversion or has no such files. Other
    files, such as Spark's ``_SUCCESS``, are ignored.
    """
    names = sorted(os.listdir(folder))
    if any(map(_OWN_PART.fullmatch, names)):
        _refuse_unfinished(folder)
    paths = [os.path.join(folder, name) for name in names if not name.startswith(("_", "."))]
    paths = [path for path in paths if os.path.isfile(path) and format_of(path) != TEXT]
    if not paths:
        raise ShardError(
            f"{os.fspath(folder)}: a directory with neither a manifest ({MANIFEST}) nor Arrow or "
            "Parquet files"
        )
    return paths


def _refuse_unfinished(folder: str | os.PathLike) -> NoReturn:
    raise ShardError(
        f"{os.fspath(folder)}: has parts but no {MANIFEST}: the conversion was not finished, or "
        "the folder was not copied completely"
    )
