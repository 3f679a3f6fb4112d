"""Starts CUDA kernels, compiled by CuPy when they are first called and kept on disk by it.

Templates are compiled one by one, for what they are asked to do.
"""

from functools import cache

import cupy
import cupyx
import numpy as np
from cupy_backends.cuda.libs import cublas, cusolver

from widemargin.kernels import cuda_tiles
from widemargin.kernels.cuda_source import SOURCE

THREADS = 256
# Blocks of a kernel that sums over rows: each leaves one partial sum.
_BLOCKS = 264

#: steps along a line that are looked at in one pass over the rows, as in cuda_source.py
STEPS = 8
# Partial sums of more bytes are added up before they come to the host.
_FEW_BYTES = 1 << 15

_TYPES = {"float32": "float", "float64": "double", "uint8": "unsigned char"}
#: columns that one pass over the rows can serve
COLUMNS = (8, 4, 2, 1)
#: lanes that work on items of a sparse matrix, by the most entries that these have
TEAMS = {16: 4, 1024: 32}

#: columns of a dense matrix that a block takes
TILE = 64

# Threads of a block of the product with tiles.
_TILE_THREADS = 1024
#: vectors that one kernel can add up, as in cuda_steps.py
_CHOSEN = 32
_CHOSEN_TYPE = np.dtype([("all", np.float64, 2 * _CHOSEN + 1)])
# Numbers of vectors that are worth a block, at least.
_SHARE = 2048


@cache
def _module(device: int, template: str | None = None):
    names = None if template is None else (template,)
    return cupy.RawModule(code=SOURCE, options=("--std=c++14",), name_expressions=names)


@cache
def _function(device: int, name: str):
    if name.startswith("tile_"):
        return _tile_module(device).get_function(name)
    return _module(device, name if "<" in name else None).get_function(name)


@cache
def _tile_module(device: int):
    module = cupy.RawModule(code=cuda_tiles.SOURCE, options=("--std=c++14",))
    most = _tile_bytes(device)
    module.get_function("tile_product").max_dynamic_shared_size_bytes = most
    return module


@cache
def _tile_bytes(device: int) -> int:
    properties = cupy.cuda.Device(device)
    if int(properties.compute_capability) < 90:  # which cannot copy tiles by one instruction
        return 0
    return properties.attributes["MaxSharedMemoryPerBlockOptin"]


@cache
def _processors(device: int) -> int:
    return cupy.cuda.Device(device).attributes["MultiProcessorCount"]


def tile_bytes() -> int:
    """Return how much shared memory a block has for tiles; zero where there can be none."""
    return _tile_bytes(cupy.cuda.Device().id)


def processors() -> int:
    """Return how many multiprocessors the device has."""
    return _processors(cupy.cuda.Device().id)


def launch(name: str, work: int, arguments: tuple, blocks_y: int = 1, threads: int = THREADS):
    """Start a kernel on as many blocks as `work` threads need, but not too many."""
    blocks = min(max(1, -(-work // threads)), 132 * 64)
    _function(cupy.cuda.Device().id, name)((blocks, blocks_y), (threads,), arguments)


def launch_tiles(blocks: int, shared_bytes: int, arguments: tuple):
    """Start the product with tiles."""
    function = _function(cupy.cuda.Device().id, "tile_product")
    function((blocks,), (_TILE_THREADS,), arguments, shared_mem=shared_bytes)


def fold(cut: tuple, out):
    """Add up sums of lines that have several, see the kernel; out is (slots,) or (slots, k)."""
    lines, begins, ends = cut
    k = 1 if out.ndim == 1 else out.shape[1]
    if lines.size:
        launch("fold", 32 * k * lines.size, (lines, begins, ends, lines.size, np.int32(k), out))


def later(array):
    """Begin to copy an array to the host; return a function that waits for it and returns it.

    It does not wait for what is begun after this.
    """
    room = cupyx.empty_pinned(array.shape, array.dtype)
    array.get(out=room, blocking=False)
    copied = cupy.cuda.get_current_stream().record()

    def wait():
        copied.synchronize()
        return room

    return wait


def partial_sums(name: str, n: int, count: int, arguments: tuple):
    """Start a kernel that leaves partial sums; return these, (blocks, count), on the device.

    `arguments` lack n and where to leave partial sums: the kernels take these last.
    """
    blocks = min(max(1, -(-n // THREADS)), _BLOCKS)
    partial = cupy.empty((blocks, count))
    _function(cupy.cuda.Device().id, name)((blocks,), (THREADS,), (*arguments, n, partial))
    return partial


def sums(name: str, n: int, count: int, arguments: tuple):
    """As `partial_sums`; return the sums, on the host, (count,)."""
    partial = partial_sums(name, n, count, arguments)
    if partial.nbytes > _FEW_BYTES:
        return partial.sum(axis=0).get()
    return partial.get().sum(axis=0)


def mixture(weights, vectors):
    """Return the sum of the first of `vectors` times weights (m,), which are on the host: (n,)."""
    n = vectors.shape[1]
    out, used = cupy.empty(n), weights.nonzero()[0]
    for begin in range(0, max(1, used.size), _CHOSEN):
        some = used[begin : begin + _CHOSEN]
        chosen = np.zeros(2 * _CHOSEN + 1)
        chosen[: some.size] = weights[some]
        chosen[_CHOSEN : _CHOSEN + some.size] = some
        chosen[-1] = some.size
        by_value = chosen.view(_CHOSEN_TYPE).reshape(())
        launch("mixture", n, (vectors, by_value, begin > 0, n, out))
    return out


def products(vectors, v):
    """Begin to find the products of `vectors` (m, n) with v (n,); return a function that waits."""
    m, n = vectors.shape
    device = cupy.cuda.Device().id
    parts = max(1, min(-(-n // _SHARE), _processors(device) // 2))
    partial = cupy.empty((parts, m))
    arguments = (vectors, v, np.int32(m), n, partial)
    _function(device, "products")((parts, -(-m // 8)), (2 * THREADS,), arguments)
    found = later(partial)
    return lambda: found().sum(axis=0)


def start_together(name: str, n: int, per_block: int, count: int, arguments: tuple):
    """Start a kernel whose blocks wait for each other; return the `count` numbers it finds.

    `arguments` lack n, room for `per_block` numbers a block, the gate at which blocks wait, and
    where to leave what is found: the kernels take these last.
    """
    device = cupy.cuda.Device().id
    # So few of them that all run at the same time, beside others of this kind if need be.
    blocks = min(max(1, -(-n // THREADS)), 2 * _processors(device))
    room = cupy.zeros(1 + count + blocks * per_block)
    gate, found, partial = room[:1], room[1 : 1 + count], room[1 + count :]
    arguments = (*arguments, n, partial, gate, found)
    _function(device, name)((blocks,), (THREADS,), arguments)
    return found


def solve_definite(matrix, right):
    """Begin to solve; return (d + 1,): matrix^-1 right, and at the end LAPACK's verdict.

    That is an integer, zero if the matrix is positive definite. (cupyx.lapack's `posv` would wait
    for it.)
    """
    size, handle = right.size, cupy.cuda.device.get_cusolver_handle()
    factor, found, unused = matrix.copy(), cupy.zeros(size + 1), cupy.empty(1, np.int32)
    found[:size] = right
    where = handle, cublas.CUBLAS_FILL_MODE_LOWER, size
    triangle, solution = (factor.data.ptr, size), (found.data.ptr, size)
    room = cupy.empty(cusolver.dpotrf_bufferSize(*where, *triangle))
    verdict = found[size:].data.ptr
    cusolver.dpotrf(*where, *triangle, room.data.ptr, room.size, verdict)
    cusolver.dpotrs(*where, 1, *triangle, *solution, unused.data.ptr)
    return found


def type_name(dtype) -> str:
    """Return what CUDA calls a type of rows."""
    return _TYPES[dtype.name]
