"""Files that appear whole or not at all."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where nothing is swept
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.widemargin-[0-9a-f]{16}\.tmp")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes, so that it changes all at once or not at all.

    The bytes go to a temporary file beside `path`, reach the disk, and only then take its name.
    If anything fails before that, the temporary file is removed and `path` is as it was. A file
    that is replaced hands on its permissions, and where the system allows it its owner.

    A process that is killed leaves its temporary file. The next one that writes into the same
    folder removes it: a writer holds its file locked, and a lock ends with its process.
    """
    # Through a link to its target: the link itself should survive.
    target = os.path.realpath(os.fspath(path))
    replaced = os.stat(target) if os.path.exists(target) else None
    if replaced is not None and not stat.S_ISREG(replaced.st_mode):
        # A pipe or a device holds nothing to keep whole, and must not be replaced by a file.
        # (A directory fails right here, with the system's own message.)
        with open(target, "wb") as device:
            yield device
        return

    folder = os.path.dirname(target)
    _sweep(folder)
    try:
        temporary, file = _locked_file(folder, 0o666 if replaced is None else 0o600)
    except OSError as error:
        error.filename = os.fspath(path)  # the name the caller knows
        raise
    try:
        with file:
            yield file
            file.flush()
            if replaced is not None:
                _hand_on(replaced, temporary)
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(temporary, target)  # while it is locked, so that nobody sweeps it
        if fcntl is None:
            os.replace(temporary, target)  # of a file that is open, Windows would not do it
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = os.fspath(path)
        raise


def _locked_file(folder: str, mode: int) -> tuple[str, BinaryIO]:
    """Make a file that nobody will sweep; return its path, and it, open for writing."""
    while True:
        path = os.path.join(folder, f".widemargin-{secrets.token_hex(8)}.tmp")
        file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks: no sweep gets one
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(path):
            return path, file
        file.close()  # swept, between being made and being locked


def _hand_on(replaced: os.stat_result, temporary: str) -> None:
    """Give the file that will replace another one its owner and permissions."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # only root may give files away
            os.chown(temporary, replaced.st_uid, replaced.st_gid)
    os.chmod(temporary, stat.S_IMODE(replaced.st_mode))


def _sweep(folder: str) -> None:
    """Remove temporary files of this user's that no process holds."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
            with contextlib.suppress(OSError):  # locked by its writer, or gone meanwhile
                _remove_unless_locked(os.path.join(folder, name))


def _remove_unless_locked(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(descriptor)
