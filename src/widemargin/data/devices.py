"""Where rows shall be: the host's memory or a GPU's."""

from importlib.util import find_spec

import numpy as np
import scipy.sparse

from widemargin.data.memory import CsrRows, DenseRows, as_rows
from widemargin.data.rows import Rows

#: what `device=` accepts
DEVICES = ("cpu", "cuda", "auto")

# Of the device memory that is free, what rows may take; the rest is for vectors.
_FRACTION_FOR_ROWS = 0.8
# Blocks of streamed rows share this much of what is free: small ones overlap well enough.
_FRACTION_FOR_BLOCKS = 0.4
_CUDA = 2  # what DLPack calls such a device


class NoGpuError(RuntimeError):
    """There is no GPU to train on, or no CuPy to reach it by."""


def is_on_gpu(X) -> bool:
    """Return whether X is an array, sparse matrix or Rows on a GPU."""
    if isinstance(X, Rows):
        return X.device == "cuda"
    if type(X).__module__.partition(".")[0] in ("cupy", "cupyx"):
        return True
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    return X.__dlpack_device__()[0] == _CUDA


def gpu_array(X):
    """Return an array that is on a GPU, whoever's it is, as CuPy's, without a copy."""
    import cupy

    return X if isinstance(X, cupy.ndarray) else cupy.from_dlpack(X)


def gpu_rows(X) -> Rows:
    """Return a matrix that is on a GPU behind the Rows contract, in place where it can."""
    import cupyx.scipy.sparse

    from widemargin.data.gpu import GpuCsrRows, GpuDenseRows

    if cupyx.scipy.sparse.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return GpuCsrRows(X.data, X.indices, X.indptr, X.shape[1])
    return GpuDenseRows(gpu_array(X))


def placed(X, device: str) -> Rows:
    """Return the rows of X where `device` says.

    Parameters
    ----------
    X : ndarray, SciPy CSR or Rows
        As `check_matrix` returns it.
    device : {"cpu", "cuda", "auto"}
        "auto" is the GPU if there is one, and room on it.
    """
    if isinstance(X, Rows):
        if X.device == "cuda" and device == "cpu":
            raise ValueError(
                "X is on a GPU: device='cuda' or device='auto' trains there, and X.get() "
                "is a copy for device='cpu'"
            )
        if X.device == "cpu" and device == "cuda":
            raise ValueError(
                "rows on disk are trained on the host: device='cuda' needs X in memory"
            )
        return X
    if device == "cpu":
        return as_rows(X)
    try:
        check_gpu()
        return to_gpu(X)
    except (NoGpuError, MemoryError):
        if device == "cuda":
            raise
        return as_rows(X)


def check_gpu() -> None:
    """Raise NoGpuError, which says what to do, unless there is a GPU and CuPy."""
    if find_spec("cupy") is None:
        raise NoGpuError(
            "device='cuda' needs CuPy: install widemargin[gpu], or cupy-cuda12x or cupy-cuda13x "
            "for your version of CUDA; 'auto' trains on the host without"
        )
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NoGpuError(f"device='cuda' found no GPU: {error}") from None
    if count == 0:
        raise NoGpuError("device='cuda' found no GPU")


def to_gpu(X) -> Rows:
    """Return rows of the host's memory on the GPU; where they do not fit, they are streamed.

    Parameters
    ----------
    X : ndarray or SciPy CSR, as `as_rows` takes it
    """
    import cupy

    from widemargin.data.gpu import GpuCsrRows, GpuDenseRows, free_bytes
    from widemargin.data.gpu_stream import StreamedRows

    # This checks, and converts what is neither float32 nor float64.
    X = CsrRows(X).matrix if scipy.sparse.issparse(X) else DenseRows(X).matrix
    try:
        free = free_bytes()
        sparse = scipy.sparse.issparse(X)
        size = X.data.nbytes + X.indices.nbytes + 48 * X.shape[0] if sparse else X.nbytes
        if size > _FRACTION_FOR_ROWS * free:
            return StreamedRows(X, int(_FRACTION_FOR_BLOCKS * free))
        if sparse:
            values, places, starts = map(cupy.asarray, (X.data, X.indices, X.indptr))
            return GpuCsrRows(values, places, starts, X.shape[1])
        return GpuDenseRows(cupy.asarray(X))
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise MemoryError(f"the GPU has not enough memory for the rows: {error}") from None
