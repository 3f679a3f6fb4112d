"""Draws without_rows.svg: rows that do not matter by tolerance, and scores without each row."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from widemargin import LinearSVC, prove

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
ways = {"loss": "hinge", "random_state": 0}
plt.rcParams.update({"svg.hashsalt": "widemargin", "font.size": 9})
figure, axes = plt.subplots(1, 3, figsize=(8.6, 2.8), layout="constrained")

tols = 10.0 ** np.arange(-1, -8.5, -0.5)
shares = []
for tol in tols:
    proof = prove(LinearSVC(tol=tol, **ways).fit(X, y), X, y)
    rows = proof.irrelevant_rows.mean(), proof.bounded_rows.mean()
    shares.append([proof.settled_mask(X).mean(), *rows])
names = ("labels settled", "rows left out", "rows joined")
for share, colour, name in zip(np.transpose(shares), ("#2a7", "#36c", "#c63"), names):
    axes[0].semilogx(tols, 100.0 * share, color=colour, label=name)
axes[0].invert_xaxis()
axes[0].set(title="C = 1", xlabel="tol", ylabel="% of the rows")
axes[0].legend(frameon=False)

some = np.random.default_rng(0).choice(len(y), 50, replace=False)
for axis, C in zip(axes[1:], (0.01, 1.0)):
    found = prove(LinearSVC(C=C, tol=1e-8, **ways).fit(X, y), X, y).leave_one_out()
    truth = []
    for row in some:
        rest = np.arange(len(y)) != row
        model = LinearSVC(C=C, tol=1e-6, **ways).fit(X[rest], y[rest])
        truth.append(float(model.decision_function(X[row : row + 1])[0]))
    place = np.argsort(np.argsort(truth))
    axis.vlines(place, found.low[some], found.high[some], color="#36c", lw=1.5, label="bounds")
    axis.plot(place, truth, ".", color="black", ms=3, label="true")
    axis.axhline(0.0, color="grey", lw=0.8)
    error = f"{found.least_error:.1%} to {found.most_error:.1%}"
    axis.set(title=f"leave one out, C = {C:g}:\nerror {error}", xlabel="rows, by score")
axes[1].set_ylabel("score without the row")
axes[1].legend(loc="upper left", frameon=False)
plt.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
