"""Probabilities of classes from scores."""

import numpy as np
from scipy.special import expit


def probabilities(scores: np.ndarray, sigmoids: np.ndarray) -> np.ndarray:
    """Return the probability of each class, (n, k), from scores (n, m).

    Parameters
    ----------
    scores : ndarray of shape (n, m)
        m is 1 for two classes.
    sigmoids : ndarray of shape (m, 2)
        a and b of the sigmoid 1 / (1 + exp(a s + b)) of each score.
    """
    return one_versus_rest(-(scores * sigmoids[:, 0] + sigmoids[:, 1]))


def one_versus_rest(scores: np.ndarray) -> np.ndarray:
    """Return the probability of each class, (n, k), from their log odds (n, m), as above."""
    each = expit(scores)
    if each.shape[1] == 1:
        return np.hstack([expit(-scores), each])
    total = each.sum(axis=1, keepdims=True)
    uniform = np.full_like(each, 1.0 / each.shape[1])
    return np.divide(each, total, out=uniform, where=total > 0.0)
