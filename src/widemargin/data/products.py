"""Both products over rows at once."""

import numpy as np

from widemargin.data.ahead import ahead
from widemargin.kernels import rows as kernels


def products(rows, w, g):
    """Return X w (n,) and X^T g (d,), in a single pass where rows are streamed from disk."""
    if not hasattr(rows, "blocks"):
        return rows.scores(w), rows.combine(g)
    scores, combined = np.zeros(rows.n_rows), np.zeros(rows.n_features)
    if not (w.any() or g.any()):
        return scores, combined  # no need to read anything
    for block in ahead(rows.blocks()):
        part = slice(block.begin, block.end)
        size = block.end - block.begin
        kernels.scores(block.arrays, w, 0, size, scores[part])
        kernels.combine(block.arrays, g[part], 0, size, combined)
    return scores, combined
