"""When a check of the gap is worth its cost: decided by numbers, see solvers/forecast.py.

A check certifies the current point, and takes about two passes. It is made when the estimate of
the gap predicts success, and in any case after some passes. The array `plan` has the numbers of
the decision, in the order below. These functions are plain Python, and part of compiled runs.
"""

from numba.extending import register_jitable

from widemargin.kernels.typing import Array

#: of the run: passes so far, and of the last check; the predicted gap, and the ratio of found to
#: predicted gaps so far; the likely primal value
NOW, CHECKED_AT, PREDICTED, OPTIMISM, LIKELY_PRIMAL = range(5)
#: visits in a pass; when the next look is due, in passes
VISITS_PER_PASS, NEXT_LOOK = range(5, 7)
#: limits: of the relative gap and of passes
TOL, MOST_PASSES = range(7, 9)
#: a check is made after the larger one of PATIENCE and FRACTION of all passes, and not before
#: PAUSE_GROWTH of them, which is limited by the two bounds of pauses
FRACTION, PATIENCE, PAUSE_GROWTH, SHORTEST_PAUSE, LONGEST_PAUSE = range(9, 14)
#: from look to look passes grow by LOOK_GROWTH, or are so many
LOOK_GROWTH, PASSES_TO_LOOK = range(14, 16)
#: a check may be preceded by a joint step that leaves this part of the losses of free rows, if
#: there are no more than MOST_FREE of these
LEFT, MOST_FREE = range(16, 18)
#: whether the intercept is penalised, 1 or 0
PENALIZED = 18
PLAN_SIZE = 19

#: whether to check: not yet; yes; or if the dual value makes success likely
NOT_YET, DUE, IF_PROMISING = range(3)


@register_jitable
def may_check(plan: Array, gap: float) -> int:
    """Return whether to check if `gap` is an estimate of the gap."""
    since = plan[NOW] - plan[CHECKED_AT]
    if since < _pause(plan):
        return NOT_YET
    plan[PREDICTED] = plan[OPTIMISM] * gap
    if since >= plan[PATIENCE] and since >= plan[FRACTION] * plan[NOW]:
        return DUE
    return IF_PROMISING if plan[PREDICTED] <= plan[TOL] * plan[LIKELY_PRIMAL] else NOT_YET


@register_jitable
def is_promising(plan: Array, dual: float) -> bool:
    """Return whether a check will probably succeed, where `dual` is the dual value.

    The likely primal value is then far more precise than that of the last check.
    """
    plan[LIKELY_PRIMAL] = dual + plan[PREDICTED]
    return plan[PREDICTED] <= plan[TOL] * plan[LIKELY_PRIMAL]


@register_jitable
def _pause(plan: Array) -> float:
    return min(max(plan[PAUSE_GROWTH] * plan[NOW], plan[SHORTEST_PAUSE]), plan[LONGEST_PAUSE])


@register_jitable
def plan_look(plan: Array) -> None:
    """Set when the next look is due. A look takes a sum over rows."""
    now = plan[NOW]
    to_check = _pause(plan) - (now - plan[CHECKED_AT])
    to_look = min(plan[LOOK_GROWTH] * now, plan[PASSES_TO_LOOK])
    plan[NEXT_LOOK] = min(now + max(to_check, to_look), plan[MOST_PASSES])
