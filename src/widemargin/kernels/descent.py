"""Runs of coordinate descent over rows with a two-class margin loss.

A run makes passes until a check of the gap is due. It is one compiled call, so that problems in
several threads seldom wait for the interpreter. A call makes at most `most` visits, and the next
one continues. `mean` is that of the rows, (d,), or empty if they are not centred; K and `kept`
are those of solvers/absorbed.py, `plan` has the numbers of forecast.py, and the arguments after
`most` belong to a schedule, see solvers/schedule.py. All others are as in coordinate.py.
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
    NOT_YET,
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
from widemargin.kernels.response import target_of
from widemargin.kernels.typing import Array, Rows

#: how a call ended: all its visits were made, a check is due, or all passes were made
GOES_ON, CHECK, NO_MORE = range(3)
#: places of `tally` besides those of coordinate.py: of a uniform run
TOO_SMALL, N_ACTIVE = range(6, 8)
TALLY_SIZE = 8


# --- looks at the gap -----------------------------------------------------------------------


@register_jitable
def _look(
    alpha: Array, w: Array, z: float, seen_gap: Array, norms: Array, mean: Array, y: Array,
    cost: Array, loss: tuple[float, ...], plan: Array,
) -> bool:  # fmt: skip
    """Return whether a check is due; if not, plan the next look."""
    # Contributions are those just before each row's step: the gap is 0.6 to 1.0 of their sum.
    gap = 0.0
    for i in range(seen_gap.shape[0]):
        gap += seen_gap[i]
    if plan[LEFT] < 1.0:
        if plan[OPTIMISM] * plan[LEFT] * gap > plan[TOL] * plan[LIKELY_PRIMAL]:
            gap = plan[LEFT] * gap  # too much, however many rows are free
        else:
            count, theirs = 0, 0.0
            for i in range(alpha.shape[0]):
                free = is_free(alpha[i], cost[i], norms[i], loss[0], loss[1])
                count += free
                theirs += seen_gap[i] if free else 0.0
            gap -= (1.0 - plan[LEFT]) * theirs if count <= plan[MOST_FREE] else 0.0
    may = may_check(plan, gap)
    if may == IF_PROMISING:
        # The dual value at the current point, up to rounding and imbalance.
        dual = -0.5 * plan[PENALIZED] * z * z
        for k in range(w.shape[0]):
            dual -= 0.5 * np.float64(w[k]) * w[k]
        for k in range(mean.shape[0]):  # the model's w is w - z mean
            dual += z * mean[k] * (w[k] - 0.5 * z * mean[k])
        for i in range(alpha.shape[0]):
            dual += target_of(y[i]) * alpha[i]
            if len(loss) == 4:
                dual -= loss[3] * abs(alpha[i])
            if loss[2] > 0.0 and cost[i] > 0.0:
                dual -= 0.5 * alpha[i] * (loss[2] / cost[i] * alpha[i])
        may = DUE if is_promising(plan, dual) else NOT_YET
    plan_look(plan)
    return may == DUE


# --- uniform passes, with shrinking ---------------------------------------------------------


@kernel
def uniform_run(
    rows: Rows, norms: Array, mean_dot: Array, y: Array, cost: Array, loss: tuple[float, ...],
    alpha: Array, w: Array, offset: Array, seen_gap: Array, mean: Array, K: float, kept: float,
    plan: Array, most: int, candidates: Array, active: Array, order: Array, place: Array,
    status: Array, generator: Array, tally: Array, overstep: float, rest: int,
) -> int:  # fmt: skip
    """Make passes over the active rows that are due, with a look after each.

    place[0] of the pass's place[1] rows, which are first in `order`, were visited before.
    """
    made = 0
    while made < most:
        if place[0] == place[1]:
            n_active, count = due_rows(active[: np.intp(tally[N_ACTIVE])], status, order)
            while count == 0 and n_active > 0:  # all of them rest
                n_active, count = due_rows(active[:n_active], status, order)
            tally[N_ACTIVE] = n_active
            place[0], place[1] = 0, count
            if count == 0:  # what is left to gain is in shrunk rows
                return CHECK
            shuffle(order, np.intp(0), count, generator)
            tally[LARGEST], tally[SMALLEST] = -np.inf, np.inf
        begin, end = place[0], min(place[1], place[0] + most - made)
        uniform_pass(
            rows, norms, mean_dot, y, cost, loss, alpha, w, offset, seen_gap, order, begin, end,
            status, rest, tally[TOO_LARGE], tally[TOO_SMALL], overstep, tally,
        )  # fmt: skip
        made += end - begin
        plan[NOW] += (end - begin) / plan[VISITS_PER_PASS]
        place[0] = end
        if end == place[1]:
            tally[TOO_LARGE] = tally[LARGEST] if tally[LARGEST] > 0.0 else np.inf
            tally[TOO_SMALL] = tally[SMALLEST] if tally[SMALLEST] < 0.0 else -np.inf
            _watch_offset(offset, candidates, active, status, tally)
            offset[0] = kept * (offset[0] + K * offset[1])
            if plan[NOW] >= plan[MOST_PASSES]:
                return NO_MORE
            if _look(alpha, w, offset[1], seen_gap, norms, mean, y, cost, loss, plan):
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
    rows: Rows, norms: Array, mean_dot: Array, y: Array, cost: Array, loss: tuple[float, ...],
    alpha: Array, w: Array, offset: Array, seen_gap: Array, mean: Array, K: float, kept: float,
    plan: Array, most: int, candidates: Array, order: Array, place: Array, preference: Array,
    credit: Array, generator: Array, tally: Array, lowest: float, highest: float, rate: float,
    forgotten: float, pushed: float, overstep: float, least: float,
) -> int:  # fmt: skip
    """Make passes of rows in proportion to their preferences, and look from time to time.

    place[0] of the pass's place[1] rows, which are first in `order`, were visited before.
    `adaptive_order` chooses the rows of each pass. At the end of a pass, tally[TOO_LARGE] becomes
    `pushed` times the largest squared change of w by a row. tally[OFFSET] is the intercept when
    rows were last activated. If it has moved by more than tally[SMALLEST], all are activated.
    """
    made = 0
    while made < most:
        if place[0] == place[1]:
            place[0], place[1] = 0, adaptive_order(preference, credit, least, order)
            if place[1] == 0:
                _activate_all(candidates, preference, tally)
                return CHECK
            shuffle(order, np.intp(0), place[1], generator)
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
            if looks and _look(alpha, w, offset[1], seen_gap, norms, mean, y, cost, loss, plan):
                return CHECK
    return GOES_ON


@register_jitable
def _activate_all(candidates: Array, preference: Array, tally: Array) -> None:
    for i in candidates:
        if preference[i] == 0.0:
            preference[i] = 1.0
    tally[SMALLEST], tally[OFFSET] = np.inf, np.nan
