"""What `widemargin convert` shows while it works, and the account it gives."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from widemargin.cli.errors import BadInput
from widemargin.data.convert import convert
from widemargin.words import count, shape_in_words


def convert_with_progress(source: str, folder: str, format: str, show: bool) -> dict[str, Any]:
    """Convert, and return what is worth knowing about it."""
    n_read = 0

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
        # Errors of open files have no name; most likely the disk is full.
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


def in_words(report: dict[str, Any]) -> dict[str, str]:
    """Say the same in a few lines."""
    read, written = report["bytes_read"] / 1e6, report["bytes_written"] / 1e6
    size = shape_in_words(report["rows"], report["features"])
    entries = f"{report['entries']:,} entries"
    return {
        "data": f"{size}, {entries}",
        "read": f"{read:,.1f} MB in {report['seconds']:.2f} s, "
        f"{read / report['seconds']:,.0f} MB/s",
        "written": f"{written:,.1f} MB in {count(report['files'], 'file')}, {report['format']}",
    }


@contextmanager
def _progress_bar(source: str, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield what moves a bar on stderr, if that is a terminal; on anything else, what does not."""
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
    # How much a pipe will hold, nobody knows.
    total = os.path.getsize(source) if os.path.isfile(source) else None
    with bar:
        task = bar.add_task("", total=total)
        yield lambda n_bytes: bar.update(task, completed=n_bytes)
