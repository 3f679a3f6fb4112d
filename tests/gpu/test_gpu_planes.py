"""On a GPU: planes of a bundle, and its reduced dual."""

import numpy as np
import pytest
import scipy.sparse

from widemargin import LinearSVC
from widemargin.passes import gpu as passes
from widemargin.solvers.reduced_dual import ascend

pytestmark = pytest.mark.gpu

cupy = pytest.importorskip("cupy")


@pytest.mark.parametrize("n", [1, 1000, 300_001])
@pytest.mark.parametrize("m", [1, 7, 70])
def test_planes(n, m):
    random = np.random.default_rng(n)
    vectors, weights = random.normal(size=(m, n)), random.random(m)
    weights[1::3] = 0.0
    there = cupy.asarray(vectors)
    combined = passes.weighted_sum(weights, there)
    np.testing.assert_allclose(combined.get(), weights @ vectors, rtol=1e-12, atol=1e-12)
    products = passes.products(there, there[m // 2])()
    expected = np.append(vectors, vectors[[m // 2]], axis=0) @ vectors[m // 2]
    np.testing.assert_allclose(products, expected, rtol=1e-10, atol=1e-10 * n)
    assert (passes.products(there, there[m // 2])() == products).all()
    ahead, sums = passes.way(there[0], combined)
    expected = vectors[0], combined.get() - vectors[0]
    np.testing.assert_array_equal(ahead.get(), expected[1])
    for found, (one, other) in zip(sums.sum(axis=0), ((1, 1), (0, 1), (0, 0)), strict=True):
        assert float(found) == pytest.approx(expected[one] @ expected[other], rel=1e-11, abs=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_reduced_dual(seed):
    random = np.random.default_rng(seed)
    m = passes.most_planes() if seed % 5 == 0 else random.integers(2, 40)
    a = random.normal(size=(m, random.integers(1, 50))) * random.choice([1e-3, 1.0, 1e3])
    if seed % 3 == 0:  # half of them nearly the same
        a[m // 2 :] = a[m // 2] + 1e-6 * a[m // 2 :]
    c = np.abs(random.normal(size=m)) * np.abs(a).max()
    a[0] = c[0] = 0.0
    H, there, scale = a @ a.T, cupy.asarray(a), c.max()
    last = passes.products(there[:-1], there[-1])
    z, nu = np.eye(m)[0], np.zeros(1)
    if seed % 2:  # begin with the best of all others
        others = slice(m - 1)
        no_intercept = np.empty((m - 1, 0))
        ascend(H[others, others], c[others], no_intercept, z[others], nu, 1e-9 * scale)
    H[-1] = H[:, -1] = np.nan
    given = H, c, z, float(nu[0]), 1e-10 * scale
    weights, found = passes.ascend(*given, 0.0, last)
    w = passes.weighted_sum(weights, there).get()
    reached, value, height, *found = found()
    assert reached
    assert min(found) >= 0.0
    assert sum(found) == pytest.approx(1.0)
    np.testing.assert_allclose(w, -(np.array(found) @ a), atol=1e-12 * np.abs(a).max())
    assert value == pytest.approx(c @ found - 0.5 * w @ w, abs=1e-9 * scale)
    assert np.max(a @ w + c) + 0.5 * w @ w - value <= 1e-6 * scale
    assert height == pytest.approx(np.max(a @ w + c), abs=1e-6 * scale)
    # What would be lower than before is not taken.
    weights, found = passes.ascend(*given, 10.0 * scale, last)
    assert not found()[0]
    assert (passes.weighted_sum(weights, there) == passes.weighted_sum(-z, there)).all()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", ["none", "free", "penalized"])
@pytest.mark.parametrize("C", [1.0, 1000.0])  # some planes, and more than the kernel takes
def test_planes_of_many_features(loss, intercept, C):
    random = np.random.default_rng(0)
    X = scipy.sparse.random(1500, 40_000, 1e-3, "csr", np.float32, random)
    y = (X @ random.normal(size=X.shape[1]) + 0.1 > 0).astype(int)
    y[::10] = 1 - y[::10]
    model = LinearSVC(
        C=C,
        loss=loss,
        solver="ocas",
        fit_intercept=intercept != "none",
        penalized_intercept=intercept == "penalized",
        device="cuda",
    ).fit(X, y)
    twin = LinearSVC(**(model.get_params() | {"device": "cpu", "solver": "auto"})).fit(X, y)
    for one, other in ((model, twin), (twin, model)):
        assert one.status_ == "converged"
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)
    repeat = LinearSVC(**model.get_params()).fit(X, y)
    np.testing.assert_array_equal(repeat.coef_, model.coef_)
    assert repeat.certificate_ == model.certificate_
