"""
Choosing C: a path of warm starts
=================================

`LinearSVCCV` takes all folds along a path of C, each solution the start of the next. So twenty
values of C cost little more than a few, and each of the hundred trainings is certified.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from widemargin import LinearSVCCV, plot, svm_path

data = load_breast_cancer()
X, y = scale(data.data), data.target
search = LinearSVCCV(Cs=20, cv=5, random_state=0).fit(X, y)
print(search)
print(f"largest gap of all trainings: {search.relative_gaps_.max():.1e}")

# %%
# Left, the score of each C over the folds; right, how the weights grow with it.

path = svm_path(X, y, Cs=20, random_state=0)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
plot.scores(search, ax=left)
plot.path(path, n_weights=6, feature_names=data.feature_names, ax=right)
right.axvline(search.C_, color="0.5", ls=":")
plt.show()
