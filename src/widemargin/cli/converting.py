"""`widemargin convert`: progress bar and summary."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from widemargin.cli.errors import BadInput
from widemargin.data.convert import convert
from widemargin.data.tables import format_by_name
from widemargin.words import count, shape_in_words


def convert_with_progress(source: str, folder: str, format: str, show: bool) -> dict[str, Any]:
    """Convert, and return a summary."""
    n_read = 0
    if format_by_name(source) in ("csv", "json"):
        raise BadInput(f"{source}: a table; `widemargin train --target` reads it as it is")

    def note(n_bytes: int) -> None:
        nonlocal n_read
        n_read = n_bytes
        advance(n_bytes)

    started = time.perf_counter()
    try:
        with _progress_bar(source, show) as advance:
            manifest = convert(source, folder, format=format, progress=note)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        # Errors on open files, such as a full disk, have no file name.
        raise BadInput(f"{error.filename or folder}: {error.strerror or error}") from error
    return {
        "format": format,
        "rows": manifest.n_rows,
        "features": manifest.n_features,
        "entries": manifest.n_entries,
        "files": len(manifest.files),
        "bytes_read": n_read,
        "bytes_written": sum(part.bytes for part in manifest.files),
        "seconds": time.perf_counter() - started,
    }


def as_text(summary: dict[str, Any]) -> dict[str, str]:
    """Return the summary as named lines of text."""
    read, written = summary["bytes_read"] / 1e6, summary["bytes_written"] / 1e6
    size = shape_in_words(summary["rows"], summary["features"])
    entries = f"{summary['entries']:,} nonzeros"
    return {
        "data": f"{size}, {entries}",
        "read": f"{read:,.1f} MB in {summary['seconds']:.2f} s, "
        f"{read / summary['seconds']:,.0f} MB/s",
        "written": f"{written:,.1f} MB in {count(summary['files'], 'file')}, {summary['format']}",
    }


@contextmanager
def _progress_bar(source: str, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a progress bar; it does nothing if stderr is no terminal."""
    if not (show and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda n_bytes: None
        return
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("widemargin  converting"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    # The size of a pipe is unknown.
    total = os.path.getsize(source) if os.path.isfile(source) else None
    with bar:
        task = bar.add_task("", total=total)
        yield lambda n_bytes: bar.update(task, completed=n_bytes)
