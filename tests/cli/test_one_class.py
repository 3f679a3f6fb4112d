"""One-class models on the command line, and features of kernels that Python has saved."""

import numpy as np
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline

from widemargin import FourierFeatures, LinearOneClassSVM, LinearSVC, load_model, save_model


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


def test_training(data, tmp_path):
    path, X = data
    file, text = tmp_path / "m.wm", str(tmp_path / "labels.txt")
    train = ("train", path, "--task", "oneclass", "--out", file)
    summary = strict_json(succeed(*train, "--nu", "0.2", "--json"))
    assert (summary["task"], summary["parameters"]["nu"]) == ("oneclass", 0.2)
    assert "classes" not in summary
    loaded = load_model(file)
    np.testing.assert_array_equal(loaded.coef_, LinearOneClassSVM(nu=0.2).fit(X).coef_)
    succeed("predict", file, path, "--out", text)
    assert set(np.loadtxt(text).tolist()) == {-1.0, 1.0}
    assert strict_json(succeed("certify", file, path, "--json"))["agrees_with_model"]
    assert "one class, nu = 0.5, solver ocas" in succeed(*train).stdout
    assert "nu" in succeed("show", file).stdout


def test_training_of_rows_on_disk(data, tmp_path):
    path, X = data
    folder, file = tmp_path / "rows", tmp_path / "m.wm"
    succeed("convert", path, folder)
    options = ("--solver", "ocas", "--memory-budget", "8MB", "--n-jobs", "2", "--max-iter", "500")
    succeed("train", folder, "--task", "oneclass", *options, "--out", file)
    assert load_model(file).score_samples(X).shape == (60,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-C", "2"), "-C goes with --task classify, "),
        (("--loss", "hinge"), "--loss goes with --task classify or regress only"),
        (("--penalty", "l1"), "--penalty goes with --task classify, regress or logistic only"),
        (("--solver", "dcd"), "--solver dcd goes with --task classify, logistic or regress only"),
        (("--no-intercept",), "--no-intercept goes with"),
        (("--nu", "0"), "0 is not a number above 0 and at most 1"),
        (("--nu", "1.5"), "1.5 is not a number above 0 and at most 1"),
        (("--report", "r.html"), "--report goes with --task classify, "),
        (
            ("--liblinear", "m.txt"),
            "--liblinear goes with --task classify, regress or logistic only",
        ),
        (("--device", "cuda"), "cuda"),
    ],
)
def test_refusals(data, tmp_path, given, said):
    assert said in refuse("train", data[0], "--task", "oneclass", *given, "--out", tmp_path / "m")


def test_nothing_to_choose_by(data, tmp_path):
    refuse("tune", data[0], "--task", "oneclass", "--out", tmp_path / "m", naming=["no labels to"])
    refuse("train", data[0], "--nu", "0.1", "--out", tmp_path / "m", naming=["--task oneclass"])


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
