"""Models with the features of a table, or with scales, in a file: the same, or refused."""

import json

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from widemargin import (
    LinearRanker,
    LinearSVC,
    LinearSVCCV,
    OrdinalSVC,
    TableFeatures,
    load_model,
    save_model,
)
from widemargin.model_io import ModelFileError


def frame(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "hue": rng.choice(["red", "grün", "blue"], n),
            "ok": rng.random(n) < 0.5,
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "h"),
            "note": [" ".join(rng.choice(["a1", "b2", "c3", "ß4"], 3)) for _ in range(n)],
        }
    )


def labels(n=60):
    return np.random.default_rng(1).integers(0, 3, n)


@pytest.mark.parametrize("encoding", ["tfidf", "hash"])
@pytest.mark.parametrize("model", [LinearSVC(random_state=0), LinearRanker(), OrdinalSVC()])
def test_the_same_after_loading(tmp_path, encoding, model):
    table, path = frame(), tmp_path / "m.wm"
    features = TableFeatures(text=["note"], text_encoding=encoding, max_terms=32, dtype="float32")
    pipeline = make_pipeline(features, model).fit(table, labels())
    save_model(pipeline, path)
    loaded = load_model(path)
    assert isinstance(loaded, Pipeline)
    assert type(loaded[0]) is TableFeatures
    assert loaded[0].get_feature_names_out().tolist() == features.get_feature_names_out().tolist()
    assert loaded[0].feature_names_in_.tolist() == features.feature_names_in_.tolist()
    assert loaded[0].skipped_ == features.skipped_
    np.testing.assert_array_equal(loaded.predict(table), pipeline.predict(table))
    whole, again = pipeline[0].transform(table), loaded[0].transform(table)
    assert type(whole) is type(again)
    assert whole.dtype == again.dtype
    assert abs(whole - again).max() == 0.0
    save_model(loaded, tmp_path / "again.wm")
    assert (tmp_path / "again.wm").read_bytes() == path.read_bytes()


def test_a_search_and_scales(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 1e3, 1e-3]
    path = tmp_path / "m.wm"
    search = LinearSVCCV(Cs=[0.1, 1.0], random_state=0)
    pipeline = make_pipeline(StandardScaler(with_mean=False), search).fit(X, labels())
    save_model(pipeline, path)
    loaded = load_model(path)
    assert type(loaded[-1]) is LinearSVC
    np.testing.assert_array_equal(loaded.decision_function(X), pipeline.decision_function(X))


@pytest.mark.parametrize(
    "first", [StandardScaler(), MinMaxScaler(), Pipeline([("t", TableFeatures())])]
)
def test_other_pipelines_are_refused(tmp_path, first):
    X = np.random.default_rng(0).normal(size=(60, 3))
    pipeline = make_pipeline(first, LinearSVC()).fit(X, labels())
    with pytest.raises(TypeError, match="cannot save this pipeline"):
        save_model(pipeline, tmp_path / "m.wm")


def rewritten(path, change, tensors=None):
    """Write the file again with another description."""
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = json.loads(file.metadata()["widemargin"])
    change(description["preparation"])
    arrays |= tensors or {}
    save_file(arrays, path, metadata={"widemargin": json.dumps(description)})


def set_to(*keys, value):
    def change(fields):
        for key in keys[:-1]:
            fields = fields[key]
        fields[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_to("kind", value="magic"), "unknown kind 'magic'"),
        (set_to("parameters", "ngrams", value=0), "the parameters of its table are wrong"),
        (set_to("parameters", "fast", value=True), "the parameters of its table are wrong"),
        (set_to("parameters", "target", value=3), "the target of its table"),
        (set_to("columns", value=[]), "columns of its table"),
        (set_to("columns", 0, "scale", value=0.0), "scale of a column"),
        (set_to("columns", 0, "fill", value="x"), "'fill' is missing or malformed"),
        (set_to("columns", 0, "shift", value=10**400), "too large"),
        (set_to("columns", 0, "kind", value="sound"), "'ngrams'|unknown kind"),
        (set_to("columns", 1, "levels", value=["a", "a"]), "not distinct texts"),
        (set_to("columns", 1, "levels", value=["a"]), "does not make"),
        (set_to("columns", 3, "parts", value={"century": [1]}), "parts of column 'when'"),
        (set_to("columns", 3, "parts", "hour", value=[3, 1]), "not in order"),
        (set_to("columns", 3, "parts", "hour", value=[99]), "small whole numbers"),
        (set_to("columns", 4, "terms", value=["a1"]), "has shape"),
        (set_to("names", value=["size"]), "does not name all of its columns"),
        (set_to("n_columns", value=None), "n_columns"),
    ],
)
def test_files_that_contradict_themselves(tmp_path, change, words):
    path = tmp_path / "m.wm"
    features = TableFeatures(text=["note"])
    save_model(make_pipeline(features, LinearSVC()).fit(frame(), labels()), path)
    rewritten(path, change)
    with pytest.raises(ModelFileError, match=words) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("scale", [[1.0, 0.0, 1.0], [1.0, np.nan, 1.0], [1.0]])
def test_scales_that_are_none(tmp_path, scale):
    X = np.random.default_rng(0).normal(size=(60, 3))
    path = tmp_path / "m.wm"
    pipeline = make_pipeline(StandardScaler(with_mean=False), LinearSVC()).fit(X, labels())
    save_model(pipeline, path)
    rewritten(path, lambda fields: None, {"preparation.scale": np.array(scale)})
    with pytest.raises(ModelFileError, match="scale"):
        load_model(path)
