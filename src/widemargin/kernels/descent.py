"""Runs of coordinate descent over rows with a two-class margin loss.

A run makes passes until a check of the gap is due. It is one compiled call, so that problems in
several threads seldom wait for the interpreter. A call makes at most `most` visits, and the next
one continues. The arguments are

    problem     rows, norms, mean_dot, y, cost, loss
    point       alpha, w, offset, seen_gap
    mean        of the rows, (d,), or (0,) if they are not centred
    absorbing   K and `kept`, see solvers/absorbed.py
    plan        the numbers of forecast.py

and what the two schedules visit, see solvers/schedule.py. All else is as in coordinate.py.
"""

import numpy as np
from numba.extending import register_jitable

from widemargin.kernels.coordinate import (
    GAIN,
    LARGEST,
    MEAN_GAIN,
    OFFSET,
    SMALLEST,
    TOO_LARGE,
    adaptive_order,
    adaptive_visits,
    due_rows,
    shuffle,
    shuffle_blocks,
    uniform_pass,
)
from widemargin.kernels.face import is_free
from widemargin.kernels.forecast import (
    DUE,
    IF_PROMISING,
    LEFT,
    LIKELY_PRIMAL,
    MOST_FREE,
    MOST_PASSES,
    NEXT_LOOK,
    NOW,
    OPTIMISM,
    PENALIZED,
    TOL,
    VISITS_PER_PASS,
    is_promising,
    may_check,
    plan_look,
)
from widemargin.kernels.jit import kernel
from widemargin.kernels.typing import Array

#: how a call ended: all its visits were made, a check is due, or all passes were made
GOES_ON, CHECK, NO_MORE = range(3)
#: places of `tally` besides those of coordinate.py: of a uniform run
TOO_SMALL, N_ACTIVE, N_PASSES = range(6, 9)
TALLY_SIZE = 9


# --- looks at the gap -----------------------------------------------------------------------


@register_jitable
def _gap_in_sight(problem: tuple, point: tuple, plan: Array) -> float:
    """Return an estimate of the gap that a check would find.

    Contributions are those just before each row's step: the gap is 0.6 to 1.0 of their sum.
    """
    _, norms, _, _, cost, loss = problem
    alpha, _, _, seen_gap = point
    total = 0.0
    for i in range(seen_gap.shape[0]):
        total += seen_gap[i]
    least = plan[LEFT] * total
    if plan[OPTIMISM] * least > plan[TOL] * plan[LIKELY_PRIMAL] or plan[LEFT] == 1.0:
        return least  # too much, however many rows are free
    count, theirs = 0, 0.0
    for i in range(alpha.shape[0]):
        free = is_free(alpha[i], cost[i], norms[i], loss[0], loss[1])
        count += free
        theirs += seen_gap[i] if free else 0.0
    return total if count > plan[MOST_FREE] else total - (1.0 - plan[LEFT]) * theirs


@register_jitable
def _dual_estimate(problem: tuple, point: tuple, mean: Array, plan: Array) -> float:
    """Return the dual value at the current point, up to rounding and imbalance."""
    _, _, _, _, cost, loss = problem
    alpha, w, offset, _ = point
    square, z = 0.0, offset[1]
    for k in range(w.shape[0]):
        square += np.float64(w[k]) * w[k]
    for k in range(mean.shape[0]):  # the model's w is w - z mean
        square += z * mean[k] * (z * mean[k] - 2.0 * w[k])
    square += plan[PENALIZED] * z * z
    return _height(alpha, cost, loss) - 0.5 * square


@register_jitable
def _height(alpha: Array, cost: Array, loss: tuple[float, ...]) -> float:
    """Return the sum of alpha - eps |alpha| - shift alpha^2 / 2."""
    height = 0.0
    for i in range(alpha.shape[0]):
        a = alpha[i]
        height += a
        if len(loss) == 4:
            height -= loss[3] * abs(a)
        if loss[2] > 0.0 and cost[i] > 0.0:
            height -= 0.5 * a * (loss[2] / cost[i] * a)
    return height


@kernel
def check_is_due(problem: tuple, point: tuple, mean: Array, plan: Array) -> bool:
    """Return whether a check is due; if not, plan the next look."""
    may = may_check(plan, _gap_in_sight(problem, point, plan))
    if may == IF_PROMISING and is_promising(plan, _dual_estimate(problem, point, mean, plan)):
        may = DUE
    if may == DUE:
        plan[NEXT_LOOK] = plan[NOW]
        return True
    plan_look(plan)
    return False


# --- uniform passes, with shrinking ---------------------------------------------------------


@kernel
def uniform_run(
    problem: tuple, point: tuple, mean: Array, absorbing: tuple[float, float],
    visits: tuple[Array, ...], numbers: tuple, plan: Array, most: int,
) -> int:  # fmt: skip
    """Make passes over the active rows that are due, with a look after each.

    place[0] of the pass's place[1] rows, which are first in `order`, were visited before.
    """
    rows, norms, mean_dot, y, cost, loss = problem
    alpha, w, offset, seen_gap = point
    candidates, active, due, order, place, status, generator, tally = visits
    overstep, first_overstep, first_passes, rest, block = numbers
    K, kept = absorbing
    made = 0
    while made < most:
        if place[0] == place[1]:
            n_active, count = due_rows(active[: np.intp(tally[N_ACTIVE])], status, due)
            while count == 0 and n_active > 0:  # all of them rest
                n_active, count = due_rows(active[:n_active], status, due)
            tally[N_ACTIVE] = n_active
            place[0], place[1] = 0, count
            if count == 0:  # what is left to gain is in shrunk rows
                return CHECK
            shuffle_blocks(due[:count], block, generator, order)
            tally[LARGEST], tally[SMALLEST] = -np.inf, np.inf
        begin, end = place[0], min(place[1], place[0] + most - made)
        uniform_pass(
            rows, norms, mean_dot, y, cost, loss, alpha, w, offset, seen_gap, order, begin, end,
            status, rest, tally[TOO_LARGE], tally[TOO_SMALL],
            first_overstep if tally[N_PASSES] < first_passes else overstep, tally,
        )  # fmt: skip
        made += end - begin
        plan[NOW] += (end - begin) / plan[VISITS_PER_PASS]
        place[0] = end
        if end == place[1]:
            tally[N_PASSES] += 1.0
            tally[TOO_LARGE] = tally[LARGEST] if tally[LARGEST] > 0.0 else np.inf
            tally[TOO_SMALL] = tally[SMALLEST] if tally[SMALLEST] < 0.0 else -np.inf
            _watch_offset(offset, candidates, active, status, tally)
            offset[0] = kept * (offset[0] + K * offset[1])
            if plan[NOW] >= plan[MOST_PASSES]:
                return NO_MORE
            if check_is_due(problem, point, mean, plan):
                return CHECK
    return GOES_ON


@register_jitable
def _watch_offset(
    offset: Array, candidates: Array, active: Array, status: Array, tally: Array
) -> None:
    """Reactivate all rows if the intercept has moved by more than inactive rows have room.

    An inactive row was at least that far from having anything to gain. The intercept changes all
    scores by the same amount, and only rows that are visited can hold it back.
    """
    now = offset[0] + offset[1] * offset[2]
    if np.isnan(tally[OFFSET]):
        tally[OFFSET] = now
    elif abs(now - tally[OFFSET]) > min(tally[TOO_LARGE], -tally[TOO_SMALL]):
        for t in range(candidates.shape[0]):
            active[t] = candidates[t]
            status[candidates[t]] = 0
        tally[N_ACTIVE], tally[OFFSET] = candidates.shape[0], np.nan
        tally[TOO_LARGE], tally[TOO_SMALL] = np.inf, -np.inf


# --- passes by preferences ------------------------------------------------------------------


@kernel
def adaptive_run(
    problem: tuple, point: tuple, mean: Array, absorbing: tuple[float, float],
    visits: tuple[Array, ...], numbers: tuple, plan: Array, most: int,
) -> int:  # fmt: skip
    """Make passes of rows in proportion to their preferences, and look from time to time.

    place[0] of the pass's place[1] rows, which are first in `order`, were visited before.
    `adaptive_order` chooses the rows of each pass. At the end of a pass, tally[TOO_LARGE] becomes
    `pushed` times the largest squared change of w by a row. tally[OFFSET] is the intercept when
    rows were last activated. If it has moved by more than tally[SMALLEST], all are activated.
    """
    rows, norms, mean_dot, y, cost, loss = problem
    alpha, w, offset, seen_gap = point
    candidates, order, place, preference, credit, generator, tally = visits
    lowest, highest, rate, forgotten, pushed, overstep, least = numbers
    K, kept = absorbing
    made = 0
    while made < most:
        if place[0] == place[1]:
            place[0], place[1] = 0, adaptive_order(preference, credit, least, order)
            if place[1] == 0:
                _activate_all(candidates, preference, tally)
                return CHECK
            shuffle(order, 0, place[1], generator)
            tally[GAIN] = tally[LARGEST] = 0.0
        begin, end = place[0], min(place[1], place[0] + most - made)
        adaptive_visits(
            rows, norms, mean_dot, y, cost, loss, alpha, w, offset, seen_gap, order, begin, end,
            preference, lowest, highest, rate, forgotten, 1.0 / candidates.shape[0], overstep,
            tally,
        )  # fmt: skip
        made += end - begin
        plan[NOW] += (end - begin) / plan[VISITS_PER_PASS]
        place[0] = end
        if end == place[1]:
            looks = plan[NOW] >= plan[NEXT_LOOK]
            if tally[MEAN_GAIN] == 0.0:
                # The next pass needs it. If nothing was gained, that pass is like this one.
                tally[MEAN_GAIN], looks = tally[GAIN] / place[1], True
            largest = pushed * tally[LARGEST]
            tally[TOO_LARGE] = largest if largest > 0.0 else np.inf
            now = offset[0] + offset[1] * offset[2]
            if np.isnan(tally[OFFSET]):
                tally[OFFSET] = now
            offset[0] = kept * (offset[0] + K * offset[1])
            if abs(now - tally[OFFSET]) > tally[SMALLEST]:
                _activate_all(candidates, preference, tally)
                looks = True
            if plan[NOW] >= plan[MOST_PASSES]:
                return NO_MORE
            if looks and check_is_due(problem, point, mean, plan):
                return CHECK
    return GOES_ON


@register_jitable
def _activate_all(candidates: Array, preference: Array, tally: Array) -> None:
    for i in candidates:
        if preference[i] == 0.0:
            preference[i] = 1.0
    tally[SMALLEST], tally[OFFSET] = np.inf, np.nan
