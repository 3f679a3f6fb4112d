"""
Larger than memory: rows stay on disk
=====================================

`open_rows` reads Arrow, Parquet or svmlight files in blocks, in every pass, and StreamSVM trains
on them within a budget. The file of this story is small; what the budget leaves for its rows is
smaller.
"""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot as plt
from sklearn.datasets import dump_svmlight_file

from widemargin import LinearSVC, open_rows, plot

rng = np.random.default_rng(0)
n, d = 10_000, 20_000
# Texts as they are: few frequent words, and many rare ones.
words = (d * rng.random((n, 30)) ** 3).astype(np.int32)
starts = np.arange(0, words.size + 1, 30, dtype=np.int32)
X = sp.csr_matrix((np.ones(words.size), words.ravel(), starts), shape=(n, d))
X.sum_duplicates()
y = np.sign(X @ rng.normal(size=d) + rng.normal(size=n)).astype(int)

path = Path(tempfile.mkdtemp()) / "rows.svm"
dump_svmlight_file(X, y, str(path), zero_based=False)

# %%
# Text is parsed in every pass. ``widemargin convert rows.svm rows`` makes a folder of Arrow files
# of it, which is read many times faster, and opened in the same way.

rows = open_rows(path)
model = LinearSVC(
    C=0.1, loss="hinge", solver="stream", memory_budget="44MB", tol=1e-3, random_state=0
).fit(rows, rows.labels)
print(model.certificate_)
print(f"{model.history_[-1].disk_passes} passes over the disk")

# %%
# The duality gap falls from check to check; the last one is certified by a pass over all rows.

fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
plot.history(model, x="iteration", ax=ax)
plt.show()
