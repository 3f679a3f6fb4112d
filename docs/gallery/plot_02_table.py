"""
A table: which flights will be late?
====================================

A table has numbers and categories. scikit-learn's transformers make features of them, and a
pipeline keeps both steps together. The flights are made up; the shape of the problem is that of
the real ones: hours matter, but not in a straight line, and some carriers are better than others.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

from widemargin import LinearSVC

rng = np.random.default_rng(0)
n = 30_000
flights = pd.DataFrame(
    {
        "carrier": rng.choice(["Aurora", "Borealis", "Condor", "Drake", "Egret"], n),
        "origin": rng.choice([f"airport {i:02d}" for i in range(40)], n),
        "month": rng.integers(1, 13, n),
        "hour": rng.uniform(5, 23, n),
        "distance": rng.lognormal(6.5, 0.6, n),
    }
)
carrier_effect = flights.carrier.map(
    {"Aurora": -0.6, "Borealis": 0.0, "Condor": 0.2, "Drake": 0.5, "Egret": 0.9}
)
rush = np.exp(-((flights.hour - 18) ** 2) / 6)
snow = np.where(flights.month.isin([12, 1, 2]), 0.8, 0.0)
late = carrier_effect + 1.5 * rush + snow + rng.logistic(size=n) > 1.2
train, test, y_train, y_test = train_test_split(flights, late, random_state=0)

# %%
# Bins make a curve of the hour; categories have a column each. ``balanced`` weighs the late
# flights, which are fewer, as much as the others.

features = make_column_transformer(
    (OneHotEncoder(), ["carrier", "origin", "month"]),
    (KBinsDiscretizer(12, strategy="uniform"), ["hour"]),
    (StandardScaler(), ["distance"]),
)
model = make_pipeline(features, LinearSVC(class_weight="balanced", random_state=0))
model.fit(train, y_train)
svm = model[-1]
print(svm.certificate_)
print(f"accuracy {model.score(test, y_test):.3f}, late flights {y_test.mean():.3f}")

# %%
# The weights are the model: what a carrier, a month or an hour adds to the score.

names = model[:-1].get_feature_names_out()
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, column in zip(axes, ["carrier", "month", "hour"]):
    here = [j for j, name in enumerate(names) if f"__{column}" in name]
    ticks = [names[j].split("_")[-1].removesuffix(".0") for j in here]
    ax.bar(range(len(here)), svm.coef_[0, here], color="C0")
    ax.set_xticks(range(len(here)), ticks)
    ax.axhline(0, color="0.5", lw=0.8)
    ax.set_title(column)
    ax.tick_params(axis="x", rotation=60 if column == "carrier" else 0)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("weight towards late")
axes[2].set_xlabel("bin, from morning to night")
plt.show()
