import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.data import Rows, as_rows, memory

LAYOUTS = {
    "dense": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "csr": sp.csr_matrix,
    "csr array": sp.csr_array,
    "csc": sp.csc_matrix,
    "coo": sp.coo_matrix,
}


def matrix(n=7, d=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    return X.astype(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(layout, dtype):
    X = matrix(dtype=dtype)
    rows = as_rows(LAYOUTS[layout](X))
    rng = np.random.default_rng(1)
    exact = X.astype(np.float64)
    assert isinstance(rows, Rows)
    assert (rows.n_rows, rows.n_features, rows.dtype) == (7, 5, dtype)
    for shape in [(), (3,)]:
        W, G = rng.standard_normal((5, *shape)), rng.standard_normal((7, *shape))
        np.testing.assert_allclose(rows.scores(W), exact @ W, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(rows.combine(G), exact.T @ G, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.squared_norms(), (exact**2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(rows.take([2, 0]).scores(W), (exact @ W)[[2, 0]], rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(
    n=st.integers(1, 40), d=st.integers(1, 40), seed=st.integers(0, 10**6), sparse=st.booleans()
)
def test_products_of_any_shape(n, d, seed, sparse):
    X = matrix(n, d, seed)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    w, g = np.arange(d) - 0.5, np.arange(n) - 0.5
    np.testing.assert_allclose(rows.scores(w), X @ w, atol=1e-9)
    np.testing.assert_allclose(rows.combine(g), X.T @ g, atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_left_out_add_nothing(share, sparse):
    X, rng = matrix(500, 9), np.random.default_rng(0)
    g = np.where(rng.random(500) < share, rng.standard_normal(500), 0.0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    np.testing.assert_allclose(rows.combine(g), X.T @ g, atol=1e-12)


def test_kernel_calls_in_pieces_give_the_same(monkeypatch):
    monkeypatch.setattr(memory, "ENTRIES_PER_CALL", 11)
    X = matrix(50, 5)
    rows = as_rows(X)
    assert len(list(rows.ranges(0, rows.n_rows))) == 25
    np.testing.assert_allclose(rows.scores(np.ones(5)), X.sum(axis=1))
    np.testing.assert_allclose(rows.combine(np.ones(50)), X.sum(axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_arrays_are_used_in_place(dtype, index):
    dense = matrix(dtype=dtype)
    assert np.shares_memory(as_rows(dense).arrays[0], dense)
    csr = sp.csr_array(dense)
    csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
    rows = as_rows(csr)
    for ours, theirs in zip(rows.arrays, (csr.data, csr.indices, csr.indptr)):
        assert np.shares_memory(ours, theirs)
        assert ours.dtype.kind in "fu"


def test_duplicates_are_summed_without_touching_the_input():
    data, indices = np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0])
    X = sp.csr_matrix((data, indices, np.array([0, 3])), shape=(1, 2))
    assert as_rows(X).squared_norms() == pytest.approx([25.0])
    np.testing.assert_array_equal(X.indices, [1, 1, 0])


def test_rows_pass_through():
    rows = as_rows(matrix())
    assert as_rows(rows) is rows


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [
        ([0, 9], [0, 1, 2], "row 1 has column index 9, outside of 0..2"),
        ([0, -1], [0, 1, 2], "row 1 has column index -1"),
        ([0, 1], [0, 2, 1], "indptr decreases at row 1"),
        ([0, 1], [0, 1, 5], "indptr does not span its data"),
        ([0, 1], [0, 2], "indptr has 2 entries, not 3"),
    ],
)
def test_broken_csr_is_named(indices, indptr, message):
    X = sp.csr_matrix((2, 3))
    X.data, X.indices, X.indptr = np.ones(2), np.array(indices), np.array(indptr)
    with pytest.raises(ValueError, match=message):
        as_rows(X)
