"""A word to a person who waits while kernels are compiled for the first time."""

import sys
from typing import Any

from numba.core import event

from widemargin.cli.errors import complain


class _Notice(event.Listener):
    """Says once that Numba compiles. Loading a kernel from its cache is no compilation."""

    listens = says = False

    def on_start(self, event: Any) -> None:
        if self.says and sys.stderr is not None and sys.stderr.isatty():
            complain("compiling; this is the first run, and later ones start at once")
        self.says = False

    def on_end(self, event: Any) -> None:
        pass


_notice = _Notice()


def listen() -> None:
    """Tell the person at the terminal, once, if something is compiled from now on."""
    if not _notice.listens:
        event.register("numba:compile", _notice)
        _notice.listens = _notice.says = True
