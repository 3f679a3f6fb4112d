"""Logistic regression, from the shell: probabilities without calibration."""

import numpy as np
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.datasets import dump_svmlight_file, load_iris

from widemargin import LogisticRegression, load_model

X, y = load_iris(return_X_y=True)


@pytest.fixture(params=[2, 3])
def data(request, tmp_path):
    keep = y < request.param
    path = tmp_path / "data.svm"
    dump_svmlight_file(X[keep], y[keep], str(path), zero_based=False)
    return path


def test_from_training_to_proof(data, tmp_path):
    model = tmp_path / "m"
    summary = strict_json(
        succeed("train", data, "--task", "logistic", "-C", "2", "--out", model, "--json")
    )
    assert summary["task"] == "logistic"
    assert summary["certificate"]["relative_gap"] <= 1e-3
    loaded = load_model(model)
    assert isinstance(loaded, LogisticRegression)
    assert loaded.C == 2.0
    assert loaded.multi_class == "auto"
    found = strict_json(succeed("predict", model, data, "--probability", "--json"))
    rows = X[: len(found["labels"])]
    np.testing.assert_allclose(found["probabilities"], loaded.predict_proba(rows), rtol=1e-5)
    shown = strict_json(succeed("certify", model, data, "--json"))
    assert shown["certificate"]["relative_gap"] <= 1e-3
    assert "logistic loss" in succeed("train", data, "--task", "logistic", "--out", model).stdout
    succeed("show", model)


@pytest.mark.parametrize(("penalty", "zeros"), [("l1", True), ("elasticnet", False)])
def test_sparse_weights(data, tmp_path, penalty, zeros):
    model = tmp_path / "m"
    options = ("--task", "logistic", "--penalty", penalty, "-C", "0.05", "--out", model)
    if len(np.unique(np.loadtxt(data, usecols=0))) > 2:
        refuse("train", data, *options, naming=["penalty", "multi_class='multinomial'"])
        return
    succeed("train", data, *options)
    assert load_model(model).penalty == penalty
    if zeros:
        assert np.count_nonzero(load_model(model).coef_) < 4
    assert strict_json(succeed("certify", model, data, "--json"))["agrees_with_model"]
    refuse("train", data, *options, "--l1-ratio", "2", naming=["--l1-ratio"])


def test_models_of_liblinear(data, tmp_path):
    model, text = tmp_path / "m", tmp_path / "m.txt"
    options = ("--task", "logistic", "--out", model, "--liblinear", text)
    if len(np.unique(np.loadtxt(data, usecols=0))) > 2:
        refuse("train", data, *options, naming=["one versus rest", "all 3 classes together"])
        return
    succeed("train", data, *options)
    found, theirs = (
        strict_json(succeed("predict", each, data, "--probability", "--json"))
        for each in (model, text)
    )
    np.testing.assert_allclose(theirs["probabilities"], found["probabilities"])
    succeed("evaluate", text, data)
    succeed("show", text)
    audited = strict_json(succeed("audit", text, data, "-C", "1", "--json"))
    assert audited["certificate"]["relative_gap"] >= 0.0


def test_the_choice_of_a_cost(data, tmp_path):
    model = tmp_path / "m"
    options = ("--Cs", "0.1,1,10", "--folds", "3", "--scoring", "neg_log_loss")
    command = ("tune", data, "--task", "logistic", *options, "--out", model, "--json")
    assert strict_json(succeed(*command))["task"] == "logistic"
    assert isinstance(load_model(model), LogisticRegression)
    assert load_model(model).C in (0.1, 1.0, 10.0)


def test_a_report_has_its_probabilities(data, tmp_path):
    page = tmp_path / "p.html"
    succeed("train", data, "--task", "logistic", "--out", tmp_path / "m", "--report", page)
    assert "predicted probability" in page.read_text() or len(np.unique(y)) == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--solver", "acf"), "--solver acf goes with --task classify or regress only"),
        (("--loss", "hinge"), "--loss goes with --task classify or regress only"),
        (("--multi-class", "ovr"), "--multi-class goes with --task classify only"),
        (("--probability",), "--probability goes with --task classify only"),
    ],
)
def test_refusals(data, tmp_path, given, said):
    refused = refuse("train", data, "--task", "logistic", *given, "--out", tmp_path / "m")
    assert said in refused
