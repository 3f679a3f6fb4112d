"""
Ordinal: stars from one to five
===============================

Stars are classes with an order: to take five for four is a small error, to take five for one is a
large one. `OrdinalSVC` learns a score that orders the rows, and thresholds between the classes.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from widemargin import LinearSVC, OrdinalSVC

X, progression = load_diabetes(return_X_y=True)
stars = 1 + np.digitize(progression, np.quantile(progression, [0.2, 0.4, 0.6, 0.8]))
X_train, X_test, y_train, y_test = train_test_split(scale(X), stars, random_state=0)

ordinal = OrdinalSVC(C=0.1).fit(X_train, y_train)
classifier = LinearSVC(C=0.1, random_state=0).fit(X_train, y_train)
print(ordinal)
for name, model in ("OrdinalSVC", ordinal), ("LinearSVC, one versus rest", classifier):
    error = np.abs(model.predict(X_test) - y_test).mean()
    print(f"{name}: mean absolute error {error:.2f} stars")

# %%
# The score orders the rows; each threshold divides two neighbouring classes.

scores = ordinal.score_samples(X_test)
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
jitter = np.random.default_rng(0).uniform(-0.25, 0.25, y_test.size)
ax.scatter(
    scores, y_test + jitter, s=14, c=np.abs(ordinal.predict(X_test) - y_test), cmap="viridis"
)
for threshold in ordinal.thresholds_:
    ax.axvline(threshold, color="0.5", lw=1, ls="--")
ax.set(xlabel="score", ylabel="stars", title="Dashed: thresholds. Colour: error in stars")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
