"""Models converted to ONNX predict the same in onnxruntime."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from widemargin import (
    FourierFeatures,
    LinearOneClassSVM,
    LinearRanker,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    LogisticRegressionCV,
    MeasureSVC,
    MeasureSVCCV,
    OrdinalSVC,
)

runtime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")
to_onnx, supported_converters = skl2onnx.to_onnx, skl2onnx.supported_converters
pytest.importorskip("widemargin.onnx")

X, Y = load_iris(return_X_y=True)
LABELS = {
    "three": Y,
    "two": np.where(Y == 1, 7, -3),
    "words": np.array(["setosa", "versicolor", "virginica"])[Y],
    "two words": np.where(Y == 1, "yes", "no"),
    "flags": Y == 1,
    "whole floats": Y.astype(float),
}


def run(model, rows, **options):
    """Return what the converted model computes for the rows."""
    converted = to_onnx(model, rows[:1], options=options or None)
    session = runtime.InferenceSession(converted.SerializeToString())
    return session.run(None, {"X": rows})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_a_pipeline_with_a_classifier(labels, dtype):
    rows = (10 * X).astype(dtype)
    model = make_pipeline(StandardScaler(), LinearSVC(random_state=0)).fit(rows, labels)
    label, scores = run(model, rows)
    np.testing.assert_array_equal(label, model.predict(rows))
    want = model.decision_function(rows)
    if want.ndim == 1:
        want = np.column_stack([-want, want])
    np.testing.assert_allclose(scores, want, atol=1e-12 if dtype is np.float64 else 1e-4)


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("kind", [LinearSVC, LinearSVCCV])
def test_probabilities(kind, labels):
    model = kind(probability=True, random_state=0)
    if kind is LinearSVCCV:
        model.set_params(Cs=2)
    pipeline = make_pipeline(StandardScaler(), model.fit(X, labels)).fit(X, labels)
    label, likely = run(pipeline, X, zipmap=False)
    np.testing.assert_array_equal(label, pipeline.predict(X))
    np.testing.assert_allclose(likely, pipeline.predict_proba(X), atol=1e-12)


def test_probabilities_as_dictionaries_columns_and_with_labels():
    model = LinearSVC(probability=True, random_state=0).fit(X, LABELS["words"])
    rows, want = X.astype(np.float32), model.predict_proba(X)
    _, found = run(model, rows)
    assert found[5] == pytest.approx(dict(zip(model.classes_, want[5])), abs=1e-6)
    columns = run(model, rows, zipmap="columns")
    np.testing.assert_allclose(np.column_stack(columns[1:]), want, atol=1e-5)
    *_, names = run(model, rows, zipmap=False, output_class_labels=True)
    np.testing.assert_array_equal(names, model.classes_)
    places, _ = run(model, rows, zipmap=False, nocl=True)
    np.testing.assert_array_equal(model.classes_[places], model.predict(X))


def test_scores_for_which_no_class_has_a_probability():
    model = LinearSVC(probability=True, random_state=0).fit(X, Y)
    model.sigmoids_ = np.array([[1.0, 2000.0]] * 3)  # all are zero, and the classes alike
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3)
    np.testing.assert_allclose(run(model, X, zipmap=False)[1], 1 / 3)


def test_sparse_coefficients():
    model = LinearSVC(random_state=0).fit(X, Y).sparsify()
    np.testing.assert_allclose(run(model, X)[1], model.decision_function(X))


@pytest.mark.parametrize(
    "labels",
    [
        Y,
        Y + 0.5,
        Y == 2,
        pd.Categorical(np.array(["low", "mid", "high"])[Y], ["low", "mid", "high"], ordered=True),
    ],
    ids=["whole", "fractions", "flags", "categories"],
)
def test_ordinal_regression(labels):
    model = make_pipeline(StandardScaler(), OrdinalSVC()).fit(X, labels)
    label, scores = run(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores[:, 0], model[-1].score_samples(model[0].transform(X)))


def test_a_ranker():
    model = make_pipeline(StandardScaler(), LinearRanker()).fit(X, Y)
    (scores,) = run(model, X)
    np.testing.assert_allclose(scores, model.predict(X)[:, None])


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        LogisticRegression(multi_class="ovr"),
        LogisticRegressionCV(Cs=2, cv=3),
        LogisticRegressionCV(Cs=2, cv=3, multi_class="ovr"),
    ],
    ids=["softmax", "ovr", "softmax, chosen C", "ovr, chosen C"],
)
def test_logistic_regression(model, labels):
    model = make_pipeline(StandardScaler(), clone(model)).fit(X, labels)
    label, likely = run(model, X, zipmap=False)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(likely, model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("labels", [LABELS["two"], LABELS["two words"]], ids=["two", "words"])
@pytest.mark.parametrize("model", [MeasureSVC("f1"), MeasureSVCCV("f1", Cs=2, cv=3)])
def test_models_for_measures(model, labels):
    model = make_pipeline(StandardScaler(), clone(model)).fit(X, labels)
    label, scores = run(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    want = model.decision_function(X)
    np.testing.assert_allclose(scores, np.column_stack([-want, want]), atol=1e-12)


@pytest.mark.parametrize("n_targets", [None, 1, 2])
def test_regression(n_targets):
    rows, target = load_diabetes(return_X_y=True)
    y = target if n_targets is None else np.column_stack([target, rows[:, 0]])[:, :n_targets]
    model = make_pipeline(StandardScaler(), LinearSVR(C=10.0, random_state=0)).fit(rows, y)
    (found,) = run(model, rows)
    np.testing.assert_allclose(found, model.predict(rows).reshape(len(rows), -1), rtol=1e-10)


def test_outliers():
    model = make_pipeline(StandardScaler(with_mean=False), LinearOneClassSVM(nu=0.1)).fit(X)
    label, scores = run(model, X)
    want = model.decision_function(X)
    clear = np.abs(want) > 1e-9  # some rows lie on the plane, up to rounding
    np.testing.assert_array_equal(label[clear], model.predict(X)[clear])
    assert {*label[clear].tolist()} == {-1, 1}
    np.testing.assert_allclose(scores[:, 0], want, atol=1e-12)


def test_a_kernel_by_features():
    features = FourierFeatures(n_components=50, random_state=0)
    model = make_pipeline(features, LinearSVC(random_state=0)).fit(X, Y)
    label, scores = run(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-4)


def test_every_estimator_has_a_converter():
    known = supported_converters()
    without = {"NystroemFeatures", "TableFeatures"}  # as widemargin.onnx says
    for name in widemargin.__all__:
        kind = getattr(widemargin, name)
        if isinstance(kind, type) and issubclass(kind, BaseEstimator):
            assert (f"Widemargin{name}" in known) == (name not in without), name
