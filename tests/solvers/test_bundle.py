import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from widemargin.solvers.bundle import Bundle
from widemargin.solvers.reduced_dual import ascend
from widemargin.solvers.settings import CuttingPlaneSettings


def no_merge(*_):
    raise AssertionError("nothing to merge")


def random_planes(seed):
    rng = np.random.default_rng(seed)
    m, d, q = rng.integers(2, 40), rng.integers(1, 12), rng.choice([0, 0, 1, 1, 3])
    a = rng.standard_normal((m, d)) * rng.choice([1e-3, 1.0, 1e3])
    if rng.random() < 0.4:  # half of them nearly the same
        a[m // 2 :] = a[m // 2] + 1e-6 * rng.standard_normal((m - m // 2, d))
    if rng.random() < 0.2:
        a[-1] = a[m // 2]
    e = rng.standard_normal((m, q)) * rng.choice([1.0, 100.0])
    if q == 3:  # as in a multi-class loss
        e -= e.mean(axis=1, keepdims=True)
    c = np.abs(rng.standard_normal(m)) * np.abs(a).max()
    a[0], e[0], c[0] = 0.0, 0.0, 0.0
    return a, e, c


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=700176)  # of planes that are left out on the way, and wanted in the end
@example(seed=1470260477)
@example(seed=163572757)
@example(seed=1353420706)  # left out, wanted once another plane has left
def test_primal_and_dual_of_the_reduced_problem_meet(seed):
    a, e, c = random_planes(seed)
    z, nu = np.zeros(len(c)), np.zeros(1 + e.shape[1])
    z[0] = 1.0
    scale = c.max()
    ascend(a @ a.T, c, e, z, nu, 1e-10 * scale)
    assert np.all(z >= 0.0)
    assert z.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(e.T @ z, 0.0, atol=1e-9 * np.abs(e).max(initial=1.0))
    w = -(z @ a)
    dual = c @ z - 0.5 * w @ w
    primal = 0.5 * w @ w + np.max(a @ w - e @ nu[1:] + c)
    assert dual <= primal + 1e-9 * scale
    assert primal - dual <= 1e-6 * scale


@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_planes_come_one_by_one_and_the_bound_never_falls(seed):
    a, e, c = random_planes(seed)
    bundle = Bundle(np.zeros(a.shape[1]), e.shape[1], no_merge)
    values = [0.0]
    for j in range(1, len(c)):
        bundle.add(a[j], e[j], c[j], code=j)
        bundle.solve(1e-12 * c.max())
        values.append(bundle.value)
    assert np.all(np.diff(values) >= 0.0)
    m = bundle.count
    np.testing.assert_allclose(bundle.gram[:m, :m], bundle.a[:m] @ bundle.a[:m].T)
    assert sum(weight for weight, _ in bundle.slopes()) == pytest.approx(1.0 - bundle.z[0])
    for weight, code in bundle.slopes():
        assert weight > 0.0
        assert c[code] in bundle.c[:m]


def test_idle_planes_are_dropped_and_the_others_stay_whole():
    rng = np.random.default_rng(0)
    bundle = Bundle(np.zeros(30), 0, no_merge)
    for j in range(200):
        bundle.add(rng.standard_normal(30), np.empty(0), 0.01 + rng.random(), code=j)
        bundle.solve(1e-9)
        m = bundle.count
        assert len(bundle.codes) == m
        np.testing.assert_allclose(bundle.gram[:m, :m], bundle.a[:m] @ bundle.a[:m].T, atol=1e-12)
    assert bundle.count < 100
    # They go when the next plane comes; plane 0 stays.
    assert np.all(bundle.idle[1 : bundle.count] <= CuttingPlaneSettings.idle_iterations)


def test_memory_is_bounded_by_merging():
    merged = []

    def merge(code, weight, other, other_weight):
        merged.append((code, other))
        return weight * code + other_weight * other

    rng = np.random.default_rng(0)
    settings = CuttingPlaneSettings(bundle_bytes=0)
    bundle = Bundle(np.zeros(60), 1, merge, settings)
    assert bundle.capacity == settings.fewest_planes
    values = []
    G = rng.standard_normal((100, 60))  # the slope of plane j is G[j], and a_j, e_j, c_j follow
    for j in range(100):
        bundle.add(G[j], [G[j].sum()], 5.0 + G[j, 0], code=G[j])
        bundle.solve(1e-9)
        values.append(bundle.value)
        assert bundle.count <= bundle.capacity
    assert merged
    assert np.all(np.diff(values) >= 0.0)
    for j in range(1, bundle.count):  # merged planes are planes: linear in their slopes
        np.testing.assert_allclose(bundle.a[j], bundle.codes[j])
        np.testing.assert_allclose(bundle.e[j], bundle.codes[j].sum())
        np.testing.assert_allclose(bundle.c[j], 5.0 + bundle.codes[j][0])
    m = bundle.count
    np.testing.assert_allclose(bundle.gram[:m, :m], bundle.a[:m] @ bundle.a[:m].T, atol=1e-10)


@given(seed=st.integers(0, 2**32 - 1), ratio=st.sampled_from([0.1, 0.5, 2.0, 30.0]))
@settings(deadline=None)
def test_planes_under_a_risk_that_is_multiplied(seed, ratio):
    """They solve the problem that planes made anew would; the bound is proved by the weights."""
    a, e, c = random_planes(seed)
    tolerance = 1e-12 * c.max()
    bundle, anew = (Bundle(np.zeros(a.shape[1]), e.shape[1], no_merge) for _ in range(2))
    for j in range(1, len(c)):
        bundle.add(a[j], e[j], c[j], code=j)
        anew.add(ratio * a[j], ratio * e[j], ratio * c[j], code=j)
    bundle.solve(tolerance)
    bundle.scale(ratio)
    m = bundle.count
    z, w = bundle.z[:m], bundle.z[:m] @ bundle.a[:m]
    scale = ratio * c.max() + 1e-300
    assert bundle.value == pytest.approx(bundle.c[:m] @ z - 0.5 * w @ w, abs=1e-9 * scale)
    assert bundle.value >= 0.0
    assert z.sum() == pytest.approx(1.0)
    bundle.solve(ratio * tolerance)
    anew.solve(ratio * tolerance)
    assert bundle.value == pytest.approx(anew.value, abs=1e-6 * scale)
