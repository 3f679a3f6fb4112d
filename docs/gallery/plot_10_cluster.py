"""
Cluster: rows that never meet
=============================

``widemargin.dask`` trains over Dask arrays, DataFrames and folders of rows. Workers compute sums
over their rows; the driver gets vectors, and the certificate is that of one machine. Here the
cluster is two threads of this process: only the line with the ``Client`` would differ on a real
one.
"""

import dask.array as da
import numpy as np
from distributed import Client
from matplotlib import pyplot as plt

from widemargin import LinearSVC as LocalLinearSVC
from widemargin.dask import LinearSVC

rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20))
y = (X @ rng.normal(size=20) + rng.normal(size=20_000) > 0).astype(int)
parts = da.from_array(X, chunks=(5_000, 20)), da.from_array(y, chunks=5_000)

with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
    model = LinearSVC(C=1.0, loss="hinge").fit(*parts)
print("cluster: ", model.certificate_)

# %%
# The same problem, on one machine: the two intervals that hold the optimum overlap.

local = LocalLinearSVC(C=1.0, loss="hinge", random_state=0).fit(X, y)
print("one machine: ", local.certificate_)

fig, ax = plt.subplots(figsize=(7, 2), layout="constrained")
for place, (name, certificate) in enumerate(
    {"cluster": model.certificate_, "one machine": local.certificate_}.items()
):
    ax.plot([certificate.dual, certificate.primal], [place, place], "|-", ms=14, lw=3, label=name)
ax.set(yticks=[0, 1], yticklabels=["cluster", "one machine"], ylim=(-0.7, 1.7), xlabel="objective")
ax.set_title("The optimum lies between the ends of each line")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
