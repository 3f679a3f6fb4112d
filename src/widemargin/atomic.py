"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes, so that it changes all at once or not at all.

    The bytes go to a temporary file beside `path`, reach the disk, and only then take its name.
    If anything fails before that, the temporary file is removed and `path` is as it was.
    """
    # Through a link to its target: the link itself should survive.
    target = os.path.realpath(os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        # A pipe or a device holds nothing to keep whole, and must not be replaced by a file.
        # (A directory fails right here, with the system's own message.)
        with open(target, "wb") as file:
            yield file
        return

    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = os.fspath(path)  # the name the caller knows
        raise
