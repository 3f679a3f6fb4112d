"""Features of kernels: against scikit-learn, the kernels themselves, and to the same bits."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels

from widemargin import LinearSVC, certify, threads
from widemargin.data import as_rows
from widemargin.data.kernel_maps import FourierMap, LandmarkMap, MappedRows, expanded
from widemargin.data.memory import DenseRows


def numbers(n=60, d=7, density=0.6, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) * (random.random((n, d)) < density)


def fourier(d=7, m=40, seed=1):
    random = np.random.default_rng(seed)
    return FourierMap(random.normal(size=(d, m)), random.uniform(0, 2 * np.pi, m))


def landmarks(X, kernel="rbf", m=20):
    roots = np.random.default_rng(2).normal(size=(m, m))
    return LandmarkMap(X[:m], roots, kernel, gamma=0.3, degree=3.0, coef0=0.5)


def maps(X):
    kinds = ("rbf", "polynomial", "sigmoid", "cosine")
    return [fourier(X.shape[1]), *(landmarks(X, kernel) for kernel in kinds)]


def test_cosines_of_any_phase():
    phases = np.linspace(-300.0, 300.0, 100_003, dtype=np.float32)[:, None]
    one = FourierMap(np.ones((1, 1)), np.zeros(1))
    features = one.features((phases,))
    assert features.dtype == np.float32
    np.testing.assert_allclose(
        features, np.sqrt(2.0) * np.cos(phases.astype(float)), rtol=0, atol=1e-6
    )


def test_kernels_against_scikit_learn():
    X = numbers()
    for kernel in ("rbf", "polynomial", "sigmoid", "cosine"):
        wanted = landmarks(X, kernel)
        numbers_of = {"gamma": 0.3, "degree": 3.0, "coef0": 0.5}
        K = pairwise_kernels(X, X[:20], metric=kernel, filter_params=True, **numbers_of)
        np.testing.assert_allclose(
            wanted.features((X,)), K @ wanted.mixing, rtol=1e-5, atol=1e-5, err_msg=kernel
        )


@settings(max_examples=25)
@given(st.data())
def test_a_row_has_the_same_features_anywhere(data):
    """Beside other rows, in other blocks, in other threads, dense or sparse."""
    n, d = data.draw(st.integers(21, 50)), data.draw(st.integers(1, 9))
    X = numbers(n, d, data.draw(st.sampled_from([0.2, 1.0])), data.draw(st.integers(0, 99)))
    X = X.astype(data.draw(st.sampled_from([np.float32, np.float64])))
    index = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=9)))
    for one in maps(X):
        whole = one.features((X,))
        np.testing.assert_array_equal(one.features((X[index],)), whole[index])
        np.testing.assert_array_equal(one.features(as_rows(sp.csr_array(X)).arrays), whole)
        with threads.lent(2):
            np.testing.assert_array_equal(one.features((X,)), whole)
        rows = MappedRows(as_rows(X), one, 1)
        rows._step = data.draw(st.integers(1, n))
        np.testing.assert_array_equal(rows.in_memory().matrix, whole)
        np.testing.assert_array_equal(rows.take(index).in_memory().matrix, whole[index])


@pytest.mark.parametrize("budget", [1, 3000, 10**9])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_products_are_those_of_the_features(make, budget):
    X = numbers(300)
    rows = MappedRows(as_rows(make(X)), fourier(), budget)
    rows._step = 64
    whole = DenseRows(rows.in_memory().matrix)
    random = np.random.default_rng(3)
    w, W, g, G = (random.normal(size=s) for s in (40, (40, 3), 300, (300, 3)))
    index, center = np.flatnonzero(random.random(300) < 0.4), random.normal(size=40)
    for _ in range(2):  # the second time some blocks are kept
        for found, wanted in [
            (rows.scores(w), whole.scores(w)),
            (rows.scores(W), whole.scores(W)),
            (rows.combine(g), whole.combine(g)),
            (rows.combine(G), whole.combine(G)),
            (rows.products(w, g), whole.products(w, g)),
            (rows.squared_norms(), whole.squared_norms()),
            (rows.combine_squares(g), whole.combine_squares(g)),
            (rows.score_squares(w, 3, 290), whole.score_squares(w, 3, 290)),
            (rows.combine_sizes(g), whole.combine_sizes(g)),
            (rows.precise_scores(index, w, 0.5), whole.precise_scores(index, w, 0.5)),
            (
                [np.tril(part) for part in rows.moments(index, g[index] ** 2, center)],
                [np.tril(part) for part in whole.moments(index, g[index] ** 2, center)],
            ),
        ]:
            pairs = [(found, wanted)] if isinstance(found, np.ndarray) else zip(found, wanted)
            for part, other in pairs:
                np.testing.assert_allclose(part, other, rtol=1e-12, atol=1e-12)
    kept = sum(piece.nbytes for piece in rows._kept.values())
    assert kept <= budget
    assert (kept > 0) == (budget > 64 * 40 * 4)


def test_small_features_are_in_memory():
    rows = as_rows(numbers())
    assert type(expanded(rows, fourier(), 60 * 40 * 4)) is DenseRows
    assert type(expanded(rows, fourier(), 60 * 40 * 4 - 1)) is MappedRows


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("solver", ["auto", "newton", "ocas"])
def test_a_certificate_is_that_of_the_stored_features(loss, solver):
    X = numbers(400)
    y = np.where((X**2).sum(axis=1) > 3.0, 1, -1)
    rows = MappedRows(as_rows(X), fourier(), 1)
    model = LinearSVC(loss=loss, solver=solver, C=10.0, tol=1e-6, random_state=0).fit(rows, y)
    assert model.status_ == "converged"
    again = certify(model, rows.in_memory().matrix, y)
    assert again.relative_gap <= 1e-6
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)


def test_auto_takes_newton_for_rows_that_are_made_anew():
    X = numbers(400)
    rows = MappedRows(as_rows(X), fourier(), 1)
    model = LinearSVC(loss="hinge").fit(rows, np.sign(X[:, 0] + 0.1))
    assert model.solver_.startswith("newton")


def test_features_that_are_not_finite_are_refused():
    huge = np.full((3, 7), 1e300)
    with pytest.raises(ValueError, match="scale the columns of X"):
        landmarks(numbers(), "polynomial").features((huge,))
    with pytest.raises(ValueError, match="scale the columns of X"):
        fourier().features((huge,))
