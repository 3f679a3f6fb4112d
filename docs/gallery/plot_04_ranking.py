"""
Ranking: the best answers first
===============================

A search engine has queries, documents and grades: 0 for a bad answer, 2 for a perfect one. Only
the order within a query matters. `LinearRanker` looks at all pairs of documents of a query, in
O(n log n).
"""

import numpy as np
from matplotlib import pyplot as plt

from widemargin import LinearRanker, LinearSVC
from widemargin.metrics import ndcg, pairwise_accuracy

rng = np.random.default_rng(0)
n_queries, n_documents = 300, 20
qid = np.repeat(np.arange(n_queries), n_documents)
X = rng.normal(size=(qid.size, 10))
useful = X[:, 0] + 0.7 * X[:, 1] + rng.normal(scale=0.8, size=qid.size)
# Popular queries have more clicks for all their documents, which says nothing of their order.
X[:, 0] += rng.normal(scale=3.0, size=n_queries)[qid]
grades = np.digitize(useful, np.quantile(useful, [0.7, 0.93]))
train = qid < 200

ranker = LinearRanker(C=1.0).fit(X[train], grades[train], qid=qid[train])
print(ranker)

# %%
# Beside it, a classifier that is asked whether an answer is good. It does not know
# of queries, and takes the documents of popular ones for good.

classifier = LinearSVC(random_state=0).fit(X[train], grades[train] > 0)
test = ~train
scores = {
    "ranker": ranker.decision_function(X[test]),
    "classifier": classifier.decision_function(X[test]),
    "random order": rng.normal(size=test.sum()),
}
for name, score in scores.items():
    pairs = pairwise_accuracy(grades[test], score, qid[test])
    gain = ndcg(grades[test], score, qid[test])
    print(f"{name:12}  pairs in order {pairs:.3f}, NDCG@10 {gain:.3f}")

# %%
# How good the first k answers are, for each k.

depths = range(1, n_documents + 1)
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, score in scores.items():
    ax.plot(depths, [ndcg(grades[test], score, qid[test], k) for k in depths], ".-", label=name)
ax.set(xlabel="k", ylabel="NDCG@k, mean over queries")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
