"""Dual coordinate descent: LIBLINEAR's, and its successor with adaptive frequencies.

Problem
    min over w, b   1/2 |w|^2 + sum_i c_i loss(1 - y_i (w.x_i + b))      any of losses.py
Dual
    max over alpha  sum_i (alpha_i - eps |alpha_i| - shift_i alpha_i^2 / 2) - 1/2 |w|^2
    with            w = sum_i alpha_i y_i x_i,   lower_i <= alpha_i <= upper_i
    hinge           0 <= alpha_i <= c_i,         shift_i = 0
    squared hinge   0 <= alpha_i,                shift_i = 1 / (2 c_i)
    smooth hinge    0 <= alpha_i <= c_i,         shift_i = 1 / c_i
    free intercept  sum_i alpha_i y_i = 0

One step goes to the maximum over one alpha_i, and a little beyond, and updates w. Two
schedules decide which rows are visited:

"dcd"  Every active row once, in random order; rows that press against a bound harder than
       any violation of the last pass are left out until the rest is solved.
       Hsieh et al. 2008, Algorithm 3 (LIBLINEAR's solvers 1 and 3), with one change: rows
       that are at a bound, and not pulled away from it, rest for two passes.
"acf"  Rows are visited in proportion to preferences that grow while visits pay.
       Glasmachers & Dogan, Algorithms 2 to 4 (AVSF), with one change: a pass is a part of
       their sweep, in which no row comes twice. The relative frequencies are the same,
       but a second visit to a row finds the others moved on. Before some checks the dual
       variables that are free are solved for together, see face.py.

An intercept is found by the method of multipliers, see absorbed.py. With a free one the dual has
an equality, and on it w.(x_i - mu) + b is the same model for every mu: rows that have a large
part in common are taken less their mean, without touching them, since their pull on one another
through that part is what makes coordinate descent on such data crawl.
"""

import numpy as np

from widemargin.certificate import lower_bound, upper_bound
from widemargin.problem import Intercept
from widemargin.risk import Bound
from widemargin.solvers.absorbed import constant_feature, kept
from widemargin.solvers.descent import Descent, DescentSolver
from widemargin.solvers.face import Face
from widemargin.solvers.schedule import SCHEDULES

# The share of features that rows have, below which they are taken to share few of them.
_FEW_IN_COMMON = 0.05
# Rows are taken less their mean if its square is more than this fraction of their mean square.
_COMMON_PART = 0.1
# What is left of a difference of large numbers is not known to a smaller fraction of these.
_DIGITS_LEFT = 1e-14

# Before a look at what was gained, which takes as long, there are so many entries visited; but not
# so many that passes grow by more than this fraction.
_WORTH_A_LOOK, _BETWEEN_LOOKS = 1 << 16, 0.1

# Before a check, dual variables that are free may be solved for together (face.py), where their
# rows are at most this fraction of all, and no more than features: few features cannot have many
# rows on the margin, and most of these would not stay free. Such work is in all no more than this
# fraction of that of passes, and enough for a few iterations.
_LARGEST_FACE = 0.2
_WORK_ON_FACES = 1.0
_FEWEST_ITERATIONS = 4
# They are where the check is then likely to succeed: of these rows' hinge losses about this
# fraction is left, if there are no more of them than so for each feature, and features are this
# many. Their share of the gap should be this much of what is allowed; where it falls no faster
# than so from one look to the next, passes are as fast. And they are where as many passes again
# as since the last check would not do.
_LEFT_BY_FACES = 0.1
_ROWS_PER_FEATURE, _MANY_FEATURES = 0.25, 256
_WANTED = 0.8
_SLOWEST = 0.9


class _Descent(Descent):
    """One run: the arrays that kernels work on."""

    def __init__(self, problem, state, monitor, schedule, seed):
        super().__init__(problem, state, monitor)
        rows, risk = problem.rows, problem.risk
        self.seen_gap = risk.losses(np.ones(rows.n_rows))  # at alpha = 0
        counted = np.flatnonzero(risk.cost > 0.0).astype(np.uint32)
        self.n_counted = max(1, counted.size)
        self.schedule = SCHEDULES[schedule](counted, rows.n_rows, seed, _block(rows))
        self.norms = rows.squared_norms()
        self.worked_on_faces = 0.0  # in passes
        self.left_by_face = np.inf  # of the gap, by the last one, if it is known
        self.put_off = False  # whether the last check was
        # Whether faces may leave much less of the gap than passes have.
        many_features = rows.n_features >= _MANY_FEATURES
        self.solves_faces = self.schedule.faces and risk.loss.eps == 0.0
        self.may_relieve = self.solves_faces and not risk.loss.is_smooth and many_features
        self.alpha = risk.feasible(state.dual * risk.y) * risk.y
        self.offset = np.zeros(3)  # [b, z, k] of the kernels
        self.mean, self.mean_dot = None, np.empty(0)
        self.K = 0.0
        if problem.intercept is not Intercept.NONE and counted.size:
            self._set_intercept(counted, state)
        single = self._single_will_do and self.mean_dot.size == 0
        self.w = np.zeros(rows.n_features, dtype=np.float32 if single else np.float64)
        if self.alpha.any():  # a warm start
            inside = (self.alpha > risk.lower) & (self.alpha < risk.upper)
            self.schedule.inform(inside & (self.alpha != 0.0), ~inside & (self.alpha != 0.0))

    def _set_intercept(self, counted, state):
        """Set K, and where rows have a large part in common, take their mean away."""
        rows, cost, intercept = self.problem.rows, self.problem.risk.cost, self.problem.intercept
        spread = float(self.norms[counted].mean())
        if intercept is Intercept.FREE:
            mean = rows.combine(np.where(cost > 0.0, 1.0 / self.n_counted, 0.0))
            common = float(mean @ mean)
            if common > _COMMON_PART * spread:
                self.mean, self.mean_dot = mean, rows.scores(mean)
                self.offset[2] = common
                # |x - mean|^2 = |x|^2 + |mean|^2 - 2 x.mean, and never less than its rounding.
                least = _DIGITS_LEFT * (self.norms + common)
                self.norms = np.maximum(self.norms, 2.0 * self.mean_dot - common + least)
                spread = max(spread - common, _DIGITS_LEFT * spread)
        self.K = constant_feature(intercept, spread, float(cost[counted].mean()))
        self.offset[0] = kept(intercept, self.K) * state.offset
        self.offset[2] += self.K

    def _first_check(self):
        # A warm start's coefficients are near those of its dual variables, and may be better.
        self._certify((self.best.coef, self.best.offset) if self.alpha.any() else None)

    def _pass(self):
        risk = self.problem.risk
        visits = self.schedule.run(
            (
                self.problem.rows.arrays,
                self.norms,
                self.mean_dot,
                risk.y,
                risk.cost,
                risk.loss.numbers,
                self.alpha,
                self.w,
                self.offset,
                self.seen_gap,
            ),
            (self.K, kept(self.problem.intercept, self.K)),
            self._visits_to_next_look(),
            self.problem.rows.rows_per_call,
            self.monitor.must_stop,
        )
        self.monitor.iteration += visits / self.n_counted
        return visits

    def _visits_to_next_look(self):
        """Return how many visits there are at the least before it is asked what was gained."""
        now = self.monitor.iteration
        to_check = self._pause(now) - (now - self.checked_at)
        to_look = min(_BETWEEN_LOOKS * now, _WORTH_A_LOOK / max(1, self.problem.rows.n_entries))
        passes = min(max(to_check, to_look), self.monitor.max_iter - now)
        return max(1, int(passes * self.n_counted))

    def _pause(self, now):
        return max(1.0, 0.1 * now) if self.schedule.faces else super()._pause(now)

    def _gap_in_sight(self):
        seen = super()._gap_in_sight()
        if not self.may_relieve:
            return seen
        least = _LEFT_BY_FACES * seen
        if self.optimism * least > self.monitor.tol * self.likely_primal:
            return least  # more than enough, whatever share free rows have
        free = np.flatnonzero(self._is_free())
        if free.size > _ROWS_PER_FEATURE * self.w.size:
            return seen
        return seen - (1.0 - _LEFT_BY_FACES) * float(self.seen_gap[free].sum())

    def _is_free(self):
        risk = self.problem.risk
        inside = (self.alpha > risk.lower) & (self.alpha < risk.upper)
        return inside & (self.alpha != 0.0) & (self.norms > 0.0)

    def _dual_estimate(self):
        w = self._coefficients()
        penalty = 0.5 * float(w @ w)
        if self.problem.intercept is Intercept.PENALIZED:
            penalty += 0.5 * float(self.offset[1]) ** 2
        return self.problem.risk.dual_sum(self.alpha) - penalty

    def _coefficients(self):
        """Return a copy of the model's w: what kernels track, less z times the mean."""
        w = self.w.astype(np.float64)
        if self.mean is not None:
            w -= self.offset[1] * self.mean
        return w

    def _check(self):
        ahead = None
        if self.solves_faces:
            promising = self._is_promising()
            ahead = self._solve_together()
            if ahead is None and np.isfinite(self.predicted):
                self.predicted = self.optimism * super()._gap_in_sight()
            elif promising and self._is_vain():
                self._learn(self.left_by_face)
                return
        self._certify(ahead)

    def _is_vain(self):
        """Return whether a check would fail, and may be left out: no two of them in a row."""
        fails = self.monitor.tol * self.likely_primal < self.left_by_face < np.inf
        self.put_off = fails and not self.put_off and not self.monitor.must_stop()
        return self.put_off

    def _certify(self, ahead):
        """Certify alpha, with its own w or with a primal point `ahead` of it: w and offset."""
        problem = self.problem
        with self.monitor.phase("checks"):
            tracked = self._coefficients()
            w, offset = (tracked, self._model_offset()) if ahead is None else ahead
            scores = problem.rows.scores(w) if w.any() else np.zeros(problem.rows.n_rows)
            if problem.intercept is Intercept.FREE:
                offset = problem.risk.best_offset(scores)
            primal = upper_bound(problem, w, offset, scores, self.monitor.tol)
            if self.w.dtype == np.float32 and tracked.any():  # not yet at a start
                # (alpha y).(X w), in place of the tracked w times w
                product = float((self.alpha * problem.risk.y) @ scores)
                if self._is_blurred(float(tracked @ w), product, primal.value):
                    self.w = self.w.astype(np.float64)
            if problem.intercept is Intercept.FREE:
                _balance(self.alpha, scores + offset, problem.risk)
            dual, coef = Bound(0.0, 0.0), np.zeros_like(w)
            if self.alpha.any():
                dual, coef = lower_bound(problem, self.alpha, self.monitor.tol)
            if problem.intercept is Intercept.FREE:
                # Balancing has moved w; the score of the mean row stays where it was.
                self.offset[0] = offset
                if self.mean is not None:
                    self.offset[0] += float((w - coef) @ self.mean)
            self._remember(w, offset, scores, primal, self.alpha.copy(), dual)
        self._report()
        begun = self.monitor.iteration > 0.0 or self.alpha.any() or self._model_offset()
        if begun and self.monitor.status == "running":
            with self.monitor.phase("checks"):
                self._resume_from(coef, scores)

    def _solve_together(self):
        """Move free dual variables to where together they are best, where that is worth it.

        Return the primal point, w and offset, that bounds left out of account would lead to; or
        None, if nothing was done.
        """
        seen, promising = float(self.seen_gap.sum()), self._is_promising()
        allowed = self.monitor.tol * self.likely_primal
        if self.optimism * seen <= allowed:
            return None  # a check alone will do
        if not promising and self.optimism * seen * seen <= allowed * self.seen_then:
            return None  # as many passes again as since the last check will do
        free = np.flatnonzero(self._is_free())
        if free.size > self.w.size:
            return None
        fraction = free.size / max(1, self.problem.rows.n_rows)
        passes = _WORK_ON_FACES * self.monitor.iteration - self.worked_on_faces
        if not 0.0 < fraction <= min(_LARGEST_FACE, passes / _FEWEST_ITERATIONS):
            return None
        with self.monitor.phase("faces"):
            return self._move_together(free, passes / fraction, _SLOWEST if promising else np.inf)

    def _move_together(self, free, most, slowest):
        """Move the dual variables `free`; return the primal point ahead of them."""
        risk, rows = self.problem.risk, self.problem.rows
        face = Face(
            rows.take(free),
            risk.over(risk.y[free], risk.cost[free]),
            self.alpha[free],
            self.w,
            self.offset,
            self.norms[free],
            self.mean_dot[free] if self.mean_dot.size else self.mean_dot,
        )
        enough = _WANTED * self.monitor.tol * self.likely_primal
        change, left, gap, n_iter = face.solve(enough, slowest, most, self.monitor.must_stop)
        self.worked_on_faces += n_iter * free.size / rows.n_rows
        w, z, _ = face.combine(change)
        if self.mean is not None:
            w -= z * self.mean
        ahead = self._coefficients() + w, self._model_offset() + self.K * z
        step = face.step(change, left)
        w, z, w_mean_dot = step.combined
        self.left_by_face = gap - step.gain
        self.alpha[free] += step.change
        self.w += w.astype(self.w.dtype)
        self.offset[0] -= w_mean_dot
        self.offset[1] += z
        return ahead

    def _model_offset(self):
        return float(self.offset[0] + self.K * self.offset[1])

    def _resume_from(self, coef, scores):
        """Put the numbers of a check in place of those tracked in passing.

        `scores` may be those of a point ahead, which rows will soon see.
        """
        risk = self.problem.risk
        self.w[:] = coef
        self.offset[1] = float(self.alpha @ risk.y)
        self.seen_gap[:] = risk.row_gaps(scores + self._model_offset(), self.alpha)
        self.schedule.activate(self.seen_gap > 0.0)


class CoordinateDescent(DescentSolver):
    """Solver for margin risks over rows in memory."""

    descent = _Descent


def _block(rows):
    """Return how many neighbours a uniform pass should visit together.

    It spares the memory system a fifth of the time, and where rows share few features it
    costs no passes. Where they share many, a pass over neighbours is worth much less.
    """
    filled = rows.n_entries / max(1, rows.n_rows * rows.n_features)
    return 128 if filled < _FEW_IN_COMMON else 1


def _balance(alpha, scores, risk):
    """Make sum_i alpha_i y_i zero in place, at the least loss of dual value.

    The dual's slope in alpha_i is about 1 - y_i s_i - eps sign(alpha_i) - shift_i alpha_i. So of
    the moves that lessen the excess (rows of its sign down, the others up) those come first that
    gain the most. Without a bound, a dual variable is doubled at most, or taken to zero.
    """
    excess, loss = float(alpha @ risk.y), risk.loss
    falling = risk.y == np.sign(excess)
    above = np.abs(alpha) if loss.high == np.inf else risk.upper - alpha
    below = np.abs(alpha) if loss.low == -np.inf else alpha - risk.lower
    room = np.where(falling, below, above)
    movable = np.flatnonzero(room > 0.0)
    slope = 1.0 - risk.y[movable] * scores[movable]
    if loss.eps > 0.0:
        slope -= loss.eps * np.sign(alpha[movable])
    if loss.is_smooth:
        slope -= loss.bend * (alpha[movable] / risk.cost[movable])
    gain = np.where(falling[movable], -slope, slope)
    order = movable[np.argsort(-gain)]
    taken = np.minimum(np.cumsum(room[order]), abs(excess))
    step = np.diff(taken, prepend=0.0)
    alpha[order] += np.where(falling[order], -step, step)
