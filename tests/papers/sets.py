"""Made-up sets on which the papers' claims can be seen: small, and the same every time."""

import numpy as np
import scipy.sparse as sp


def noisy(n):
    """Rows of 20 features, with labels that no plane separates."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 20))
    return X, np.where(X @ rng.standard_normal(20) + 1.5 * rng.standard_normal(n) > 0.0, 1, -1)


def text(n=3000, n_words=2000, length=30):
    """Rows like texts: few words are in most of them, and most words in few."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, n_words + 1)
    frequency /= frequency.sum()
    w = rng.standard_normal(n_words)
    words = rng.choice(n_words, (n, length), p=frequency)
    values = np.log(1.0 / frequency)[words].ravel()
    X = sp.csr_matrix((values, (np.repeat(np.arange(n), length), words.ravel())), (n, n_words))
    X = sp.csr_matrix(X.multiply(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)))))
    scores = X @ w
    noise = 0.5 * scores.std() * rng.standard_normal(n)
    return X, np.where(scores + noise > 0.0, 1, -1)


def hands(n=5000):
    """Hands of cards like poker's: of what they are called, the cards themselves tell nothing."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(1, 5, (n, 5)) / 4, rng.integers(1, 14, (n, 5)) / 13])
    share = np.array([0.501, 0.423, 0.0475, 0.0211, 0.0039, 0.002, 0.0014, 0.0005, 0.0005])
    y = rng.choice(share.size, n, p=share / share.sum())
    return X, np.unique(y, return_inverse=True)[1]
