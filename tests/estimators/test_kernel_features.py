"""Transformers whose features approximate kernels: scikit-learn's numbers, files, bad input."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import (
    FourierFeatures,
    LinearSVC,
    LinearSVR,
    NystroemFeatures,
    certify,
    load_model,
    open_rows,
    save_model,
)
from widemargin.data.devices import is_on_gpu
from widemargin.data.kernel_maps import MappedRows
from widemargin.estimators import kernel_features
from widemargin.model_io import ModelFileError


def numbers(n=80, d=5):
    return np.random.default_rng(0).normal(size=(n, d)) * [1, 2, 0.5, 1, 3][:d]


@parametrize_with_checks([FourierFeatures(n_components=20), NystroemFeatures(n_components=20)])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("gamma", ["scale", 0.3])
def test_the_numbers_of_rbf_sampler(make, gamma):
    X = make(numbers())
    ours = FourierFeatures(gamma=gamma, n_components=50, random_state=5).fit(X)
    theirs = RBFSampler(gamma=gamma, n_components=50, random_state=5).fit(X)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=2e-6)
    np.testing.assert_allclose(ours.to_sklearn().transform(X), ours.transform(X), atol=2e-6)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "sigmoid", "cosine"])
def test_the_numbers_of_nystroem(kernel):
    X = numbers()
    ours = NystroemFeatures(kernel=kernel, gamma=0.1, n_components=30, random_state=5).fit(X)
    twin = ours.to_sklearn()
    theirs = clone(twin).set_params(random_state=5).fit(X)
    assert type(theirs) is Nystroem
    np.testing.assert_array_equal(ours.component_indices_, theirs.component_indices_)
    size = np.abs(ours.transform(X)).max()
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-5 * size)
    np.testing.assert_allclose(ours.transform(X), twin.transform(X), atol=1e-5 * size)


def test_gamma_auto_is_one_over_the_number_of_columns():
    X = numbers()
    assert FourierFeatures(gamma="auto").fit(X).gamma_ == 0.2
    assert FourierFeatures().fit(np.ones((4, 5))).gamma_ == 1.0  # as RBFSampler


@pytest.mark.parametrize("kind", [FourierFeatures, NystroemFeatures])
def test_moons_as_by_the_kernel_itself(kind):
    X, y = make_moons(400, noise=0.15, random_state=0)
    svc = SVC(gamma=2.0, C=10.0).fit(X, y)
    features = kind(gamma=2.0, n_components=300, random_state=0)
    model = make_pipeline(features, LinearSVC(loss="hinge", C=10.0, random_state=0)).fit(X, y)
    assert (model.predict(X) == svc.predict(X)).mean() >= 0.99


@pytest.mark.parametrize("kind", [FourierFeatures, NystroemFeatures])
def test_rows_on_disk_and_in_memory_have_the_same_features(tmp_path, kind):
    X, path = numbers().astype(np.float32), tmp_path / "rows.svm"
    lines = [" ".join(f"{j + 1}:{v:.9g}" for j, v in enumerate(row)) for row in X]
    path.write_text("".join(f"{i % 2} {line}\n" for i, line in enumerate(lines)))
    rows = open_rows(path)
    features = kind(n_components=30, gamma=0.2, random_state=0)
    wanted = features.fit_transform(X)
    again = clone(features).fit(rows)
    found = again.transform(rows)
    np.testing.assert_array_equal(found, wanted)
    again.set_params(memory_budget=1000)
    small = again.transform(rows)
    assert isinstance(small, MappedRows)
    np.testing.assert_array_equal(small.in_memory().matrix, wanted)
    np.testing.assert_array_equal(small.take(np.array([7, 3, 3])).matrix, wanted[[7, 3, 3]])
    model = make_pipeline(again, LinearSVC(tol=1e-5)).fit(rows, rows.labels)
    assert certify(model[-1], wanted, rows.labels).relative_gap <= 1e-5
    assert model.predict(rows).shape == (80,)


@pytest.mark.parametrize(
    "features",
    [
        FourierFeatures(n_components=20, random_state=3),
        FourierFeatures(n_components=20, random_state=np.random.RandomState(3), gamma=0.1),
        NystroemFeatures(n_components=20, kernel="polynomial", random_state=3),
    ],
)
def test_the_same_after_loading(tmp_path, features):
    X, path = numbers(), tmp_path / "m.wm"
    pipeline = make_pipeline(features, LinearSVR(random_state=0)).fit(X, X[:, 0] ** 2)
    save_model(pipeline, path)
    loaded = load_model(path)
    assert type(loaded[0]) is type(features)
    np.testing.assert_array_equal(loaded.predict(X), pipeline.predict(X))
    save_model(loaded, tmp_path / "again.wm")
    assert (tmp_path / "again.wm").read_bytes() == path.read_bytes()
    twin = make_pipeline(loaded[0].to_sklearn(), loaded[1].to_sklearn())
    np.testing.assert_allclose(twin.predict(X), pipeline.predict(X), rtol=1e-4, atol=1e-3)


def test_a_file_that_contradicts_itself_is_refused(tmp_path, monkeypatch):
    X, path = numbers(), tmp_path / "m.wm"
    pipeline = make_pipeline(FourierFeatures(n_components=20), LinearSVC())
    pipeline.fit(X, X[:, 0] > 0)
    for name, value, message in [
        ("gamma_", -1.0, "not a positive number"),
        ("random_offset_", np.zeros(19, dtype=np.float32), "expected (20)"),
        ("gamma", "large", "gamma must be"),
        ("feature_names_in_", np.array(["a"]), "do not name all"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(pipeline[0], name, value, raising=False)
            save_model(pipeline, path)
        with pytest.raises(ModelFileError, match=re.escape(message)):
            load_model(path)


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (FourierFeatures, {"gamma": 0}, "gamma must be"),
        (FourierFeatures, {"gamma": "big"}, "gamma must be 'scale', 'auto' or"),
        (FourierFeatures, {"n_components": 0}, "n_components must be"),
        (FourierFeatures, {"memory_budget": "much"}, "memory_budget must be"),
        (FourierFeatures, {"n_jobs": 0}, "n_jobs must be"),
        (NystroemFeatures, {"kernel": "laplacian"}, "kernel must be one of 'rbf'"),
        (NystroemFeatures, {"degree": -1}, "degree must be"),
        (NystroemFeatures, {"coef0": np.nan}, "coef0 must be"),
    ],
)
def test_bad_parameters(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(**wrong).fit(numbers())


def test_bad_rows():
    X = numbers()
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 3, column 2"):
        FourierFeatures().fit(X)
    with pytest.raises(ValueError, match="the variance of X, which overflows"):
        NystroemFeatures().fit(1e300 * numbers())
    features = FourierFeatures(n_components=4).fit(numbers())
    with pytest.raises(ValueError, match="4 features"):
        features.transform(numbers(d=4))
    with pytest.raises(TypeError, match="not MappedRows"):
        features.fit(features.set_params(memory_budget=1).transform(numbers()))


def test_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(kernel_features, "is_on_gpu", lambda X: True)
    assert not is_on_gpu(numbers())
    with pytest.raises(ValueError, match="features on the host"):
        FourierFeatures().fit(numbers())


def test_circles_with_a_budget_of_almost_nothing():
    X, y = make_circles(200, noise=0.05, factor=0.5, random_state=0)
    features = FourierFeatures(n_components=60, random_state=0, memory_budget=1000)
    model = make_pipeline(features, LinearSVC(random_state=0)).fit(X, y)
    assert model.score(X, y) == 1.0
