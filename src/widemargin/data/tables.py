"""Read tables from files as Arrow record batches: CSV, JSON, Parquet, Arrow and Feather.

Memory holds a few record batches, no matter how large the files are; only a JSON array is read as
a whole. Rows of several files follow one another.
"""

import csv
import glob
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from widemargin.data.columns import kind_of
from widemargin.data.compression import CompressionError, Rejoined, decompressed

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_DELIMITERS = (",", ";", "\t", "|")
_HEAD_BYTES = 1 << 16
_BLOCK_BYTES = 8 << 20
_BATCH_ROWS = 65_536
_COMMA, _POINT = (re.compile(rf"[-+]?\d+{point}\d+") for point in (",", r"\."))
_SVMLIGHT = re.compile(r"\S+( qid:\d+)?( \d+:\S+)+")
#: what stands for a missing value in text
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "-nan", "NULL", "null", "None", "?")
_NOT_TEXT = {
    b"PK\x03\x04": "a zip or Excel file; save the table as CSV",
    b"\xff\xfe": "UTF-16 text: --encoding utf-16",
    b"\xfe\xff": "UTF-16 text: --encoding utf-16",
    b"\x89HDF": "an HDF5 file, which is not read here",
    b"ARFF": "an ARFF file, which is not read here",
}


class TableError(ValueError):
    """A table cannot be read; the message names the file."""


class Widened(Exception):
    """A column had another type from some row on; read the table from its beginning again."""


def format_by_name(path: str | os.PathLike[str]) -> str | None:
    """Return "csv", "json", "parquet" or "arrow" by the ending of a name; None for others."""
    name = os.fspath(path).lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return _FORMATS.get(os.path.splitext(name)[1])


def expanded(paths: Iterable[str]) -> list[str]:
    """Return the files that paths, patterns such as ``day*.csv`` and folders stand for."""
    found: list[str] = []
    for path in paths:
        if path == "-" or os.path.isfile(path):
            found.append(path)
        elif os.path.isdir(path):
            names = [name for name in sorted(os.listdir(path)) if not name.startswith(("_", "."))]
            tables = [os.path.join(path, name) for name in names if format_by_name(name)]
            if not tables:
                raise TableError(f"{path}: a folder without tables ({', '.join(_FORMATS)})")
            found += tables
        elif glob.has_magic(path):
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise TableError(f"{path}: no file matches this pattern")
            found += matches
        else:
            found.append(path)  # opening it says what is wrong
    return found


@dataclass
class Table:
    """The rows of one or several files.

    Attributes
    ----------
    paths : list of str
        "-" is CSV from standard input, which is read as a whole.
    header : bool
        Whether the first line of CSV names the columns. If not, their names are 1, 2, 3, ...
    encoding : str
        Of CSV.
    types : dict of str to pyarrow.DataType
        Types that columns of CSV must have; others are inferred.
    """

    paths: Sequence[str]
    header: bool = True
    encoding: str = "utf-8"
    types: dict[str, pa.DataType] = field(default_factory=dict)
    _piped: bytes | None = None
    _noted: dict[str, pa.DataType] = field(default_factory=dict)  # types that `Widened` told of

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in order, with the columns of the first file.

        Raises TableError, and `Widened` after it has noted a more general type of a column.
        """
        names: list[str] | None = None
        kinds: dict[str, str | None] = {}
        for path in self.paths:
            with _naming(_shown(path)):
                for batch in self._read(path):
                    if names is None:
                        names = batch.schema.names
                    batch = self._checked(path, batch, names)
                    self._check_kinds(path, batch.schema, kinds)
                    yield batch
        if names is None:
            raise TableError(f"{_shown(self.paths[0])}: there are no rows")

    def _read(self, path: str) -> Iterator[pa.RecordBatch]:
        if path == "-":
            if self._piped is None:
                self._piped = sys.stdin.buffer.read()
            yield from self._text(io.BytesIO(self._piped), path, "csv")
            return
        with open(path, "rb") as file:
            format = _format_of(file, path)
            if format == "parquet":
                yield from _parquet(file)
            elif format == "arrow":
                yield from _arrow(file)
            else:
                yield from self._text(file, path, format)

    def _text(self, file: BinaryIO, path: str, format: str) -> Iterator[pa.RecordBatch]:
        with decompressed(file, _shown(path)) as text:
            head = text.read(_HEAD_BYTES)
            if not head.strip():
                raise ValueError("the file is empty")
            _check_text(head, self.encoding)
            whole = io.BufferedReader(Rejoined(head, text), _HEAD_BYTES)
            if format == "csv":
                yield from self._csv(head, whole, path)
            elif head.lstrip().startswith(b"["):
                yield from _json_array(whole)
            else:
                yield from self._json_lines(whole)

    def _checked(self, path: str, batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
        """Return the batch with these columns in this order."""
        found = batch.schema.names
        if found == names:
            return batch
        missing = next((name for name in names if name not in found), None)
        if missing is not None:
            raise ValueError(f"there is no column {missing!r}, which {self.paths[0]} has")
        return batch.select(names)

    def _check_kinds(self, path: str, schema: pa.Schema, kinds: dict[str, str | None]) -> None:
        """Refuse a column whose type differs between files or batches."""
        for column in schema:
            kind = kind_of(column.type)
            before = kinds.setdefault(column.name, kind)
            if kind in (before, "empty"):
                continue
            if before == "empty":
                kinds[column.name] = kind
                continue
            if format_by_name(path) in ("parquet", "arrow", "json"):
                raise ValueError(
                    f"column {column.name!r} holds {column.type}, and a {before} in "
                    f"{self.paths[0]}"
                )
            self._widen(column.name, pa.string())

    def _widen(self, name: str, dtype: pa.DataType) -> None:
        if self._noted.get(name) == dtype:
            raise ValueError(f"column {name!r} cannot be read as {dtype}")
        self._noted[name] = dtype
        raise Widened

    def _csv(self, head: bytes, text: BinaryIO, path: str) -> Iterator[pa.RecordBatch]:
        delimiter = self._delimiter(head, path)
        names, point = self._names(head, delimiter), self._decimal_point(head, delimiter)
        try:
            reader = pacsv.open_csv(
                text,
                read_options=pacsv.ReadOptions(
                    block_size=_BLOCK_BYTES,
                    column_names=names,
                    skip_rows=1 if self.header else 0,
                    encoding=self.encoding,
                    use_threads=False,
                ),
                parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pacsv.ConvertOptions(
                    column_types=self._known_types(names),
                    null_values=list(MISSING),
                    strings_can_be_null=True,
                    decimal_point=point,
                ),
            )
            for batch in reader:
                if pa.binary() in batch.schema.types:
                    raise ValueError(self._wrong_encoding())
                if batch.num_rows:
                    yield batch
        except pa.ArrowInvalid as error:
            self._understand(error, names, point)

    def _known_types(self, names: list[str]) -> dict[str, pa.DataType]:
        known = self._noted | self.types
        return {name: known[name] for name in names if name in known}

    def _wrong_encoding(self) -> str:
        return f"not {self.encoding} text; name its encoding, such as --encoding latin-1"

    def _understand(self, error: pa.ArrowInvalid, names: list[str], point: str) -> None:
        """Widen the type of the column that an error names, or raise it in plain words."""
        words = " ".join(str(error).split())
        if "invalid UTF8" in words or "'utf-8' codec" in words:
            raise ValueError(self._wrong_encoding()) from error
        found = re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", words)
        if "Could not skip initial" in words:
            raise ValueError("there are no rows") from error
        if found:
            name = names[int(found[1])]
            if name in self.types:
                row = re.search(r"Row #(\d+)", words)
                where = f"row {int(row[1]) - 1 - self.header}, " if row else ""
                kind = kind_of(self.types[name])
                raise ValueError(
                    f"{where}column {name!r}: {found[2]!r} is no {kind}, and the model was "
                    f"trained with a {kind} there"
                    if kind != "flag"
                    else f"{where}column {name!r}: {found[2]!r} is neither true nor false"
                ) from error
            self._widen(name, pa.float64() if _is_number(found[2], point) else pa.string())
        ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)(.*)", words)
        if ragged:
            open_quote = "; is a quote not closed?" if ragged[4].count('"') % 2 else ""
            raise ValueError(
                f"line {ragged[1]} has {ragged[3]} fields, and the first has {ragged[2]}"
                + open_quote
            ) from error
        raise ValueError(words) from error

    def _delimiter(self, head: bytes, path: str) -> str:
        line = self._first_line(head)
        if path.lower().split(".")[-1] == "tsv" or ".tsv." in path.lower():
            return "\t"
        outside = re.sub(r'"[^"]*"', "", line)
        return max(_DELIMITERS, key=outside.count)

    def _decimal_point(self, head: bytes, delimiter: str) -> str:
        """Return "," if the first lines have numbers like 0,5, and none like 0.5; else "."."""
        if delimiter == ",":
            return "."
        lines = self._lines(head)
        if len(head) == _HEAD_BYTES:
            lines.pop()  # cut somewhere
        rows = csv.reader(lines, delimiter=delimiter)
        fields = {field.strip() for row in rows for field in row}
        commas = any(map(_COMMA.fullmatch, fields))
        return "," if commas and not any(map(_POINT.fullmatch, fields)) else "."

    def _first_line(self, head: bytes) -> str:
        return (self._lines(head) or [""])[0]

    def _lines(self, head: bytes) -> list[str]:
        try:
            text = head.decode(self.encoding, "ignore").lstrip("\ufeff")
        except LookupError as error:
            raise ValueError(f"there is no encoding {self.encoding!r}") from error
        return text.splitlines()

    def _names(self, head: bytes, delimiter: str) -> list[str]:
        line = self._first_line(head)
        if _SVMLIGHT.fullmatch(line.split("#")[0].strip()):
            raise ValueError("svmlight text, which has no named columns, rather than a table")
        names = next(csv.reader([line], delimiter=delimiter), [])
        if not self.header:
            return [str(number) for number in range(1, len(names) + 1)]
        names = [name.strip() for name in names]
        if len(names) > 1 and all(map(_is_number, names)):
            raise ValueError(
                "the first line holds numbers, not names of columns; if there are no names, say "
                "--no-header"
            )
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"the first line names the column {repeated!r} twice")
        return names

    def _json_lines(self, text: BinaryIO) -> Iterator[pa.RecordBatch]:
        first = 1
        while block := text.read(_BLOCK_BYTES):
            block += text.readline()
            try:
                table = pajson.read_json(
                    io.BytesIO(block),
                    read_options=pajson.ReadOptions(use_threads=False, block_size=len(block)),
                )
            except pa.ArrowInvalid as error:
                self._understand_json(error, first)
            first += block.count(b"\n")
            yield from table.combine_chunks().to_batches(_BATCH_ROWS)

    def _understand_json(self, error: pa.ArrowInvalid, first: int) -> None:
        words = " ".join(str(error).split())
        row = re.search(r"in row (\d+)", words)
        where = f"line {first + int(row[1])}: " if row else ""
        changed = re.search(r"Column\(/(.+?)\) changed from (\w+) to (\w+)", words)
        if changed:
            raise ValueError(
                f"{where}column {changed[1]!r} is a {changed[3]}, and a {changed[2]} before"
            ) from error
        if "Column() changed from object" in words:
            raise ValueError(
                f'{where}not an object with columns, such as {{"size": 1}}'
            ) from error
        reason = words.removeprefix("JSON parse error: ")
        raise ValueError(f"{where}not JSON lines ({reason})") from error


def _is_number(word: str, point: str = ".") -> bool:
    if point != ".":
        word = word.replace(".", "?").replace(point, ".")
    try:
        float(word)
    except ValueError:
        return False
    return True


def _shown(path: str) -> str:
    return "standard input" if path == "-" else path


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn errors while reading a file into TableErrors that name it."""
    try:
        yield
    except (CompressionError, TableError) as error:
        raise TableError(f"{path}: {error}") from error
    except (pa.ArrowException, ValueError) as error:
        raise TableError(f"{path}: {' '.join(str(error).split())}") from error


def _format_of(file: BinaryIO, path: str) -> str:
    """Return the format of an open file, by its first bytes and then by its name."""
    head = file.read(8)
    file.seek(0)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")):
        return "arrow"
    format = format_by_name(path)
    if format in ("parquet", "arrow"):
        if not head:
            raise ValueError("the file is empty")
        raise ValueError(f"not a file of {format.capitalize()}'s format, in spite of its name")
    return format or "csv"


def _check_text(head: bytes, encoding: str) -> None:
    for magic, meaning in _NOT_TEXT.items():
        if head.startswith(magic) and not encoding.lower().replace("_", "-").startswith("utf-16"):
            raise ValueError(meaning)
    if b"\0" in head and "16" not in encoding and "32" not in encoding:
        raise ValueError("not text: it has zero bytes")


def _parquet(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file, pre_buffer=False) as parquet:
        yield from parquet.iter_batches(_BATCH_ROWS)


def _arrow(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    head = file.read(6)
    file.seek(0)
    if head.startswith(b"FEA1"):
        raise ValueError("a Feather file of version 1, which is outdated; write it as version 2")
    if head == b"ARROW1":
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from pa.ipc.open_stream(file)


def _json_array(text: BinaryIO) -> Iterator[pa.RecordBatch]:
    try:
        rows = json.load(text)
    except RecursionError:
        raise ValueError("not JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError('its rows are not JSON objects, such as {"size": 1}')
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(
                f"column {name!r}: its values are of different types "
                f"({' '.join(str(error).split())})"
            ) from error
    yield from pa.table(columns).to_batches(_BATCH_ROWS)
