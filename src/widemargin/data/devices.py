"""Choose where rows are stored, and move them there: in the host's memory or a GPU's."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse

from widemargin.data.memory import CsrRows, DenseRows, as_rows
from widemargin.data.rows import Rows

#: the values of `device=`
DEVICES = ("cpu", "cuda", "auto")

# Rows may take this fraction of the free device memory. The rest is for vectors.
_FRACTION_FOR_ROWS = 0.8
# All blocks of streamed rows together take this fraction of the free device memory. Small blocks
# are enough to copy one while another is in use.
_FRACTION_FOR_BLOCKS = 0.4
_CUDA = 2  # DLPack's number of this device type


class NoGpuError(RuntimeError):
    """There is no GPU, or CuPy is not installed."""


def is_on_gpu(X: Any) -> bool:
    """Return whether X is an array, sparse matrix or Rows on a GPU."""
    if isinstance(X, Rows):
        return X.device == "cuda"
    if type(X).__module__.partition(".")[0] in ("cupy", "cupyx"):
        return True
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    try:
        return X.__dlpack_device__()[0] == _CUDA
    except TypeError:  # old Arrow's, of types that DLPack does not have: strings, lists
        return False


def gpu_array(X: Any) -> Any:
    """Return an array on a GPU, of any library, as a CuPy array, without a copy."""
    import cupy

    return X if isinstance(X, cupy.ndarray) else cupy.from_dlpack(X)


def gpu_rows(X: Any) -> Rows:
    """Return a matrix on a GPU as Rows, without a copy if possible."""
    import cupyx.scipy.sparse

    from widemargin.data.gpu import GpuCsrRows, GpuDenseRows

    if cupyx.scipy.sparse.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return GpuCsrRows(X.data, X.indices, X.indptr, X.shape[1])
    return GpuDenseRows(gpu_array(X))


def placed(X: Any, device: str) -> Rows:
    """Return the rows of X, a result of `check_matrix`, on a device.

    "auto" is the GPU if there is one with enough memory, otherwise the host.
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
    """Raise NoGpuError if there is no GPU or no CuPy. Its message says what to install."""
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


def to_gpu(X: Any) -> Rows:
    """Copy rows to the GPU. If they do not fit there, return rows that are streamed through it.

    Parameters
    ----------
    X : ndarray or SciPy CSR
        As for `as_rows`.
    """
    import cupy

    from widemargin.data.gpu import GpuCsrRows, GpuDenseRows, free_bytes
    from widemargin.data.gpu_stream import StreamedRows

    # These classes check X. They convert it if it is neither float32 nor float64.
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
