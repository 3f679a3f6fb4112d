"""Data sets of strings, as record batches for feature maps.

debian_paths has file paths and the sections of their packages. Its features are meant to be larger
than memory, so it is streamed from its file. splice_worm is DNA around possible splice sites;
`load` returns it one-hot encoded.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from widemargin.datasets.folder import DatasetMissing, folder_with

if TYPE_CHECKING:
    import pyarrow as pa

SPLICE = "splice_worm.fasta.bz2"
SPLICE_HOME = "the authors of https://doi.org/10.1186/1471-2105-8-S10-S7 (C. elegans, acceptors)"
_DEBIAN = "debian_paths.xz"
_DEBIAN_HOME = "https://deb.debian.org/debian/dists/ (Contents-all), compressed by xz"

_SECTIONS = """
    admin cli-mono comm database debug devel doc editors education electronics embedded fonts
    games gnome gnu-r gnustep golang graphics hamradio haskell httpd interpreters java javascript
    kde kernel libdevel libs lisp localization mail math metapackages misc net news ocaml oldlibs
    otherosfs perl php python ruby rust science shells sound tasks tex text utils vcs video web
    x11 xfce zope
"""
#: Names of the labels 0, 1, ... of debian_paths.
DEBIAN_SECTIONS = tuple(_SECTIONS.split())


def debian_paths_batches(rows_per_batch: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    """Stream debian_paths from its compressed file, sorted by path. Needs pyarrow.

    Columns are ``label``, int64, the index of the section in ``DEBIAN_SECTIONS`` (the first one if
    a file belongs to several packages), and ``path``, utf8. Raises DatasetMissing if the file is
    not in ``$WIDEMARGIN_DATA``.
    """
    folder = _folder_of("debian_paths", _DEBIAN, _DEBIAN_HOME)
    return _read_debian_paths(folder / _DEBIAN, rows_per_batch)


def splice_worm_batches(rows_per_batch: int = 1 << 12) -> Iterator[pa.RecordBatch]:
    """Stream splice_worm. Needs pyarrow.

    Columns are ``label``, int64, -1 or 1, and ``sequence``, utf8, of 398 letters each. Raises
    DatasetMissing if the file is not in ``$WIDEMARGIN_DATA``.
    """
    import pyarrow as pa

    labels, strings = read_splice_worm(_folder_of("splice_worm", SPLICE, SPLICE_HOME))
    columns = [pa.array(labels, pa.int64()), pa.array(strings, pa.utf8())]
    batch = pa.record_batch(columns, names=["label", "sequence"])
    return iter(pa.Table.from_batches([batch]).to_batches(rows_per_batch))


def read_splice_worm(folder: Path) -> tuple[list[int], list[bytes]]:
    """Return the labels and DNA strings of a FASTA file with ``label=`` in its headers."""
    with bz2.open(folder / SPLICE) as stream:
        lines = stream.read().split()
    labels = [int(line[len(b"label=") :]) for line in lines if line.startswith(b"label=")]
    return labels, [line for line in lines if line.isalpha()]


def _folder_of(name: str, file: str, home: str) -> Path:
    folder, lacking = folder_with((file,))
    if folder is None:
        raise DatasetMissing(f"data set {name!r} is missing: {lacking}. It can be had from {home}")
    return folder


def _read_debian_paths(path: Path, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
    """Parse lines ``path section/package,section/package...``; paths may contain blanks."""
    import pyarrow as pa

    label_of = {name.encode(): label for label, name in enumerate(DEBIAN_SECTIONS)}
    n_read = 0
    with lzma.open(path) as stream:
        while lines := list(islice(stream, rows_per_batch)):
            labels, paths = [], []
            for number, line in enumerate(lines, start=n_read + 1):
                words = line.rsplit(None, 1)
                section = words[-1].split(b"/", 1)[0] if len(words) == 2 else b""
                if section not in label_of:
                    raise ValueError(f"{path.name}, line {number}: no path and section known here")
                labels.append(label_of[section])
                paths.append(words[0])
            n_read += len(lines)
            columns = [pa.array(labels, pa.int64()), pa.array(paths, pa.utf8())]
            yield pa.record_batch(columns, names=["label", "path"])
