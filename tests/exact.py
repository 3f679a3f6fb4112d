"""An independent exact solution of small problems: Clarabel, a conic interior-point solver."""

import clarabel
import numpy as np
import scipy.sparse as sp

from widemargin.penalty import RIDGE
from widemargin.problem import Intercept


def optimum_of(problem):
    """Return the optimal value of a problem over rows in memory."""
    risk, X = problem.risk, problem.rows.matrix
    ways = {"loss": risk.loss, "intercept": problem.intercept, "target": risk.target}
    ways |= {"penalty": problem.penalty}
    return optimum(X, np.asarray(risk.sign), risk.cost, **ways)


def optimum(X, y, cost, *, loss, intercept, target=1.0, penalty=RIDGE):
    """Return the optimal value of 1/2 |w|^2 (+ 1/2 b^2) + sum_i c_i loss(t_i - y_i (w.x_i + b)).

    Or of l1 |w|_1 + l2 / 2 |w|^2 in the place of 1/2 |w|^2, with further variables at least |w|.

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
    if penalty.is_sparse:
        P = sp.block_diag([P, sp.csc_array((d + 1, d + 1))]).tolil()
        P[range(d + 1), range(d + 1)] = [penalty.l2] * d + [penalty.l2 * penalty_b]
        sizes, weights = sp.identity(d + 1), sp.eye(d + 1, q.size)
        blocks = [sp.hstack([block, sp.csr_array((block.shape[0], d + 1))]) for block in blocks]
        blocks += [sp.hstack([weights, -sizes]), sp.hstack([-weights, -sizes])]
        bounds.append(np.zeros(2 * d + 2))
        cones.append(clarabel.NonnegativeConeT(2 * d + 2))
        q = np.concatenate([q, [penalty.l1] * d, [penalty.l1 * penalty_b]])
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


def logistic_optimum(X, y, cost, *, intercept):
    """Return the optimum of 1/2 |w|^2 (+ 1/2 b^2) + sum_i c_i log(1 + exp(-y_i (w.x_i + b))).

    Variables (w, b, t, p, q) with exponential cones: exp(-t_i) <= q_i, exp(-m_i - t_i) <= p_i and
    p_i + q_i <= 1, where m_i is the margin of row i, so that t_i is its loss.
    """
    counted = cost > 0.0
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)[counted]
    y, cost = y[counted].astype(np.float64), cost[counted]
    n, d = X.shape
    squares = np.ones(d + 1 + 3 * n)
    squares[d:] = 0.0
    squares[d] = float(intercept is Intercept.PENALIZED)
    linear = np.concatenate([np.zeros(d + 1), cost, np.zeros(2 * n)])
    none, unit = sp.csr_array((n, n)), sp.identity(n)
    margins = sp.csr_array(y[:, None] * np.c_[X, np.ones(n)])
    blocks = [sp.hstack([sp.csr_array((n, d + 1)), none, unit, unit])]
    bounds, cones = [np.ones(n)], [clarabel.NonnegativeConeT(n)]
    if intercept is Intercept.NONE:
        blocks.insert(0, sp.csr_array(([1.0], ([0], [d])), shape=(1, linear.size)))
        bounds.insert(0, np.zeros(1))
        cones.insert(0, clarabel.ZeroConeT(1))
    for i in range(n):
        for at_margin, place in ((1.0, 0), (0.0, n)):
            # (x, 1, z) with exp(x) <= z: rows of b - A v.
            row = sp.lil_array((3, linear.size))
            row[0, : d + 1] = at_margin * margins[[i]].toarray()
            row[0, d + 1 + i] = 1.0
            row[2, d + 1 + n + place + i] = -1.0
            blocks.append(row)
            bounds.append(np.array([0.0, 1.0, 0.0]))
            cones.append(clarabel.ExponentialConeT())
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    settings.reduced_tol_gap_rel = settings.reduced_tol_feas = 1e-8
    P = sp.csc_matrix(sp.diags(squares))
    A = sp.csc_matrix(sp.vstack(blocks))
    solution = clarabel.DefaultSolver(
        P, linear, A, np.concatenate(bounds), cones, settings
    ).solve()
    assert "Solved" in str(solution.status), solution.status
    return solution.obj_val


def nearest_point(X, caps):
    """Return Clarabel's solution of min 1/2 |w|^2 over (w, a): w = X^T a, sum a = 1, a <= caps.

    The nearest point to the origin of a hull of the rows, a >= 0: the dual of the one-class SVM.
    """
    n, d = X.shape
    P = sp.diags(np.r_[np.ones(d), np.zeros(n)]).tocsc()
    rows = [
        sp.hstack([sp.identity(d), sp.csr_array(-X.T)]),
        sp.hstack([sp.csr_array((1, d)), np.ones((1, n))]),
        sp.hstack([sp.csr_array((n, d)), -sp.identity(n)]),
        sp.hstack([sp.csr_array((n, d)), sp.identity(n)]),
    ]
    bounds = np.r_[np.zeros(d), 1.0, np.zeros(n), caps]
    cones = [clarabel.ZeroConeT(d + 1), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    return clarabel.DefaultSolver(
        P, np.zeros(d + n), sp.csc_matrix(sp.vstack(rows)), bounds, cones, settings
    ).solve()
