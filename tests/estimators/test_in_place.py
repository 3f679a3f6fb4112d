"""`fit` uses X where it lies: no copy, no write, and little memory beside it."""

import hashlib
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import LinearSVC

# What a binary fit may keep beside X: float64 arrays as long as the rows or the columns.
# Rows: labels and costs, norms, dual variables (current, best, its sparse form), preference,
# credit, order, losses seen, scores, and what one gap check holds in passing.
ROW_ARRAYS = 20
# Columns: w (current, best, recomputed), coef_, and what one gap check holds in passing.
COLUMN_ARRAYS = 10
# Python objects: history, parameters, imports made on first use.
SMALL_CHANGE = 200_000
SHARE_OF_INPUT = 0.25


def _dense(dtype):
    random = np.random.default_rng(0)
    return random.standard_normal((20_000, 200), dtype=np.float32).astype(dtype)


def _csr(index_type):
    random = np.random.default_rng(0)
    n, d, per_row = 20_000, 5_000, 100
    stride = d // per_row  # one index in each stretch of columns: sorted, no duplicates
    indices = random.integers(0, stride, (n, per_row)) + stride * np.arange(per_row)
    return sp.csr_array(
        (
            random.random(n * per_row, dtype=np.float32),
            indices.ravel().astype(index_type),
            (per_row * np.arange(n + 1)).astype(index_type),
        ),
        shape=(n, d),
    )


INPUTS = {
    "dense float32": lambda: _dense(np.float32),
    "dense float64": lambda: _dense(np.float64),
    "CSR float32, int32": lambda: _csr(np.int32),
    "CSR float32, int64": lambda: _csr(np.int64),
}


def _arrays(X):
    return (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)


def _fingerprint(X):
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in _arrays(X)]


def _labels(n):
    return np.random.default_rng(1).integers(0, 2, n)


def _peak_during(action):
    """Return the most memory, in bytes, that `action` held above what there was before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("solver", ["dcd", "acf"])
@pytest.mark.parametrize("name", INPUTS)
def test_no_copy_of_x(name, solver):
    X = INPUTS[name]()
    n, d = X.shape
    y = _labels(n)
    for array in _arrays(X):
        array.setflags(write=False)
    before = _fingerprint(X)
    model = LinearSVC(solver=solver, C=0.01, tol=0.5, random_state=0)
    model.fit(X, y)  # compiles

    peak = _peak_during(lambda: model.fit(X, y))

    size = sum(array.nbytes for array in _arrays(X))
    needed = 8 * (ROW_ARRAYS * n + COLUMN_ARRAYS * d) + SMALL_CHANGE
    print(
        f"{name}, {solver}: input {size / 1e6:.1f} MB, beside it {peak / 1e6:.2f} MB; "
        f"w, alpha and company may take {needed / 1e6:.2f} MB"
    )
    assert peak <= SHARE_OF_INPUT * size + needed
    assert _fingerprint(X) == before


def test_the_measure_sees_a_copy():
    """tracemalloc counts NumPy's memory; if it did not, the test above would prove nothing."""
    X = _dense(np.float32)
    assert _peak_during(lambda: X.copy()) >= X.nbytes
    assert _peak_during(lambda: LinearSVC(tol=0.9).fit(np.asfortranarray(X), _labels(len(X)))) >= (
        X.nbytes
    )
