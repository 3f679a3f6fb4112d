"""Files of strings and of rows, written once and kept in ``$TMPDIR`` for later runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.sections import apart
from widemargin import datasets, open_rows
from widemargin.data.expand import HashedNgrams, WeightedDegree
from widemargin.data.shards import ShardWriter

FOLDER = Path(tempfile.gettempdir()) / "widemargin-out-of-core"
PATHS = HashedNgrams("path", n_features=2**20)
DNA = WeightedDegree("sequence", length=398, max_degree=8)


def kept(name: str, write, *arguments) -> Path:
    """Return the file or folder of that name; `write(path, *arguments)` makes it, apart."""
    path = FOLDER / name
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        apart(write, path, *arguments)
    return path


def paths_file(one_in: int = 1) -> Path:
    """An Arrow file of debian_paths in random order; section doc is 1, others are -1."""
    return kept(f"paths-{one_in}.arrow", _write_paths, one_in)


def dna_file() -> Path:
    """An Arrow file of splice_worm, in random order."""
    return kept("dna.arrow", _write_dna)


def some_dna_file(n_rows: int) -> Path:
    """The first rows of `dna_file()`."""
    return kept(f"dna-{n_rows}.arrow", _write_some_dna, dna_file(), n_rows)


def paths_shards(n_rows: int) -> Path:
    """Shards of numbers: the hashed n-grams of some paths."""
    return kept(f"paths-shards-{n_rows}", _write_shards, paths_file(10), PATHS, n_rows)


def dna_shards(n_rows: int) -> Path:
    """Shards of numbers: the substrings of the first rows of `dna_file()`."""
    return kept(f"dna-shards-{n_rows}", _write_shards, dna_file(), DNA, n_rows)


def _write_paths(path: Path, one_in: int) -> None:
    import pyarrow as pa

    pieces = datasets.debian_paths_batches()
    doc = datasets.DEBIAN_SECTIONS.index("doc")
    everything = pa.Table.from_batches(list(pieces))
    n = everything.num_rows // one_in
    chosen = np.random.default_rng(0).permutation(everything.num_rows)[:n]
    everything = everything.take(pa.array(chosen))
    labels = np.where(everything["label"].to_numpy() == doc, 1, -1)
    write_arrow(path, everything.set_column(0, "label", pa.array(labels)))


def _write_dna(path: Path) -> None:
    import pyarrow as pa

    everything = pa.Table.from_batches(list(datasets.splice_worm_batches()))
    order = np.random.default_rng(0).permutation(everything.num_rows)
    write_arrow(path, everything.take(pa.array(order)))


def _write_some_dna(path: Path, source: Path, n_rows: int) -> None:
    import pyarrow.feather as feather

    write_arrow(path, feather.read_table(source).slice(0, n_rows))


def write_arrow(path: Path, rows) -> None:
    """Write a pyarrow table; the file appears when it is whole."""
    import pyarrow.ipc as ipc

    options = ipc.IpcWriteOptions(compression="lz4")
    unfinished = path.with_suffix(".unfinished")
    with ipc.new_file(unfinished, rows.schema, options=options) as writer:
        writer.write_table(rows.combine_chunks(), max_chunksize=1 << 14)
    unfinished.rename(path)


def _write_shards(path: Path, source: Path, features, n_rows: int) -> None:
    rows = open_rows(source, features)
    with ShardWriter(path) as writer:
        for block in rows.blocks():
            end = min(block.end, n_rows)
            if block.begin < end:
                X = _matrix(block, rows.n_features)[: end - block.begin]
                writer.add(X, rows.labels[block.begin : end])


def _matrix(block, n_features):
    values, indices, starts = block.arrays
    shape = (starts.size - 1, n_features)
    return sp.csr_matrix((values, indices.view(np.int32), starts.view(np.int32)), shape=shape)


def in_memory(rows, n_rows: int) -> sp.csr_matrix:
    """The first rows of `rows` as one matrix, at no more memory than it takes."""
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    for block in rows.blocks():
        lengths = np.diff(block.arrays[2])[: max(0, n_rows - block.begin)]
        starts[block.begin + 1 : block.begin + 1 + lengths.size] = lengths
    np.cumsum(starts, out=starts)
    values, indices = np.empty(starts[-1], np.float32), np.empty(starts[-1], np.int32)
    for block in rows.blocks():
        end = min(block.end, n_rows)
        if block.begin < end:
            part, count = (
                slice(starts[block.begin], starts[end]),
                starts[end] - starts[block.begin],
            )
            values[part], indices[part] = block.arrays[0][:count], block.arrays[1][:count]
    matrix = sp.csr_matrix((n_rows, rows.n_features), dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = values, indices, starts  # as they are: no copies
    return matrix


def bytes_on_disk(source: Path) -> int:
    """Size of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in files_of(source))


def files_of(source: Path) -> list[Path]:
    """The file itself, or the files of a folder, sorted."""
    return sorted(source.iterdir()) if source.is_dir() else [source]
