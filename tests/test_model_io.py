"""Saved models: what comes back, what is refused, and that no failure leaves half a file."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

from widemargin import (
    LinearRanker,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    OrdinalSVC,
    certify,
)
from widemargin.losses import LOSSES
from widemargin.model_io import ModelFileError, load_model, save_model, write_liblinear
from widemargin.monitor import STATUSES

LABELS = {
    "int": np.array([-1, 1]),
    "float": np.array([0.5, 1.5]).astype(np.float32) * 2,
    "bool": np.array([False, True]),
    "str": np.array(["ham", "späm"]),
    "object": np.array(["ham", "späm"], dtype=object),
    "three ints": np.array([1, 2, 7], dtype=np.int32),
    "three strings": np.array(["a", "b", "c"]),
}

ORDERED_LABELS = {
    "ints": np.array([1, 2, 3, 7]),
    "floats": np.array([-1.0, 0.0, 2.0]),
    "two": np.array([0, 1], dtype=np.int8),
    "strings": np.array(["ç", "a", "b"]),
    "objects": np.array(["c", "a", "b"], dtype=object),
    "falling": np.array([3, 2, 1]),
    "bools": np.array([False, True]),
}


def problem(labels=LABELS["int"], n_rows=40, seed=0):
    """A few noisy rows around one centre per label."""
    rng = np.random.default_rng(seed)
    which = np.arange(n_rows) % len(labels)
    X = rng.normal(size=(len(labels), 5))[which] + rng.normal(size=(n_rows, 5))
    return X, labels[which]


def fitted(labels=LABELS["int"], **parameters):
    X, y = problem(labels)
    return LinearSVC(**{"C": 0.5, "random_state": 0, **parameters}).fit(X, y)


def ordered(labels, seed=0):
    """Rows that lean towards the order of their labels, and their groups."""
    X, y = problem(labels, seed=seed)
    place = np.array([labels.tolist().index(label) for label in y.tolist()])
    return X + 0.5 * place[:, None], y, np.arange(len(y)) // 8


def fitted_ranker(**parameters):
    X, y, qid = ordered(np.arange(4.0))
    return LinearRanker(**{"C": 0.5, **parameters}).fit(X, y, qid=qid)


def fitted_ordinal(labels=ORDERED_LABELS["ints"], **parameters):
    X, y, _ = ordered(labels)
    categories = pd.Categorical(y, labels, ordered=True)
    return OrdinalSVC(**{"C": 0.5, **parameters}).fit(X, categories)


@pytest.fixture
def saved(tmp_path):
    """The path of a saved two-class model."""
    path = tmp_path / "model.wm"
    save_model(fitted(), path)
    return path


@pytest.fixture
def saved_ranker(tmp_path):
    path = tmp_path / "ranker.wm"
    save_model(fitted_ranker(), path)
    return path


@pytest.fixture
def saved_ordinal(tmp_path):
    """The path of a saved model of four ordered classes."""
    path = tmp_path / "ordinal.wm"
    save_model(fitted_ordinal(), path)
    return path


def rewrite(path, change_tensors=None, change_metadata=None, change_model=None):
    """Save the file at `path` again after letting the given functions change its contents."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata())
    if change_tensors:
        change_tensors(tensors)
    if change_model:
        model = json.loads(metadata["widemargin"])
        change_model(model)
        metadata["widemargin"] = json.dumps(model)
    if change_metadata:
        change_metadata(metadata)
    save_file(tensors, path, metadata=metadata)


class TestRoundTrip:
    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
    @pytest.mark.parametrize("loss", list(LOSSES))
    def test_everything_comes_back(self, tmp_path, labels, loss):
        X, y = problem(labels)
        model = fitted(labels, loss=loss)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")

        assert type(loaded) is LinearSVC
        assert loaded.get_params() == model.get_params()
        assert loaded.classes_.dtype == model.classes_.dtype
        for name in ("coef_", "intercept_", "classes_"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
        assert loaded.dual_variables_.shape == model.dual_variables_.shape
        np.testing.assert_array_equal(
            loaded.dual_variables_.toarray(), model.dual_variables_.toarray()
        )
        for name in ("n_features_in_", "n_iter_", "status_", "solver_", "certificate_"):
            assert getattr(loaded, name) == getattr(model, name), name
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert certify(loaded, X, y) == certify(model, X, y)

    def test_a_solver_that_took_over_comes_back(self, tmp_path):
        model = fitted()
        model.solver_ = "newton, then acf"
        save_model(model, tmp_path / "model")
        assert load_model(tmp_path / "model").solver_ == "newton, then acf"

    def test_class_weight_keeps_the_type_of_its_labels(self, tmp_path):
        model = fitted(class_weight={-1: 2.0, 1: np.float64(0.5)})
        save_model(model, tmp_path / "model")
        assert load_model(tmp_path / "model").class_weight == {-1: 2.0, 1: 0.5}

    def test_no_intercept(self, tmp_path):
        model = fitted(fit_intercept=False)
        save_model(model, tmp_path / "model")
        assert load_model(tmp_path / "model").intercept_.tolist() == [0.0]

    def test_random_generator_is_forgotten(self, tmp_path):
        save_model(fitted(random_state=np.random.RandomState(3)), tmp_path / "model")
        assert load_model(tmp_path / "model").random_state is None

    @pytest.mark.parametrize("form", [str, Path])
    def test_where_checkpoints_were_is_forgotten(self, tmp_path, form):
        model = fitted().set_params(checkpoint=form(tmp_path / "checkpoint"))
        save_model(model, tmp_path / "model")
        assert load_model(tmp_path / "model").checkpoint is None

    @pytest.mark.parametrize("status", STATUSES)
    def test_however_training_ended(self, tmp_path, status):
        model = fitted()
        model.status_, model.solver_ = status, "newton, then acf"
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert (loaded.status_, loaded.solver_) == (status, "newton, then acf")

    def test_feature_names(self, tmp_path):
        X, y = problem()
        frame = pd.DataFrame(X, columns=list("vwxyz"))
        save_model(LinearSVC(random_state=0).fit(frame, y), tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.feature_names_in_.tolist() == list("vwxyz")
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(frame.rename(columns={"v": "other"}))

    def test_saving_again_gives_the_same_bytes(self, saved, tmp_path):
        save_model(load_model(saved), tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == saved.read_bytes()

    def test_an_unfitted_model_is_refused(self, tmp_path):
        with pytest.raises(NotFittedError):
            save_model(LinearSVC(), tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_a_foreign_estimator_is_refused(self, tmp_path):
        from sklearn.svm import LinearSVC as Other

        with pytest.raises(TypeError, match=r"cannot save a sklearn.*: only widemargin.LinearSVC"):
            save_model(Other().fit(*problem()), tmp_path / "model")

    def test_labels_that_are_no_plain_values_are_refused(self, tmp_path):
        model = fitted()
        model.classes_ = np.array([(1, 2), None], dtype=object)
        with pytest.raises(TypeError, match="class labels"):
            save_model(model, tmp_path / "model")


class TestOrderRoundTrip:
    attributes = ("coef_", "dual_weights_", "dual_points_")
    facts = ("n_features_in_", "n_samples_fit_", "n_pairs_", "n_iter_", "status_", "solver_")
    facts += ("certificate_",)

    def compare(self, loaded, model):
        assert type(loaded) is type(model)
        assert loaded.get_params() == model.get_params()
        for name in self.attributes:
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
        for name in self.facts:
            assert getattr(loaded, name) == getattr(model, name), name

    @pytest.mark.parametrize("normalization", ["pairs", "queries"])
    def test_ranker(self, tmp_path, normalization):
        model = fitted_ranker(normalization=normalization)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        self.compare(loaded, model)
        X, y, qid = ordered(np.arange(4.0))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert certify(loaded, X, y, qid=qid) == model.certificate_

    @pytest.mark.parametrize("labels", ORDERED_LABELS.values(), ids=ORDERED_LABELS)
    @pytest.mark.parametrize("error", ["absolute", "zero_one"])
    def test_ordinal(self, tmp_path, labels, error):
        model = fitted_ordinal(labels, error=error)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        self.compare(loaded, model)
        assert loaded.classes_.dtype == model.classes_.dtype
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        np.testing.assert_array_equal(loaded.thresholds_, model.thresholds_)
        X, y, _ = ordered(labels)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.score_samples(X), model.score_samples(X))
        assert certify(loaded, X, y) == model.certificate_

    def test_thresholds_at_infinity(self, tmp_path):
        model = fitted_ordinal()
        model.thresholds_ = np.array([-np.inf, 0.5, np.inf])
        save_model(model, tmp_path / "model")
        assert load_model(tmp_path / "model").thresholds_.tolist() == [-np.inf, 0.5, np.inf]

    @pytest.mark.parametrize("status", STATUSES)
    def test_however_training_ended(self, tmp_path, status):
        model = fitted()
        model.status_, model.solver_ = status, "newton, then acf"
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert (loaded.status_, loaded.solver_) == (status, "newton, then acf")

    def test_feature_names(self, tmp_path):
        X, y, qid = ordered(np.arange(4.0))
        frame = pd.DataFrame(X, columns=list("vwxyz"))
        save_model(LinearRanker().fit(frame, y, qid=qid), tmp_path / "model")
        assert load_model(tmp_path / "model").feature_names_in_.tolist() == list("vwxyz")

    def test_a_loaded_model_starts_the_next_fit(self, saved_ranker):
        X, y, qid = ordered(np.arange(4.0))
        again = load_model(saved_ranker).set_params(warm_start=True).fit(X, y, qid=qid)
        assert again.n_iter_ <= load_model(saved_ranker).n_iter_
        assert again.certificate_.relative_gap <= 1e-3

    @pytest.mark.parametrize("name", ["saved_ranker", "saved_ordinal"])
    def test_saving_again_gives_the_same_bytes(self, tmp_path, name, request):
        path = request.getfixturevalue(name)
        save_model(load_model(path), tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()

    @pytest.mark.parametrize("estimator", [LinearRanker, OrdinalSVC])
    def test_an_unfitted_model_is_refused(self, tmp_path, estimator):
        with pytest.raises(NotFittedError):
            save_model(estimator(), tmp_path / "model")
        assert not list(tmp_path.iterdir())


def refuse(path, match):
    """Insist that the file is refused in one line that names it."""
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


class TestOrderDamage:
    @pytest.mark.parametrize("name", ["saved_ranker", "saved_ordinal"])
    def test_cut_anywhere(self, name, request):
        path = request.getfixturevalue(name)
        whole = path.read_bytes()
        for length in [*range(0, len(whole), 97), len(whole) - 1]:
            path.write_bytes(whole[:length])
            refuse(path, "cut short")

    @pytest.mark.parametrize(
        "name", ["coef", "dual_weights", "dual_points", "thresholds", "classes"]
    )
    def test_missing_tensor(self, saved_ordinal, name):
        rewrite(saved_ordinal, lambda tensors: tensors.pop(name))
        refuse(saved_ordinal, f"tensor '{name}' is missing")

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("coef", np.zeros((1, 5))),
            ("dual_weights", np.zeros((1, 3))),
            ("dual_points", np.zeros((1, 5))),
            ("dual_points", np.zeros(5)),
            ("thresholds", np.zeros(4)),
            ("thresholds", np.zeros((3, 1))),
            ("classes", np.zeros((1, 4))),
        ],
    )
    def test_shapes_that_contradict_each_other(self, saved_ordinal, name, array):
        rewrite(saved_ordinal, lambda tensors: tensors.update({name: array}))
        refuse(saved_ordinal, f"tensor '{name}' has shape .* expected")

    def test_points_of_another_number_of_features(self, saved_ranker):
        def widen(tensors):
            tensors["coef"] = np.append(tensors["coef"], 1.0)

        rewrite(saved_ranker, widen)
        refuse(saved_ranker, "tensor 'dual_points' has shape .* expected")

    @pytest.mark.parametrize("name", ["coef", "dual_weights", "dual_points", "thresholds"])
    def test_other_type(self, saved_ordinal, name):
        rewrite(
            saved_ordinal, lambda tensors: tensors.update({name: tensors[name].astype(np.float32)})
        )
        refuse(saved_ordinal, f"tensor '{name}' has the unexpected type")

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("name", ["coef", "dual_weights", "dual_points"])
    def test_values_that_are_not_finite(self, saved_ranker, name, value):
        rewrite(saved_ranker, lambda t: t.update({name: np.full_like(t[name], value)}))
        refuse(saved_ranker, f"tensor '{name}' holds values that are not finite")

    def test_weights_below_zero(self, saved_ranker):
        rewrite(saved_ranker, lambda t: t.update(dual_weights=-t["dual_weights"]))
        refuse(saved_ranker, "tensor 'dual_weights' holds values below zero")

    @pytest.mark.parametrize(
        "thresholds", [[1.0, 0.0, 2.0], [0.0, np.nan, 1.0], [np.nan] * 3, [np.inf, 0.0, 1.0]]
    )
    def test_thresholds_that_do_not_rise(self, saved_ordinal, thresholds):
        rewrite(saved_ordinal, lambda tensors: tensors.update(thresholds=np.array(thresholds)))
        refuse(saved_ordinal, "thresholds are not in increasing order")

    def test_classes_that_repeat(self, saved_ordinal):
        rewrite(saved_ordinal, lambda tensors: tensors.update(classes=np.array([1, 3, 1, 7])))
        refuse(saved_ordinal, "class labels are not at least two distinct values")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"estimator": "LinearSVC"}, "parameters are not LinearSVC's"),
            ({"parameters": {"C": -1}}, "parameters are not OrdinalSVC's"),
            ({"parameters": {"solver": "dcd"}}, "parameters are not OrdinalSVC's"),
            ({"parameters": {"error": "squared"}}, "parameters are not OrdinalSVC's"),
            ({"n_rows": None}, "'n_rows' is missing or malformed"),
            ({"n_rows": 1}, "a ranking needs at least 2 rows"),
            ({"n_pairs": 1.5}, "'n_pairs' is missing or malformed"),
            ({"n_pairs": 0}, "not 40 rows and 0 pairs"),
            ({"classes": {"kind": "str", "values": ["a", "b"]}}, "'thresholds' has shape"),
            ({"feature_names": ["a"]}, "does not name all 5 features"),
        ],
    )
    def test_fields_of_the_header(self, saved_ordinal, change, match):
        rewrite(saved_ordinal, change_model=lambda model: model.update(change))
        refuse(saved_ordinal, match)

    def test_a_normalization_that_there_is_not(self, saved_ranker):
        rewrite(
            saved_ranker,
            change_model=lambda model: model["parameters"].update(normalization="rows"),
        )
        refuse(saved_ranker, "parameters are not LinearRanker's: normalization")

    def test_a_certificate_in_parts(self, saved_ordinal):
        def split(model):
            model["certificate"]["parts"] = [{"primal": 1.0, "dual": 1.0}] * 4

        rewrite(saved_ordinal, change_model=split)
        refuse(saved_ordinal, "certificate has parts")

    def test_a_classifier_that_claims_to_be_a_ranker(self, saved):
        def claim(model):
            model.update(estimator="LinearRanker", parameters={}, n_pairs=3)

        rewrite(saved, change_model=claim)
        refuse(saved, "tensor 'coef' has shape")


class TestDamage:
    def test_cut_anywhere(self, saved):
        whole = saved.read_bytes()
        for length in [*range(0, len(whole), 97), 1, 7, 8, 9, len(whole) // 2, len(whole) - 1]:
            saved.write_bytes(whole[:length])
            refuse(saved, "cut short")

    @pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\xff" * 100, b"solver_type L2R\n"])
    def test_not_safetensors(self, tmp_path, content):
        path = tmp_path / "model"
        path.write_bytes(content)
        refuse(path, "not a model file")

    def test_bytes_after_the_end(self, saved):
        saved.write_bytes(saved.read_bytes() + b"more")
        refuse(saved, "not a model file")

    def test_foreign_safetensors(self, tmp_path):
        save_file({"weight": np.zeros((2, 2))}, tmp_path / "model")
        refuse(tmp_path / "model", "not one that holds a widemargin model")

    def test_foreign_header(self, saved):
        rewrite(saved, change_metadata=lambda metadata: metadata.pop("widemargin"))
        refuse(saved, "not one that holds a widemargin model")

    def test_other_version(self, saved):
        rewrite(saved, change_model=lambda model: model.update(format_version=2))
        refuse(saved, "version 2; .*reads version 1")

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "[" * 100_000])
    def test_header_that_is_no_description(self, saved, text):
        rewrite(saved, change_metadata=lambda metadata: metadata.update(widemargin=text))
        refuse(saved, "does not describe a model")

    @pytest.mark.parametrize(
        "name",
        ["coef", "intercept", "dual_values", "dual_indices", "dual_pointers", "classes"],
    )
    def test_missing_tensor(self, saved, name):
        rewrite(saved, change_tensors=lambda tensors: tensors.pop(name))
        refuse(saved, f"tensor '{name}' is missing")

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("coef", np.zeros((2, 5))),
            ("coef", np.zeros(5)),
            ("intercept", np.zeros(2)),
            ("dual_values", np.zeros((1, 40))),
            ("dual_indices", np.zeros(41, np.int32)),
            ("dual_pointers", np.zeros(3, np.int32)),
            ("classes", np.zeros((1, 2))),
        ],
    )
    def test_shapes_that_contradict_each_other(self, saved, name, array):
        rewrite(saved, change_tensors=lambda tensors: tensors.update({name: array}))
        refuse(saved, f"tensor '{name}' has shape .* expected")

    @pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
    def test_other_type(self, saved, dtype):
        rewrite(saved, lambda tensors: tensors.update(coef=np.zeros((1, 5), dtype)))
        refuse(saved, "tensor 'coef' has the unexpected type")

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_values_that_are_not_finite(self, saved, value):
        rewrite(saved, lambda tensors: tensors.update(coef=np.full((1, 5), value)))
        refuse(saved, "tensor 'coef' holds values that are not finite")

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("dual_indices", lambda a: a + 1_000_000),
            ("dual_indices", lambda a: a - 1_000_000),
            ("dual_indices", lambda a: a * 0),
            ("dual_indices", lambda a: a[::-1].copy()),
            ("dual_pointers", lambda a: a + 1),
            ("dual_pointers", lambda a: a[::-1].copy()),
            ("dual_pointers", lambda a: np.array([0, 2**31 - 1], np.int32)),
        ],
    )
    def test_dual_variables_that_point_astray(self, saved, name, change):
        rewrite(saved, lambda tensors: tensors.update({name: change(tensors[name])}))
        refuse(saved, "dual variables contradict themselves")

    @pytest.mark.parametrize("n_rows", [-1, 3, 2**80])
    def test_another_number_of_rows(self, saved, n_rows):
        rewrite(saved, change_model=lambda model: model.update(n_rows=n_rows))
        refuse(saved, "dual variables contradict themselves")

    @pytest.mark.parametrize("classes", [[1], [1, 1]])
    def test_classes_that_are_not_distinct(self, saved, classes):
        rewrite(saved, lambda tensors: tensors.update(classes=np.array(classes)))
        refuse(saved, "two distinct values")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"estimator": "os.system"}, "unknown estimator 'os.system'"),
            ({"estimator": ["LinearSVC"]}, "'estimator' is missing or malformed"),
            ({"parameters": {"shell": "true"}}, "parameters are not LinearSVC's"),
            ({"parameters": {"C": -1}}, "parameters are not LinearSVC's"),
            ({"parameters": {"class_weight": {"a": 1}}}, "parameters are not"),
            ({"classes": {"kind": "bool", "values": [0, 1]}}, "class labels do not match"),
            ({"classes": {"kind": "code", "values": ["a", "b"]}}, "class labels do not match"),
            ({"classes": {"kind": "object", "values": ["a", []]}}, "class labels do not match"),
            ({"n_iter": True}, "'n_iter' is missing or malformed"),
            ({"status": None}, "'status' is missing or malformed"),
            ({"certificate": {"primal": 1.0, "parts": []}}, "'dual' is missing or malformed"),
            ({"certificate": {"primal": 1, "dual": 1, "parts": [3]}}, "'parts' is missing"),
            ({"feature_names": ["a"]}, "does not name all 5 features"),
            ({"n_iter": -1}, "'n_iter' is -1"),
            ({"status": "proved"}, "'status' must be one of .* not 'proved'"),
            ({"solver": "magic"}, "'solver' must be one of .* not 'magic'"),
            ({"parameters": {"checkpoint": "/home/me/x"}}, "it names a checkpoint"),
            ({"parameters": {"random_state": "x"}}, "parameters are not LinearSVC's"),
            ({"parameters": {"C": 10**400}}, "a whole number of 401 digits"),
            (
                {"parameters": {"class_weight": {"pairs": [[1, "x"]]}}},
                "class weights must be numbers",
            ),
            (
                {"parameters": {"class_weight": {"pairs": [[1, -2.0]]}}},
                "class weights must be numbers",
            ),
        ],
    )
    def test_fields_of_the_header(self, saved, change, match):
        rewrite(saved, change_model=lambda model: model.update(change))
        refuse(saved, match)

    @pytest.mark.parametrize(
        ("primal", "dual", "match"),
        [
            ("Infinity", "1.0", "Infinity is not a finite number"),
            ("1.0", "-Infinity", "-Infinity is not a finite number"),
            ("NaN", "1.0", "NaN is not a finite number"),
            ("1e999", "1.0", "1e999 overflows float64"),
            ("1" * 400, "1.0", "certificate is not finite"),
            ("1" * 5000, "1.0", "does not describe a model"),
            ("-2.0", "-3.0", "certificate is invalid: primal=-2, dual=-3"),
            ("2.0", "2.1", "certificate is invalid: primal=2, dual=2.1"),
            ('"2.0"', "1.0", "'primal' is missing or malformed"),
            ("2.0", "true", "'dual' is missing or malformed"),
            ('3.0, "primal": 2.0', "1.0", "it has the key 'primal' twice"),
        ],
    )
    def test_a_certificate_that_can_be_none(self, saved, primal, dual, match):
        def claim(metadata):
            model = json.loads(metadata["widemargin"])
            model["certificate"] = "here"
            certificate = f'{{"primal": {primal}, "dual": {dual}, "parts": []}}'
            metadata["widemargin"] = json.dumps(model).replace('"here"', certificate)

        rewrite(saved, change_metadata=claim)
        refuse(saved, match)

    def test_a_certificate_that_is_not_the_sum_of_its_parts(self, tmp_path):
        save_model(fitted(LABELS["three ints"]), tmp_path / "model")
        rewrite(tmp_path / "model", change_model=lambda m: m["certificate"].update(dual=0.0))
        refuse(tmp_path / "model", "'dual' is not the sum of the certificate's parts")

    def test_classes_out_of_order(self, saved):
        rewrite(saved, lambda tensors: tensors.update(classes=np.array([1, -1])))
        refuse(saved, "class labels are not in order")

    def test_names_that_are_not_unicode(self, saved):
        names = [r"\ud800", "b", "c", "d", "e"]

        def name(metadata):
            model = json.loads(metadata["widemargin"]) | {"feature_names": names}
            metadata["widemargin"] = json.dumps(model).replace("\\\\ud800", "\\ud800")

        rewrite(saved, change_metadata=name)
        refuse(saved, "not valid Unicode")

    def test_missing_file_and_directory(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            load_model(tmp_path / "none")
        with pytest.raises(IsADirectoryError):
            load_model(tmp_path)


class TestAtomicWriting:
    def test_a_failure_leaves_the_old_file_and_no_litter(self, saved, monkeypatch):
        before = saved.read_bytes()

        def full_disk(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        for function in ("fsync", "replace"):
            with monkeypatch.context() as patch:
                patch.setattr(os, function, full_disk)
                with pytest.raises(OSError, match="No space left"):
                    save_model(fitted(C=2.0), saved)
            assert saved.read_bytes() == before
            assert os.listdir(saved.parent) == [saved.name]

    def test_an_interruption_leaves_no_litter_either(self, tmp_path, monkeypatch):
        def interrupt(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_liblinear(fitted(), tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_a_missing_directory_is_named_as_the_caller_named_it(self, tmp_path):
        path = tmp_path / "none" / "model"
        with pytest.raises(FileNotFoundError) as caught:
            save_model(fitted(), path)
        assert caught.value.filename == str(path)

    def test_a_link_keeps_pointing(self, saved):
        link = saved.parent / "link"
        link.symlink_to(saved)
        save_model(fitted(C=2.0), link)
        assert link.is_symlink()
        assert load_model(saved).C == 2.0

    def test_permissions_follow_the_umask(self, saved):
        other = saved.parent / "plain"
        other.write_bytes(b"")
        assert saved.stat().st_mode == other.stat().st_mode

    def test_a_device_is_written_to_and_not_replaced(self):
        save_model(fitted(), os.devnull)
        assert not os.path.isfile(os.devnull)


class TestLiblinear:
    @pytest.mark.parametrize("name", ["int", "float", "three ints"])
    @pytest.mark.parametrize("loss", list(LOSSES))
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_liblinear_predicts_the_same(self, tmp_path, name, loss, fit_intercept):
        liblinear = pytest.importorskip("liblinear.liblinearutil")
        X, _ = problem(LABELS[name])
        model = fitted(LABELS[name], loss=loss, fit_intercept=fit_intercept)
        path = tmp_path / "liblinear.txt"
        write_liblinear(model, path)

        theirs = liblinear.load_model(str(path))
        labels, _, values = liblinear.predict([], X, theirs, "-q")
        np.testing.assert_array_equal(labels, model.predict(X))
        ours = model.decision_function(X).reshape(len(X), -1)
        np.testing.assert_allclose(np.array(values)[:, : ours.shape[1]], ours, rtol=1e-12)

    @pytest.mark.parametrize("name", ["int", "three ints"])
    def test_liblinear_finds_the_same_probabilities(self, tmp_path, name):
        liblinear = pytest.importorskip("liblinear.liblinearutil")
        X, y = problem(LABELS[name])
        model = LogisticRegression(multi_class="ovr").fit(X, y)
        path = tmp_path / "liblinear.txt"
        write_liblinear(model, path)
        theirs = liblinear.load_model(str(path))
        labels, _, values = liblinear.predict([], X, theirs, "-q -b 1")
        np.testing.assert_array_equal(labels, model.predict(X))
        order = [theirs.get_labels().index(label) for label in model.classes_]
        found = np.array(values)[:, order]
        np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-9)

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_liblinear_predicts_the_same_numbers(self, tmp_path, fit_intercept):
        liblinear = pytest.importorskip("liblinear.liblinearutil")
        X, _ = problem(LABELS["int"])
        y = X @ np.arange(1.0, X.shape[1] + 1.0) + 2.0
        model = LinearSVR(fit_intercept=fit_intercept).fit(X, y)
        path = tmp_path / "liblinear.txt"
        write_liblinear(model, path)
        labels, _, _ = liblinear.predict([], X, liblinear.load_model(str(path)), "-q")
        np.testing.assert_allclose(labels, model.predict(X), rtol=1e-12)

    @pytest.mark.parametrize("classes", [["a", "b"], [0.5, 1.0], [False, True], [1, 2**31]])
    def test_other_labels_are_refused(self, tmp_path, classes):
        model = fitted()
        model.classes_ = np.array(classes)
        with pytest.raises(ValueError, match="only 32-bit integer labels, not "):
            write_liblinear(model, tmp_path / "model")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("make", [fitted_ranker, fitted_ordinal])
    def test_models_of_order_are_refused(self, tmp_path, make):
        with pytest.raises(TypeError, match=r"has no (LinearRanker|OrdinalSVC), only class"):
            write_liblinear(make(), tmp_path / "model")
        assert not list(tmp_path.iterdir())
