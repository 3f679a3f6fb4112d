"""LinearSVCCV: what GridSearchCV over LinearSVC finds, in one go over shared rows."""

import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import f1_score, make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.preprocessing import scale

from widemargin import LinearSVC, LinearSVCCV, certify
from widemargin.estimators.path import CostPath
from widemargin.estimators.validation import count_rows

TIGHT = {"tol": 1e-9, "random_state": 0}
COSTS = [0.01, 0.1, 1.0]
CANCER, CANCER_Y = load_breast_cancer(return_X_y=True)
CANCER, CANCER_Y = scale(CANCER)[::3], np.array(["malignant", "benign"])[CANCER_Y[::3]]
IRIS, IRIS_Y = load_iris(return_X_y=True)
IRIS = scale(IRIS) + 0.3 * np.random.default_rng(0).normal(size=IRIS.shape)
DATA = {"two": (CANCER, CANCER_Y), "three": (IRIS, IRIS_Y)}


def skip_unless_weights_are_scored():
    if not hasattr(GridSearchCV, "_check_scorers_accept_sample_weight"):
        pytest.skip("this version's GridSearchCV does not score with weights")


def by_grid_search(X, y, cv=3, scoring=None, fit=None, costs=COSTS, **parameters):
    """Scores (n_folds, n_Cs) of scikit-learn's search, which trains each on a copy of its rows."""
    grid = GridSearchCV(
        LinearSVC(**{**TIGHT, **parameters}),
        {"C": costs},
        cv=cv,
        scoring=scoring,
        refit=False,
        error_score="raise",
    )
    results = grid.fit(X, y, **(fit or {})).cv_results_
    splits = sorted(
        (name for name in results if re.fullmatch(r"split\d+_test_score", name)),
        key=lambda name: int(name[5:-11]),
    )
    return np.stack([results[name] for name in splits])


def assert_consistent(model, X, y, weights=None):
    """Shapes, the choice, and a certificate that anybody can compute."""
    n_folds, n_costs = model.scores_.shape
    assert model.Cs_.shape == (n_costs,)
    assert model.relative_gaps_.shape == (n_folds, n_costs)
    mean = model.scores_.mean(axis=0)
    best = np.flatnonzero(mean == np.nanmax(mean))
    assert model.Cs_[best].min() == model.C_
    assert model.best_estimator_.C == model.C_
    found = certify(model, X, y, weights)
    assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert found.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    assert model.predict(X).shape == (count_rows(X),)


# --- the same scores as GridSearchCV ----------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"penalized_intercept": True, "class_weight": "balanced"},
        {"fit_intercept": False, "solver": "dcd"},
        {"loss": "hinge", "solver": "acf"},
        {"loss": "hinge", "penalized_intercept": True, "solver": "newton"},
        {"multi_class": "crammer_singer"},
        {"solver": "ocas", "tol": 1e-7},
    ],
    ids=["default", "penalized", "none", "hinge", "newton", "crammer_singer", "ocas"],
)
def test_scores_are_those_of_a_grid_search(name, parameters):
    X, y = DATA[name]
    model = LinearSVCCV(Cs=COSTS, cv=3, **{**TIGHT, **parameters}).fit(X, y)
    expected = by_grid_search(X, y, **parameters)
    # The coefficients of the hinge are unique, its intercept need not be: one row may differ.
    allowed = 1.01 * 3 / len(y) if parameters.get("loss") == "hinge" else 1e-12
    np.testing.assert_allclose(model.scores_, expected, atol=allowed)
    assert model.relative_gaps_.max() <= parameters.get("tol", TIGHT["tol"])
    assert model.status_ == "converged"
    assert_consistent(model, X, y)


@pytest.mark.parametrize("convert", [sp.csr_matrix, np.float32, np.asfortranarray])
def test_layouts(convert):
    X, y = DATA["three"]
    expected = by_grid_search(X, y)
    model = LinearSVCCV(Cs=COSTS, cv=3, **TIGHT).fit(convert(X), y)
    np.testing.assert_allclose(model.scores_, expected)


@pytest.mark.parametrize(
    ("name", "scoring"),
    [
        ("two", "accuracy"),
        ("two", "roc_auc"),
        ("two", "average_precision"),
        ("two", "f1"),
        ("three", "f1_macro"),
        ("three", "balanced_accuracy"),
        ("three", make_scorer(f1_score, average="micro")),
        ("two", make_scorer(roc_auc_score, response_method="decision_function")),
        ("two", lambda estimator, X, y: -np.mean(np.abs(estimator.decision_function(X)))),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore:.*does not support sample_weight")
@pytest.mark.filterwarnings("ignore:.*takes no sample_weight")
def test_scorers(name, scoring, weighted):
    X, y = DATA[name]
    y = (y == "malignant").astype(int) if name == "two" else y
    fit = {}
    if weighted:
        skip_unless_weights_are_scored()
        fit = {"sample_weight": np.random.default_rng(0).integers(1, 4, y.size)}
    model = LinearSVCCV(Cs=COSTS, cv=3, scoring=scoring, **TIGHT).fit(X, y, **fit)
    np.testing.assert_allclose(
        model.scores_, by_grid_search(X, y, scoring=scoring, fit=fit), rtol=1e-4
    )
    assert isinstance(model.score(X, y), float)


def test_score_is_by_the_scorer():
    X, y = DATA["two"]
    model = LinearSVCCV(Cs=[0.1], scoring="roc_auc").fit(X, y)
    assert model.score(X, y) == roc_auc_score(y == "malignant", model.decision_function(X))
    assert LinearSVCCV(Cs=[0.1]).fit(X, y).score(X, y) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize(
    "cv",
    [
        4,
        KFold(3, shuffle=True, random_state=0),
        ShuffleSplit(4, test_size=0.2, random_state=0),
        GroupKFold(3),
        LeaveOneGroupOut(),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_splitters(cv):
    X, y = DATA["three"]
    groups = np.random.default_rng(0).integers(0, 4, y.size)
    model = LinearSVCCV(Cs=COSTS, cv=cv, **TIGHT).fit(X, y, groups=groups)
    expected = by_grid_search(X, y, cv=cv, fit={"groups": groups})
    np.testing.assert_allclose(model.scores_, expected)


def test_explicit_folds_with_repetition():
    X, y = DATA["three"]
    rng = np.random.default_rng(0)
    folds = [(rng.integers(0, 150, 120), rng.integers(0, 150, 30)) for _ in range(3)]
    expected = by_grid_search(X, y, cv=folds, class_weight="balanced")
    for cv in (folds, iter(folds)):
        model = LinearSVCCV(Cs=COSTS, cv=cv, class_weight="balanced", **TIGHT).fit(X, y)
        np.testing.assert_allclose(model.scores_, expected)
    masks = [(np.arange(150) % 3 != j, np.arange(150) % 3 == j) for j in range(3)]
    numbers = [tuple(map(np.flatnonzero, fold)) for fold in masks]
    one, other = (LinearSVCCV(Cs=COSTS, cv=cv, **TIGHT).fit(X, y) for cv in (masks, numbers))
    np.testing.assert_array_equal(one.scores_, other.scores_)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([2, 3]))
@settings(max_examples=15)
def test_any_small_problem(seed, csr, classes):
    skip_unless_weights_are_scored()
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 40))
    X, y = rng.normal(size=(n, 3)), np.arange(n) % classes
    weights = rng.integers(1, 4, n)
    model = LinearSVCCV(Cs=[0.1, 0.5], cv=3, **TIGHT)
    model.fit(sp.csr_array(X) if csr else X, y, weights)
    expected = by_grid_search(X, y, fit={"sample_weight": weights}, costs=[0.1, 0.5])
    # A row whose score is almost zero, or two almost equal, may be on either side.
    assert np.abs(model.scores_ - expected).max() <= 3.1 * weights.max() / weights.sum()
    assert np.mean(model.scores_ == pytest.approx(expected)) > 0.6
    assert_consistent(model, X, y, weights)


# --- costs, choice, parameters ----------------------------------------------------------------


def test_costs_in_any_order_or_by_number():
    X, y = DATA["three"]
    rising = LinearSVCCV(Cs=COSTS, random_state=0).fit(X, y)
    falling = LinearSVCCV(Cs=COSTS[::-1], random_state=0).fit(X, y)
    np.testing.assert_array_equal(falling.Cs_, COSTS[::-1])
    np.testing.assert_array_equal(falling.scores_, rising.scores_[:, ::-1])
    assert falling.C_ == rising.C_
    np.testing.assert_array_equal(falling.coef_, rising.coef_)
    one = LinearSVCCV(Cs=[0.5], random_state=0).fit(X, y)
    assert one.C_ == 0.5
    assert LinearSVCCV(Cs=3, tol=0.1).fit(X, y).Cs_.tolist() == [1e-3, 1.0, 1e3]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Cs": 0}, "Cs must be a whole number of at least 1"),
        ({"Cs": []}, "Cs must be a whole number or a list"),
        ({"Cs": [1.0, 0.0]}, "each of Cs must be a positive number, not 0.0"),
        ({"Cs": "many"}, "Cs must be"),
        ({"scoring": ["accuracy", "f1"]}, "scoring must be one scorer"),
        ({"scoring": "akkuracy"}, "scoring"),
        ({"scoring": "neg_log_loss"}, "scoring='neg_log_loss' wants probabilities"),
        ({"verbose": -1}, "verbose"),
        ({"probability": "yes"}, "probability must be True or False"),
        ({"tol": 0.0}, "tol"),
        ({"cv": []}, "cv has no folds"),
        ({"cv": [([0, 50, 100], [])]}, "fold 1 of cv holds out no rows"),
        ({"cv": [([0, 50], [150])]}, "fold 1 of cv holds out rows that are not numbers"),
        ({"cv": [([0, 50], [1]), ([-1, 50], [1])]}, "fold 2 of cv trains on rows that are not"),
        ({"cv": [([0, 1, 2], [50])]}, "fold 1 of cv trains on rows of one class only, 0:"),
        ({"scoring": "f1"}, "Target is multiclass but average='binary'"),
    ],
)
def test_what_cannot_be_is_said(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LinearSVCCV(**{"Cs": [0.1], **parameters}).fit(*DATA["three"])


@pytest.mark.filterwarnings("ignore:Only one class is present")
def test_scores_that_are_undefined():
    X, y = DATA["two"]
    with pytest.raises(ValueError, match="scoring='roc_auc' is undefined for every C"):
        LinearSVCCV(Cs=[0.1, 1.0], cv=KFold(90), scoring="roc_auc").fit(X, y)

    def undefined_at_first(estimator, X, y):
        return np.nan if estimator.C < 0.5 else 0.5

    model = LinearSVCCV(Cs=[0.1, 1.0], scoring=undefined_at_first).fit(X, y)
    assert model.C_ == 1.0


def test_rows_of_no_weight_are_nowhere():
    X, y = DATA["three"]
    weights = np.ones(y.size)
    weights[::4] = 0.0
    kept = np.flatnonzero(weights)
    folds = [(np.flatnonzero(np.arange(150) % 3 != j), np.arange(j, 150, 3)) for j in range(3)]
    place = np.full(150, -1)
    place[kept] = np.arange(kept.size)
    fewer = [tuple(place[part][place[part] >= 0] for part in fold) for fold in folds]

    def own(estimator, X, y):
        return estimator.score(X, y)

    with pytest.warns(UserWarning, match="takes no sample_weight"):
        weighted = LinearSVCCV(Cs=COSTS, cv=folds, scoring=own, **TIGHT).fit(X, y, weights)
    left_out = LinearSVCCV(Cs=COSTS, cv=fewer, scoring=own, **TIGHT).fit(X[kept], y[kept])
    np.testing.assert_allclose(weighted.scores_, left_out.scores_)
    np.testing.assert_allclose(weighted.coef_, left_out.coef_, atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_a_class_that_a_fold_does_not_know(multi_class, fit_intercept):
    """It is trained on the others, as GridSearchCV would."""
    X, y = DATA["three"]
    third = np.arange(150)
    folds = [
        (third[y != 2], third[y == 2]),
        (third[y != 0][::2], np.r_[third[y == 0], third[y != 0][1::2]]),
        (third[::2], third[1::2]),
    ]
    settings = {"multi_class": multi_class, "fit_intercept": fit_intercept}
    model = LinearSVCCV(Cs=COSTS, cv=folds, **settings, **TIGHT).fit(X, y)
    expected = by_grid_search(X, y, cv=folds, **settings)
    assert model.scores_[0].tolist() == [0.0] * 3
    np.testing.assert_allclose(model.scores_, expected, atol=0.05)
    if multi_class == "ovr":
        np.testing.assert_allclose(model.scores_, expected)
    assert_consistent(model, X, y)


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_few_rows_of_a_class():
    X, y = DATA["two"]
    y = np.where(np.arange(y.size) < 2, "malignant", "benign")
    with pytest.warns(UserWarning, match="least populated class"):
        model = LinearSVCCV(Cs=[0.1], cv=5).fit(X, y)
    assert_consistent(model, X, y)
    y[1] = "benign"
    with pytest.raises(ValueError, match=r"fold 1 of cv trains on .* one class only, 'benign'"):
        LinearSVCCV(Cs=[0.1]).fit(X, y)


# --- face -------------------------------------------------------------------------------------


def test_clone_parameters_pickle():
    X, y = DATA["three"]
    model = LinearSVCCV(Cs=COSTS, probability=True, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.scores_, model.scores_)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).set_params(cv=2, tol=0.1).fit(X, y).scores_.shape == (2, 3)
    for name, value in vars(model.best_estimator_).items():
        if name.endswith("_"):
            assert getattr(model, name) is value, name


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frames = pytest.importorskip(library)
    X, y = DATA["three"]
    names = ["a", "b", "c", "d"]
    frame = frames.DataFrame(dict(zip(names, X.T)))
    model = LinearSVCCV(Cs=COSTS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(frame, frames.Series(y))
        predicted = model.predict(frame)
    assert model.feature_names_in_.tolist() == names
    assert model.best_estimator_.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(predicted, model.best_estimator_.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename({"a": "z"}) if library == "polars" else frame[names[::-1]])
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_same_seed_same_bits(multi_class):
    X, y = DATA["three"]
    model = LinearSVCCV(Cs=COSTS, random_state=3, multi_class=multi_class, solver="acf")
    first, second = (clone(model).fit(X, y) for _ in range(2))
    threads = clone(model).set_params(n_jobs=2).fit(X, y)
    for other in (second, threads):
        np.testing.assert_array_equal(other.coef_, first.coef_)
        np.testing.assert_array_equal(other.scores_, first.scores_)
        np.testing.assert_array_equal(other.relative_gaps_, first.relative_gaps_)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "average_precision"])
def test_rows_on_disk(scoring):
    X, y = DATA["two"]
    X, y = np.float32(X), (y == "malignant").astype(int)
    settings = {"Cs": [0.01, 0.1], "scoring": scoring, "tol": 1e-6, "cv": 3, "random_state": 0}
    on_disk = LinearSVCCV(**settings).fit(Blocks(X, 60), y)
    in_memory = LinearSVCCV(**settings).fit(X, y)
    np.testing.assert_allclose(on_disk.scores_, in_memory.scores_, atol=1e-3)
    assert on_disk.solver_ == "newton"
    assert_consistent(on_disk, Blocks(X, 60), y)


def test_several_classes_on_disk():
    X, y = DATA["three"]
    settings = {"Cs": [0.01, 0.1], "tol": 1e-5, "cv": StratifiedKFold(3), "probability": True}
    on_disk = LinearSVCCV(**settings, random_state=0).fit(Blocks(np.float32(X), 40), y)
    in_memory = LinearSVCCV(**settings, random_state=0).fit(np.float32(X), y)
    np.testing.assert_allclose(on_disk.scores_, in_memory.scores_, atol=0.021)
    assert on_disk.predict_proba(Blocks(np.float32(X), 40)).shape == (150, 3)


def test_folds_may_be_single_but_not_the_model(monkeypatch):
    """Coefficients of folds are kept in single precision, unless many digits are asked for."""
    kept = []
    advance = CostPath.advance

    def spied(self, C):
        advance(self, C)
        kept.append(self.states[0][0].coef.dtype)

    monkeypatch.setattr(CostPath, "advance", spied)
    X, y = load_breast_cancer(return_X_y=True)
    chosen = {"Cs": [0.01, 0.1], "cv": 2, "loss": "hinge", "solver": "acf", "random_state": 0}
    model = LinearSVCCV(**chosen).fit(scale(X), y)
    assert kept == [np.float32, np.float32, np.float64]
    assert np.any(model.coef_ != model.coef_.astype(np.float32))
    kept.clear()
    LinearSVCCV(tol=1e-6, **chosen).fit(scale(X), y)
    assert kept == [np.float64] * 3
