"""
GPU: the same model, elsewhere
==============================

This story needs a GPU and CuPy (``pip install 'widemargin[gpu]'``), so it is shown and not run
here. What it takes, and how long on which machine, is on the page :doc:`/gpu`.
"""

import cupy as cp

from widemargin import LinearSVC, certify

rng = cp.random.default_rng(0)
n, d = 2_000_000, 100
X = rng.standard_normal((n, d), dtype=cp.float32)
truth = rng.standard_normal(d, dtype=cp.float32)
y = (X @ truth + rng.standard_normal(n, dtype=cp.float32) > 0).astype(cp.int8)

# %%
# X is on the GPU already, and is used in place. Rows in the host's memory would be copied once, or
# stream through the GPU if they do not fit.

model = LinearSVC(C=1.0, loss="hinge", device="cuda", random_state=0).fit(X, y)
print(model)

# %%
# The certificate is that of the host: anyone can check it there.

print(certify(model, X.get(), y.get()))
