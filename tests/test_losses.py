"""The table of losses: its numbers, and that a row of it is all that a loss needs."""

from math import inf

import numpy as np
import pytest
from blocks import Blocks
from exact import optimum
from scipy.optimize import minimize

from widemargin import (
    LinearSVC,
    LinearSVCCV,
    certify,
    load_model,
    save_model,
    svm_path,
)
from widemargin.losses import LOSSES, SMOOTH_HINGE, SQUARED_HINGE, Loss
from widemargin.model_io import write_liblinear
from widemargin.problem import Intercept
from widemargin.risk import MarginRisk
from widemargin.solvers.registry import Place, names

INTERCEPTS = {
    Intercept.FREE: {},
    Intercept.PENALIZED: {"penalized_intercept": True},
    Intercept.NONE: {"fit_intercept": False},
}

# What a test adds to the table: bounded, endless and with kinks, and all on both sides.
HUBER = Loss("odd_huber", low=-0.5, bend=0.25)
SQUARED_TUBE = Loss("odd_squared_tube", eps=0.25, low=-inf, high=inf, bend=0.5)
TUBE = Loss("odd_tube", eps=0.25, low=-0.5)
NEW = [HUBER, SQUARED_TUBE, TUBE]


def data(n_classes=2, n=120, d=5):
    """Return rows of classes that overlap."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[y]
    return X.astype(np.float32), y


def signs(y):
    return np.where(y == 1, 1, -1)


def assert_solved(model, X, y, cost, loss, intercept=Intercept.FREE):
    """The certificate is within `tol`, true, and that of the model."""
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert certificate.relative_gap <= model.tol
    best = optimum(X, signs(y), np.broadcast_to(cost, y.shape), loss=loss, intercept=intercept)
    assert certificate.dual <= best * (1.0 + 1e-7)
    assert best <= certificate.primal * (1.0 + 1e-7)


@pytest.fixture
def table(monkeypatch):
    """The table, with losses that are gone after the test."""
    for loss in NEW:
        monkeypatch.setitem(LOSSES, loss.name, loss)


# By formulas that somebody else would write, of residuals r.
FORMULAS = {
    "hinge": lambda r: np.maximum(0.0, r),
    "squared_hinge": lambda r: np.maximum(0.0, r) ** 2,
    "smooth_hinge": lambda r: np.where(r > 1.0, r - 0.5, np.maximum(0.0, r) ** 2 / 2.0),
    "odd_huber": lambda r: np.where(
        r > 0.25, r - 0.125, np.where(r < -0.125, -r / 2.0 - 0.03125, 2.0 * r**2)
    ),
    "odd_squared_tube": lambda r: np.maximum(0.0, np.abs(r) - 0.25) ** 2,
    "odd_tube": lambda r: np.maximum(
        0.0, np.where(r > 0.0, r, -r / 2.0) - np.where(r > 0.0, 0.25, 0.125)
    ),
}


class TestNumbers:
    """What the four numbers mean."""

    @pytest.fixture(params=FORMULAS)
    def name(self, request, table):
        return request.param

    def test_every_loss_has_a_formula(self, table):
        assert set(LOSSES) == set(FORMULAS)
        assert all(name == loss.name for name, loss in LOSSES.items())

    def test_values(self, name):
        residual = np.linspace(-4.0, 4.0, 4001)
        cost = np.linspace(0.5, 2.0, residual.size)
        for sign in (1, -1):
            risk = MarginRisk(np.full(residual.size, sign), cost, LOSSES[name])
            expected = cost * FORMULAS[name](residual)
            np.testing.assert_allclose(risk.losses(residual), expected, rtol=1e-12, atol=1e-14)
            assert risk.value(sign * (1.0 - residual)) == pytest.approx(expected.sum(), rel=1e-12)

    def test_slopes_are_numerical_derivatives(self, name):
        """Away from kinks; with the sign of the label."""
        residual = np.linspace(-3.9, 3.9, 600)  # at none of the knots
        y = np.where(np.arange(residual.size) % 2, 1, -1)
        risk = MarginRisk(y, np.linspace(0.5, 2.0, residual.size), LOSSES[name])
        S, h = y * (1.0 - residual), 1e-6
        beside = [risk.losses(1.0 - y * (S + step)) for step in (h, -h)]
        slope = risk.cut(S).slope
        np.testing.assert_allclose(slope, (beside[0] - beside[1]) / (2.0 * h), atol=1e-7)
        assert np.all(-slope * y >= risk.lower)
        assert np.all(-slope * y <= risk.upper)

    def test_dual_terms_are_the_conjugate(self, name):
        """The dual term of alpha is the least of loss(r) - alpha (r - 1), over residuals r."""
        loss, residual = LOSSES[name], np.linspace(-20.0, 20.0, 200001)
        low, high = max(loss.low, -2.0), min(loss.high, 2.0)
        losses = FORMULAS[name](residual)
        for alpha in np.linspace(low, high, 9):
            dual = MarginRisk([1], [1.0], loss).dual(np.array([alpha]))
            assert dual == pytest.approx(np.min(losses - alpha * (residual - 1.0)), abs=1e-7)

    def test_a_loss_without_bounds_needs_a_bend(self):
        with pytest.raises(ValueError, match="'absurd' is infinite"):
            Loss("absurd", high=inf)

    def test_a_loss_that_is_not_there(self):
        X, y = data()
        listed = "loss must be one of " + ", ".join(map(repr, LOSSES))
        with pytest.raises(ValueError, match=f"{listed}, not 'odd_huber'"):
            LinearSVC(loss="odd_huber").fit(X, y)


class TestSmoothHinge:
    """By the public door."""

    @pytest.mark.parametrize("intercept", INTERCEPTS)
    @pytest.mark.parametrize("solver", names(Place.MEMORY))
    def test_in_memory(self, solver, intercept):
        X, y = data()
        given = {"C": 0.5, "tol": 1e-5, "random_state": 0, **INTERCEPTS[intercept]}
        model = LinearSVC(loss="smooth_hinge", solver=solver, **given).fit(X, y)
        assert model.solver_ == solver
        assert_solved(model, X, y, 0.5, SMOOTH_HINGE, intercept)

    @pytest.mark.parametrize("intercept", INTERCEPTS)
    @pytest.mark.parametrize("solver", ["newton", "ocas", "stream", "bm", "sbm"])
    def test_on_disk(self, solver, intercept):
        X, y = data()
        given = {"C": 0.5, "tol": 1e-4, "random_state": 0, **INTERCEPTS[intercept]}
        model = LinearSVC(loss="smooth_hinge", solver=solver, **given).fit(Blocks(X, 40), y)
        assert model.solver_ == solver
        assert_solved(model, X, y, 0.5, SMOOTH_HINGE, intercept)

    @pytest.mark.parametrize("layout", ["dense", "disk"])
    def test_the_solver_that_is_chosen(self, layout):
        X, y = data()
        rows = X if layout == "dense" else Blocks(X, 40)
        model = LinearSVC(loss="smooth_hinge", tol=1e-6, random_state=0).fit(rows, y)
        assert_solved(model, X, y, 1.0, SMOOTH_HINGE)

    def test_the_optimum_of_a_general_minimiser(self):
        X, y = data()
        formula, sign = FORMULAS["smooth_hinge"], signs(y)

        def objective(v):
            residual = 1.0 - sign * (X @ v[:-1] + v[-1])
            slope = -sign * np.clip(residual, 0.0, 1.0)
            value = 0.5 * v[:-1] @ v[:-1] + formula(residual).sum()
            return value, np.append(v[:-1] + X.T @ slope, slope.sum())

        peer = minimize(
            objective,
            np.zeros(X.shape[1] + 1),
            jac=True,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-9},
        )
        model = LinearSVC(loss="smooth_hinge", tol=1e-9, random_state=0).fit(X, y)
        assert model.certificate_.primal == pytest.approx(peer.fun, rel=1e-8)
        coefs = np.append(model.coef_[0], model.intercept_)
        np.testing.assert_allclose(coefs, peer.x, rtol=1e-3, atol=1e-4)

    def test_one_versus_rest(self):
        X, y = data(n_classes=3)
        model = LinearSVC(loss="smooth_hinge", tol=1e-6, random_state=0).fit(X, y)
        assert len(model.certificate_.parts) == 3
        for label, part in enumerate(model.certificate_.parts):
            sign = np.where(y == label, 1, -1)
            best = optimum(X, sign, np.ones(y.size), loss=SMOOTH_HINGE, intercept=Intercept.FREE)
            assert part.dual <= best * (1.0 + 1e-7) <= part.primal * (1.0 + 2e-7)
            assert part.relative_gap <= 1e-6

    @pytest.mark.parametrize("solver", ["acf", "newton", "ocas"])
    def test_weights_of_classes_and_rows(self, solver):
        X, y = data()
        weight = np.random.default_rng(1).integers(0, 4, y.size).astype(float)
        by_class = {0: 0.5, 1: 2.0}
        given = {"solver": solver, "tol": 1e-5, "random_state": 0}
        model = LinearSVC(loss="smooth_hinge", class_weight=by_class, **given)
        model.fit(X, y, sample_weight=weight)
        assert_solved(model, X, y, weight * np.where(y == 1, 2.0, 0.5), SMOOTH_HINGE)
        again = certify(model, X, y, sample_weight=weight)
        assert again.relative_gap <= 1e-5

    @pytest.mark.parametrize("solver", ["dcd", "acf", "newton"])
    def test_warm_start(self, solver):
        X, y = data()
        given = {"solver": solver, "warm_start": True, "tol": 1e-6, "random_state": 0}
        model = LinearSVC(loss="smooth_hinge", **given).fit(X, y)
        assert model.fit(X, y).n_iter_ <= 1
        assert_solved(model.set_params(C=1.5).fit(X, y), X, y, 1.5, SMOOTH_HINGE)

    def test_a_start_at_another_loss(self):
        """Dual variables that are infeasible there are of use all the same."""
        X, y = data()
        model = LinearSVC(C=10.0, solver="acf", warm_start=True, tol=1e-6, random_state=0)
        for loss in (SQUARED_HINGE, SMOOTH_HINGE):
            assert_solved(model.set_params(loss=loss.name).fit(X, y), X, y, 10.0, loss)

    def test_path_and_cross_validation(self):
        X, y = data()
        Cs = [0.01, 0.3, 10.0]
        path = svm_path(X, y, Cs=Cs, loss="smooth_hinge", tol=1e-5, random_state=0)
        for C, certificate in zip(Cs, path.certificates):
            given = {"loss": SMOOTH_HINGE, "intercept": Intercept.FREE}
            best = optimum(X, signs(y), np.full(y.size, C), **given)
            assert certificate.relative_gap <= 1e-5
            assert certificate.dual <= best * (1.0 + 1e-7) <= certificate.primal * (1.0 + 2e-7)
        search = LinearSVCCV(Cs=Cs, cv=3, loss="smooth_hinge", random_state=0).fit(X, y)
        assert np.all(search.relative_gaps_ <= search.tol)
        assert search.best_estimator_.loss == "smooth_hinge"
        assert_solved(search.best_estimator_, X, y, search.C_, SMOOTH_HINGE)

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_saved_and_certified(self, tmp_path, n_classes):
        X, y = data(n_classes)
        model = LinearSVC(loss="smooth_hinge", random_state=0).fit(X, y)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.loss == "smooth_hinge"
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        again = certify(loaded, X, y)
        assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
        assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
        np.testing.assert_array_equal(model.to_sklearn().predict(X), model.predict(X))

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_as_a_file_of_liblinear(self, tmp_path, n_classes):
        """Read as LIBLINEAR's `predict` does: one row for each feature, the last for the bias."""
        X, y = data(n_classes)
        model = LinearSVC(loss="smooth_hinge", random_state=0).fit(X, y)
        write_liblinear(model, tmp_path / "model")
        text = (tmp_path / "model").read_text().split("\nw\n")
        header = dict(line.split(" ", 1) for line in text[0].splitlines())
        assert header["solver_type"] == "L2R_L1LOSS_SVC_DUAL"
        W = np.array([line.split() for line in text[1].splitlines()], dtype=float)
        scores = np.column_stack([X, np.full(y.size, float(header["bias"]))]) @ W
        places = (scores[:, 0] <= 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
        labels = np.array(header["label"].split(), dtype=int)
        np.testing.assert_array_equal(labels[places], model.predict(X))


class TestAddedLosses:
    """A row of the table is accepted by estimators and solvers."""

    @pytest.mark.parametrize("loss", NEW, ids=lambda loss: loss.name)
    @pytest.mark.parametrize("solver", names(Place.MEMORY))
    def test_in_memory(self, table, solver, loss):
        X, y = data()
        # Cutting planes take many iterations to a small gap where there are kinks.
        given = {"C": 0.1, "tol": 1e-3, "random_state": 0}
        model = LinearSVC(loss=loss.name, solver=solver, **given).fit(X, y)
        assert model.solver_ == solver
        assert_solved(model, X, y, 0.1, loss)

    @pytest.mark.parametrize("loss", NEW, ids=lambda loss: loss.name)
    @pytest.mark.parametrize("solver", names(Place.DISK))
    def test_on_disk(self, table, solver, loss):
        X, y = data()
        given = {"C": 0.1, "tol": 1e-3, "random_state": 0}
        model = LinearSVC(loss=loss.name, solver=solver, **given).fit(Blocks(X, 40), y)
        assert model.solver_ == solver
        assert_solved(model, X, y, 0.1, loss)

    @pytest.mark.parametrize("intercept", INTERCEPTS)
    def test_intercepts_paths_and_files(self, table, tmp_path, intercept):
        X, y = data()
        given = {"loss": "odd_huber", "tol": 1e-5, "random_state": 0, **INTERCEPTS[intercept]}
        model = LinearSVC(**given).fit(X, y)
        assert_solved(model, X, y, 1.0, HUBER, intercept)
        save_model(model, tmp_path / "model")
        again = certify(load_model(tmp_path / "model"), X, y)
        assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
        path = svm_path(X, y, Cs=[0.1, 1.0], **given)
        assert all(certificate.relative_gap <= 1e-5 for certificate in path.certificates)
        search = LinearSVCCV(Cs=[0.1, 1.0], cv=3, **given).fit(X, y)
        assert np.all(search.relative_gaps_ <= 1e-5)

    def test_they_are_gone_afterwards(self):
        assert not {loss.name for loss in NEW} & set(LOSSES)
