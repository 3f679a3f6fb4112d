"""Errors of the command line: one line on stderr and exit code 2."""

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

import typer
import typer.core

INTERRUPTED = 130

# Click's UsageError (unknown option, missing argument). Versions of typer import it from different
# places, but it is always the base class of BadParameter.
_UsageError: Any = typer.BadParameter.__base__


class BadInput(Exception):
    """Bad input from the user; the message says what is wrong and in which file."""


class CommandGroup(typer.core.TyperGroup):
    """A group of commands that reports every expected error as one line on stderr."""

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        """Run and exit with code 0, 2 (bad input) or 130 (interrupted)."""
        # Typer prints errors on several lines; have it raise them instead.
        settings["standalone_mode"] = False
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: complain(f"warning: {message}")
                code = super().main(*args, **settings)
        except typer.Abort:
            code = INTERRUPTED
        except Exception as error:
            line = _in_a_line(error)
            if line is None:
                raise
            code = 2
            complain(line)
            _discard_output()
        if code == INTERRUPTED:
            complain("interrupted")
        sys.exit(code if isinstance(code, int) else 0)


def complain(message: str) -> None:
    """Print a message on stderr, on one line."""
    line = " ".join(message.split())
    typer.echo(f"widemargin: {line}", err=True)


def _discard_output() -> None:
    """Discard buffered output, so that Python does not fail again when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_a_line(error: Exception) -> str | None:
    """Return the message of an expected error; None for others."""
    if isinstance(error, _UsageError):
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        return _in_plain_words(error.format_message()) + hint
    if isinstance(error, (BadInput, FloatingPointError)):  # the latter: overflow of float64
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory {error}"
    if isinstance(error, OSError):  # other files are named by `naming`
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    return None


# Typer checks values by pydantic from version 0.29 on, by Click before, and passes their words on.
_PLAIN_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "not a whole number",
    "Input should be a valid number, unable to parse string as a number": "not a number",
    "Input should be greater than or equal to ": "must be at least ",
    "Input should be less than or equal to ": "must be at most ",
    "Input should be ": "must be ",
}
_PLAIN_PATTERNS = {
    r"'[^']*' is not a valid integer(?: range)?\.": "not a whole number",
    r"'[^']*' is not a valid float(?: range)?\.": "not a number",
}
_OUT_OF_RANGE = re.compile(r"(-?\d+) is not in the range (?:x>=(\d+)|(\d+)<=x<=(\d+))\.")


def _in_plain_words(message: str) -> str:
    for words, plain in _PLAIN_WORDS.items():
        message = message.replace(words, plain)
    for pattern, plain in _PLAIN_PATTERNS.items():
        message = re.sub(pattern, plain, message)
    return _OUT_OF_RANGE.sub(_range_in_words, message)


def _range_in_words(found: re.Match[str]) -> str:
    value, low, low_of_two, high = (None if g is None else int(g) for g in found.groups())
    low = low if low is not None else low_of_two
    if high is None or (low is not None and value is not None and value < low):
        return f"must be at least {low}"
    return f"must be at most {high}"


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError about `path` into a `BadInput` that names the file."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader closed the pipe: not an error of the user
    except OSError as error:
        raise BadInput(f"{shown(path)}: {error.strerror or error}") from error


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError or ValueError about the file at `path` into a `BadInput` that names it."""
    try:
        with naming(path):
            yield
    except ValueError as error:
        # The first line says what is wrong. In errors of scikit-learn, the other lines are advice
        # about Python code.
        message = str(error).strip().partition("\n")[0]
        name = shown(path)
        in_folder = os.path.join(name, "")
        if not message.startswith((f"{name}:", f"{name},", in_folder)):  # not named yet
            message = f"{name}: {message}"
        raise BadInput(message) from error


def shown(path: str | os.PathLike[str]) -> str:
    """Return the name of `path` in messages."""
    return "standard input" if path == "-" else os.fspath(path)


def check_output(path: str | None, *others: str | None, stdout: bool = False) -> None:
    """Refuse an output file that cannot be written, before any work is done.

    `others` are the other files of the command, which must not be overwritten. With `stdout`,
    "-" is standard output.
    """
    if path is None or (stdout and path == "-"):
        return
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if path == "-":
        raise BadInput("-: not a file to write to; use ./- for a file of that name")
    if os.path.isdir(target):
        raise BadInput(f"{path}: is a directory, not a file to write to")
    if not os.path.isdir(folder):
        raise BadInput(f"{path}: there is no directory {folder}")
    with naming(path), contextlib.suppress(FileNotFoundError):
        os.stat(target)  # for example a name that is too long
    places = [target] if os.path.exists(target) else []
    if not places or os.path.isfile(target):  # replaced by a new file in the same folder
        places.append(folder)
    if not all(os.access(place, os.W_OK) for place in places):
        raise BadInput(f"{path}: no permission to write here")
    if any(other is not None and os.path.realpath(other) == target for other in others):
        raise BadInput(f"{path}: named twice; one file would overwrite the other")
