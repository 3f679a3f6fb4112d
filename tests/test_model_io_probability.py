"""Saved models with calibrated probabilities, and those that a search for C has chosen."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from widemargin import LinearSVC, LinearSVCCV, certify, load_model, save_model
from widemargin.model_io import ModelFileError, write_liblinear


def problem(classes):
    rng = np.random.default_rng(0)
    y = np.arange(60) % classes
    return np.eye(4)[y] + rng.normal(size=(60, 4)), y


def contents(path):
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, dict(file.metadata())


@pytest.fixture(params=[2, 3])
def saved(request, tmp_path):
    """The data, the model and the path of a saved model of two or three classes."""
    X, y = problem(request.param)
    model = LinearSVC(probability=True, random_state=0).fit(X, y)
    save_model(model, tmp_path / "model.wm")
    return X, model, tmp_path / "model.wm"


def test_probabilities_come_back(saved):
    X, model, path = saved
    loaded = load_model(path)
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.sigmoids_, model.sigmoids_)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_files_from_before_there_were_any(saved):
    X, model, path = saved
    tensors, metadata = contents(path)
    del tensors["sigmoids"]
    header = json.loads(metadata["widemargin"])
    del header["parameters"]["probability"]
    save_file(tensors, path, metadata={"widemargin": json.dumps(header)})
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert not hasattr(loaded, "predict_proba")
    assert not hasattr(loaded, "sigmoids_")


def test_a_model_without_has_none_in_its_file(tmp_path):
    model = LinearSVC(probability=True, random_state=0).fit(*problem(2))
    model.set_params(probability=False).fit(*problem(2))
    save_model(model, tmp_path / "m")
    assert "sigmoids" not in contents(tmp_path / "m")[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s[:, :1], "'sigmoids' has shape"),
        (lambda s: np.vstack([s, s]), "'sigmoids' has shape"),
        (lambda s: s.ravel(), "'sigmoids' has shape"),
        (lambda s: s * np.nan, "'sigmoids' holds values that are not finite"),
        (lambda s: s.astype(np.float32), "'sigmoids' has the unexpected type F32"),
    ],
)
def test_sigmoids_that_cannot_be(saved, change, message):
    _, _, path = saved
    tensors, metadata = contents(path)
    tensors["sigmoids"] = np.ascontiguousarray(change(tensors["sigmoids"]))
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_a_parameter_that_cannot_be(saved, value):
    _, _, path = saved
    tensors, metadata = contents(path)
    header = json.loads(metadata["widemargin"])
    header["parameters"]["probability"] = value
    save_file(tensors, path, metadata={"widemargin": json.dumps(header)})
    with pytest.raises(ModelFileError, match="probability must be True or False"):
        load_model(path)


@pytest.mark.parametrize("probability", [False, True])
def test_of_a_search_the_best_model_is_saved(tmp_path, probability):
    pandas = pytest.importorskip("pandas")
    X, y = problem(3)
    X = pandas.DataFrame(X, columns=list("abcd"))
    search = LinearSVCCV(Cs=[0.1, 1.0], probability=probability, random_state=0).fit(X, y)
    save_model(search, tmp_path / "model.wm")
    loaded = load_model(tmp_path / "model.wm")
    assert type(loaded) is LinearSVC
    assert loaded.C == search.C_
    assert loaded.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(loaded.decision_function(X), search.decision_function(X))
    assert certify(loaded, X, y) == certify(search, X, y)
    if probability:
        np.testing.assert_array_equal(loaded.predict_proba(X), search.predict_proba(X))


def test_of_a_search_the_best_model_is_written_for_liblinear(tmp_path):
    search = LinearSVCCV(Cs=[0.1, 1.0], random_state=0).fit(*problem(3))
    write_liblinear(search, tmp_path / "search")
    write_liblinear(search.best_estimator_, tmp_path / "best")
    assert (tmp_path / "search").read_text() == (tmp_path / "best").read_text()
