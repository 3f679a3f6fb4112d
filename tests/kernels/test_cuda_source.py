"""CUDA sources, which are found and put together without CuPy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import widemargin
from widemargin.kernels.cuda_source import file_of, source

PACKAGE = Path(widemargin.__file__).parent
SOURCES = sorted((PACKAGE / "kernels" / "cuda").glob("*.cu"))
DEFINITION = re.compile(r"__global__ void (?:__launch_bounds__\(\d+\)\s+)?(\w+)\(")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_source_has_its_headers_in_it_once(path):
    text = source(path.name)
    assert "#include" not in text
    assert text.count("typedef long long integer;") == 1  # of common.cuh, which all include
    kernels = DEFINITION.findall(text)
    assert kernels
    assert text.count("__global__") == len(kernels)
    assert {file_of(kernel) for kernel in kernels} == {path.name}


def test_every_kernel_that_is_started_is_defined_once_and_the_other_way_round():
    defined = [name for path in SOURCES for name in DEFINITION.findall(path.read_text())]
    assert len(set(defined)) == len(defined)
    started = "\n".join(
        (PACKAGE / path).read_text()
        for path in ("kernels/cuda.py", "passes/gpu.py", "data/gpu.py", "data/gpu_tiles.py")
    )
    assert [name for name in defined if not re.search(rf'"{name}["<]', started)] == []
    names = re.findall(r'(?:launch|sums|start_together|_function)\(\s*f?"(\w+)', started)
    assert len(names) > 10
    assert {file_of(name) for name in names} <= {path.name for path in SOURCES}


def test_nothing_of_it_is_read_on_a_machine_without_a_gpu():
    code = (
        "import sys\n"
        "from widemargin import LinearSVC\n"
        "LinearSVC().fit([[0.0], [1.0]], [0, 1])\n"
        "print('widemargin.kernels.cuda_source' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
