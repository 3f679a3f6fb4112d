"""The folder that holds the files of data sets."""

from __future__ import annotations

import os
from pathlib import Path

DATA_VARIABLE = "WIDEMARGIN_DATA"


class DatasetMissing(FileNotFoundError):
    """The data set is neither in ``$WIDEMARGIN_DATA`` nor to be had from scikit-learn."""


def folder_with(files: tuple[str, ...]) -> tuple[Path | None, str]:
    """The folder ``$WIDEMARGIN_DATA`` if it holds all of `files`, or None and what is lacking."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        return None, f"${DATA_VARIABLE} is not set (a folder that holds {', '.join(files)})"
    absent = [file for file in files if not (Path(folder) / file).is_file()]
    if absent:
        return None, f"the folder ${DATA_VARIABLE} names lacks {', '.join(absent)}"
    return Path(folder), ""
