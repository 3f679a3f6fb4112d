"""Arnosti 2010, Algorithms 1 to 3, as printed, in the multi-class cutting-plane algorithm.

W is (d, k), C the weight of the mean loss; the choices that the paper leaves open are arguments.
"""

import numpy as np
from papers import reduced


def losses(X, y, W):
    """1/n sum_i of max_j ([j != y_i] + (w_j - w_yi).x_i), and the largest j of each row."""
    rows = np.arange(len(y))
    S = X @ W
    S = S - S[rows, y][:, None] + 1.0
    S[rows, y] = 0.0
    worst = S.argmax(axis=1)
    return np.mean(S[rows, worst]), worst


def gca(f, state, beta=0.2):
    best_value = np.inf

    def make_pass(begin, end, increment):
        nonlocal best_value
        found, step = 0.5 * (begin + end), begin
        while step < end:
            if f(step) < best_value:
                best_value, found = f(step), step
            step += increment
        return found

    step = make_pass(0.0, 2.0, beta)
    step = make_pass(step - beta / 2, step + beta / 2, beta**2)
    return make_pass(step - beta**2 / 2, step + beta**2 / 2, beta**3)


def gca2(f, state, beta=0.2, t1=0.1, t2=0.5):
    def make_pass(step, increment):
        while f(step + increment) < f(step):
            step += increment
        return step

    previous = state["step"]
    step = make_pass(previous - 1.0, beta) if state["uncertainty"] >= t2 else previous
    step = make_pass(step - beta / 2, beta**2) if state["uncertainty"] >= t1 else previous
    return remembered(make_pass(step - beta**2 / 2, beta**3), state)


def tca(f, state, gamma=0.02):
    low, mid, high = (state["step"] + t * state["uncertainty"] for t in (-1.0, 0.0, 1.0))
    while high - low > gamma:
        if f(low) < f(mid):
            high, mid, low = mid, low, 2.0 * low - mid
        elif f(high) < f(mid):
            low, mid, high = mid, high, 2.0 * high - mid
        else:
            left, right = (f(mid) / f(low)) ** 2, (f(mid) / f(high)) ** 2
            low, high = (mid + left * low) / (1 + left), (mid + right * high) / (1 + right)
    return remembered(mid, state)


def remembered(step, state):
    near = abs(step - state["step"]) <= state["uncertainty"] / 2
    smaller, larger = state["uncertainty"] / 2, state["uncertainty"] * 2
    state["step"], state["uncertainty"] = step, max(smaller, 0.02) if near else min(larger, 1.0)
    return step


def oca(X, y, C, eps, search, mu=0.1):
    """Return W at the step of each iteration."""
    k = y.max() + 1
    W, planes, iterates = np.zeros((X.shape[1], k)), [], []
    state = {"step": 0.1, "uncertainty": 1.0}

    def F(W):
        return 0.5 * np.sum(W * W) + C * losses(X, y, W)[0]

    def plane(W):
        slope = np.zeros((len(y), k))
        mean, worst = losses(X, y, W)
        slope[np.arange(len(y)), worst] += C / len(y)
        slope[np.arange(len(y)), y] -= C / len(y)
        a = X.T @ slope
        return a.ravel(), C * mean - np.sum(a * W)

    planes.append(plane(W))  # the reduced problem without planes is solved by 0
    while True:
        target, lower = reduced.solve(planes)
        target = target.reshape(W.shape)
        step = search(lambda t, W=W, D=target - W: F(W + t * D), state)
        W = W + step * (target - W)
        iterates.append(W)
        if F(W) - lower <= eps * F(W):
            return iterates
        planes.append(plane(W * (1.0 - mu) + target * mu))
