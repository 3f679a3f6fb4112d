"""Atomic writes of files."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: no locks, so no cleanup of temporary files
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.widemargin-[0-9a-f]{16}\.tmp")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes, and replace it atomically at the end.

    The bytes are written to a temporary file in the same folder, which is synced to disk and
    then renamed to `path`. After an error, the temporary file is removed and `path` is
    unchanged. The new file gets the permissions of the file it replaces, and its owner if the
    system allows it.

    A killed process leaves its temporary file behind. The next writer to the same folder removes
    it: writers lock their files, and a lock ends with its process.
    """
    # Resolve symbolic links, so that they are kept and their target is replaced.
    target = os.path.realpath(os.fspath(path))
    replaced = os.stat(target) if os.path.exists(target) else None
    if replaced is not None and not stat.S_ISREG(replaced.st_mode):
        # Write to pipes and devices directly; they must not be replaced by a file.
        # (For a directory, open raises the right error.)
        with open(target, "wb") as device:
            yield device
        return

    folder = os.path.dirname(target)
    _remove_stale_files(folder)
    try:
        temporary, file = _locked_file(folder, 0o666 if replaced is None else 0o600)
    except OSError as error:
        error.filename = os.fspath(path)  # the name that the caller passed
        raise
    try:
        with file:
            yield file
            file.flush()
            if replaced is not None:
                _copy_attributes(replaced, temporary)
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(temporary, target)  # still locked, so no other process removes it
        if fcntl is None:
            os.replace(temporary, target)  # Windows cannot rename an open file
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = os.fspath(path)
        raise


def _locked_file(folder: str, mode: int) -> tuple[str, BinaryIO]:
    """Create and lock a temporary file; return its path and the open file."""
    while True:
        path = os.path.join(folder, f".widemargin-{secrets.token_hex(8)}.tmp")
        file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        if fcntl is not None:
            with contextlib.suppress(OSError):  # without locks, nobody can remove it either
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(path):
            return path, file
        file.close()  # another process removed it before it was locked


def _copy_attributes(replaced: os.stat_result, temporary: str) -> None:
    """Give the temporary file the owner and permissions of the file it replaces."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # only root may change owners
            os.chown(temporary, replaced.st_uid, replaced.st_gid)
    os.chmod(temporary, stat.S_IMODE(replaced.st_mode))


def _remove_stale_files(folder: str) -> None:
    """Remove temporary files of this user that no process has locked."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
            with contextlib.suppress(OSError):  # locked by its writer, or already removed
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
