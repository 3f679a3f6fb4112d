"""Yu et al. 2010 (BM), Chang & Roth 2011 (SBM), Matsushima et al. 2012 (StreamSVM), as printed.

Hinge loss, C the weight of each row's loss. Memory is counted in entries of rows.
"""

import numpy as np
from papers.descent import projected, step


def block_minimization(X, y, C, eps, parts, random, sweeps=10, keep=None):
    """Return (w, alpha) after each pass.

    `parts` is a list of arrays of rows. For SBM, `keep` chooses rows of the distances |y s - 1|.
    """
    n, d = X.shape
    alpha, w, iterates, kept = np.zeros(n), np.zeros(d), [], np.empty(0, dtype=int)
    while True:
        above, below = -np.inf, np.inf
        for part in parts:
            rows = np.concatenate([kept, np.setdiff1d(part, kept)])
            for _ in range(sweeps):
                for i in random.permutation(rows):
                    PG = projected(y[i] * (X[i] @ w) - 1.0, alpha[i], C)
                    above, below = max(above, PG), min(below, PG)
                    step(X, y, C, alpha, w, i)
            if keep is not None:
                kept = rows[keep(np.abs(y[rows] * (X[rows] @ w) - 1.0), rows)]
        iterates.append((w.copy(), alpha.copy()))
        if above - below <= eps:
            return iterates


def stream(X, y, C, tol, room, size, evictions, choices, beta=0.9, full=0.9):
    """Return (w, alpha) after each scan of the disk.

    The reader brings `size` rows, then the trainer makes `size` visits. `evictions` and `choices`
    are random generators of the two.
    """
    n, d = X.shape
    length = np.count_nonzero(X, axis=1)
    alpha, w, iterates, A = np.zeros(n), np.zeros(d), [], []
    eps, new_eps, t, above, below = np.inf, 0.0, 0, -np.inf, np.inf

    def evict(place):
        A[place] = A[-1]
        A.pop()

    while True:
        for begin in range(0, n, size):
            block = range(begin, min(begin + size, n))
            for i in block:  # Algorithm 1
                if i not in A:
                    while sum(length[A]) + length[i] > room and A:
                        evict(int(evictions.random() * len(A)))
                    A.append(i)
            for _ in block:  # Algorithm 2
                u = choices.random()
                if not A:
                    continue
                if sum(length[A]) > full * room:
                    eps *= beta
                place = int(u * len(A))
                i = A[place]
                G = y[i] * (X[i] @ w) - 1.0
                if (alpha[i] == 0.0 and eps < G) or (alpha[i] == C and -eps > G):
                    evict(place)
                else:
                    PG = projected(G, alpha[i], C)
                    above, below = max(above, PG), min(below, PG)
                    new_eps = max(new_eps, abs(PG))
                    step(X, y, C, alpha, w, i)
                t += 1
                if t == n:
                    eps, new_eps, t = new_eps, 0.0, 0
        iterates.append((w.copy(), alpha.copy()))
        if above - below <= tol:
            return iterates
        above, below = -np.inf, np.inf
