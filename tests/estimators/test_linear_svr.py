"""LinearSVR: the losses of regression, several targets, and what it shares with scikit-learn's."""

from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from exact import optimum
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.svm import SVR
from sklearn.svm import LinearSVR as Liblinear

from widemargin import LinearSVR, certify, load_model, open_rows, save_model
from widemargin.losses import TARGET_LOSSES, Loss, Shape
from widemargin.model_io import ModelFileError
from widemargin.problem import Intercept

INTERCEPTS = {
    Intercept.FREE: {},
    Intercept.PENALIZED: {"penalized_intercept": True},
    Intercept.NONE: {"fit_intercept": False},
}
#: the formulas of the losses, of residuals r
FORMULAS = {
    "epsilon_insensitive": lambda r: np.maximum(0.0, np.abs(r) - 0.3),
    "squared_epsilon_insensitive": lambda r: np.maximum(0.0, np.abs(r) - 0.3) ** 2,
    "huber": lambda r: np.where(np.abs(r) <= 0.7, r**2 / 1.4, np.abs(r) - 0.35),
    "absolute_error": np.abs,
    "pinball": lambda r: np.maximum(0.2 * r, -0.8 * r),
}
SHAPE = {"epsilon": 0.3, "delta": 0.7, "quantile": 0.2}


def data(n=150, d=5, k=1, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = X @ rng.standard_normal((d, k)) + 2.0 + noise * rng.standard_normal((n, k))
    return X, Y[:, 0] if k == 1 else Y


def objective(model, X, y, C, loss):
    """P of a model with a penalised intercept, or with none."""
    losses = FORMULAS[loss](y - model.predict(X)).sum()
    b = model.intercept_ if model.fit_intercept else 0.0
    return 0.5 * (np.sum(model.coef_**2) + np.sum(np.square(b))) + C * losses


@pytest.mark.parametrize("loss", TARGET_LOSSES)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_certificate_is_that_of_the_formula(loss, intercept, sparse):
    X, y = data()
    X = sp.csr_matrix(X) if sparse else X
    model = LinearSVR(loss=loss, C=0.5, tol=1e-5, random_state=0, **SHAPE, **INTERCEPTS[intercept])
    model.fit(X, y)
    best = optimum(
        X,
        np.ones(y.size),
        np.full(y.size, 0.5),
        loss=TARGET_LOSSES[loss](Shape(**SHAPE)),
        intercept=intercept,
        target=y,
    )
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert certificate.relative_gap <= 1e-5
    assert certificate.dual <= best * (1 + 1e-7)
    assert best <= certificate.primal * (1 + 1e-7)
    assert certify(model, X, y).dual == pytest.approx(certificate.dual, rel=1e-12)
    assert certify(model, X, y).primal == certificate.primal
    if intercept is not Intercept.FREE:
        assert certificate.primal == pytest.approx(objective(model, X, y, 0.5, loss), rel=1e-9)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"intercept_scaling": 3.0}])
def test_the_optimum_is_that_of_liblinear(loss, options):
    X, y = data()
    shared = {"loss": loss, "C": 0.1, "epsilon": 0.3, "random_state": 0, **options}
    theirs = Liblinear(tol=1e-9, max_iter=10**6, **shared).fit(X, y)
    ours = LinearSVR(tol=1e-9, penalized_intercept=True, **shared).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, np.ravel(theirs.intercept_), atol=1e-4)
    assert ours.coef_.shape == theirs.coef_.shape
    if "intercept_scaling" not in options:
        assert ours.certificate_.dual <= objective(theirs, X, y, 0.1, loss) * (1 + 1e-12)


def test_a_free_intercept_is_that_of_svr():
    X, y = data()
    theirs = SVR(kernel="linear", C=0.1, epsilon=0.3, tol=1e-9).fit(X, y)
    ours = LinearSVR(C=0.1, epsilon=0.3, tol=1e-9, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_pinball_loss_finds_a_quantile(quantile):
    X, y = data(n=2000)
    model = LinearSVR(loss="pinball", quantile=quantile, tol=1e-5, random_state=0).fit(X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(quantile, abs=0.01)


def test_a_line_of_the_table_is_all_that_a_loss_needs(monkeypatch):
    squares = Loss("squares", low=-inf, high=inf, bend=0.5)
    monkeypatch.setitem(TARGET_LOSSES, "squares", lambda at: squares)
    X, y = data()
    ridge = Ridge(alpha=1 / (2 * 0.05)).fit(X, y)
    for solver in ("acf", "dcd", "newton", "ocas"):
        model = LinearSVR(loss="squares", C=0.05, solver=solver, tol=1e-9, random_state=0)
        np.testing.assert_allclose(model.fit(X, y).coef_, ridge.coef_, atol=1e-4)
        np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-4)


# --- several targets ---------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "dcd", "newton", "ocas"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_several_targets_are_several_problems(solver, n_jobs):
    X, Y = data(k=3)
    model = LinearSVR(solver=solver, C=0.3, epsilon=0.1, tol=1e-4, n_jobs=n_jobs, random_state=0)
    model.fit(X, Y)
    assert model.coef_.shape == (3, 5)
    assert model.intercept_.shape == (3,)
    assert model.predict(X).shape == Y.shape
    assert certify(model, X, Y).gap == pytest.approx(model.certificate_.gap, rel=1e-6)
    for part, y, predicted in zip(model.certificate_.parts, Y.T, model.predict(X).T):
        alone = clone(model).fit(X, y)
        assert part.relative_gap <= 1e-4
        assert part.dual <= alone.certificate_.primal
        assert alone.certificate_.dual <= part.primal
        np.testing.assert_allclose(predicted, alone.predict(X), atol=0.1)


def test_a_column_is_one_target():
    X, y = data()
    model = LinearSVR(random_state=0).fit(X, y[:, None])
    assert model.coef_.shape == (5,)
    np.testing.assert_array_equal(model.coef_, LinearSVR(random_state=0).fit(X, y).coef_)


def test_a_certificate_needs_the_targets_of_the_model():
    X, Y = data(k=3)
    model = LinearSVR(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="the model has 3 targets, and y has 2"):
        certify(model, X, Y[:, :2])
    with pytest.raises(ValueError, match="trained on 150 rows"):
        certify(model, X[1:], Y[1:])
    assert certify(model, X, Y[:, ::-1]).primal > model.certificate_.primal


# --- weights, starts, places of rows -----------------------------------------------------------


@pytest.mark.parametrize("loss", TARGET_LOSSES)
@pytest.mark.parametrize("solver", ["acf", "newton", "ocas"])
def test_a_weight_of_two_is_a_repeated_row(loss, solver):
    X, y = data()
    weights = np.random.default_rng(1).integers(0, 3, y.size)
    model = LinearSVR(loss=loss, solver=solver, tol=1e-6, random_state=0, **SHAPE)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=2e-6)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=0.05)
    found = certify(weighted, X, y, weights)
    assert found.primal == pytest.approx(weighted.certificate_.primal, rel=1e-12)
    assert found.dual == pytest.approx(weighted.certificate_.dual, rel=1e-12)


@pytest.mark.parametrize("k", [1, 2])
def test_a_warm_start_goes_on_where_it_stopped(k):
    X, Y = data(k=k)
    model = LinearSVR(C=1.0, solver="acf", warm_start=True, random_state=0).fit(X, Y)
    passes = model.n_iter_
    assert model.fit(X, Y).n_iter_ == 1 < passes
    model.set_params(C=1.2).fit(X, Y)
    assert certify(model, X, Y).relative_gap <= 1e-3
    model.fit(X[1:], Y[1:])
    assert certify(model, X[1:], Y[1:]).relative_gap <= 1e-3


def on_disk(path, X, y):
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return open_rows(path)


@pytest.mark.parametrize("solver", ["auto", "newton", "ocas", "stream", "bm", "sbm"])
def test_rows_on_disk(tmp_path, solver):
    X, y = data()
    rows = on_disk(tmp_path / "rows.svm", X, y)
    model = LinearSVR(C=0.1, solver=solver, epsilon=0.1, random_state=0).fit(rows, y)
    assert model.certificate_.relative_gap <= 1e-3
    assert certify(model, rows, y).relative_gap <= 1.01e-3
    here = LinearSVR(C=0.1, tol=1e-6, epsilon=0.1).fit(X, y)
    assert model.certificate_.dual <= here.certificate_.primal * (1 + 1e-5)
    assert here.certificate_.dual <= model.certificate_.primal * (1 + 1e-5)
    assert np.corrcoef(model.predict(rows), here.predict(X))[0, 1] > 0.999


def test_a_checkpoint_of_rows_on_disk(tmp_path):
    X, y = data()
    rows, path = on_disk(tmp_path / "rows.svm", X, y), tmp_path / "state"
    model = LinearSVR(C=10.0, checkpoint=path, solver="bm", max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(rows, y)
    assert path.exists()
    model.set_params(max_iter=10_000, epsilon=0.5)
    with pytest.raises(ValueError, match="a checkpoint of another problem"):
        model.fit(rows, y)
    model.set_params(epsilon=0.0)
    assert model.fit(rows, y).status_ == "converged"
    assert not path.exists()
    with pytest.raises(ValueError, match="checkpoint goes with"):
        LinearSVR(checkpoint=path).fit(X, y)


def test_what_is_on_a_gpu_is_refused():
    X, y = data()
    array = SimpleNamespace(__dlpack_device__=lambda: (2, 0), shape=X.shape, ndim=2)
    with pytest.raises(ValueError, match="X is on a GPU, and regression trains on the host"):
        LinearSVR().fit(array, y)
    with pytest.raises(ValueError, match="y is on a GPU"):
        LinearSVR().fit(X, array)
    with pytest.raises(ValueError, match="predicts on the host"):
        LinearSVR(random_state=0).fit(X, y).predict(array)


# --- parameters, other forms -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of 'epsilon_insensitive'"),
        ({"epsilon": -0.1}, "epsilon must be a number of at least 0"),
        ({"epsilon": np.inf}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be a positive number"),
        ({"quantile": 0.0}, "quantile must be a number between 0 and 1"),
        ({"quantile": 1}, "quantile must be"),
        ({"C": -1.0}, "C must be"),
        ({"dual": False}, "loss='epsilon_insensitive' are not supported when dual=False"),
        ({"solver": "dcd-paper"}, "solver must be one of"),
        ({"fit_intercept": 1}, "fit_intercept must be True or False"),
    ],
)
def test_parameters_that_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVR(**parameters).fit(*data())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(150, np.nan), "Input y contains NaN"),
        (np.r_[np.inf, np.zeros(149)], "Input y contains infinity"),
        (np.zeros((150, 2, 2)), "2"),
        (np.zeros((150, 0)), "0 feature"),
        (np.zeros(149), "inconsistent numbers of samples"),
        (["a"] * 150, "could not convert"),
        (None, "requires y to be passed"),
    ],
)
def test_targets_that_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        LinearSVR().fit(data()[0], y)


@pytest.mark.parametrize("k", [1, 3])
def test_a_saved_model_is_the_same(tmp_path, k):
    X, Y = data(k=k)
    model = LinearSVR(loss="pinball", quantile=0.7, random_state=0).fit(X, Y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.coef_.shape == model.coef_.shape
    assert loaded.get_params() == model.get_params()
    assert certify(loaded, X, Y) == loaded.certificate_ == model.certificate_
    assert loaded.dual_variables_.shape == (k, 150)


def test_a_damaged_model_is_refused(tmp_path):
    X, Y = data(k=3)
    path = tmp_path / "model"
    model = LinearSVR(random_state=0).fit(X, Y)
    model.coef_, model.intercept_ = model.coef_[:2], model.intercept_[:2]
    model.dual_variables_ = model.dual_variables_[:2]
    save_model(model, path)
    with pytest.raises(ModelFileError, match="does not have one part per target"):
        load_model(path)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_its_twin_predicts_the_same(k, fit_intercept):
    X, Y = data(k=k)
    model = LinearSVR(fit_intercept=fit_intercept, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), rtol=1e-12)


def test_it_says_what_it_is():
    X, y = load_diabetes(return_X_y=True)
    model = LinearSVR(C=100.0, epsilon=5.0, random_state=0).fit(X, y)
    text = str(model)
    assert "LinearSVR(C=100.0, epsilon=5.0, random_state=0)" in text
    assert "442 rows, 10 features" in text
    assert "certificate: objective" in text
    assert model.score(X, y) > 0.4


@pytest.mark.filterwarnings("error")
def test_squares_of_large_targets_may_overflow():
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = 1e300 * np.resize([1.0, -1.0], 60)
    model = LinearSVR().fit(X, y)
    assert model.certificate_.relative_gap <= model.tol
