"""What rows look like on disk: formats told apart by their first bytes, and the manifest.

A folder that `widemargin convert` wrote holds parts, ``part-00000.arrow`` and so on, and a
manifest, ``widemargin.json``. The manifest is written last and appears all at once, so a folder
without one holds no more than a part of the rows.
"""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from widemargin.atomic import atomic_write

MANIFEST = "widemargin.json"
TEXT = "text"
_VERSION = 1
_MAGIC = {b"ARROW1": "arrow", b"PAR1": "parquet"}
_OWN_PART = re.compile(r"part-\d{5,}\.(arrow|parquet)")


class ShardError(ValueError):
    """Rows on disk are damaged, incomplete or not what they were; the message names the file."""


def format_of(path: str | os.PathLike) -> str:
    """Return "arrow", "parquet" or, for everything else, "text"."""
    with open(path, "rb", buffering=0) as file:
        head = file.read(max(map(len, _MAGIC)))
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), TEXT)


def part_name(number: int, format: str) -> str:
    return f"part-{number:05d}.{format}"


@dataclass(frozen=True)
class Part:
    """One file of a folder.

    Attributes
    ----------
    name : str
    rows, entries : int
        How many rows, and how many numbers in them.
    batches : int
        Record batches, each of which is read as one block.
    bytes : int
        Size of the file.
    crc32 : int
        Checksum of the file.
    """

    name: str
    rows: int
    entries: int
    batches: int
    bytes: int
    crc32: int


@dataclass(frozen=True)
class Manifest:
    """What a folder of parts holds; `qid` and `weight` say whether there are such columns."""

    n_rows: int
    n_features: int
    n_entries: int
    qid: bool
    weight: bool
    files: tuple[Part, ...]

    def write(self, folder: str | os.PathLike) -> None:
        """Write to `folder`, all at once."""
        values = {"format": "widemargin rows", "version": _VERSION, **asdict(self)}
        with atomic_write(Path(folder, MANIFEST)) as file:
            file.write(json.dumps(values, indent=1).encode())


def read_manifest(folder: str | os.PathLike) -> Manifest:
    """Read a folder's manifest, or say what is wrong with it."""
    path = Path(folder, MANIFEST)
    try:
        values = json.loads(path.read_bytes())
        version = values.pop("version")
        if values.pop("format") != "widemargin rows":
            raise KeyError("format")
        if version == _VERSION:
            files = tuple(Part(**part) for part in values.pop("files"))
            return _consistent(Manifest(files=files, **values))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ShardError(f"{path}: not a manifest of rows ({error})") from error
    raise ShardError(f"{path}: version {version}, and this widemargin reads version {_VERSION}")


def _consistent(manifest: Manifest) -> Manifest:
    sums = (sum(part.rows for part in manifest.files), sum(p.entries for p in manifest.files))
    if sums != (manifest.n_rows, manifest.n_entries) or manifest.n_rows < 1:
        raise ValueError("its numbers do not add up")
    if any(Path(part.name).name != part.name for part in manifest.files):
        raise ValueError("it names files outside of its folder")
    return manifest


def files_in(folder: str | os.PathLike) -> list[str]:
    """Return the Arrow and Parquet files in a folder without a manifest, sorted by name.

    Raises ShardError where the folder is an unfinished conversion, or holds no such files.
    Other files, such as Spark's ``_SUCCESS``, are left alone.
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


def _refuse_unfinished(folder) -> NoReturn:
    raise ShardError(
        f"{os.fspath(folder)}: has parts but no {MANIFEST}: the conversion was not finished, or "
        "not all of it was copied"
    )
