"""Models that Python has saved, on the command line: one-class models and features of kernels."""

import numpy as np
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline

from widemargin import FourierFeatures, LinearOneClassSVM, LinearSVC, save_model


@pytest.fixture
def data(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32) + np.float32(1)
    path = str(tmp_path / "rows.svm")
    dump_svmlight_file(X, np.where(X[:, 0] > 1, 1, -1), path, zero_based=False)
    return path, X


def test_a_one_class_model(data, tmp_path):
    path, X = data
    model, file = LinearOneClassSVM(nu=0.2).fit(X), tmp_path / "m.wm"
    save_model(model, file)
    assert (
        strict_json(succeed("predict", file, path, "--json"))["labels"]
        == model.predict(X).tolist()
    )
    assert strict_json(succeed("certify", file, path, "--json"))["agrees_with_model"]
    assert strict_json(succeed("show", file, "--json"))["estimator"] == "LinearOneClassSVM"
    succeed("export", file, "--format", "sklearn", "--out", tmp_path / "m.joblib")
    for format in ("c", "json", "liblinear"):
        options = ["--format", format, "--out", tmp_path / "m.out"]
        refuse("export", file, *options, naming=["format sklearn only"])
    refuse("evaluate", file, path, naming=["knows no labels"])


def test_features_of_a_kernel(data, tmp_path):
    path, X = data
    y, file = np.where(X[:, 0] > 1, 1, -1), tmp_path / "m.wm"
    model = make_pipeline(FourierFeatures(n_components=50, random_state=0), LinearSVC()).fit(X, y)
    save_model(model, file)
    assert (
        strict_json(succeed("predict", file, path, "--json"))["labels"]
        == model.predict(X).tolist()
    )
    assert strict_json(succeed("certify", file, path, "--json"))["agrees_with_model"]
    assert strict_json(succeed("show", file, "--json"))["kernel_features"] == "FourierFeatures"
    succeed("evaluate", file, path)
    refuse("export", file, "--format", "c", "--out", tmp_path / "m", naming=["sklearn only"])
