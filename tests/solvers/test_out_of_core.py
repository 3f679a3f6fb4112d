"""StreamSVM and block minimisation, over rows of which only blocks can be had."""

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from exact import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems

from widemargin.certificate import certify_in_one_pass, certify_state
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge, SquaredHinge
from widemargin.solvers import block_minimization, out_of_core, stream
from widemargin.solvers.block_minimization import BlockMinimization
from widemargin.solvers.pieces import Piece
from widemargin.solvers.settings import OutOfCoreSettings
from widemargin.solvers.stream import Stream

SOLVERS = ("stream", "bm", "sbm")


def on_disk(n=3000, d=300, cost=1.0, risk=Hinge, intercept=Intercept.NONE, size=100, seconds=0.0):
    rng = np.random.default_rng(0)
    X = sp.random(n, d, density=0.05, format="csr", random_state=0, dtype=np.float32)
    y = np.where(X @ rng.standard_normal(d) + 0.2 * rng.standard_normal(n) > 0, 1, -1)
    return Problem(Blocks(X, size, seconds), risk(y, np.full(n, cost)), intercept)


def solve(problem, solver, room, tol=1e-3, state=None, settings=OutOfCoreSettings(), **limits):
    """Run a solver with room for so many bytes of rows; return state, monitor and the run."""
    limits.setdefault("max_iter", 20_000)
    monitor = Monitor(tol=tol, **limits)
    state = state or State.zero(problem)
    if solver == "stream":
        made = stream.Stream(1 << 30, settings=settings)
        run = stream._Run(problem, state, monitor, room, made)
    else:
        made = block_minimization.BlockMinimization(1 << 30, solver == "sbm", settings=settings)
        run = block_minimization._Run(problem, state, monitor, room, made)
    return run.run(), monitor, run


@settings(deadline=None, max_examples=40)
@given(
    problem=problems(),
    solver=st.sampled_from(SOLVERS),
    room=st.sampled_from([200, 1000, 10**6]),
)
def test_a_solved_problem_is_certified_at_the_exact_optimum(problem, solver, room):
    matrix = problem.rows.matrix
    matrix = sp.csr_matrix(matrix).astype(np.float32)
    problem = Problem(Blocks(matrix, 4), problem.risk, problem.intercept)
    state, monitor, _ = solve(problem, solver, room, tol=1e-2, max_time=5.0)
    certificate = certify_state(problem, state)
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-9)
    assert certificate.dual == pytest.approx(
        monitor.certificate.dual, rel=1e-9, abs=1e-9 * certificate.primal
    )
    best = optimum(
        matrix,
        problem.risk.y,
        problem.risk.cost,
        loss=problem.risk.loss,
        intercept=problem.intercept,
    )
    slip = 1e-6 * max(1.0, abs(best))
    assert certificate.dual - slip <= best <= certificate.primal + slip


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
@pytest.mark.parametrize("share", [0.1, 2.0])
def test_every_solver_gets_there(solver, intercept, risk, share):
    problem = on_disk(risk=risk, intercept=intercept)
    room = share * problem.rows.rows.n_entries * 8
    tol = 2e-2 if solver == "bm" and share < 1.0 else 1e-3  # it is slow where memory is scarce
    state, monitor, _ = solve(problem, solver, room, tol)
    assert monitor.status == "converged"
    assert certify_state(problem, state).relative_gap <= tol
    in_memory = Problem(problem.rows.rows, problem.risk, problem.intercept)
    assert certify_state(in_memory, state).relative_gap <= 1.001 * tol


def test_a_pass_certifies_as_two_products_do():
    problem = on_disk(intercept=Intercept.PENALIZED)
    rng = np.random.default_rng(0)
    state = State(rng.standard_normal(300), 0.3, rng.random(3000))
    before = problem.rows.passes
    found = certify_in_one_pass(problem, state)
    assert problem.rows.passes == before + 1
    in_memory = Problem(problem.rows.rows, problem.risk, problem.intercept)
    expected = certify_state(in_memory, state)
    # Rows that are only known by their features get a wider allowance for rounding.
    assert found.certificate.primal == pytest.approx(expected.primal, rel=1e-11)
    assert found.certificate.dual == pytest.approx(expected.dual, rel=1e-11)


def test_the_room_is_kept_to():
    problem = on_disk(cost=10.0)
    room = 40_000
    sizes = []

    class Watched(stream._Run):
        def _keep(self, piece):
            super()._keep(piece)
            assert self.size == sum(piece.nbytes for piece in self.pieces)
            assert self.in_memory.sum() == sum(len(piece) for piece in self.pieces)
            sizes.append(self.size)

    monitor = Monitor(1e-3, 20_000)
    Watched(problem, State.zero(problem), monitor, room, stream.Stream(1 << 30)).run()
    assert 0.5 * room < max(sizes) <= room


def test_more_memory_means_fewer_passes_over_the_disk():
    problem = on_disk(cost=10.0)
    whole = problem.rows.rows.n_entries * 8
    _, _, little = solve(problem, "stream", 0.1 * whole)
    _, _, much = solve(problem, "stream", 2.0 * whole)
    assert much.passes < little.passes


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("intercept", Intercept)
def test_w_is_that_of_alpha_at_all_times(solver, intercept, monkeypatch):
    """Also after checks, which balance alpha, while rows stay in memory."""
    problem = on_disk(intercept=intercept)
    matrix = problem.rows.rows.matrix
    check = out_of_core.OutOfCore.check
    checks = 0

    def watched(run, active=0):
        nonlocal checks
        checks += 1
        np.testing.assert_allclose(run.w, matrix.T @ (run.alpha * problem.risk.y), atol=1e-5)
        check(run, active)

    monkeypatch.setattr(out_of_core.OutOfCore, "check", watched)
    settings = OutOfCoreSettings(passes_between_checks=1)
    room = 0.3 * problem.rows.n_entries * 8
    solve(problem, solver, room, tol=5e-5, settings=settings, max_iter=300)
    assert checks > 2


def test_rows_are_let_go_and_come_back():
    problem = on_disk(cost=0.1)
    _, monitor, run = solve(problem, "stream", 10**9)
    assert 0 < run.in_memory.sum() < 3000
    assert monitor.history[-1].active_rows < 3000


def test_the_trainer_works_while_the_reader_reads():
    problem = on_disk(seconds=0.01)
    _, monitor, run = solve(problem, "stream", 10**6)
    assert monitor.phases["reading"] > 0.1
    assert monitor.iteration > 2 * run.passes


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_goes_wrong_in_the_reader_is_raised(solver):
    class Broken(Blocks):
        def blocks(self):
            for block in super().blocks():
                if block.begin >= 1000 and self.passes > 2:
                    raise ValueError("part-00001.arrow: changed while it was being read")
                yield block

    good = on_disk()
    rows = Broken(good.rows.rows.matrix, 100)
    problem = Problem(rows, good.risk, good.intercept)
    with pytest.raises(ValueError, match=r"part-00001\.arrow: changed"):
        solve(problem, solver, 30_000, tol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_limits_stop_with_an_honest_certificate(solver):
    problem = on_disk(cost=100.0)
    state, monitor, _ = solve(problem, solver, 30_000, tol=1e-9, max_iter=3)
    assert monitor.status == "max_iter"
    certificate = certify_state(problem, state)
    assert certificate.dual == pytest.approx(monitor.certificate.dual, rel=1e-9)
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_goes_on(solver):
    problem = on_disk()
    state, cold, _ = solve(problem, solver, 10**6)
    _, warm, _ = solve(problem, solver, 10**6, state=state)
    assert warm.iteration == 0 < cold.iteration


@pytest.mark.parametrize("make", [Stream, lambda budget: BlockMinimization(budget, True)])
def test_a_budget_that_is_too_small_is_refused_with_the_least(make):
    problem = on_disk()
    with pytest.raises(ValueError, match=r"memory_budget is 1 MiB.*need (\d+) MiB at least"):
        make(1 << 20).solve(problem, State.zero(problem), Monitor(1e-3, 100))
    least = out_of_core.room_for_rows(problem, 1 << 30, OutOfCoreSettings())
    assert 0 < least < 1 << 30
    state = make(64 << 20).solve(problem, State.zero(problem), Monitor(1e-3, 10_000))
    assert certify_state(problem, state).relative_gap <= 1e-3


@given(seed=st.integers(0, 10**6))
def test_pieces_are_taken_and_joined(seed):
    rng = np.random.default_rng(seed)
    X = sp.random(20, 9, density=0.3, format="csr", random_state=seed, dtype=np.float32)
    problem = Problem(Blocks(X, 20), Hinge(np.ones(20), rng.random(20)), Intercept.NONE)
    settings = OutOfCoreSettings()
    run = out_of_core.OutOfCore(problem, State.zero(problem), Monitor(1e-3, 10), 0, settings)
    piece = run.piece(next(problem.rows.blocks()), np.ones(20, dtype=bool))
    split = int(rng.integers(1, 19))
    first, second = piece.take(np.arange(split)), piece.take(np.arange(split, 20))
    joined = Piece.joined([first, second])
    for array, expected in zip(joined.arrays, piece.arrays, strict=True):
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == expected.dtype
    np.testing.assert_array_equal(joined.ids, piece.ids)
    np.testing.assert_allclose(joined.norms, X.multiply(X).sum(axis=1).A1, rtol=1e-6)
    w = rng.standard_normal(9)
    np.testing.assert_allclose(joined.scores(w), X @ w, rtol=1e-6, atol=1e-6)
    assert joined.nbytes >= first.nbytes + second.nbytes - 8
