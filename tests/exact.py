"""An independent exact solution of small problems: Clarabel, a conic interior-point solver."""

import clarabel
import numpy as np
import scipy.sparse as sp

from widemargin.problem import Intercept


def optimum_of(problem):
    """Return the optimal value of a problem over rows in memory."""
    risk, X = problem.risk, problem.rows.matrix
    ways = {"loss": risk.loss, "intercept": problem.intercept, "target": risk.target}
    return optimum(X, np.asarray(risk.sign), risk.cost, **ways)


def optimum(X, y, cost, *, loss, intercept, target=1.0):
    """Return the optimal value of 1/2 |w|^2 (+ 1/2 b^2) + sum_i c_i loss(t_i - y_i (w.x_i + b)).

    Variables (w, b, v, up, down), where a residual r_i is split so that what is left is small:

        r_i - v_i - up_i + down_i   at most eps, and where both sides cost, no less than -eps
        loss = v^2 / (2 bend) + high up - low down,     up, down >= 0

    without v where there is no bend, without up or down where there is no such bound; and b = 0
    where there is no intercept.
    """
    counted = cost > 0.0
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)[counted]
    target = np.broadcast_to(target, y.shape)[counted]
    y, cost = y[counted].astype(np.float64), cost[counted]
    n, d = X.shape
    unit, nothing = sp.identity(n), np.zeros(n)
    # Of each kind of variable: its square, what it costs, its sign in what is left.
    kinds = [(cost / loss.bend, nothing, -unit)] if loss.bend > 0.0 else []
    n_free = d + 1 + n * len(kinds)
    kinds += [(nothing, loss.high * cost, -unit)] if loss.high < np.inf else []
    kinds += [(nothing, -loss.low * cost, unit)] if -np.inf < loss.low < 0.0 else []
    squares, linear, signs = zip(*kinds)
    penalty_b = 1.0 if intercept is Intercept.PENALIZED else 0.0
    P = sp.diags(np.concatenate([np.ones(d), [penalty_b], *squares])).tocsc()
    q = np.concatenate([np.zeros(d + 1), *linear])
    # target - y (w.x + b) and what is taken off it.
    left = sp.hstack([sp.csr_array(-y[:, None] * np.c_[X, np.ones(n)]), *signs])
    n_bounded = q.size - n_free
    positive = sp.hstack([sp.csr_array((n_bounded, n_free)), -sp.identity(n_bounded)])
    blocks, bounds = [left, positive], [loss.eps - target, np.zeros(n_bounded)]
    cones = [clarabel.NonnegativeConeT(n + n_bounded)]
    if loss.low < 0.0 and loss.eps == 0.0:  # two inequalities would leave nothing inside
        cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(n_bounded)]
    elif loss.low < 0.0:
        blocks.append(-left)
        bounds.append(loss.eps + target)
        cones = [clarabel.NonnegativeConeT(2 * n + n_bounded)]
    if intercept is Intercept.NONE:
        only_b = sp.csr_array(([1.0], ([0], [d])), shape=(1, q.size))
        blocks.insert(0, only_b)
        bounds.insert(0, np.zeros(1))
        cones.insert(0, clarabel.ZeroConeT(1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A = sp.vstack(blocks).tocsc()
    # Rescaling helps, but for a few problems it cannot solve so; a few are hard either way.
    for tolerance, rescale in ((1e-10, True), (1e-10, False), (1e-8, True), (1e-8, False)):
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        settings.equilibrate_enable = rescale
        solution = clarabel.DefaultSolver(
            sp.csc_matrix(P), q, sp.csc_matrix(A), np.concatenate(bounds), cones, settings
        ).solve()
        if "Solved" in str(solution.status):
            return solution.obj_val
    raise AssertionError(solution.status)
