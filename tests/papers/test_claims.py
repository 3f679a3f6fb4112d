"""The central claim of each paper, of the algorithm as published, on small made-up sets."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from blocks import Blocks
from papers.sets import hands, noisy, text
from papers.test_published import Watched, planes_of, problem_of
from papers.test_published_disk import InTurn

from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge
from widemargin.solvers import auto, published_disk
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.published_disk import PublishedBlocks, PublishedStream
from widemargin.solvers.settings import PUBLISHED_PLANES


def iterations(n, method, eps, C_avg=100.0):
    X, y = noisy(n)
    return len(planes_of(problem_of(X, y, C_avg / n), method, eps)[0])


def test_joachims_iterations_do_not_grow_with_rows():
    counts = [iterations(n, "cpa", 1e-3) for n in (300, 1000, 3000, 9000)]
    assert max(counts[1:]) <= counts[0]


def test_joachims_iterations_grow_slower_than_one_over_eps_and_stay_within_the_bound():
    n, C_avg, accuracies = 1000, 100.0, (1e-1, 1e-2, 1e-3)
    R = np.linalg.norm(noisy(n)[0], axis=1).max()
    counts = [iterations(n, "cpa", eps, C_avg) for eps in accuracies]
    assert counts[0] < counts[1] < counts[2] < 10 * counts[0] * 10
    assert np.polyfit(np.log(accuracies), np.log(counts), 1)[0] >= -0.6
    for count, eps in zip(counts, accuracies, strict=True):
        assert count <= max(2.0 / eps, 8.0 * C_avg * R**2 / eps**2)


def test_ocas_takes_fewer_iterations_than_cpa_and_never_goes_up():
    X, y = noisy(1000)
    problem = problem_of(X, y, 0.1)
    objectives = {}
    for method in ("cpa", "ocas"):
        points, _ = planes_of(problem, method, 1e-3)
        objectives[method] = np.array(
            [0.5 * w @ w + problem.risk.value(problem.rows.scores(w)) for w in points]
        )
    assert 3 * len(objectives["ocas"]) <= len(objectives["cpa"])
    assert np.all(np.diff(objectives["ocas"]) <= 1e-9 * objectives["ocas"][1:])
    assert np.any(np.diff(objectives["cpa"]) > 0.0)


class Stepping(Watched):
    """Notes each step."""

    def __init__(self, problem, monitor):
        super().__init__(problem, monitor)
        self.steps = []

    def noted(self, answer):
        self.steps.append(answer.step)
        return super().noted(answer)


def steps_of(problem, method, **changes):
    monitor = Monitor(1e-2, 2000)
    oracle = Stepping(problem, monitor)
    settings = replace(PUBLISHED_PLANES[method], **changes)
    CuttingPlanes(method, settings).ask(oracle, State.zero(problem))
    assert monitor.status == "published"
    return np.abs(oracle.steps)


def test_arnosti_steps_of_zero_stall_oca_and_neither_gca2_nor_tca():
    X, y = hands()
    problem = problem_of(X, y, 1.0, multi=True)
    stalled = steps_of(problem, "ocas")
    assert np.mean(stalled == 0.0) >= 0.8
    for method in ("gca2", "tca"):
        steps = steps_of(problem, method)
        assert steps.size <= stalled.size / 2
        assert np.mean(steps < 1e-9) <= 0.2
    cured = steps_of(problem, "ocas", smallest_step=0.02, patience=1)
    assert cured.size <= stalled.size / 2


@pytest.mark.parametrize(("C", "pays"), [(1.0, False), (100.0, True)])
def test_avsf_pays_at_large_C_and_uniform_sweeps_at_small_C(C, pays):
    X, y = text()
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), C)), Intercept.NONE)
    passes = {}
    for schedule in ("dcd", "acf"):
        found = []
        for seed in range(3):
            monitor = Monitor(0.1, 10_000)
            solver = auto.make(f"{schedule}-paper", problem.risk, seed)
            solver.solve(problem, State.zero(problem), monitor)
            found.append(monitor.iteration)
        passes[schedule] = median(found)
    ratio = passes["dcd"] / passes["acf"]
    assert ratio >= 1.3 if pays else ratio <= 0.9


def test_streamsvm_needs_far_fewer_visits_than_block_minimization(monkeypatch):
    """With a tenth of the rows in memory, to 1 % of the optimum."""
    X, y = text()
    risk, n = Hinge(y, np.ones(len(y))), len(y)
    best = Monitor(1e-4, 1000)
    in_memory = Problem(as_rows(X), risk, Intercept.NONE)
    auto.make("acf", risk, 0).solve(in_memory, State.zero(in_memory), best)
    problem = Problem(Blocks(X, 100), risk, Intercept.NONE)
    monkeypatch.setattr(published_disk, "Reader", InTurn)
    room = X.nnz // 10
    visits = {}
    for name in ("stream", "bm", "sbm"):
        monitor = Monitor(1e-3, 400)

        def near(record, state):
            coef = state.coef
            value = 0.5 * coef @ coef + risk.value(in_memory.rows.scores(coef))
            return value <= 1.01 * best.certificate.primal

        monitor.on_check = near
        start = State.zero(problem)
        if name == "stream":
            run = published_disk._StreamRun(problem, start, monitor, room, PublishedStream(1))
        else:
            solver = PublishedBlocks(1, name == "sbm")
            run = published_disk._BlockRun(problem, start, monitor, 8.0 * room, solver)
        run.run()
        assert monitor.status == "callback"
        visits[name] = monitor.iteration * n
    assert 2 * visits["stream"] <= min(visits["bm"], visits["sbm"])
