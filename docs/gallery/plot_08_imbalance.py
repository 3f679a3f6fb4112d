"""
Imbalance: two per cent of the rows are positive
================================================

Where positive rows are rare, accuracy says little, and a threshold has to be chosen. Three ways to
deal with it: weigh the classes, train for the order of the rows, or move the threshold.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import PrecisionRecallDisplay, f1_score
from sklearn.model_selection import train_test_split

from widemargin import LinearRanker, LinearSVC

X, y = make_classification(
    20_000, 20, n_informative=6, weights=[0.98], class_sep=0.9, flip_y=0.005, random_state=3
)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
models = {
    "as it is": LinearSVC(random_state=0).fit(X_train, y_train),
    "balanced": LinearSVC(class_weight="balanced", random_state=0).fit(X_train, y_train),
    "trained for the ROC AUC": LinearRanker().fit(X_train, y_train),
}
print(f"positive rows: {y_test.mean():.1%}")

# %%
# Here the model of the rows as they are is the most precise one, up to a recall of 0.7, and
# weights do not help: try it without them first. For all three, zero is a poor threshold. The page
# of ``report`` has a slider for that, with precision and recall, and the cost of both kinds of
# error.

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, model in models.items():
    scores = model.decision_function(X_test)
    PrecisionRecallDisplay.from_predictions(y_test, scores, name=name, ax=ax)
    cuts = np.quantile(scores, np.linspace(0.9, 0.999, 100))
    best = max(cuts, key=lambda cut, scores=scores: f1_score(y_test, scores > cut))
    print(
        f"{name}: F1 {f1_score(y_test, scores > 0):.2f} at zero, "
        f"{f1_score(y_test, scores > best):.2f} at {best:.2f}"
    )
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# A threshold chosen on the test set looks too good: for an honest figure, choose it on other rows.
# The report itself:

report = models["balanced"].report(X=X_test, y=y_test)
report
