"""The choice of a solver, against the measurements that it was made from."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from four_methods import FourMethods
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from widemargin import LinearSVC
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import CrammerSinger, Hinge, SquaredHinge
from widemargin.solvers import auto

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import choice  # noqa: E402

CELLS = choice.read(ROOT / "benchmarks" / "results" / "choice.jsonl")


def test_the_choice_is_nearly_always_close_to_the_best():
    ratios = np.array([choice.ratio(cell) for cell in CELLS])
    assert np.mean(ratios <= 1.5) >= 0.9


def test_the_choice_is_never_the_slowest():
    assert [cell for cell in CELLS if choice.is_slowest(cell)] == []


def test_all_was_measured():
    assert len(CELLS) == len(choice.DATA) * len(choice.RISKS) * len(choice.COSTS)
    assert all(set(cell["seconds"]) == set(choice.SOLVERS) for cell in CELLS)


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
def test_facts_count_the_rows_that_count(risk):
    X = sp.random(100, 7, density=0.5, format="csr", random_state=0)
    X[10:20] = 0.0
    cost = np.repeat([0.0, 3.0], 50)
    facts = auto.facts(as_rows(sp.csr_matrix(X)), risk(np.resize([1, -1], 100), cost))
    counted = X[50:].multiply(X[50:]).sum(axis=1)
    assert facts.n_rows == np.count_nonzero(counted)
    assert facts.n_features == 7
    assert facts.unbounded == (risk is SquaredHinge)
    typical = np.exp(np.mean(np.log(counted[counted > 0])))
    assert facts.stretch == pytest.approx(3.0 * typical)


def test_rows_that_are_nearly_empty_do_not_decide():
    X = np.random.default_rng(0).random((1000, 5))
    X[:20] *= 1e-6
    few = auto.facts(as_rows(X), Hinge(np.resize([1, -1], 1000), np.ones(1000)))
    none = auto.facts(as_rows(X[20:]), Hinge(np.resize([1, -1], 980), np.ones(980)))
    assert few.stretch == pytest.approx(none.stretch, rel=0.5)


def test_rows_of_zeros_have_a_solver():
    rows = as_rows(np.zeros((4, 3)))
    assert auto.choose(rows, Hinge(np.array([1, -1, 1, -1]), np.ones(4))) in choice.SOLVERS


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_all_classes_together_on_features_as_they_come(C):
    """Unscaled, one long feature couples all rows: planes solve what visits do not come near."""
    X, y = load_wine(return_X_y=True)
    model = LinearSVC(C=C, multi_class="crammer_singer", random_state=0).fit(X, y)
    assert (model.solver_, model.status_) == ("ocas", "converged")
    scaled = scale(X) / np.sqrt(13)
    model = LinearSVC(C=C, multi_class="crammer_singer", random_state=0).fit(scaled, y)
    assert (model.solver_, model.status_) == ("acf", "converged")


def test_few_features_on_disk():
    X = sp.random(200, 301, density=0.1, format="csr", random_state=0, dtype=np.float32)
    risk = Hinge(np.resize([1, -1], 200), np.ones(200))
    assert auto.choose(Blocks(X, 50), risk) == "stream"
    few = Blocks(X[:, :300], 50)
    assert auto.choose(few, risk) == "ocas"
    assert auto.choose(few, SquaredHinge(risk.y, risk.cost)) == "newton"
    assert auto.choose(few, risk, must_stream=True) == "stream"


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
def test_rows_of_a_kind_of_their_own_get_a_solver_that_can_have_them(risk):
    X = np.random.default_rng(0).standard_normal((40, 3))
    problem = Problem(FourMethods(as_rows(X)), risk(np.sign(X[:, 0]), np.ones(40)))
    name = auto.choose(problem.rows, problem.risk)
    auto.check(name, problem.rows, problem.risk)
    monitor = Monitor(1e-4, 1000)
    auto.make(name, problem.risk, seed=0).solve(problem, State.zero(problem), monitor)
    assert monitor.status == "converged"


def test_newton_says_what_it_cannot_do():
    rows = as_rows(np.eye(3))
    with pytest.raises(ValueError, match=r"two classes at a time.*: .* needs one of 'dcd', 'acf'"):
        auto.check("newton", rows, CrammerSinger(np.arange(3), np.ones(3), 3))


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("stretch", [1e-3, 1.0, 1e3])
def test_text_is_for_adaptive_frequencies(stretch, tol):
    text = auto.Facts(20_000, 50_000, unbounded=False, stretch=stretch, tol=tol)
    assert auto.pick(text) == "acf"


def test_at_small_gaps_newton_takes_over_where_rows_are_many():
    few = auto.Facts(n_rows=500, n_features=30, unbounded=False, stretch=20.0)
    assert [auto.pick(replace(few, tol=tol)) for tol in (0.1, 1e-3, 1e-6)] == [
        "acf",
        "acf",
        "newton",
    ]
    as_many = replace(few, n_features=300, tol=1e-8)
    assert auto.pick(as_many) == "acf"  # joint steps get there


def test_the_tolerance_of_the_estimator_decides():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 20)) / 4.0
    y = np.sign(X[:, 0] + 0.3 * rng.standard_normal(400))
    for tol, solver in ((1e-3, "acf"), (1e-9, "newton")):
        model = LinearSVC(loss="hinge", C=10.0, tol=tol, random_state=0).fit(X, y)
        assert (model.solver_, model.status_) == (solver, "converged")


def test_a_known_solution_nearby_is_for_adaptive_frequencies():
    few = auto.Facts(n_rows=30_000, n_features=100, unbounded=False, stretch=10.0)
    assert auto.pick(few) == "newton"
    assert auto.pick(replace(few, warm=True)) == "acf"
    assert auto.pick(replace(few, warm=True, stretch=1e6)) == "newton"
    many_rows = replace(few, n_rows=1_000_000, warm=True)
    assert auto.pick(many_rows) == "newton"
    assert auto.pick(replace(few, unbounded=True, warm=True)) == "newton"
