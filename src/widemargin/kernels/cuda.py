"""Starts CUDA kernels. CuPy compiles them when they are first called, and caches them on disk.

Templates are compiled one by one, for the types that they are called with.
"""

from functools import cache
from math import isqrt

import cupy
import cupyx
import numpy as np
from cupy_backends.cuda.libs import cublas, cusolver

from widemargin.kernels.cuda_source import file_of, source

THREADS = 256
# Blocks of a kernel that sums over rows: each of them stores one partial sum.
_BLOCKS = 264

#: steps along a line that one pass over the rows evaluates, as in cuda/vectors.cu
STEPS = 8
# More bytes of partial sums than this are added up before they are copied to the host.
_FEW_BYTES = 1 << 15

_TYPES = {"float32": "float", "float64": "double", "uint8": "unsigned char"}
#: how many columns one pass over the rows can compute
COLUMNS = (8, 4, 2, 1)
#: lanes that work on an item of a sparse matrix, by the largest number of its entries
TEAMS = {16: 4, 1024: 32}

#: columns of a dense matrix per block
TILE = 64

# Threads of a block of the product with tiles.
_TILE_THREADS = 1024
# How many numbers of a vector are worth a block, at least.
_NUMBERS_PER_PART = 2048


@cache
def _module(device: int, file: str, template: str | None) -> cupy.RawModule:
    names = None if template is None else (template,)
    return cupy.RawModule(code=source(file), options=("--std=c++14",), name_expressions=names)


@cache
def _function(device: int, name: str) -> cupy.RawKernel:
    kernel, is_template, _ = name.partition("<")
    return _module(device, file_of(kernel), name if is_template else None).get_function(name)


@cache
def _shared_bytes(device: int) -> int:
    return cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]


@cache
def _tile_bytes(device: int) -> int:
    if int(cupy.cuda.Device(device).compute_capability) < 90:  # has no bulk copies of tiles
        return 0
    return _shared_bytes(device)


@cache
def _function_with_all_shared_memory(device: int, name: str) -> cupy.RawKernel:
    function = _function(device, name)
    function.max_dynamic_shared_size_bytes = _shared_bytes(device) - function.shared_size_bytes
    return function


@cache
def _processors(device: int) -> int:
    return cupy.cuda.Device(device).attributes["MultiProcessorCount"]


def tile_bytes() -> int:
    """Return how much shared memory a block has for tiles; zero if it cannot use them."""
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
    function = _function_with_all_shared_memory(cupy.cuda.Device().id, "tile_product")
    function((blocks,), (_TILE_THREADS,), arguments, shared_mem=shared_bytes)


def fold(cut: tuple, out):
    """Add up sums of lines that have several, see the kernel; out is (slots,) or (slots, k)."""
    lines, begins, ends = cut
    k = 1 if out.ndim == 1 else out.shape[1]
    if lines.size:
        launch("fold", 32 * k * lines.size, (lines, begins, ends, lines.size, np.int32(k), out))


class Letter:
    """Numbers that kernels write into the host's memory: a copy would take longer.

    Parameters
    ----------
    shape : tuple of int
    """

    def __init__(self, *shape: int):
        self.numbers = cupyx.empty_pinned(shape)
        self.address = self.numbers.ctypes.data

    def sent(self, *read):
        """Return a function that waits for the numbers and returns them.

        It waits for the work started before this call, and not for later work. Until then it keeps
        the letters that the kernels read.
        """
        written, letters = cupy.cuda.get_current_stream().record(), (self, *read)

        def wait():
            written.synchronize()
            return letters[0].numbers

        return wait


def _blocks_of_sums(n: int) -> int:
    return min(max(1, -(-n // THREADS)), _BLOCKS)


def partial_sums(name: str, n: int, count: int, arguments: tuple, where=None):
    """Start a kernel that computes partial sums; return these, (blocks, count), on the device.

    `arguments` lack n and the place of the partial sums, which the kernels take last.
    """
    blocks = _blocks_of_sums(n)
    where = cupy.empty((blocks, count)) if where is None else where
    _function(cupy.cuda.Device().id, name)((blocks,), (THREADS,), (*arguments, n, where))
    return where


def sums(name: str, n: int, count: int, arguments: tuple):
    """As `partial_sums`; return the sums, on the host, (count,)."""
    blocks = _blocks_of_sums(n)
    if 8 * blocks * count > _FEW_BYTES:
        return partial_sums(name, n, count, arguments).sum(axis=0).get()
    letter = Letter(blocks, count)
    partial_sums(name, n, count, arguments, letter.address)
    return letter.sent()().sum(axis=0)


def weighted_sum(weights, vectors):
    """Return the sum of the first of `vectors` times weights, (n,).

    Weights are on the host, (m,), or a result of `ascend`.
    """
    if isinstance(weights, np.ndarray):
        used, m = weights.nonzero()[0], weights.size
        chosen = np.zeros(1 + 2 * m)
        chosen[0] = used.size
        chosen[1 : 1 + used.size] = weights[used]
        chosen[1 + m : 1 + m + used.size] = used
        weights = cupy.asarray(chosen)
    n, m = vectors.shape[1], np.int32(weights.size // 2)
    out = cupy.empty(n)
    launch("weighted_sum", n, (vectors, weights, m, n, out))
    return out


class Products:
    """Products that kernels are computing: a call waits for them, (m,)."""

    def __init__(self, partial: Letter):
        self.partial, self.wait = partial, partial.sent()

    def __call__(self):
        return self.wait().sum(axis=0)


def products(vectors, v):
    """Begin to compute the products of `vectors` (m, n), and of v itself, with v (n,).

    Returns a function that waits for them, `Products`, (m + 1,).
    """
    m, n = vectors.shape
    device = cupy.cuda.Device().id
    parts = max(1, min(-(-n // _NUMBERS_PER_PART), _processors(device) // 2))
    letter = Letter(parts, m + 1)
    arguments = (vectors, v, np.int32(m), n, letter.address)
    _function(device, "products")((parts, -(-(m + 1) // 8)), (2 * THREADS,), arguments)
    return Products(letter)


def most_planes() -> int:
    """Return for how many planes `ascend` can solve the reduced dual."""
    # H, its factor and some vectors are in shared memory.
    return min(THREADS, isqrt(_shared_bytes(cupy.cuda.Device().id) // 16) - 4)


def ascend(H, c, z, height: float, tolerance: float, value: float, last: Products):
    """Begin to solve a reduced dual without a free intercept; see the kernel.

    `last` are the products of the last plane, which H (m, m) lacks. Returns weights, as
    `weighted_sum` takes them, and a function that waits for numbers: whether `value` is reached,
    the new value, the height of the planes there, and z (m,).
    """
    m = c.size
    given, found, chosen = Letter(3 + 2 * m + m * m), Letter(3 + m), cupy.empty(1 + 2 * m)
    given.numbers[:3] = height, tolerance, value
    given.numbers[3 : 3 + m], given.numbers[3 + m : 3 + 2 * m] = c, z
    given.numbers[3 + 2 * m :].reshape(m, m)[...] = H
    parts = len(last.partial.numbers)
    arguments = (given.address, last.partial.address, np.int32(parts), np.int32(m), chosen)
    shared_bytes = 8 * (m * m + 8 * m + m * (m | 1))
    function = _function_with_all_shared_memory(cupy.cuda.Device().id, "reduced_dual")
    function((1,), (THREADS,), (*arguments, found.address), shared_mem=shared_bytes)
    return chosen, found.sent(given)


def start_together(name: str, n: int, per_block: int, count: int, arguments: tuple):
    """Start a kernel whose blocks wait for each other.

    Returns a function that waits for the `count` numbers it computes. `arguments` lack n, room for
    `per_block` numbers per block, the gate at which blocks wait, and the place of the results. The
    kernels take these last.
    """
    device = cupy.cuda.Device().id
    # Few enough blocks to run all at the same time, even with another kernel of this kind.
    blocks = min(max(1, -(-n // THREADS)), 2 * _processors(device))
    room, letter = cupy.zeros(1 + blocks * per_block), Letter(count)
    gate, partial = room[:1], room[1:]
    arguments = (*arguments, n, partial, gate, letter.address)
    _function(device, name)((blocks,), (THREADS,), arguments)
    return letter.sent()


def solve_definite(matrix, right):
    """Begin to solve; return (d + 1,): matrix^-1 right, and LAPACK's status at the end.

    The status is an integer, zero if the matrix is positive definite. (cupyx.lapack's `posv` would
    wait for it.)
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
    """Return the CUDA name of a type of rows."""
    return _TYPES[dtype.name]
