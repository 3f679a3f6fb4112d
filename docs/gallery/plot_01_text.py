"""
Text: which library does this sentence describe?
================================================

The docstrings of SciPy are a text corpus that is already on this machine. Each line of them is a
row; the subpackage it comes from is its class.
"""

import importlib
import inspect

from matplotlib import pyplot as plt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from widemargin import LinearSVC

packages = ["cluster", "fft", "integrate", "linalg", "optimize", "signal", "sparse", "stats"]
lines, labels = [], []
for name in packages:
    module = importlib.import_module(f"scipy.{name}")
    for member in module.__all__:
        documentation = inspect.getdoc(getattr(module, member)) or ""
        kept = [line.strip() for line in documentation.splitlines() if len(line.split()) > 5]
        lines += kept
        labels += [name] * len(kept)

train, test, y_train, y_test = train_test_split(lines, labels, random_state=0, stratify=labels)
print(f"{len(train):,} lines to learn from, {len(test):,} to be tested on")

# %%
# Words and pairs of words, weighted by TF-IDF. The matrix is sparse, and is used in place.

vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
X_train, X_test = vectorizer.fit_transform(train), vectorizer.transform(test)
model = LinearSVC(C=1.0, loss="hinge", random_state=0).fit(X_train, y_train)
print(model)
print(f"accuracy on held-out lines: {model.score(X_test, y_test):.3f}")

# %%
# What each class is recognised by: the words with the largest weights.

words = vectorizer.get_feature_names_out()
fig, axes = plt.subplots(2, 4, figsize=(10, 4.6), layout="constrained")
for ax, label, weights in zip(axes.flat, model.classes_, model.coef_):
    largest = weights.argsort()[-6:]
    ax.barh(words[largest], weights[largest], color="C0")
    ax.set_title(label)
    ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("Largest weights of each class")
plt.show()
