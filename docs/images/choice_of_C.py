"""Draws choice_of_C.svg: upper and lower bounds on the cross-validation error over C."""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from widemargin import LinearSVCCV, certify_path

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
search = LinearSVCCV(loss="hinge", penalized_intercept=True, random_state=0)
search.set_params(Cs=[1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0]).fit(X, y)
plt.rcParams.update({"svg.hashsalt": "widemargin", "font.size": 9})
figure, axes = plt.subplots(1, 2, figsize=(8.0, 2.8), sharey=True, layout="constrained")
for axis, eps in zip(axes, (0.02, 0.01)):
    found = certify_path(search, X, y, eps=eps)
    print(found, found.n_added, found.certified)
    axis.stairs(100.0 * found.lowest, found.Cs, color="#36c", baseline=None, label="lower bound")
    axis.plot(
        found.Cs, 100.0 * found.errors, ".", color="black", ms=4, label="error at a solved C"
    )
    axis.axhline(100.0 * (found.errors.min() - eps), color="#c63", lw=0.8, label="best - eps")
    axis.set_xscale("log")
    axis.set(title=f"eps = {eps:.1%}: {found.n_added} values added", xlabel="C")
axes[0].set_ylabel("error of cross-validation, %")
axes[0].set_ylim(-0.3, 8)
axes[0].legend(frameon=False, loc="upper right")
plt.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
