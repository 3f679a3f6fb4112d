"""
DNA: substrings at positions
============================

Where does a gene's intron begin? Sites share letters at fixed positions around the cut. The
weighted degree kernel compares substrings at each position, and `WeightedDegree` makes its
features as rows are read: the file holds letters, memory never holds the wide rows.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib import pyplot as plt

from widemargin import LinearSVC, open_rows
from widemargin.data.expand import WeightedDegree
from widemargin.metrics import pairwise_accuracy

LENGTH, LETTERS = 40, np.array(list("ACGT"))
consensus = "CAGGTAAGT"  # around the cut, at positions 16 to 24


def sites(n, rng):
    """Return labels and sequences; the true sites follow the consensus at most positions."""
    letters = rng.choice(LETTERS, size=(n, LENGTH))
    is_site = rng.random(n) < 0.3
    for offset, letter in enumerate(consensus):
        follows = is_site & (rng.random(n) < (1.0 if letter in "GT" and offset in (3, 4) else 0.7))
        letters[follows, 16 + offset] = letter
    letters[:, 19], letters[:, 20] = "G", "T"  # decoys have GT as well
    return pa.table({"label": is_site.astype(int), "sequence": ["".join(row) for row in letters]})


rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
for name, size in ("train", 6000), ("test", 3000):
    pq.write_table(sites(size, rng), folder / f"{name}.parquet")

# %%
# Substrings of one to four letters at each of the 40 positions.

features = WeightedDegree("sequence", length=LENGTH, max_degree=4)
rows = open_rows(folder / "train.parquet", features)
model = LinearSVC(C=1.0, loss="hinge", random_state=0).fit(rows, rows.labels)
test = open_rows(folder / "test.parquet", features)
scores = model.decision_function(test)
print(f"{rows.n_rows:,} rows, {rows.n_features:,} features")
print(model.certificate_)
print(f"ROC AUC on new sequences: {pairwise_accuracy(test.labels, scores):.4f}")

# %%
# Features are sorted by position, then by length: the first four of a position are its letters.

starts = np.cumsum(
    [0] + [sum(4**j for j in range(1, 5) if i + j <= LENGTH) for i in range(LENGTH - 1)]
)
weights = np.array([model.coef_[0, start : start + 4] for start in starts]).T
fig, ax = plt.subplots(figsize=(9, 2.6), layout="constrained")
image = ax.imshow(
    weights, aspect="auto", cmap="RdBu_r", vmin=-abs(weights).max(), vmax=abs(weights).max()
)
ax.set(yticks=range(4), yticklabels=LETTERS, xlabel="position", title="Weight of each letter")
fig.colorbar(image, ax=ax)
plt.show()
