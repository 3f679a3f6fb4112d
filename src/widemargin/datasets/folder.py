"""The folder with the files of data sets."""

from __future__ import annotations

import os
from pathlib import Path

DATA_VARIABLE = "WIDEMARGIN_DATA"


class DatasetMissing(FileNotFoundError):
    """The data set is neither in ``$WIDEMARGIN_DATA`` nor available from scikit-learn."""


def folder_with(files: tuple[str, ...]) -> tuple[Path | None, str]:
    """Return ``$WIDEMARGIN_DATA`` if it has all of `files`, else None and what is missing."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        return None, f"${DATA_VARIABLE} is not set (a folder with {', '.join(files)})"
    absent = [file for file in files if not (Path(folder) / file).is_file()]
    if absent:
        return None, f"the folder ${DATA_VARIABLE} has no {', '.join(absent)}"
    return Path(folder), ""
