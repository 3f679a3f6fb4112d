"""Passes over vectors that have a number, or several, for every row: losses, slopes, sums.

Each has one name and a text for either kind of processor, `passes.cpu` and `passes.gpu`; the
arrays it is given say which. Sums come back as plain numbers, vectors stay where they are.
"""

from types import ModuleType
from typing import Any

from widemargin.passes import cpu


def of(array: Any) -> ModuleType:
    """Return the module whose passes work where `array` is."""
    if type(array).__module__ == "numpy":
        return cpu
    # Imported when needed: few have a GPU.
    from widemargin.passes import gpu

    return gpu
