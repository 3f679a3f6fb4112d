"""Hsieh et al. 2008, Algorithm 3, and Glasmachers & Dogan 2013, Algorithms 2 to 4, as printed.

Hinge loss, C the weight of each row's loss. `permute` puts a list of rows into random order.
"""

import numpy as np


def step(X, y, C, alpha, w, i):
    """One visit: return the gradient, and the gain of the dual. Changes alpha and w."""
    G, Q, before = y[i] * (X[i] @ w) - 1.0, X[i] @ X[i], alpha[i]
    alpha[i] = min(max(before - G / Q, 0.0), C)
    change = alpha[i] - before
    w += change * y[i] * X[i]
    return -change * (G + 0.5 * Q * change)


def projected(G, alpha, C):
    if alpha == 0.0:
        return min(G, 0.0)
    return max(G, 0.0) if alpha == C else G


def dcd(X, y, C, eps, permute):
    """Return (w, alpha) after each sweep."""
    n, d = X.shape
    alpha, w, iterates = np.zeros(n), np.zeros(d), []
    active, above, below = np.arange(n), np.inf, -np.inf
    while True:
        new_above, new_below, kept = -np.inf, np.inf, set(active)
        for i in permute(active):
            G = y[i] * (X[i] @ w) - 1.0
            if (alpha[i] == 0.0 and above < G) or (alpha[i] == C and below > G):
                kept.remove(i)
                continue
            PG = projected(G, alpha[i], C)
            new_above, new_below = max(new_above, PG), min(new_below, PG)
            step(X, y, C, alpha, w, i)
        iterates.append((w.copy(), alpha.copy()))
        active = np.array([i for i in active if i in kept])
        if new_above - new_below <= eps:
            if active.size == n:
                return iterates
            active, above, below = np.arange(n), np.inf, -np.inf
        else:
            above = new_above if new_above > 0.0 else np.inf
            below = new_below if new_below < 0.0 else -np.inf


def avsf(X, y, C, eps, permute, c=1 / 5, least=1 / 20, most=20.0):
    """Return (w, alpha, p) after each sweep."""
    n, d = X.shape
    alpha, w, iterates = np.zeros(n), np.zeros(d), []
    p, credit, mean_gain, can_stop = np.ones(n), np.zeros(n), None, True
    while True:
        credit += n * p / p.sum()
        times = np.floor(credit).astype(int)
        credit -= times
        above, below, gains = -np.inf, np.inf, []
        for i in permute(np.repeat(np.arange(n), times)):
            PG = projected(y[i] * (X[i] @ w) - 1.0, alpha[i], C)
            above, below = max(above, PG), min(below, PG)
            gains.append(step(X, y, C, alpha, w, i))
            if mean_gain is not None:
                p[i] = np.clip(p[i] * np.exp(c * (gains[-1] / mean_gain - 1.0)), least, most)
                mean_gain = (1.0 - 1.0 / n) * mean_gain + gains[-1] / n
        mean_gain = np.mean(gains) if mean_gain is None else mean_gain
        iterates.append((w.copy(), alpha.copy(), p.copy()))
        if above - below <= eps:
            if can_stop:
                return iterates
            p[:], can_stop = 1.0, True
        else:
            can_stop = False
