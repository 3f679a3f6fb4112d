"""Draws settled.svg: scores of rows and bounds on those of the optimum, at three tolerances."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from widemargin import LinearSVC, prove

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
X, y, X_new = X[:400], y[:400], X[400:460]
plt.rcParams.update({"svg.hashsalt": "widemargin", "font.size": 9})
figure, axes = plt.subplots(1, 3, figsize=(8.0, 2.6), sharey=True, layout="constrained")
for axis, tol in zip(axes, (1e-1, 1e-2, 1e-3)):
    model = LinearSVC(loss="hinge", C=0.1, tol=tol, random_state=0).fit(X, y)
    proof = prove(model, X, y)
    low, high = proof.score_bounds(X_new)
    settled = proof.settled_mask(X_new)
    scores = model.decision_function(X_new)
    place = np.argsort(np.argsort(scores))
    for mask, colour, name in ((settled, "#2a7", "settled"), (~settled, "#c63", "not settled")):
        axis.vlines(place[mask], low[mask], high[mask], color=colour, lw=1.5, label=name)
    axis.plot(place, scores, ".", color="black", ms=2)
    axis.axhline(0.0, color="grey", lw=0.8)
    axis.set_title(f"tol = {tol:g}: {settled.mean():.0%} settled")
    axis.set_xlabel("rows, by score")
axes[0].set_ylabel("score")
axes[0].set_ylim(-8, 8)
axes[0].legend(loc="upper left", frameon=False)
plt.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
