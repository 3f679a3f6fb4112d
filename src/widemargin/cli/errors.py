"""Bad input as one clear line and exit code 2, wherever in a command it is noticed."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import typer
import typer.core

INTERRUPTED = 130

# Click's UsageError (an unknown option, a missing argument): its home differs between versions
# of typer, but it has always been the base of this one.
_UsageError: Any = typer.BadParameter.__base__


class BadInput(Exception):
    """Something the user gave cannot be used; the message says what, and which file."""


class CommandGroup(typer.core.TyperGroup):
    """A group of commands that turns every expected failure into one line on stderr."""

    def main(self, *args, **settings):
        """Run, and leave with 0, 2 (bad input) or 130 (interrupted)."""
        # Typer should raise its complaints rather than print them: it takes several lines.
        settings["standalone_mode"] = False
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: complain(f"warning: {message}")
                code = super().main(*args, **settings)
        except _UsageError as error:
            code = 2
            complain(error.format_message(), _help_hint(error))
        except BadInput as error:
            code = 2
            complain(str(error))
        except FloatingPointError as error:  # numbers beyond float64
            code = 2
            complain(str(error))
        except MemoryError as error:
            code = 2
            complain(f"not enough memory {error}")
        except OSError as error:  # what else is written and read is named where it is
            code = 2
            complain(f"{error.filename or 'standard output'}: {error.strerror or error}")
        except typer.Abort:
            code = INTERRUPTED
        if code == INTERRUPTED:
            complain("interrupted")
        if code == 2:
            _forget_output()
        sys.exit(code if isinstance(code, int) else 0)


class ClassifyCommand(typer.core.TyperCommand):
    """A command that knows no other task: its options need not say which one they are for."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        for option in self.params:
            words = getattr(option, "help", None) or ""
            words = words.partition(" Other tasks ")[0]
            if words.startswith("classify"):
                words = words.removeprefix("classify: ").removeprefix("classify, ")
                words = words[0].upper() + words[1:]
            if words:
                option.help = words


def complain(message: str, hint: str = "") -> None:
    """Print one line on stderr, whatever line breaks the message came with."""
    line = " ".join(f"{message} {hint}".split())
    typer.echo(f"widemargin: {line}", err=True)


def _forget_output() -> None:
    """Have Python not try once more, when it exits, to write what it could not."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _help_hint(error) -> str:
    context = getattr(error, "ctx", None)
    return f"(see {context.command_path} --help)" if context else ""


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Turn the operating system's complaints about `path` into `BadInput` that names it."""
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads on: no mistake of the user's
    except OSError as error:
        raise BadInput(f"{shown(path)}: {error.strerror or error}") from error


@contextlib.contextmanager
def reading(path: str | os.PathLike) -> Iterator[None]:
    """Turn what is wrong with the file at `path`, or in it, into `BadInput` that names it."""
    try:
        with naming(path):
            yield
    except ValueError as error:
        # The first line says what is wrong; with scikit-learn, those after it are advice that
        # belongs to Python code.
        message = str(error).strip().partition("\n")[0]
        name = shown(path)
        in_folder = os.path.join(name, "")
        if not message.startswith((f"{name}:", f"{name},", in_folder)):  # not named yet
            message = f"{name}: {message}"
        raise BadInput(message) from error


def shown(path: str | os.PathLike) -> str:
    """Return the name by which messages speak of `path`."""
    return "standard input" if path == "-" else os.fspath(path)


def check_output(path: str | None, *others: str | None) -> None:
    """Refuse an output that cannot be written, before any work is spent on it.

    `others` are the command's other files, which it must not overwrite.
    """
    if path is None:
        return
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if path == "-":
        raise BadInput("-: not a file to write to; if it is meant as a name, say ./-")
    if os.path.isdir(target):
        raise BadInput(f"{path}: is a directory, not a file to write to")
    if not os.path.isdir(folder):
        raise BadInput(f"{path}: there is no directory {folder}")
    with naming(path), contextlib.suppress(FileNotFoundError):
        os.stat(target)  # a name too long, say
    places = [target] if os.path.exists(target) else []
    if not places or os.path.isfile(target):  # which a file made beside it replaces
        places.append(folder)
    if not all(os.access(place, os.W_OK) for place in places):
        raise BadInput(f"{path}: no permission to write here")
    if any(other is not None and os.path.realpath(other) == target for other in others):
        raise BadInput(f"{path}: named twice; writing it would destroy the other")
