"""Progress of `verbose=1`: a live display on a terminal, occasional lines in a log file."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from widemargin.monitor import Record

if TYPE_CHECKING:
    from rich.console import Console

# Seconds between lines in a log file; one more line is printed at the end.
_SECONDS_BETWEEN_LOG_LINES = 10.0

_tells_result = ContextVar("_tells_result", default=True)


@contextmanager
def told_elsewhere() -> Iterator[None]:
    """Leave out the last line of fits, whose result the caller tells."""
    before = _tells_result.set(False)
    try:
        yield
    finally:
        _tells_result.reset(before)


def _console() -> "Console":
    from rich.console import Console

    # Ask the stream itself: with FORCE_COLOR set, rich would treat a log file as a terminal.
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Console(stderr=True, highlight=False, force_terminal=on_terminal)


class ProgressBar:
    """Progress bar on stderr; `what` names what is counted, in the plural."""

    def __init__(self, total: int, what: str):
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = _console()
        self.total, self.done, self.what = total, 0, what
        self.started = self.last_line = time.perf_counter()
        self.bar = Progress(
            TextColumn("widemargin"),
            BarColumn(),
            TextColumn(f"{{task.completed}} of {{task.total}} {what}"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.console.is_terminal:
            self.bar.stop()
        taken = time.perf_counter() - self.started
        self.console.print(
            f"widemargin  {taken:.2f} s  {self.done} of {self.total} {self.what}", soft_wrap=True
        )

    def advance(self, count: int, news: str) -> None:
        """Add `count` finished items; `news` describes the last one."""
        self.done += count
        self.bar.update(self.task, advance=count, description=news)
        now = time.perf_counter()
        if not self.console.is_terminal and now - self.last_line > _SECONDS_BETWEEN_LOG_LINES:
            self.last_line = now
            self.console.print(
                f"widemargin  {now - self.started:.1f} s  {self.done} of {self.total} "
                f"{self.what}  {news}",
                soft_wrap=True,
            )


class ProgressLine:
    """Line on stderr with the current duality gap of a fit with `n_problems` problems."""

    def __init__(self, n_problems: int, tol: float):
        self.console = _console()
        self.n_problems, self.tol = n_problems, tol
        self.lock = threading.Lock()  # several threads may train classes
        self.solved = 0
        self.last_line = time.perf_counter()
        self.live = self.console.status("widemargin") if self.console.is_terminal else None

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, record: Record) -> None:
        """Show one gap check."""
        relative = record.relative_gap
        with self.lock:
            self.solved += relative <= self.tol
            text = (
                f"widemargin  {record.time:.1f} s  iteration {record.iteration:.0f}  "
                f"objective {record.primal:.6g}  gap {relative:.2e} (tol {self.tol:.0e})"
            )
            if self.n_problems > 1:
                text += (
                    f"  problem {record.problem + 1}, {self.solved} of {self.n_problems} solved"
                )
            if self.live is not None:
                self.live.update(text)
            elif time.perf_counter() - self.last_line > _SECONDS_BETWEEN_LOG_LINES:
                self.last_line = time.perf_counter()
                self.console.print(text, soft_wrap=True)

    def finish(self, summary: str) -> None:
        """Print the last line."""
        if self.live is not None:
            self.live.stop()
        if _tells_result.get():
            self.console.print(f"widemargin  {summary}", soft_wrap=True)
