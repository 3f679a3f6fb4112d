"""An independent exact solution of small problems: Clarabel, a conic interior-point solver."""

import clarabel
import numpy as np
import scipy.sparse as sp

from widemargin.problem import Intercept


def optimum(X, y, cost, *, squared, intercept):
    """Return the optimal value of 1/2 |w|^2 (+ 1/2 b^2) + sum_i c_i xi_i^p.

    Variables (w, b, xi); constraints y_i (w.x_i + b) + xi_i >= 1, xi_i >= 0, and b = 0
    where there is no intercept.
    """
    counted = cost > 0.0
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)[counted]
    y, cost = y[counted].astype(np.float64), cost[counted]
    n, d = X.shape
    penalty_b = 1.0 if intercept is Intercept.PENALIZED else 0.0
    penalty_xi = 2.0 * cost if squared else np.zeros(n)
    P = sp.diags_array(np.concatenate([np.ones(d), [penalty_b], penalty_xi])).tocsc()
    q = np.concatenate([np.zeros(d + 1), np.zeros(n) if squared else cost])
    margins = sp.hstack([sp.csr_array(-y[:, None] * np.c_[X, np.ones(n)]), -sp.eye_array(n)])
    slacks = sp.hstack([sp.csr_array((n, d + 1)), -sp.eye_array(n)])
    blocks, bounds = [margins, slacks], [-np.ones(n), np.zeros(n)]
    cones = [clarabel.NonnegativeConeT(2 * n)]
    if intercept is Intercept.NONE:
        only_b = sp.csr_array(([1.0], ([0], [d])), shape=(1, d + 1 + n))
        blocks.insert(0, only_b)
        bounds.insert(0, np.zeros(1))
        cones.insert(0, clarabel.ZeroConeT(1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A = sp.vstack(blocks).tocsc()
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    for rescale in (True, False):  # rescaling helps, but for a few problems it cannot solve so
        settings.equilibrate_enable = rescale
        solution = clarabel.DefaultSolver(
            sp.csc_matrix(P), q, sp.csc_matrix(A), np.concatenate(bounds), cones, settings
        ).solve()
        if "Solved" in str(solution.status):
            return solution.obj_val
    raise AssertionError(solution.status)
