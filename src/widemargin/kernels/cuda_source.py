"""The CUDA source of a kernel: the file in `kernels/cuda/` that defines it, with its headers.

The key of CuPy's kernel cache is the source text. Headers are inserted in place of `#include`, so
that a changed header changes the key.
"""

import re
from functools import cache
from importlib.resources import files


@cache
def _texts() -> dict[str, str]:
    folder = files("widemargin.kernels") / "cuda"
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


@cache
def file_of(kernel: str) -> str:
    """Return the name of the file that defines a kernel."""
    definition = re.compile(rf"__global__ void (__launch_bounds__\(\d+\) )?{kernel}\(")
    (name,) = (name for name, text in _texts().items() if definition.search(text))
    return name


def source(file: str) -> str:
    """Return the text of a file, with the headers that it includes inserted."""
    return re.sub(r'#include "(.+)"', lambda include: source(include[1]), _texts()[file])
