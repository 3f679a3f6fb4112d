"""All that happens when training on a GPU but the arithmetic: see tests/devices.py."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_classification

from tests.device_array import device
from tests.devices import DeviceRows, no_gpu_but_all_else  # noqa: F401  a fixture
from widemargin import LinearRanker, LinearSVC, LinearSVCCV, OrdinalSVC, certify, svm_path
from widemargin.arrays import move_to
from widemargin.certificate import upper_bound
from widemargin.data.devices import NoGpuError, is_on_gpu
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge
from widemargin.solvers import auto
from widemargin.solvers.gpu_oracle import GpuOracle
from widemargin.solvers.newton_settings import NewtonSettings, SampleSettings

pytestmark = pytest.mark.usefixtures("no_gpu_but_all_else")


@pytest.fixture(params=["dense", "csr"])
def data(request):
    X, y = make_classification(400, 12, n_informative=8, n_classes=3, flip_y=0.1, random_state=0)
    X = X.astype(np.float32)
    return (X if request.param == "dense" else scipy.sparse.csr_matrix(X)), y


def assert_same(model, twin, X, y):
    """Both are proved to be within their tolerance of the same optimum."""
    assert model.status_ == twin.status_ == "converged"
    for one, other in ((model, twin), (twin, model)):
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)
    again = certify(model, X, y)
    # Each allows for the rounding of its own products.
    np.testing.assert_allclose(again.primal, model.certificate_.primal, rtol=1e-9)
    np.testing.assert_allclose(again.dual, model.certificate_.dual, rtol=1e-9)
    assert isinstance(model.coef_, np.ndarray)


@pytest.mark.parametrize(
    ("solver", "loss", "intercept"),
    [
        ("newton", "hinge", "free"),
        ("newton", "hinge", "penalized"),
        ("newton", "squared_hinge", "free"),
        ("newton", "squared_hinge", "none"),
        ("ocas", "hinge", "free"),
        ("ocas", "hinge", "penalized"),
        ("ocas", "squared_hinge", "free"),
        ("ocas", "squared_hinge", "none"),
        ("cpa", "hinge", "free"),
        ("gca", "squared_hinge", "penalized"),
        ("gca2", "hinge", "none"),
        ("tca", "hinge", "free"),
    ],
)
def test_classes_one_by_one(data, solver, loss, intercept):
    X, y = data
    model = LinearSVC(
        loss=loss,
        solver=solver,
        fit_intercept=intercept != "none",
        penalized_intercept=intercept == "penalized",
        class_weight={0: 2.0},
        tol=1e-3 if solver == "cpa" else 1e-5,
        device="cuda",
    )
    model.fit(X, y)
    twin = LinearSVC(**(model.get_params() | {"device": "cpu", "solver": "acf"})).fit(X, y)
    assert_same(model, twin, X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_classes_together(data, fit_intercept):
    X, y = data
    model = LinearSVC(
        multi_class="crammer_singer", fit_intercept=fit_intercept, tol=1e-4, device="cuda"
    )
    model.fit(X, y)
    assert model.solver_ == "ocas"
    twin = LinearSVC(**(model.get_params() | {"device": "cpu"})).fit(X, y)
    assert_same(model, twin, X, y)


@pytest.mark.parametrize("intercept", Intercept)
def test_an_answer_to_a_very_long_step_is_true(data, intercept):
    X, y = data
    y = device(np.where(y == 1, 1, -1).astype(np.int8))
    problem = Problem(DeviceRows(X), Hinge(y, device(np.full(y.size, 0.1))), intercept)
    oracle = GpuOracle(problem, Monitor(1e-3, 1))
    w = np.random.default_rng(0).normal(size=X.shape[1]).astype(np.float32)
    w = move_to(w, problem.rows.coef_like)
    center, target = oracle.place(w, 0.1), oracle.place(0.999999 * w, 0.1)
    oracle.begin(center, State.zero(problem).dual)
    answer = oracle.step(center, target, None, 0.0, 0.1)
    assert answer.step > 1e4
    value = upper_bound(problem, *oracle.split(answer.center)).value
    assert answer.value == pytest.approx(value, rel=1e-13)


def test_many_features_by_conjugate_gradients():
    X = scipy.sparse.random(300, 1500, 0.02, format="csr", random_state=0)
    y = np.random.default_rng(0).integers(0, 2, 300)
    model = LinearSVC(solver="newton", loss="hinge", tol=1e-5, device="cuda").fit(X, y)
    twin = LinearSVC(loss="hinge", tol=1e-5).fit(X, y)
    assert_same(model, twin, X, y)


def test_a_sample_first(monkeypatch):
    X, y = make_classification(40_000, 5, flip_y=0.2, random_state=0)
    settings = NewtonSettings(sample=SampleSettings(fewest_rows_on_gpu=1000))
    make = auto.make
    monkeypatch.setattr(
        auto, "make", lambda *given, **more: replace(make(*given, **more), settings=settings)
    )
    model = LinearSVC(solver="newton", loss="hinge", device="cuda").fit(X, y)
    assert_same(model, LinearSVC(loss="hinge").fit(X, y), X, y)


def test_weights_and_warm_start(data):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, y.size)
    model = LinearSVC(solver="newton", tol=1e-6, device="cuda", warm_start=True)
    model.fit(X, y, sample_weight=weight)
    passes = model.n_iter_
    model.fit(X, y, sample_weight=weight)
    assert model.n_iter_ < passes
    twin = LinearSVC(tol=1e-6).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, twin.coef_, atol=1e-2)


@pytest.mark.parametrize("kind", [LinearRanker, OrdinalSVC])
def test_orders(data, kind):
    X, y = data
    model = kind(device="cuda", tol=1e-4).fit(X, y)
    twin = kind(tol=1e-4).fit(X, y)
    for one, other in ((model, twin), (twin, model)):
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)
    again = certify(model, X, y)
    np.testing.assert_allclose(again.primal, model.certificate_.primal, rtol=1e-9)
    assert abs(model.score(X, y) - twin.score(X, y)) < 0.01


def test_ranking_in_groups(data):
    X, y = data
    qid = np.arange(y.size) % 7
    model = LinearRanker(device="cuda").fit(X, y, qid=qid)
    twin = LinearRanker().fit(X, y, qid=qid)
    np.testing.assert_allclose(model.certificate_.primal, twin.certificate_.primal, rtol=2e-3)


def test_search_and_path(data):
    X, y = data
    search = LinearSVCCV(Cs=[0.1, 1.0], cv=3, device="cuda", probability=True).fit(X, y)
    twin = LinearSVCCV(Cs=[0.1, 1.0], cv=3, probability=True).fit(X, y)
    np.testing.assert_allclose(search.scores_, twin.scores_, atol=0.02)
    np.testing.assert_allclose(search.predict_proba(X).sum(axis=1), 1.0)
    path = svm_path(X, y, Cs=[0.1, 1.0], device="cuda")
    assert path.solvers == ["newton", "newton"]


def test_probability(data):
    X, y = data
    model = LinearSVC(device="cuda", probability=True).fit(X, y)
    twin = LinearSVC(probability=True).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), twin.predict_proba(X), atol=0.05)


@pytest.mark.parametrize("solver", ["acf", "dcd", "stream"])
def test_solvers_of_the_host_are_refused(data, solver):
    with pytest.raises(ValueError, match="these are on a GPU: use one of 'newton', 'cpa'"):
        LinearSVC(solver=solver, device="cuda").fit(*data)


def test_no_gpu_no_cupy(data, monkeypatch):
    from widemargin.data import devices

    monkeypatch.undo()
    if devices.find_spec("cupy") is not None:
        pytest.skip("there is a CuPy")
    with pytest.raises(NoGpuError, match=r"needs CuPy: install widemargin\[gpu\]"):
        LinearSVC(device="cuda").fit(*data)
    quiet = LinearSVC(device="auto", random_state=0).fit(*data)
    plain = LinearSVC(random_state=0).fit(*data)
    np.testing.assert_array_equal(quiet.coef_, plain.coef_)


def test_a_full_gpu(data, monkeypatch):
    from widemargin.data import devices

    def full(X):
        raise MemoryError("the GPU has not enough memory for the rows")

    monkeypatch.setattr(devices, "to_gpu", full)
    with pytest.raises(MemoryError, match="not enough memory"):
        LinearSVC(device="cuda").fit(*data)
    assert LinearSVC(device="auto").fit(*data).status_ == "converged"


def test_a_device_that_is_none(data):
    with pytest.raises(ValueError, match="device must be one of 'cpu', 'cuda', 'auto'"):
        LinearSVC(device="gpu").fit(*data)


def test_arrays_that_dlpack_does_not_have():
    """As Arrow's arrays of strings, in old versions."""

    class Strings:
        def __dlpack_device__(self):
            raise TypeError("not compatible with DLPack")

    assert not is_on_gpu(Strings())
