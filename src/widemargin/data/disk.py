"""Rows larger than memory: every pass reads them from disk, block by block."""

import copy
import os
from collections.abc import Generator, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa

from widemargin.data.ahead import ahead
from widemargin.data.blocks import (
    MAX_FEATURES,
    SIZES,
    Block,
    Origin,
    Sizes,
    blocks_of,
    check_block,
    narrowed,
    numbers,
)
from widemargin.data.files import SMALL_COLUMNS, RowFile, stated_features
from widemargin.data.formats import MANIFEST, Manifest, ShardError, files_in, read_manifest
from widemargin.data.memory import CsrRows, csr_in_place
from widemargin.data.rows import BlockRows
from widemargin.kernels import rows as kernels
from widemargin.labels import whole_labels

if TYPE_CHECKING:
    from widemargin.data.expand import FeatureMap

#: a folder or a file of rows, or a list of files
Source: TypeAlias = str | os.PathLike | Iterable[str | os.PathLike]

_ROW_COLUMNS = ("indices", "values")


def open_rows(
    source: Source, features: "FeatureMap | None" = None, sizes: Sizes = SIZES
) -> "DiskRows":
    """Return the rows of files. Each pass over the rows reads the files again.

    Memory holds the labels and a few megabytes of rows. Files must not change while they are in
    use. If one does, an error is raised.

    Parameters
    ----------
    source : path or list of paths
        A folder that ``widemargin convert`` wrote; an Arrow IPC or Parquet file, a list of such
        files or a folder of them; or svmlight text, plain or compressed. Text is parsed in each
        pass, so it is faster to convert it once. Files without a manifest are read once by this
        function, which checks them and counts their rows.

        Arrow and Parquet files have the columns ``label`` (numbers), ``indices`` (lists of column
        numbers of X, from 0, increasing) and ``values`` (lists of the values in these columns).
        They may have the columns ``qid`` and ``weight``. Other columns are ignored.
    features : feature map, optional
        It computes rows from other columns while these are read. Its attributes are ``columns``,
        the list of the names of these columns, and ``n_features``. Called with a
        ``pyarrow.RecordBatch`` of these columns, it returns a SciPy CSR matrix of shape
        (batch.num_rows, n_features).
    sizes : Sizes
        How large blocks are in memory.

    Raises
    ------
    ShardError
        If a file is missing, damaged or cut short, or if a row is invalid. The message names the
        file and the row.
    SvmlightError
        If text is not in svmlight format.
    """
    files, manifest = _find(source)
    if features is not None and not 0 <= features.n_features <= MAX_FEATURES:
        raise ValueError(f"features must make 0..{MAX_FEATURES} columns, not more")
    if manifest is None or features is not None:
        return _survey(files, features, sizes)
    counts = [_Counts(part.rows, part.entries, part.batches) for part in manifest.files]
    return DiskRows(files, counts, manifest.n_features, sizes=sizes)


def _find(source: Source) -> tuple[list[RowFile], Manifest | None]:
    if not isinstance(source, str | os.PathLike):
        files = [RowFile(path) for path in source]
        if not files:
            raise ValueError("source is an empty list: there are no rows")
        return files, None
    if os.path.isfile(os.path.join(source, MANIFEST)):
        manifest = read_manifest(source)
        return [
            RowFile(os.path.join(source, part.name), part.bytes, part.crc32)
            for part in manifest.files
        ], manifest
    if os.path.isdir(source):
        return [RowFile(path) for path in files_in(source)], None
    if source == "-":
        raise ValueError("standard input cannot be read anew in each pass: convert it first")
    os.stat(source)  # raises the system's error if there is no such file
    return [RowFile(source)], None


class _Counts(NamedTuple):
    """The numbers of rows, entries and blocks of one file."""

    rows: int
    entries: int
    blocks: int


class DiskRows(BlockRows):
    """Rows that every pass reads from disk.

    `widemargin.open_rows` returns them. Several passes may run at the same time.

    Attributes
    ----------
    n_rows, n_features, n_entries, n_blocks : int
    dtype : float32
    labels : ndarray of shape (n_rows,), or None
        int64 if all are whole numbers, otherwise float64.
    qid : ndarray of shape (n_rows,), int64, or None
    weights : ndarray of shape (n_rows,), float64, or None
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self,
        files: list[RowFile],
        counts: list[_Counts],
        n_features: int,
        features: "FeatureMap | None" = None,
        columns: dict[str, np.ndarray] | None = None,
        sizes: Sizes = SIZES,
    ) -> None:
        self.n_features = n_features
        self._files: list[RowFile] = files
        self._counts: list[_Counts] = counts
        self._features, self._block_bytes = features, sizes.block_bytes
        self._stored_features = n_features
        self._checked = set() if columns is None else set(range(len(files)))
        self._verified = set(self._checked)
        if columns is not None:
            self._columns = columns
        # One entry for each finished pass. Threads can append to a list at the same time, but if
        # they increment a number, an increment may be lost.
        self._passes: list[None] = []
        self.n_rows = sum(c.rows for c in counts)
        self.n_entries = sum(c.entries for c in counts)
        self.n_blocks = sum(c.blocks for c in counts)
        self._sizes: RowSizes | None = None

    def __repr__(self) -> str:
        where = self._files[0].path if len(self._files) == 1 else f"{len(self._files)} files"
        return f"<DiskRows: {self.n_rows:,} rows, {self.n_features:,} features, in {where}>"

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_features

    @property
    def paths(self) -> list[str]:
        """The paths of the files that have rows, in order."""
        return [file.path for file, counts in zip(self._files, self._counts) if counts.rows]

    @property
    def times_read(self) -> int:  # type: ignore[override]
        """How many passes over all rows have finished since the files were opened."""
        return len(self._passes)

    @property
    def nbytes(self) -> int:
        """The bytes that all blocks would take in memory."""
        entry_bytes, pointer_bytes = 8, 4
        return entry_bytes * self.n_entries + pointer_bytes * (self.n_rows + self.n_blocks)

    @property
    def labels(self) -> np.ndarray | None:  # type: ignore[override]
        return self._columns.get("label")

    @property
    def qid(self) -> np.ndarray | None:  # type: ignore[override]
        return self._columns.get("qid")

    @property
    def weights(self) -> np.ndarray | None:
        return self._columns.get("weight")

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        columns = _Columns()
        for number, file in enumerate(self._files):
            n_rows = 0
            self._verify(number)
            for batch in file.batches(list(SMALL_COLUMNS)):
                columns.add(batch, file.path)
                n_rows += batch.num_rows
            if n_rows != self._counts[number].rows:
                self._fail_to_count(number)
        return columns.joined(self.n_rows)

    def _verify(self, number: int) -> None:
        """Compare a file with its checksum, once."""
        if number not in self._verified:
            self._files[number].verify()
            self._verified.add(number)

    def _fail_to_count(self, number: int) -> NoReturn:
        counts = self._counts[number]
        raise ShardError(
            f"{self._files[number].path}: does not have the {counts.rows} rows with "
            f"{counts.entries} entries that it should"
        )

    def blocks(self) -> Generator[Block, None, None]:
        """Yield all rows, in the order of the files, as `Block`s of at most about 4 MB.

        Decoding releases the GIL. The checksum of a file is verified when it is first read. Its
        rows are checked until a pass has read the file to its end. The first pass over all files
        stores the norms of the rows and the length of the longest row.
        """
        begin = 0
        sizes = RowSizes(self.n_rows) if self._sizes is None else None
        for number in range(len(self._files)):
            for arrays in self._blocks_of_file(number):
                end = begin + arrays[2].size - 1
                block = Block(begin, end, arrays)
                if sizes is not None:
                    sizes.add(block)
                yield block
                begin = end
        self._passes.append(None)
        if sizes is not None:
            sizes.squared_norms.flags.writeable = False  # all callers share the array
            self._sizes = sizes

    def _blocks_of_file(self, number: int) -> Iterator[tuple]:
        file, counts = self._files[number], self._counts[number]
        check = number not in self._checked
        if check:
            self._verify(number)
        wanted = _ROW_COLUMNS if self._features is None else self._features.columns
        row = entries = 0
        batches = file.batches(wanted, check)
        size = self._block_bytes
        for arrays in blocks_of(file.path, batches, self._features, check=check, block_bytes=size):
            if check:
                check_block(arrays, self._stored_features, Origin(file.path, row))
            row += arrays[2].size - 1
            entries += arrays[0].size
            if row > counts.rows or entries > counts.entries:
                break
            if self.n_features < self._stored_features:
                arrays = narrowed(arrays, self.n_features)
            yield arrays
        if row != counts.rows or entries != counts.entries:
            self._fail_to_count(number)
        self._checked.add(number)

    def squared_norms(self) -> np.ndarray:
        """Return |x_i|^2 in float64, (n,)."""
        return self._found_sizes().squared_norms

    @property
    def longest_row(self) -> int:
        """The largest number of entries in a row."""
        return self._found_sizes().longest

    def _found_sizes(self) -> "RowSizes":
        if self._sizes is None:
            for _ in ahead(self.blocks()):
                pass
        assert self._sizes is not None
        return self._sizes

    def in_memory(self) -> CsrRows:
        """Read all rows into memory, in one pass. They take `nbytes` there."""
        values = np.empty(self.n_entries, dtype=np.float32)
        indices = np.empty(self.n_entries, dtype=np.int32)
        indptr = np.zeros(self.n_rows + 1, dtype=np.int64)
        end = 0
        for block in ahead(self.blocks()):
            some_values, some_indices, ends = block.arrays
            begin, end = end, end + some_values.size
            values[begin:end], indices[begin:end] = some_values, some_indices
            indptr[block.begin + 1 : block.end + 1] = begin + ends[1:].astype(np.int64)
        return CsrRows(csr_in_place(values[:end], indices[:end], indptr, self.n_features))

    def resized(self, n_features: int) -> "DiskRows":
        """Return the same rows with another number of features.

        New features are zero. Entries of columns from `n_features` on are dropped, but
        `n_entries` still counts them.
        """
        other = copy.copy(self)
        other.n_features, other._passes = n_features, []
        other._sizes = None
        return other


class RowSizes:
    """|x_i|^2 of rows, (n,), and the largest number of entries in a row, found block by block."""

    def __init__(self, n_rows: int):
        self.squared_norms, self.longest = np.empty(n_rows), 0

    def add(self, block: Block) -> None:
        """Add the rows of a block."""
        norms = self.squared_norms[block.begin : block.end]
        kernels.squared_norms(block.arrays, 0, norms.size, norms)
        self.longest = max(self.longest, int(np.diff(block.arrays[2]).max(initial=0)))


class _Columns:
    """Collects the columns that have one number per row, such as labels."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[np.ndarray]] = {name: [] for name in SMALL_COLUMNS}
        self.path, self.row = "", 0

    def add(self, batch: pa.RecordBatch, path: str) -> None:
        if path != self.path:
            self.path, self.row = path, 0
        for name in self.pieces.keys() & set(batch.schema.names):
            origin = Origin(path, self.row)
            self.pieces[name].append(numbers(batch, name, SMALL_COLUMNS[name], origin))
        self.row += batch.num_rows

    def joined(self, n_rows: int) -> dict[str, np.ndarray]:
        columns = {name: np.concatenate(p) for name, p in self.pieces.items() if p}
        for name, column in columns.items():
            if column.size != n_rows:
                raise ShardError(f"{self.path}: some files have a column {name}, and some do not")
        if "label" in columns:
            columns["label"] = whole_labels(columns["label"])
        return columns


def _survey(files: list[RowFile], features: "FeatureMap | None", sizes: Sizes) -> DiskRows:
    """Read files once: check them, count their rows and entries, and keep their small columns."""
    wanted = [*SMALL_COLUMNS, *(_ROW_COLUMNS if features is None else features.columns)]
    most = MAX_FEATURES if features is None else features.n_features
    columns, counts, n_features = _Columns(), [], 0

    def noted(file: RowFile) -> Iterator[pa.RecordBatch]:
        nonlocal n_features
        for batch in file.batches(wanted, check=True):
            columns.add(batch, file.path)
            n_features = max(n_features, stated_features(batch))
            yield batch

    for file in files:
        file.verify()
        rows = entries = n_blocks = 0
        size = sizes.block_bytes
        for arrays in blocks_of(file.path, noted(file), features, check=True, block_bytes=size):
            end = check_block(arrays, most, Origin(file.path, rows))
            n_features = max(n_features, end)
            rows += arrays[2].size - 1
            entries += arrays[0].size
            n_blocks += 1
        counts.append(_Counts(rows, entries, n_blocks))
    n_rows = sum(c.rows for c in counts)
    if n_rows == 0:
        raise ShardError(f"{files[0].path}: no rows")
    if features is not None:
        n_features = features.n_features
    return DiskRows(files, counts, n_features, features, columns.joined(n_rows), sizes)
