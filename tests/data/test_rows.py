import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Block
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin import LinearSVC, certify
from widemargin.data import Rows, as_rows
from widemargin.data.rows import BlockRows, GramRows, PreciseRows, SingleRows
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import Hinge
from widemargin.solvers import auto
from widemargin.solvers.newton import Newton
from widemargin.solvers.newton_settings import NewtonSettings

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
@pytest.mark.parametrize("d", [9, 80])  # dense rows: four at a time, and one by one
def test_rows_that_are_left_out_add_nothing(share, sparse, d):
    X, rng = matrix(1301, d), np.random.default_rng(0)
    g = np.where(rng.random(1301) < share, rng.standard_normal(1301), 0.0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    np.testing.assert_allclose(rows.combine(g), X.T @ g, atol=1e-11)


def test_kernel_calls_in_pieces_give_the_same():
    X = matrix(50, 5)
    rows = as_rows(X)
    rows.entries_per_call = 11
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


# --- a kind of rows of somebody else ----------------------------------------------------------


class OneHot(Rows):
    """Rows with a single 1 each, in the column that `place` says."""

    dtype = np.dtype(np.float64)

    def __init__(self, place, n_features):
        self.place = np.asarray(place)
        self.n_rows, self.n_features = self.place.size, n_features

    def scores(self, W):
        return W[self.place]

    def combine(self, G):
        sums = np.zeros((self.n_features, *G.shape[1:]))
        np.add.at(sums, self.place, G)
        return sums

    def squared_norms(self):
        return np.ones(self.n_rows)

    def take(self, index):
        return type(self)(self.place[index], self.n_features)


class OneHotWithSquares(OneHot, GramRows):
    """The same, whose squares Newton's method can have summed up."""

    def moments(self, index, weight, center):
        X = self.take(index).scores(np.eye(self.n_features)) - center
        return (X.T * weight) @ X, weight @ X

    def combine_squares(self, g):
        return self.combine(g)


def one_hot(n=300, d=7, kind=OneHot):
    rng = np.random.default_rng(0)
    place = rng.integers(0, d, n)
    return kind(place, d), np.where(rng.random(n) < 0.1 + 0.8 * place / d, 1, -1)


def test_four_methods_are_the_contract():
    assert Rows.__abstractmethods__ == {"scores", "combine", "squared_norms", "take"}
    with pytest.raises(TypeError, match="abstract"):
        type("Unfinished", (OneHot,), {"take": Rows.take})([0], 1)


def test_everything_else_has_a_default():
    rows, _ = one_hot()
    assert (rows.device, rows.like, rows.coef_like) == ("cpu", None, None)
    assert (rows.labels, rows.qid, rows.times_read) == (None, None, 0)
    assert (rows.longest_row, rows.n_entries, rows.nbytes) == (7, 2100, 16800)
    assert rows.plain is rows
    assert rows.combine_error(1e3) == 0.0
    np.testing.assert_array_equal(rows.lengths, np.ones(300))
    w, g = np.arange(7.0), np.arange(300.0)
    assert rows.round(w) is rows.rounded("scores", w) is w
    scores, combined = rows.products(w, g)
    np.testing.assert_array_equal(scores, rows.place)
    np.testing.assert_array_equal(combined, rows.combine(g))


@pytest.mark.parametrize("solver", ["auto", "newton", "ocas"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kind", [OneHot, OneHotWithSquares])
def test_a_new_kind_of_rows_is_trained_and_certified(solver, loss, kind):
    rows, y = one_hot(kind=kind)
    model = LinearSVC(solver=solver, loss=loss, tol=1e-6).fit(rows, y)
    assert model.status_ == "converged"
    assert certify(model, rows, y).relative_gap <= 1e-6
    twin = LinearSVC(loss=loss, tol=1e-6).fit(rows.scores(np.eye(7)), y)
    assert model.certificate_.dual <= twin.certificate_.primal
    assert twin.certificate_.dual <= model.certificate_.primal
    scores = rows.scores(model.coef_[0]) + model.intercept_
    np.testing.assert_array_equal(model.decision_function(rows), scores)


@pytest.mark.parametrize("squares", [False, True])
def test_newton_takes_sums_of_squares_from_rows_that_declare_them(squares):
    settings = NewtonSettings(cg_steps=0)  # then conjugate gradients lead nowhere
    rows, y = one_hot(kind=OneHotWithSquares if squares else OneHot)
    problem = Problem(rows, Hinge(y, np.ones(300)))
    monitor = Monitor(1e-6, 20)
    Newton(settings=settings).solve(problem, State.zero(problem), monitor)
    assert (monitor.status == "converged") is squares


@pytest.mark.parametrize(
    ("solver", "needed"),
    [("acf", "memory"), ("dcd", "memory"), ("stream", "disk"), ("bm", "disk"), ("sbm", "disk")],
)
def test_a_solver_says_what_it_needs(solver, needed):
    rows, y = one_hot()
    problem = Problem(rows, Hinge(y, np.ones(300)))
    message = f"^solver '{solver}' needs rows (in|on) {needed}, not OneHot$"
    with pytest.raises(TypeError, match=message):
        auto.make(solver, problem.risk, 0).solve(problem, State.zero(problem), Monitor(1e-3, 10))


def test_what_rows_in_memory_declare():
    for rows in (as_rows(matrix()), as_rows(sp.csr_matrix(matrix()))):
        for capability in (SingleRows, GramRows, PreciseRows):
            capability.require(rows, "nobody")
        with pytest.raises(TypeError, match="nobody needs rows on disk, not "):
            BlockRows.require(rows, "nobody")
        assert rows.nbytes == sum(array.nbytes for array in rows.arrays)


class FewBlocks(BlockRows):
    """Rows of ones on the diagonal, two at a time: nothing but blocks is made here."""

    dtype = np.dtype(np.float32)
    n_rows, n_features = 5, 5

    def blocks(self):
        for begin in range(0, 5, 2):
            places = np.arange(begin, min(begin + 2, 5), dtype=np.uint32)
            ends = np.arange(places.size + 1, dtype=np.uint32)
            yield Block(begin, begin + places.size, (np.ones(places.size, "f4"), places, ends))

    def squared_norms(self):
        return np.ones(5)


def test_blocks_are_enough():
    rows, W = FewBlocks(), np.arange(10.0).reshape(5, 2)
    for product in (rows.scores, rows.combine):
        np.testing.assert_array_equal(product(W), W)
        np.testing.assert_array_equal(product(W[:, 1]), W[:, 1])
    for product in rows.products(W[:, 0].copy(), W[:, 0].copy()):
        np.testing.assert_array_equal(product, W[:, 0])
    assert rows.in_memory() is rows
    with pytest.raises(TypeError, match="cannot be picked"):
        rows.take([0])
