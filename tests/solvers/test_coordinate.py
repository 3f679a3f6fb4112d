import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from widemargin.certificate import certify_state
from widemargin.data import as_rows
from widemargin.kernels.coordinate import MEAN_GAIN, SHRUNK, SMALLEST, TOO_LARGE, due_rows
from widemargin.kernels.descent import N_ACTIVE
from widemargin.kernels.forecast import CHECKED_AT, MOST_PASSES, NEXT_LOOK, NOW, PREDICTED
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge, SquaredHinge
from widemargin.solvers.coordinate import CoordinateDescent, _Descent
from widemargin.solvers.schedule import AdaptiveSchedule, UniformSchedule
from widemargin.solvers.settings import VisitSettings

SCHEDULES = ["dcd", "acf"]


def text_like(n=400, d=300, density=0.05, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density, format="csr", random_state=rng, dtype=dtype)
    truth = rng.standard_normal(d)
    y = np.where(X @ truth + 0.1 * rng.standard_normal(n) > 0, 1, -1)
    return X, y


def solve(problem, schedule="acf", tol=1e-3, state=None, **limits):
    limits.setdefault("max_iter", 100_000)
    monitor = Monitor(tol=tol, **limits)
    solver = CoordinateDescent(schedule, seed=0)
    return solver.solve(problem, state or State.zero(problem), monitor), monitor


def one_pass(descent):
    """Make a single pass, as if a check were due after it; return the number of visits."""
    plan = descent.forecast.plan
    before, plan[CHECKED_AT], plan[NEXT_LOOK] = plan[NOW], -np.inf, 0.0
    while not descent._advance():
        pass
    return round((plan[NOW] - before) * descent.n_counted)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
@pytest.mark.parametrize("intercept", Intercept)
def test_history_closes_in_on_the_optimum(schedule, risk, intercept):
    X, y = text_like()
    problem = Problem(as_rows(X), risk(y, np.full(len(y), 10.0)), intercept)
    state, monitor = solve(problem, schedule)
    assert monitor.status == "converged"
    primal = [record.primal for record in monitor.history]
    dual = [record.dual for record in monitor.history]
    assert all(np.diff(primal) <= 0)
    assert all(np.diff(dual) >= 0)
    assert certify_state(problem, state).relative_gap <= 1e-3
    assert monitor.history[-1].phases.keys() - {"faces"} == {"passes", "checks"}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("intercept", [Intercept.FREE, Intercept.PENALIZED])
def test_an_intercept_costs_few_passes(schedule, intercept):
    X, y = text_like()
    X = normalize(X)  # so that a constant feature is as large as all the others together
    iterations = []
    for kind in (Intercept.NONE, intercept):
        problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 10.0)), kind)
        iterations.append(solve(problem, schedule)[1].iteration)
    assert iterations[1] <= 1.5 * iterations[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("cost", [0.01, 0.1, 10.0])
def test_a_penalised_intercept_is_found(schedule, cost):
    X, _ = text_like()
    y = np.where(np.random.default_rng(0).random(X.shape[0]) < 0.8, 1, -1)
    with_constant = sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    risk = Hinge(y, np.full(y.size, cost))
    state, monitor = solve(Problem(as_rows(X), risk, Intercept.PENALIZED), schedule, tol=1e-5)
    problem = Problem(as_rows(with_constant), risk, Intercept.NONE)
    other, _ = solve(problem, schedule, tol=1e-5)
    assert monitor.status == "converged"
    np.testing.assert_allclose(state.offset, other.coef[-1], rtol=0.05)


def test_at_large_costs_a_multiple_is_the_primal_point():
    X, y = text_like()
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 1000.0)))
    state, _ = solve(problem)
    combined = problem.rows.combine(problem.risk.signed(state.dual))
    factor = float(state.coef @ combined) / float(combined @ combined)
    assert factor > 1.0001
    plain = State(combined, 0.0, state.dual)
    assert certify_state(problem, plain).relative_gap > 2e-3


def test_a_start_tells_which_rows_to_prefer():
    X, y = text_like()
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 1.0)))
    start, _ = solve(problem)
    schedule = _Descent(
        problem, start, Monitor(tol=1e-3, max_iter=1), CoordinateDescent("acf")
    ).schedule
    alpha = start.dual
    places = alpha == 0.0, alpha == 1.0, (alpha > 0.0) & (alpha < 1.0)
    # Of each there are some, and they are preferred alike.
    lowest, middle, highest = (np.unique(schedule.preference[rows]).item() for rows in places)
    assert lowest < middle < highest


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_same_seed_gives_the_same_bits(schedule):
    X, y = text_like()
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 10.0)))
    first, _ = solve(problem, schedule)
    second, _ = solve(problem, schedule)
    np.testing.assert_array_equal(first.coef, second.coef)
    np.testing.assert_array_equal(first.dual, second.dual)


def test_single_precision_is_given_up_where_it_blurs_the_dual():
    X, y = text_like()
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 1.0)), Intercept.NONE)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-3, 100), CoordinateDescent("acf"))
    descent._check()
    one_pass(descent)
    descent._check()
    assert descent.w.dtype == np.float32
    np.testing.assert_allclose(descent.w, problem.rows.combine(descent.alpha * y), atol=1e-6)
    one_pass(descent)
    descent.w *= np.float32(1.01)
    descent._check()
    assert descent.w.dtype == np.float64
    np.testing.assert_array_equal(descent.w, problem.rows.combine(descent.alpha * y))


def test_balancing_is_not_taken_for_rounding():
    X, y = text_like()
    X.data -= X.data.mean()  # rows with nothing in common, so that they are not centred
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 1.0)), Intercept.FREE)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-3, 100), CoordinateDescent("acf"))
    for _ in range(3):
        descent._check()
        one_pass(descent)
    assert abs(descent.alpha @ y) > 1e-3
    descent._check()
    assert descent.w.dtype == np.float32


def test_tight_tolerances_start_in_double_precision():
    X, y = text_like()
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 1.0)), Intercept.NONE)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-8, 100), CoordinateDescent("acf"))
    assert descent.w.dtype == np.float64
    state, _ = solve(problem, tol=1e-8)
    assert certify_state(problem, state).relative_gap <= 1e-8


def test_a_warm_start_at_the_solution_stops_at_once():
    X, y = text_like()
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 10.0)))
    state, _ = solve(problem)
    _, monitor = solve(problem, state=state)
    assert monitor.iteration == 0
    assert monitor.status == "converged"


def test_rows_of_no_cost_are_never_visited():
    X, y = text_like()
    cost = np.full(len(y), 10.0)
    cost[::3] = 0.0
    problem = Problem(as_rows(X), SquaredHinge(y, cost))
    state, _ = solve(problem)
    assert np.all(state.dual[::3] == 0.0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_limits_stop_with_an_honest_certificate(schedule):
    X, y = text_like(n=2000, d=50)
    problem = Problem(as_rows(X), Hinge(y, np.full(len(y), 1e4)))
    state, monitor = solve(problem, schedule, tol=1e-12, max_iter=3)
    assert monitor.status == "max_iter"
    assert 3 <= monitor.iteration < 4.5
    certificate = certify_state(problem, state, monitor.tol)
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(monitor.certificate.dual, rel=1e-12)


def test_adaptive_frequencies_follow_the_preferences():
    schedule = AdaptiveSchedule(np.arange(100, dtype=np.uint32), 100, 0, VisitSettings())
    schedule.preference[:10] = 20.0
    from widemargin.kernels.coordinate import adaptive_order

    visits = np.zeros(100)
    for _ in range(400):
        count = adaptive_order(schedule.preference, schedule.credit, 1.0, schedule.order)
        assert np.unique(schedule.order[:count]).size == count  # no row twice in a pass
        np.add.at(visits, schedule.order[:count], 1)
    np.testing.assert_allclose(visits[:10], 400, atol=1)
    np.testing.assert_allclose(visits[10:], 20, atol=1)


def _two_rows(second, schedule="acf"):
    """A descent over a row at 1 and one at `second`, which is beyond the margin if above 1."""
    rows = as_rows(np.array([[1.0], [second]]))
    problem = Problem(rows, Hinge([1, 1], np.full(2, 10.0)), Intercept.NONE)
    descent = _Descent(
        problem, State.zero(problem), Monitor(1e-3, 100), CoordinateDescent(schedule)
    )
    descent._check()
    return descent


def _over_text(n, d, C, schedule, intercept=Intercept.NONE):
    """A descent over made-up text that has not begun."""
    X, y = text_like(n=n, d=d)
    problem = Problem(as_rows(X), Hinge(y, np.full(n, C)), intercept)
    descent = _Descent(
        problem, State.zero(problem), Monitor(1e-6, 1000), CoordinateDescent(schedule)
    )
    descent._check()
    return descent


def test_rows_that_visits_leave_alone_are_forgotten():
    descent = _two_rows(3.0)
    preferences = []
    for _ in range(12):
        descent.schedule.tally[TOO_LARGE] = np.inf  # nobody falls asleep
        one_pass(descent)
        preferences.append(descent.schedule.preference.copy())
    first, second = np.transpose(preferences)
    assert descent.alpha[0] > 0.0 == descent.alpha[1]
    assert second.min() == pytest.approx(1.0 / 20.0)  # as low as it gets
    fallen = second[1:] / second[:-1]
    assert np.sum(fallen < 0.45) <= 1  # by half at a time
    assert np.sum(fallen < 0.6) >= 3
    assert first.max() >= 1.0


def test_rows_that_press_hard_fall_asleep_until_they_have_something_to_gain():
    descent = _two_rows(3.0)
    schedule = descent.schedule
    for _ in range(5):
        one_pass(descent)
    assert schedule.preference[0] > 0.0 == schedule.preference[1]
    descent._check()
    assert schedule.preference[1] == 0.0  # still beyond the margin
    descent.alpha[:] = descent.w[:] = 0.0
    descent._check()
    assert schedule.preference[1] == 1.0


def test_rows_fall_asleep_by_how_far_they_would_push_w():
    descent = _two_rows(100.0)
    schedule, tally = descent.schedule, descent.schedule.tally
    for _ in range(20):
        tally[TOO_LARGE] = 2.0
        one_pass(descent)
    assert descent.w[0] == pytest.approx(1.0)
    assert schedule.preference[1] > 0.0  # of a gradient of 99, and 0.99 away in w
    assert tally[SMALLEST] == np.inf
    while schedule.preference[1] > 0.0:
        tally[TOO_LARGE] = 0.9
        one_pass(descent)
    assert tally[SMALLEST] == pytest.approx(99.0, rel=1e-3)  # it may go so far, and no farther


def test_a_check_that_would_fail_is_put_off_once(monkeypatch):
    descent = _two_rows(3.0)
    ahead = descent.best.coef, 0.0
    monkeypatch.setattr(descent, "_solve_together", lambda: ahead)
    counts, optimism = [], []
    for left in (1e9, 1e9, 1e9, np.inf):  # the last is not known
        one_pass(descent)
        descent.forecast.plan[PREDICTED], descent.left_by_face = 1e-9, left
        descent._check()
        counts.append(len(descent.monitor.history))
        optimism.append(descent.forecast.optimism)
    assert counts == [1, 2, 2, 3]
    assert optimism[0] == 20.0  # as much as may be learnt at once
    assert descent.forecast.plan[CHECKED_AT] == descent.monitor.iteration


def test_rows_at_an_upper_bound_fall_asleep_too():
    rows = as_rows(np.array([[1.0], [-0.5]]))  # the second is on the wrong side
    problem = Problem(rows, Hinge([1, 1], np.array([10.0, 0.01])), Intercept.NONE)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-3, 100), CoordinateDescent("acf"))
    descent._check()
    for _ in range(5):
        one_pass(descent)
    assert descent.alpha[1] == 0.01
    assert descent.schedule.preference[0] > 0.0 == descent.schedule.preference[1]


def test_where_all_rows_sleep_all_are_woken():
    descent = _two_rows(3.0)
    descent.schedule.informed = True  # so that the first pass is not over all rows anyway
    descent.schedule.preference[:] = 0.0
    assert one_pass(descent) == 0
    np.testing.assert_array_equal(descent.schedule.preference, 1.0)


def test_a_moving_intercept_wakes_rows():
    cost = np.array([10.0, 10.0, 10.0, 0.0])
    problem = Problem(as_rows(np.ones((4, 1))), Hinge([1, 1, 1, 1], cost), Intercept.NONE)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-3, 100), CoordinateDescent("acf"))
    schedule, tally = descent.schedule, descent.schedule.tally
    schedule.informed, tally[MEAN_GAIN] = True, 1.0
    for offset, woken in ((0.5, False), (0.7, False), (0.9, True)):
        schedule.preference[1:] = 0.0
        descent.offset[0], tally[SMALLEST] = offset, 0.3
        one_pass(descent)
        np.testing.assert_array_equal(schedule.preference[1:], [woken, woken, False])
    assert tally[SMALLEST] == np.inf


@pytest.mark.parametrize("rows_per_call", [1, 7, 1000])
@pytest.mark.parametrize("intercept", Intercept)
def test_passes_are_the_same_in_calls_of_any_length(rows_per_call, intercept):
    whole, in_parts = (_over_text(200, 20, 5.0, "acf", intercept) for _ in range(2))
    in_parts.problem.rows.__dict__["rows_per_call"] = rows_per_call
    for _ in range(10):
        assert one_pass(whole) == one_pass(in_parts)
    np.testing.assert_array_equal(whole.alpha, in_parts.alpha)
    np.testing.assert_array_equal(whole.offset, in_parts.offset)


def test_a_run_of_many_passes_is_one_call():
    descent = _over_text(200, 20, 5.0, "acf")
    descent.forecast.plan[MOST_PASSES] = 45
    descent.forecast.plan[CHECKED_AT] = np.inf  # no check is due
    assert not descent._advance()
    assert 45 <= descent.monitor.iteration < 46


def test_shuffling_is_uniform():
    from widemargin.kernels.coordinate import shuffle

    generator = np.array([88172645463325252], dtype=np.uint64)
    landed = np.zeros((5, 5))
    for _ in range(20_000):
        order = np.arange(5, dtype=np.uint32)
        shuffle(order, 0, 5, generator)
        landed[np.arange(5), order] += 1
    np.testing.assert_allclose(landed / 20_000, 0.2, atol=0.02)


def test_shrinking_leaves_rows_out():
    descent, counts = _over_text(2000, 50, 1.0, "dcd"), []
    for _ in range(20):
        counts.append(descent.schedule.tally[N_ACTIVE])
        one_pass(descent)
    assert counts[0] == 2000
    assert counts[-1] < 1000
    assert np.all(np.diff(counts) <= 0)


def test_rows_at_a_bound_rest_for_two_passes():
    descent = _two_rows(3.0, "dcd")
    schedule, counts = descent.schedule, []
    for _ in range(12):
        schedule.tally[TOO_LARGE] = np.inf  # nobody is shrunk away
        one_pass(descent)
        counts.append(schedule.last_count)
    assert descent.alpha[0] > 0.0 == descent.alpha[1]
    last = counts.index(2, 6)  # when the second row came
    assert counts[last - 3 : last + 3] == [2, 1, 1, 2, 1, 1]


def test_where_all_rows_rest_none_does():
    descent = _two_rows(3.0, "dcd")
    for rest in (1, 2):
        descent.schedule.status[:] = rest
        assert one_pass(descent) == 2
    descent.schedule.tally[N_ACTIVE] = 0
    assert one_pass(descent) == 0


def test_rows_shrunk_away_are_active_no_longer_and_others_rest_once_more():
    active, due = np.array([1, 2, 4, 5, 7], dtype=np.uint32), np.empty(5, dtype=np.uint32)
    status = np.zeros(9, dtype=np.uint8)
    status[[1, 4, 7]] = SHRUNK, 2, 1
    assert due_rows(active, status, due) == (4, 2)
    np.testing.assert_array_equal(active[:4], [2, 4, 5, 7])
    np.testing.assert_array_equal(due[:2], [2, 5])
    np.testing.assert_array_equal(status[[2, 4, 5, 7]], [0, 1, 0, 0])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_steps_go_beyond_the_maximum(schedule):
    problem = Problem(as_rows(np.eye(1)), Hinge([1], [10.0]), Intercept.NONE)
    monitor, solver = Monitor(1e-3, 100), CoordinateDescent(schedule)
    descent = _Descent(problem, State.zero(problem), monitor, solver)
    one_pass(descent)
    np.testing.assert_allclose(descent.alpha, 1.3)  # the dual's maximum is at 1


def test_rows_with_something_to_gain_come_back():
    rows = np.array([0, 2, 3, 5, 8], dtype=np.uint32)
    schedule = UniformSchedule(rows, 10, 0, VisitSettings())
    schedule._start_with(rows[[1, 4]])
    wanted = np.zeros(10, dtype=bool)
    wanted[[1, 3, 8]] = True  # row 1 does not count
    schedule.activate(wanted)
    assert schedule.tally[N_ACTIVE] == 3
    np.testing.assert_array_equal(schedule.active[:3], [2, 3, 8])


@pytest.mark.parametrize("seed", [51, 112, 239, 336, 436, 478, 512])
def test_a_free_intercept_is_not_held_by_the_few_rows_left(seed):
    """Rows shrunk away come back when the intercept moves past them; these seeds need it."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(2, 26), rng.integers(1, 7)
    X = rng.standard_normal((n, d)) * rng.choice([0.1, 1.0])
    X[rng.random((n, d)) < rng.choice([0, 0.5, 0.9])] = 0.0
    if rng.random() < 0.5:
        X[n // 2 :] = X[: n - n // 2]
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    cost = rng.choice([0.01, 1.0]) * rng.integers(0, 4, n)
    cost[:2] = np.maximum(cost[:2], 0.01)
    problem = Problem(as_rows(X), Hinge(y, cost), Intercept.FREE)
    state, monitor = solve(problem, "dcd", max_iter=2000)
    assert monitor.status == "converged"
    assert certify_state(problem, state).relative_gap <= 1e-3
