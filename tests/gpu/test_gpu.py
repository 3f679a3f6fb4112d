"""On a GPU: `make test-gpu`, where there is one."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_classification

from widemargin import LinearRanker, LinearSVC, LinearSVCCV, certify, load_model, save_model
from widemargin.data import as_rows
from widemargin.losses import LOSSES, Loss
from widemargin.passes import cpu
from widemargin.passes import gpu as passes
from widemargin.risk.margin import MarginLine
from widemargin.solvers.line_search import Penalty, exact

pytestmark = pytest.mark.gpu

cupy = pytest.importorskip("cupy")
cupyx_sparse = pytest.importorskip("cupyx.scipy.sparse")


def on_gpu(X):
    return cupyx_sparse.csr_matrix(X) if scipy.sparse.issparse(X) else cupy.asarray(X)


def host(x):
    return x.get() if hasattr(x, "get") else x


def skewed(n, d, per_row, dtype, seed=0):
    """Sparse rows, some of them empty or very long, and columns of very different use."""
    random = np.random.default_rng(seed)
    sizes = random.poisson(per_row, n)
    sizes[::17] = 0
    sizes[5] = d
    rows = np.repeat(np.arange(n), sizes)
    columns = (d * random.random(rows.size) ** 3).astype(int)
    columns[rows == 5] = np.arange(d)
    X = scipy.sparse.coo_matrix((random.normal(size=rows.size), (rows, columns)), (n, d))
    return X.tocsr().astype(dtype)


MATRICES = {
    "dense32": lambda: np.random.default_rng(0).normal(size=(1003, 77)).astype(np.float32),
    "dense64": lambda: np.random.default_rng(0).normal(size=(257, 301)),
    "bytes": lambda: np.random.default_rng(0).integers(0, 256, (500, 40)).astype(np.uint8),
    "bool": lambda: np.random.default_rng(0).random((500, 33)) < 0.3,
    "csr32": lambda: skewed(3000, 5000, 30, np.float32),
    "csr64": lambda: skewed(5000, 3000, 5, np.float64),
    "narrow": lambda: skewed(4000, 20, 6, np.float32),
    "tall": lambda: np.random.default_rng(0).normal(size=(200_000, 5)).astype(np.float32),
}


@pytest.fixture(params=MATRICES)
def matrix(request):
    return MATRICES[request.param]()


def both(X):
    from widemargin.data.devices import gpu_rows

    host_X = X.astype(np.float64) if X.dtype in (np.uint8, np.bool_) else X
    return as_rows(host_X), gpu_rows(on_gpu(X))


@pytest.mark.parametrize("k", [None, 1, 3, 8, 21])
def test_products(matrix, k):
    rows, there = both(matrix)
    random = np.random.default_rng(1)
    W = random.normal(size=(rows.n_features, k) if k else rows.n_features)
    G = random.normal(size=(rows.n_rows, k) if k else rows.n_rows)
    G[random.random(rows.n_rows) < 0.5] = 0.0
    for name, V in (("scores", W), ("combine", G)):
        expected = getattr(rows, name)(V)
        found = getattr(there, name)(cupy.asarray(V))
        size = np.abs(expected).max()
        np.testing.assert_allclose(host(found), expected, rtol=1e-11, atol=1e-11 * size)
        again = getattr(there, name)(cupy.asarray(V))
        assert (found == again).all()


def test_products_without_a_transposed_copy(matrix):
    if not scipy.sparse.issparse(matrix):
        pytest.skip("of sparse rows")
    rows, there = both(matrix)
    there.__dict__["_columns"] = None
    for G in (np.random.default_rng(0).normal(size=(rows.n_rows, 3)), np.zeros((rows.n_rows, 1))):
        expected = rows.combine(G)
        found = there.combine(cupy.asarray(G))
        atol = 1e-12 * np.abs(G).sum() * max(1.0, abs(matrix).max())
        np.testing.assert_allclose(host(found), expected, rtol=1e-9, atol=atol)
        assert (there.combine(cupy.asarray(G)) == found).all()


@pytest.fixture
def everything_in_tiles(monkeypatch):
    from widemargin.data import gpu

    monkeypatch.setattr(gpu, "_MANY_ENTRIES", 1)
    monkeypatch.setattr(gpu, "_MANY_PLACES", 1)


# The second has lines that are cut, as rows and as columns; the last one more rows than blocks
# that run at the same time can hold.
@pytest.mark.parametrize(
    ("n", "d", "per_row"),
    [
        (50, 70_000, 900),
        (30_000, 300, 40),
        (60_000, 50_000, 20),
        (1, 1, 1),
        (2_500_000, 90_000, 2),
    ],
)
def test_tiles(everything_in_tiles, n, d, per_row):
    X = skewed(n, d, per_row, np.float32) if n > 5 else scipy.sparse.csr_matrix([[3.0]], dtype="f")
    random = np.random.default_rng(0)
    X.data *= random.choice([1e-4, 1.0, 1e3], d).astype(np.float32)[X.indices]
    rows, there = both(X)
    assert there._row_tiles is not None
    assert there._column_tiles is not None
    largest = {"scores": abs(X).max(axis=0), "combine": abs(X).max(axis=1)}
    for name, length in (("scores", d), ("combine", n)):
        wide = random.normal(size=length) * 10.0 ** random.uniform(-6, 2, length)
        signs = 0.3 * random.choice([-1.0, 0.0, 1.0], length)
        for v in (wide, signs, np.zeros(length), np.eye(1, length)[0]):
            there_v = cupy.asarray(v)
            for vector in (there_v, there.rounded(name, there_v)):
                np.testing.assert_allclose(vector.get(), v, rtol=6e-8)
                expected = getattr(rows, name)(vector.get())
                found = getattr(there, name)(vector)
                # A share of the largest product of an entry and a number that there may be.
                atol = 1e-9 * np.max(largest[name].toarray().ravel() * np.abs(vector.get()))
                np.testing.assert_allclose(host(found), expected, rtol=1e-11, atol=atol)
                assert (getattr(there, name)(vector) == found).all()
    g = random.random(n)
    squares = host(there.combine_squares(cupy.asarray(g)))
    np.testing.assert_allclose(squares, rows.combine_squares(g), rtol=1e-8)


@pytest.mark.parametrize("solver", ["newton", "ocas"])
@pytest.mark.parametrize("penalized", [True, False])
def test_training_with_tiles(everything_in_tiles, solver, penalized):
    # With coefficients on the GPU.
    X = skewed(20_000, 40_000, 30, np.float32)
    y = np.sign(X @ np.random.default_rng(0).normal(size=X.shape[1]) + 1e-9)
    model = LinearSVC(
        loss="hinge", solver=solver, penalized_intercept=penalized, class_weight="balanced"
    )
    model.set_params(device="cuda", C=0.01, max_time=20.0).fit(X, y)
    again = LinearSVC(**model.get_params()).fit(X, y)
    assert (model.coef_ == again.coef_).all()
    twin = LinearSVC(**(model.get_params() | {"device": "cpu", "solver": "acf"})).fit(X, y)
    for one, other in ((model, twin), (twin, model)):
        assert one.status_ == "converged"
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)
    certificate = certify(model, X, y)
    # Each allows for the rounding of its own products.
    np.testing.assert_allclose(certificate.primal, model.certificate_.primal, rtol=1e-9)


def test_other_sums(matrix):
    rows, there = both(matrix)
    random = np.random.default_rng(2)
    np.testing.assert_allclose(there.squared_norms().get(), rows.squared_norms(), rtol=1e-11)
    g = random.random(rows.n_rows)
    squares = host(there.combine_squares(cupy.asarray(g)))
    np.testing.assert_allclose(squares, rows.combine_squares(g), rtol=1e-10)
    index = np.sort(random.choice(rows.n_rows, rows.n_rows // 3, replace=False))
    weight, center = random.random(index.size), random.normal(size=rows.n_features)
    second, first = there.moments(*map(cupy.asarray, (index, weight, center)))
    expected, mean = rows.moments(index, weight, center)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(np.tril(host(second)), np.tril(expected), atol=1e-11 * scale)
    np.testing.assert_allclose(host(first), mean, atol=1e-11 * scale)
    w = random.normal(size=rows.n_features)
    some = there.take(cupy.asarray(index)).scores(cupy.asarray(w)).get()
    np.testing.assert_allclose(some, rows.take(index).scores(w), atol=1e-9 * np.abs(some).max())


# With kinks or parabolas on both sides, and a flat bottom.
MORE_LOSSES = (
    Loss("tube", eps=0.25, low=-0.5),
    Loss("squared_tube", eps=0.25, low=-np.inf, high=np.inf, bend=0.5),
    Loss("huber", low=-0.5, bend=0.25),
)


@pytest.mark.parametrize("n", [1, 31, 1000, 300_001])
@pytest.mark.parametrize("loss", [*LOSSES.values(), *MORE_LOSSES], ids=lambda loss: loss.name)
def test_passes(n, loss):
    random = np.random.default_rng(n)
    y = random.choice([-1, 1], n).astype(np.int8)
    cost, S, D = random.random(n), random.normal(size=n), random.normal(size=n)
    cost[::7] = 0.0
    numbers = loss.numbers
    smooth = *numbers[:3], 0.5
    calls = {
        "margin_cut": (y, cost, numbers, S),
        "margin_rates": (y, S, D),
        "curvature": (S, cost, smooth),
        "dual_point": (S, y, cost, smooth, loss.bend),
    }
    for name, arguments in calls.items():
        expected = getattr(cpu, name)(*arguments)
        there = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        found = getattr(passes, name)(*there)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(host(one), other, rtol=1e-10, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(
        host(passes.rates(*map(cupy.asarray, (y, S)), 0.3)), cpu.rates(y, S, 0.3)
    )
    weight = cpu.curvature(S, cost, smooth)[0]
    expected = np.flatnonzero(weight)
    np.testing.assert_array_equal(
        host(passes.places(cupy.asarray(weight), expected.size)), expected
    )
    for slope, curvature, guess, slope_left in (
        (-0.1 * n, 0.1 * n, 1.0, 1e-3),
        (-0.1 * n, 0.1 * n, 1.0, 1e-12),
        (-1e9 * n, 1e-3, 1.0, 1e-3),  # a long way
        (1e9 * n, 1.0, 1.0, 1e-3),  # uphill
        (0.3 * n, 0.01 * n, 0.0, 0.0),  # to either side
        (-0.3 * n, 0.01 * n, 0.0, 0.0),
    ):
        way = smooth, slope, curvature, guess, slope_left
        expected = cpu.lowest(S, D, cost, *way)
        found = passes.lowest(*map(cupy.asarray, (S, D, cost)), *way)
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=str(way))
    residual, rate = cpu.margin_rates(y, S, D)
    rows = residual, rate, cost
    rows_there = [cupy.asarray(array) for array in rows]
    for count in (1, 3, 8, 33):
        steps = np.linspace(0.0, 2.0, count)
        sums, pieces = cpu.margin_sums(*rows, numbers, steps)
        found, changes = passes.margin_sums(*rows_there, numbers, steps)
        np.testing.assert_allclose(found, sums, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(changes, (pieces[1:] != pieces[:-1]).sum(axis=1))
    here, there = MarginLine(*rows, loss), MarginLine(*rows_there, loss)
    for a, b in itertools.product((0.01 * n, n), (-2.0 * n, -0.1 * n, 0.1 * n)):
        penalty = Penalty(a, b, n)
        expected = exact(penalty, here, guess=0.1)
        for guess in (1e-3, 0.1, 10.0):
            step, value = exact(penalty, there, guess)
            assert value == pytest.approx(expected[1], rel=1e-13)
            assert step == pytest.approx(expected[0], rel=1e-6)  # nearby it is as low
            instead = 0.02 if guess == 0.1 else 0.0
            arrays = [cupy.asarray(array) for array in (y, cost, S, S + D)]
            sums = cupy.asarray([[0.5 * a, b, n], [0.5 * a, 0.0, n]])
            slope, lossy, found = passes.margin_walk(
                *arrays[:2], numbers, *arrays[2:], sums, 1e-9, 0.0, guess, instead, 0.1
            )
            step, *terms, at_end, value, constant, active = found()
            assert terms == [a, b, 2 * n]
            rest = value, constant, active
            if expected[0] > 0.0:
                # A walk looks so many times: with kinks on both sides it may end a little earlier.
                value_error, step_error = (2e-12, 1e-4) if loss.is_one_sided else (1e-6, 1e-2)
                value_there = penalty.at(step) + at_end
                assert value_there == pytest.approx(expected[1], rel=value_error)
                assert step == pytest.approx(expected[0], rel=step_error)
            else:
                assert step == instead
            moved, ahead = S.copy(), D.copy()
            cpu.advance(moved, ahead, step, 0.1 * (1.0 - step))
            np.testing.assert_allclose(arrays[2].get(), moved, rtol=1e-12, atol=1e-12)
            losses = cpu.margin_cut(y, cost, numbers, moved)[1]
            assert at_end == pytest.approx(losses, rel=1e-12)
            for one, other in zip(
                (slope, *rest), cpu.margin_cut(y, cost, numbers, ahead), strict=True
            ):
                np.testing.assert_allclose(host(one), other, rtol=1e-10, atol=1e-10)
            np.testing.assert_array_equal(lossy.get(), np.packbits(slope.get() != 0.0))
    moved, ahead = cupy.asarray(S), cupy.asarray(D)
    passes.advance(moved, ahead, 0.3, 0.1)
    cpu.advance(S, D, 0.3, 0.1)
    np.testing.assert_allclose(moved.get(), S)
    np.testing.assert_allclose(ahead.get(), D)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_way_made_of_rounding(loss):
    # Of a walk nothing is left but the change of an intercept.
    random = np.random.default_rng(0)
    n = 10_000
    y, cost = random.choice([-1, 1], n).astype(np.int8), random.random(n)
    S, far = random.normal(size=n) - 1.0, random.normal(size=n)
    line = MarginLine(*cpu.margin_rates(y, S, np.full(n, 0.5)), cost, loss)
    expected, value = exact(Penalty(0.0, 0.0, 0.0), line, guess=0.1)
    arrays = [cupy.asarray(array) for array in (y, cost, S, S + far)]
    sums = cupy.asarray([[1e-30, 1e-20, 1.0]])
    numbers = passes.margin_walk(
        *arrays[:2], loss.numbers, *arrays[2:], sums, 1e-26, 0.5, 0.1, 0.0, 0.1
    )[2]()
    assert numbers[0] == pytest.approx(expected, rel=1e-4)
    assert numbers[1:4].tolist() == [0.0, 0.0, 1.0]
    assert numbers[4] == pytest.approx(value, rel=2e-11)
    np.testing.assert_allclose(arrays[2].get(), S + 0.5 * numbers[0], rtol=1e-12, atol=1e-12)


def test_several_classes():
    random = np.random.default_rng(0)
    n, k = 5000, 6
    y = random.integers(0, k, n).astype(np.uint8)
    cost, S, D = random.random(n), random.normal(size=(n, k)), random.normal(size=(n, k))
    cost[::5] = 0.0
    there = [cupy.asarray(a) for a in (y, cost, S, D)]
    found, expected = passes.multiclass_cut(*there[:3]), cpu.multiclass_cut(y, cost, S)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(host(one), other, rtol=1e-11)
    steps = np.array([0.0, 0.5])
    found = passes.multiclass_sums(*there, steps)
    for one, other in zip(found, cpu.multiclass_sums(y, cost, S, D, steps), strict=True):
        np.testing.assert_allclose(host(one), other, rtol=1e-11)


def test_a_matrix_that_is_not_definite():
    assert passes.solve_definite(-cupy.eye(3), cupy.ones(3))() is None
    np.testing.assert_allclose(passes.solve_definite(2 * cupy.eye(3), cupy.ones(3))(), 0.5)
    nowhere = cupy.full(3, np.nan)
    assert passes.solve_definite(cupy.eye(3), nowhere)() is None
    assert passes.solve_definite(cupy.diag(nowhere), cupy.ones(3))() is None
    random = np.random.default_rng(0)
    for d, scale in ((50, 1e-3), (300, 1.0), (784, 1e6)):
        rows = random.normal(size=(d // 2, d))
        nearly = cupy.asarray(scale * rows.T @ rows + np.eye(d))
        right = cupy.asarray(random.normal(size=d))
        image = nearly.get() @ passes.solve_definite(nearly, right)()
        np.testing.assert_allclose(image, right.get(), atol=1e-5)
        nearly[d // 2, d // 2] -= 2.0 * nearly[d // 2, d // 2]
        assert passes.solve_definite(nearly, right)() is None


def test_places():
    weight = np.random.default_rng(0).random(100_001)
    weight[weight < 0.9] = 0.0
    found = passes.places(cupy.asarray(weight), np.count_nonzero(weight))
    np.testing.assert_array_equal(found.get(), np.flatnonzero(weight))


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["newton", "ocas", "cpa", "tca"])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("penalized", [True, False])
def test_same_optimum_same_bits(layout, solver, loss, penalized):
    X, y = make_classification(3000, 30, n_informative=10, n_classes=3, flip_y=0.1, random_state=0)
    X = X.astype(np.float32)
    X = scipy.sparse.csr_matrix(X) if layout == "csr" else X
    model = LinearSVC(
        loss=loss, solver=solver, penalized_intercept=penalized, device="cuda", C=0.1
    )
    model.fit(on_gpu(X), cupy.asarray(y))
    assert isinstance(model.coef_, cupy.ndarray)
    twin = LinearSVC(loss=loss, penalized_intercept=penalized, C=0.1).fit(X, y)
    for one, other in ((model, twin), (twin, model)):
        assert one.status_ == "converged"
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)
    again = certify(model, on_gpu(X), y)
    np.testing.assert_allclose(again.primal, model.certificate_.primal, rtol=1e-12)
    at_home = certify(model, X, y)
    np.testing.assert_allclose(at_home.primal, model.certificate_.primal, rtol=1e-9)
    np.testing.assert_allclose(at_home.dual, model.certificate_.dual, rtol=1e-9)
    labels = model.predict(on_gpu(X))
    assert isinstance(labels, cupy.ndarray)
    np.testing.assert_array_equal(labels.get(), model.predict(X))
    repeat = LinearSVC(**model.get_params()).fit(on_gpu(X), cupy.asarray(y))
    assert (repeat.coef_ == model.coef_).all()
    assert repeat.certificate_ == model.certificate_


def test_many_rows_and_squared_losses():
    # On the host some of these rows stand for all.
    X, y = make_classification(120_000, 40, n_informative=20, flip_y=0.1, random_state=0)
    X = X.astype(np.float32)
    model = LinearSVC(loss="squared_hinge", solver="newton", device="cuda").fit(on_gpu(X), y)
    twin = LinearSVC(loss="squared_hinge", solver="newton").fit(X, y)
    for one, other in ((model, twin), (twin, model)):
        assert one.status_ == "converged"
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)


def test_classes_together():
    X, y = make_classification(2000, 20, n_informative=8, n_classes=4, random_state=0)
    model = LinearSVC(multi_class="crammer_singer", device="cuda", C=0.1).fit(X, y)
    assert isinstance(model.coef_, np.ndarray)
    twin = LinearSVC(multi_class="crammer_singer", C=0.1).fit(X, y)
    np.testing.assert_allclose(model.certificate_.primal, twin.certificate_.primal, rtol=2e-3)
    repeat = LinearSVC(**model.get_params()).fit(X, y)
    np.testing.assert_array_equal(repeat.coef_, model.coef_)


@pytest.mark.parametrize("groups", [None, 9])
def test_ranking(groups):
    X, y = make_classification(2000, 20, n_informative=8, n_classes=4, random_state=0)
    qid = None if groups is None else np.arange(y.size) % groups
    model = LinearRanker(device="cuda").fit(X, y, qid=qid)
    twin = LinearRanker().fit(X, y, qid=qid)
    np.testing.assert_allclose(model.certificate_.primal, twin.certificate_.primal, rtol=2e-3)
    repeat = LinearRanker(device="cuda").fit(X, y, qid=qid)
    np.testing.assert_array_equal(repeat.coef_, model.coef_)


def test_search():
    X, y = make_classification(2000, 20, random_state=0)
    there = LinearSVCCV(Cs=[0.1, 1.0], cv=3, device="cuda").fit(X, y)
    here = LinearSVCCV(Cs=[0.1, 1.0], cv=3).fit(X, y)
    np.testing.assert_allclose(there.scores_, here.scores_, atol=0.01)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["newton", "ocas"])
def test_rows_that_do_not_fit(layout, solver):
    from widemargin.data.devices import to_gpu
    from widemargin.data.gpu_stream import StreamedRows

    if layout == "dense":
        X = np.random.default_rng(0).normal(size=(300_000, 64)).astype(np.float32)
    else:
        X = skewed(200_000, 3000, 50, np.float32)
    y = (X @ np.random.default_rng(1).normal(size=X.shape[1]) > 0).astype(int)
    y[::10] = 1 - y[::10]
    model = LinearSVC(loss="hinge", solver=solver, device="cuda", C=1e-3).fit(X, y)
    pool = cupy.get_default_memory_pool()
    size = X.nbytes if layout == "dense" else X.data.nbytes + X.indices.nbytes
    pool.free_all_blocks()
    pool.set_limit(size=size // 2)
    try:
        assert isinstance(to_gpu(X), StreamedRows)
        streamed = LinearSVC(**model.get_params()).fit(X, y)
    finally:
        pool.set_limit(size=0)
    for one, other in ((model, streamed), (streamed, model)):
        assert one.status_ == "converged"
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)


def test_other_arrays():
    torch = pytest.importorskip("torch")
    X, y = make_classification(500, 10, random_state=0)
    model = LinearSVC(device="cuda").fit(torch.asarray(X).cuda(), torch.asarray(y).cuda())
    assert model.status_ == "converged"
    assert isinstance(model.decision_function(torch.asarray(X).cuda()), cupy.ndarray)


def test_what_is_wrong():
    X, y = make_classification(100, 5, random_state=0)
    with pytest.raises(ValueError, match="X is on a GPU"):
        LinearSVC().fit(cupy.asarray(X), y)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN or infinity"):
        LinearSVC(device="cuda").fit(cupy.asarray(X), y)
    with pytest.raises(ValueError, match="two dimensions"):
        LinearSVC(device="cuda").fit(cupy.asarray(X[0]), y)


def test_words_as_labels_and_a_file(tmp_path):
    X, y = make_classification(300, 5, random_state=0)
    words = np.array(["no", "yes"])[y]
    model = LinearSVC(device="cuda").fit(cupy.asarray(X), words)
    assert set(model.predict(cupy.asarray(X))) <= {"no", "yes"}
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))
