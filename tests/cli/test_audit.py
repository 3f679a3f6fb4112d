"""`widemargin audit`."""

import numpy as np
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from widemargin import LinearSVC, LinearSVR, LogisticRegression, load_model
from widemargin.model_io import write_liblinear


def with_bias(path, factor):
    """Rewrite a LIBLINEAR model with another constant feature of the same effect."""
    *head, last = path.read_text().rstrip().split("\n")
    text = "\n".join([*head, repr(float(last) / factor)]) + "\n"
    path.write_text(text.replace("bias 1\n", f"bias {factor:g}\n"))


@pytest.fixture
def data(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "train.svm"
    dump_svmlight_file(scale(X), y, str(path), zero_based=False)
    return path


@pytest.fixture
def liblinear(data, tmp_path):
    """What LIBLINEAR might have written after a few iterations."""
    X, y = load_breast_cancer(return_X_y=True)
    model = LinearSVC(loss="hinge", C=2.0, penalized_intercept=True, tol=0.5, random_state=0)
    model.fit(scale(X), y)
    write_liblinear(model, tmp_path / "ll")
    return tmp_path / "ll", model


def test_liblinears_model(data, liblinear, tmp_path):
    path, model = liblinear
    found = strict_json(
        succeed("audit", path, data, "-C", 2, "--polish", tmp_path / "m", "--json")
    )
    assert found["certificate"]["primal"] == pytest.approx(model.certificate_.primal, rel=1e-4)
    X, y = load_breast_cancer(return_X_y=True)
    exact = LinearSVC(loss="hinge", C=2.0, penalized_intercept=True, tol=1e-7).fit(scale(X), y)
    best = exact.certificate_.primal
    assert found["excess"] == pytest.approx(model.certificate_.primal / best - 1.0, abs=2e-3)
    better = load_model(tmp_path / "m")
    assert better.certificate_.relative_gap <= 1e-3
    assert better.penalized_intercept
    assert "agrees_with_model" in succeed("certify", tmp_path / "m", data, "--json").stdout
    text = succeed("audit", path, data, "-C", 2).stdout
    assert "of the optimum" in text
    assert "better" in text


def test_another_bias_is_another_penalty(data, liblinear):
    path, model = liblinear
    with_bias(path, 5.0)
    found = strict_json(succeed("audit", path, data, "-C", 2, "--json"))
    less = 0.5 * model.intercept_[0] ** 2 * (1.0 - 1.0 / 25.0)
    expected = model.certificate_.primal - less
    assert found["certificate"]["primal"] == pytest.approx(expected, rel=1e-4)


def test_our_own_model_is_polished(data, tmp_path):
    succeed("train", data, "--tol", "0.2", "--out", tmp_path / "m")
    succeed("audit", tmp_path / "m", data, "--tol", "1e-6", "--polish", tmp_path / "better")
    assert load_model(tmp_path / "better").certificate_.relative_gap <= 1e-6


def test_scales_stay_with_the_model(data, tmp_path):
    succeed("train", data, "--scale", "--out", tmp_path / "m")
    before = strict_json(succeed("certify", tmp_path / "m", data, "--json"))["certificate"]
    found = strict_json(
        succeed("audit", tmp_path / "m", data, "--polish", tmp_path / "p", "--json")
    )
    assert found["certificate"]["primal"] == pytest.approx(before["primal"])
    assert "proved" in succeed("certify", tmp_path / "p", data).stdout


def test_regression_needs_its_epsilon(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    dump_svmlight_file(X, y, str(tmp_path / "d.svm"), zero_based=False)
    model = LinearSVR(C=5.0, epsilon=10.0, penalized_intercept=True).fit(X, y)
    write_liblinear(model, tmp_path / "ll")
    arguments = ["audit", tmp_path / "ll", tmp_path / "d.svm", "-C", 5, "--json"]
    exact = strict_json(succeed(*arguments, "--epsilon", 10))
    assert exact["excess"] <= 2e-3
    assert exact["certificate"]["primal"] == pytest.approx(model.certificate_.primal, rel=1e-6)
    assert (
        strict_json(succeed(*arguments))["certificate"]["primal"] > exact["certificate"]["primal"]
    )


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(penalized_intercept=True, tol=1e-6),
        LogisticRegression(penalty="l1", penalized_intercept=True, tol=1e-6),
        LinearSVC(penalty="l1", penalized_intercept=True, tol=1e-6, random_state=0),
    ],
    ids=["L2R_LR", "L1R_LR", "L1R_L2LOSS_SVC"],
)
def test_other_objectives_of_liblinear(model, tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    dump_svmlight_file(X, y, str(tmp_path / "d.svm"), zero_based=False)
    write_liblinear(model.fit(X, y), tmp_path / "ll")
    found = strict_json(succeed("audit", tmp_path / "ll", tmp_path / "d.svm", "-C", 1, "--json"))
    assert found["excess"] <= 2e-3
    assert found["certificate"]["primal"] == pytest.approx(model.certificate_.primal, rel=1e-6)


def test_bad_input(data, liblinear, tmp_path):
    path, _ = liblinear
    refuse("audit", path, data, naming=[path, "-C is needed"])
    refuse("audit", path, data, "-C", 1, "--epsilon", 1, naming=["--epsilon", "classes"])
    refuse("audit", data, data, "-C", 1, naming=[data])
    other = tmp_path / "other.svm"
    dump_svmlight_file(np.eye(3), np.array([7, 8, 9]), str(other), zero_based=False)
    succeed("train", data, "--out", tmp_path / "m")
    refuse("audit", tmp_path / "m", other, naming=[other])


def test_a_time_limit_is_said(data, liblinear):
    path, _ = liblinear
    result = succeed("audit", path, data, "-C", 2, "--max-time", 1e-9, "--tol", 1e-9)
    assert "stopped at a gap" in result.stderr
