"""Saved models that were trained for a measure."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from widemargin import MeasureSVC, MeasureSVCCV, certify, load_model, save_model
from widemargin.model_io import ModelFileError

MEASURES = ("f1", "prbep", "precision@10", "error", "average_precision", "roc_auc@0.3")


def problem(labels=("no", "yes")):
    rng = np.random.default_rng(0)
    positive = (np.arange(70) % 5 == 0).astype(int)
    return positive[:, None] + rng.normal(size=(70, 4)), np.array(labels)[positive]


def changed(path, change):
    """Save the file at `path` again after change(tensors, header)."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["widemargin"])
    change(tensors, header)
    save_file(tensors, path, metadata={"widemargin": json.dumps(header)})


@pytest.mark.parametrize("labels", [("no", "yes"), (-1, 1), (False, True)])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_model_comes_back_with_its_proof(measure, labels, tmp_path):
    X, y = problem(labels)
    model = MeasureSVC(measure, C=0.5, tol=1e-2).fit(X, y)
    save_model(model, tmp_path / "model.wm")
    loaded = load_model(tmp_path / "model.wm")
    assert type(loaded) is MeasureSVC
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.certificate_ == model.certificate_
    again = certify(loaded, X, y)
    assert again.relative_gap <= 1e-2
    assert again.dual == pytest.approx(certify(model, X, y).dual, rel=1e-12)
    # A fit goes on from there.
    assert loaded.set_params(warm_start=True).fit(X, y).n_iter_ <= model.n_iter_


@pytest.mark.parametrize("measure", MEASURES)
def test_rows_that_count_several_times(measure, tmp_path):
    """Labellings have a bit for each time."""
    X, y = problem()
    weights = np.arange(len(y)) % 4
    search = MeasureSVCCV(measure, Cs=[0.1, 1.0], cv=2).fit(X, y, weights)
    save_model(search, tmp_path / "model.wm")
    loaded = load_model(tmp_path / "model.wm")
    assert loaded.get_params() == search.best_estimator_.get_params()
    assert certify(loaded, X, y, weights) == certify(search, X, y, weights)


def test_equal_models_give_equal_files(tmp_path):
    for name in ("a", "b"):
        save_model(MeasureSVC("f1").fit(*problem()), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def unlike(tensors, header):
    tensors["dual_points"] = np.zeros((len(tensors["dual_weights"]), 3))


def negative(tensors, header):
    tensors["dual_weights"][0] = -1.0


def three_classes(tensors, header):
    header["classes"]["values"] = ["a", "b", "c"]


def out_of_order(tensors, header):
    header["classes"]["values"].reverse()


def no_number(tensors, header):
    tensors["intercept"][0] = np.nan


def without_proof(tensors, header):
    del tensors["dual_weights"]


def parts(tensors, header):
    part = {**header["certificate"], "parts": []}
    header["certificate"]["parts"] = [part, part]


def no_measure(tensors, header):
    header["parameters"]["measure"] = "f"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (unlike, "'dual_points' does not fit the coefficients"),
        (negative, "'dual_weights' holds values below zero"),
        (three_classes, "class labels are not two, in order"),
        (out_of_order, "class labels are not two, in order"),
        (no_number, "'intercept' holds values that are not numbers"),
        (without_proof, "'dual_weights' is missing"),
        (parts, "certificate has parts"),
        (no_measure, "parameters are not MeasureSVC's"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change, message, tmp_path):
    path = tmp_path / "model.wm"
    save_model(MeasureSVC("f1").fit(*problem()), path)
    changed(path, change)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_dual_variables_of_other_rows_are_refused(tmp_path):
    path = tmp_path / "model.wm"
    save_model(MeasureSVC("error").fit(*problem()), path)

    def shorter(tensors, header):
        tensors["dual"] = tensors["dual"][:-1].copy()

    changed(path, shorter)
    with pytest.raises(ModelFileError, match=r"'dual' has shape \(69,\), expected \(70\)"):
        load_model(path)
