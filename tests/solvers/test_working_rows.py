"""Working sets of rows: solutions and certificates are those of all rows."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearSVC, certify
from widemargin.certificate import certify_state
from widemargin.data.memory import CsrRows
from widemargin.losses import LOSSES
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import MarginRisk
from widemargin.solvers import working_rows
from widemargin.solvers.settings import WorkingRowsSettings
from widemargin.solvers.working_rows import Sample, Task, WorkingRows

# Such that small sets need several working sets.
_SMALL = WorkingRowsSettings(sample=15, listed=25, added=15, largest=1.0, rounds=40, room=200)


def _problem(seed, n=200, d=40, n_positive=4, loss="squared_hinge", intercept=Intercept.FREE):
    """Rows with positive numbers, as text has; a few are equal, and some are empty."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.15, random_state=seed).toarray() * rng.lognormal(0, 1, (1, d))
    X[:4] = X[4:8]
    X[20:24] = 0.0
    positives = np.sort(rng.choice(n, n_positive, replace=False))
    y = np.full(n, -1, np.int8)
    y[positives] = 1
    cost = rng.integers(0, 4, n) * 0.5
    cost[positives] = 1.0
    rows = CsrRows(sp.csr_matrix(X.astype(np.float32 if seed % 2 else np.float64)))
    return Problem(rows, MarginRisk(y, cost, LOSSES[loss]), intercept), positives


def _solved(problem, positives, tol, is_compact=False, settings=_SMALL, max_time=None):
    rows, cost = problem.rows, problem.risk.cost
    solver = WorkingRows(rows, Sample(rows, cost, settings, 0), "acf", settings)
    task = Task(lambda: problem, positives, Monitor(tol, 1000, max_time), 0, is_compact)
    solver.solve([task])
    return task


def _dense(state):
    return State(state.coef.dense(), state.offset, state.dual.dense())


@pytest.mark.parametrize("intercept", [Intercept.FREE, Intercept.PENALIZED])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_compact", [True, False])
def test_the_certificate_is_that_of_all_rows(loss, intercept, is_compact):
    for seed in range(2):
        problem, positives = _problem(seed, loss=loss, intercept=intercept)
        task = _solved(problem, positives, 1e-4, is_compact)
        assert task.is_done
        certificate = task.monitor.certificate
        assert certificate.relative_gap <= 1e-4
        whole = certify_state(problem, _dense(task.state))
        assert certificate.primal == pytest.approx(whole.primal, rel=1e-10)
        assert certificate.dual == pytest.approx(whole.dual, rel=1e-10)
        assert (task.state.coef.values.dtype == np.float32) == is_compact


def _exact_objective(problem, coef, offset):
    """P(coef, offset) in exact arithmetic."""
    w = [Fraction(float(value)) for value in coef]
    b, total = Fraction(offset), sum(value * value for value in w) / 2
    if problem.intercept is Intercept.PENALIZED:
        total += b * b / 2
    X = problem.rows.matrix.toarray()
    for x, y, c in zip(X, problem.risk.y, problem.risk.cost):
        score = sum(Fraction(float(v)) * w[k] for k, v in enumerate(x) if v)
        z = max(Fraction(0), 1 - int(y) * (score + b))
        total += Fraction(float(c)) * (z * z if problem.risk.loss.name == "squared_hinge" else z)
    return total


@given(
    seed=st.integers(0, 10_000),
    tol=st.sampled_from([0.5, 1e-1, 1e-2, 1e-6]),
    loss=st.sampled_from(["hinge", "squared_hinge"]),
    intercept=st.sampled_from([Intercept.FREE, Intercept.PENALIZED]),
    listed=st.sampled_from([2, 10, 50]),
)
def test_bounds_hold_in_exact_arithmetic(seed, tol, loss, intercept, listed):
    problem, positives = _problem(seed, 60, 12, 3, loss, intercept)
    settings = WorkingRowsSettings(
        sample=5, listed=listed, added=5, largest=1.0, rounds=30, room=60, first_tol=tol
    )
    task = _solved(problem, positives, tol, seed % 3 == 0, settings)
    if task.state is None:
        return
    certificate = task.monitor.certificate
    coef = task.state.coef.dense()
    assert _exact_objective(problem, coef, task.state.offset) <= Fraction(certificate.primal)
    y, weights = problem.risk.y, problem.risk.cost
    best = LinearSVC(loss=loss, penalized_intercept=intercept is Intercept.PENALIZED, solver="acf")
    best.fit(problem.rows.matrix.astype(np.float64), y, weights)
    assert certificate.dual <= best.certificate_.primal * (1 + 1e-12)


def test_problems_with_many_lossy_rows_are_left_to_another_solver():
    problem, positives = _problem(0, n_positive=60)
    few = WorkingRowsSettings(sample=15, listed=5, added=5, largest=0.2, rounds=40, room=200)
    assert not _solved(problem, positives, 1e-3, settings=few).is_done
    short = WorkingRowsSettings(sample=15, listed=5, added=1, largest=1.0, rounds=2, room=200)
    task = _solved(problem, positives, 1e-9, settings=short)
    assert not task.is_done
    assert task.state is not None  # where the other solver begins


@pytest.mark.parametrize("sparse", [True, False])
def test_time_that_is_up_leaves_a_certified_model(sparse):
    rng = np.random.default_rng(0)
    X = sp.random(6000, 300, 0.03, format="csr", random_state=0, dtype=np.float32)
    Y = sp.csr_matrix((rng.random((6000, 3)) < 0.002).astype(int))
    model = LinearSVC(max_time=1e-9, solver="acf", sparse_coef=sparse)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, Y)
    assert model.status_ == "max_time"
    again = certify(model, X, Y)
    assert again.primal == pytest.approx(model.certificate_.primal)
    assert again.dual == pytest.approx(model.certificate_.dual)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_rare_labels_are_solved_as_if_they_were_alone(sparse, loss, monkeypatch):
    """Through the estimator, where only many rows are worth it."""
    rng = np.random.default_rng(0)
    X = sp.random(6000, 300, 0.03, format="csr", random_state=0, dtype=np.float32)
    Y = np.zeros((6000, 4), int)
    for j, count in enumerate([1, 3, 20, 2000]):
        Y[rng.choice(6000, count, replace=False), j] = 1
    passes = []
    original = WorkingRows._pass
    monkeypatch.setattr(
        working_rows.WorkingRows,
        "_pass",
        lambda self, runs: passes.append(len(runs)) or original(self, runs),
    )
    weights = rng.integers(0, 8, 6000) * 0.25 + np.any(Y[:, :3], axis=1)
    parameters = {"tol": 1e-3, "loss": loss, "solver": "acf"}
    model = LinearSVC(**parameters, sparse_coef=sparse).fit(X, Y, weights)
    assert passes
    assert max(passes) == 3  # labels share passes
    for j, part in enumerate(model.certificate_.parts):
        alone = LinearSVC(**parameters).fit(X, Y[:, j], weights)
        assert part.relative_gap <= 1e-3
        assert part.dual <= alone.certificate_.primal
        assert alone.certificate_.dual <= part.primal
        # The gaps g of both models bound the distance of their w.
        distance = np.linalg.norm(model.coef_[[j]] - alone.coef_)
        if sparse:
            distance = np.linalg.norm(model.coef_.toarray()[j] - alone.coef_[0])
        assert distance <= np.sqrt(2 * part.gap) + np.sqrt(2 * alone.certificate_.gap)
    again = certify(model, X, Y, weights)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-10)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-10)
