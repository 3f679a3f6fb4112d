"""How problems share threads, passes and time."""

import threading
import time

import numpy as np
import pytest

from widemargin import LinearSVC
from widemargin.data import as_rows
from widemargin.estimators.batch import Batch, Limits, Plan
from widemargin.problem import Problem
from widemargin.risk import Hinge

N = 6


class Problems(Batch):
    def __init__(self, solve, n_at_once=1, n_together=0, seconds=None):
        super().__init__(N, Plan("dcd", n_at_once, 1, n_together), seconds)
        self.solve_one, self.groups = solve, []

    def solve(self, index, seconds):
        self.solve_one(index, seconds)

    def meet(self, places, functions):
        self.groups.append(list(places))
        for function in functions:
            function()


@pytest.mark.parametrize("how", [{}, {"n_at_once": 3}, {"n_together": 4}])
def test_each_problem_is_solved_once(how):
    solved = []
    Problems(lambda index, seconds: solved.append(index), **how).run()
    assert sorted(solved) == list(range(N))


def test_groups_are_of_about_equal_size():
    made = Problems(lambda index, seconds: None, n_together=4)
    made.run()
    assert made.groups == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("how", "first"), [({}, 1 / 6), ({"n_at_once": 3}, 1 / 2), ({"n_together": 3}, 1 / 2)]
)
def test_all_have_the_same_time(how, first):
    seconds = [0.0] * N

    def solve(index, its):
        seconds[index] = its

    Problems(solve, seconds=60.0, **how).run()
    assert seconds[0] == pytest.approx(60.0 * first, rel=0.01)
    # What the first ones leave goes to the others.
    assert seconds[-1] >= seconds[0]
    assert max(seconds) <= 60.0


def test_an_error_ends_the_batch_and_its_threads():
    before = threading.active_count()

    def solve(index, seconds):
        if index == 1:
            raise RuntimeError("no solution")
        time.sleep(0.01)

    with pytest.raises(RuntimeError, match="no solution"):
        Problems(solve, n_at_once=2).run()
    assert threading.active_count() == before


def test_idle_threads_go_ahead():
    followed = []
    Problems(lambda index, seconds: None, n_at_once=2).run(go_ahead=followed.append)
    assert set(followed) <= set(range(N))
    assert followed


def plan(n_rows, n_features, n_problems, solver, n_jobs):
    rows = as_rows(np.ones((n_rows, n_features)))
    problem = Problem(rows, Hinge(np.ones(n_rows, np.int8), np.ones(n_rows)))
    return Plan.of(n_jobs, n_problems, problem, solver)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((100_000, 10, 5, "newton", 4), Plan("newton", 1, 4, 5)),
        ((100_000, 10, 1, "newton", 4), Plan("newton", 1, 4)),
        ((100, 10, 5, "newton", 4), Plan("newton", 4, 1)),  # too few rows to wait for each other
        ((100, 10, 5, "dcd", 4), Plan("dcd", 4, 1)),
        ((100, 10, 2, "ocas", 4), Plan("ocas", 2, 2)),
        ((100, 10, 2, "dcd", 4), Plan("dcd", 2, 1)),
    ],
)
def test_plans(given, wanted):
    assert plan(*given) == wanted


def test_limits_count_from_when_they_were_made():
    limits = Limits.of(LinearSVC(max_time=100.0, max_iter=7, tol=0.1))
    assert 0.0 < limits.seconds_left <= 100.0
    monitor = limits.monitor(3, 1.0)
    assert (monitor.tol, monitor.max_iter, monitor.problem) == (0.1, 7, 3)
    assert monitor.started == limits.started
    assert Limits.of(LinearSVC()).seconds_left is None
