"""Matrices of labels: one problem for each label, however the labels are passed."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, classification_report, f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from widemargin import LinearSVC, certify, load_model, save_model
from widemargin.report.measures import judge


def _set(n=120, d=30, k=6, seed=0, rows_alike=True):
    """Sparse rows, some of them equal and some empty; labels 0 and 1 are none's and everyone's."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.2, random_state=seed).toarray()
    X[:3] = X[3:6]
    X[10:12] = 0.0
    X = sp.csr_matrix(X)
    Y = (rng.random((n, k)) < rng.random(k) * 0.5).astype(int)
    Y[:, 0], Y[:, 1] = 0, 1
    return X, Y


def _alone(X, y, weights=None, **parameters):
    return LinearSVC(**parameters).fit(X, y, weights)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "intercept", [{}, {"penalized_intercept": True}, {"fit_intercept": False}], ids=str
)
@pytest.mark.parametrize("layout", [sp.csr_matrix, sp.csr_matrix.toarray], ids=["csr", "dense"])
def test_each_label_is_solved_as_if_it_were_alone(loss, intercept, layout):
    X, Y = _set()
    X, parameters = layout(X), {"loss": loss, "tol": 1e-9, **intercept}
    weights = np.random.default_rng(1).integers(0, 3, len(Y)).astype(float)
    model = LinearSVC(**parameters).fit(X, Y, weights)
    assert model.certificate_.relative_gap <= 1e-9
    assert len(model.certificate_.parts) == Y.shape[1]
    for j in range(2, Y.shape[1]):
        alone, part = _alone(X, Y[:, j], weights, **parameters), model.certificate_.parts[j]
        assert part.primal == pytest.approx(alone.certificate_.primal, rel=2e-9)
        # A gap g bounds |w - w*| by sqrt(2 g) on both sides.
        assert np.linalg.norm(alone.coef_[0] - model.coef_[j]) <= 2 * np.sqrt(
            2 * 1e-9 * part.primal
        )
    assert certify(model, X, Y, weights).relative_gap <= 1e-9


def test_labels_of_all_rows_or_of_none_are_constant():
    X, Y = _set()
    model = LinearSVC().fit(X, Y)
    assert np.array_equal(model.intercept_[:2], [-1.0, 1.0])
    assert not model.coef_[:2].any()
    assert np.array_equal(model.predict(X)[:, :2], Y[:, :2])
    for part in model.certificate_.parts[:2]:
        assert part.primal == part.dual == 0.0
    # Rows of weight zero do not count.
    weights = np.where(Y[:, 2] == 1, 0.0, 1.0)
    assert LinearSVC().fit(X, Y, weights).intercept_[2] == -1.0


def test_output_is_as_the_labels_were_passed_and_suits_metrics():
    X, Y = _set()
    names = np.array(["none", "all", "c", "d", "e", "f"])
    dense = LinearSVC(random_state=0).fit(X, Y)
    scores = dense.decision_function(X)
    assert scores.shape == Y.shape
    assert np.array_equal(dense.predict(X), (scores > 0).astype(int))
    sparse = LinearSVC(random_state=0).fit(X, sp.csr_matrix(Y))
    assert sp.issparse(sparse.predict(X))
    assert np.array_equal(sparse.predict(X).toarray(), dense.predict(X))
    sets = [set(names[row == 1]) for row in Y]
    of_sets = LinearSVC(random_state=0).fit(X, sets)
    assert list(of_sets.classes_) == sorted(names[1:])  # nobody has the first one
    binarized = MultiLabelBinarizer().fit_transform(sets)
    assert np.array_equal(
        of_sets.predict(X).toarray(), LinearSVC(random_state=0).fit(X, binarized).predict(X)
    )
    frame = LinearSVC(random_state=0).fit(X, pd.DataFrame(Y, columns=names))
    assert list(frame.classes_) == list(names)
    for predicted in (dense.predict(X), sparse.predict(X)):
        given = sp.csr_matrix(Y) if sp.issparse(predicted) else Y
        assert f1_score(given, predicted, average="micro", zero_division=0) > 0.5
        assert classification_report(given, predicted, zero_division=0)
        assert 0.0 < accuracy_score(given, predicted) == dense.score(X, Y)


def test_strings_in_lists_are_sets_of_labels():
    X, _ = _set(4)
    lists = [["a", "b"], ["b"], [], ["a", "c"]]
    model = LinearSVC().fit(X[:4], lists)
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.predict(X).shape == (4, 3)
    as_objects = np.empty(4, dtype=object)
    as_objects[:] = lists
    assert np.array_equal(LinearSVC().fit(X[:4], as_objects).classes_, model.classes_)
    for column in (pd.Series(lists, index=[9, 8, 7, 6]), pa.array(lists)):
        assert np.array_equal(LinearSVC().fit(X[:4], column).coef_, model.coef_)
    again = LinearSVC().fit(X[:4], [set(row) for row in lists])
    assert np.array_equal(again.coef_, model.coef_)
    assert certify(model, X[:4], lists) == certify(model, X[:4], [tuple(row) for row in lists])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.array([[0, 1], [2, 0], [0, 1]]), "row 1, column 0 has 2"),
        (sp.csr_matrix([[0.0, 1], [0, 0.5], [1, 0]]), "row 1, column 1 has 0.5"),
        (np.array([[0, np.nan], [1, 0], [0, 1]]), "row 0, column 1 has nan"),
        (np.array([[0, 1], [1, 0]]), "inconsistent numbers of samples: 3 and 2"),
        (sp.csr_matrix((3, 0)), "y has no columns"),
        (np.zeros((3, 0)), "y has no columns"),
        ([[], [], []], "y has no columns"),
        ([set(), set(), set()], "all sets are empty"),
        ([{"a"}, "b", {"c"}], "row 1 is 'b'"),
        ([["a", "a"], ["b"], []], "row 0 of y has the label 'a' twice"),
        ([[1, 3], [2], [3]], "pass sets of labels"),
        ([{"a"}, {1}, {"c"}], "strings beside others"),
        ([{"a"}, {None}, set()], "row 1 of y has a missing label"),
        (pd.DataFrame(np.eye(3), columns=["a", "b", "a"]), "two columns called 'a'"),
        (np.array([["a", "b"], ["a", "b"], ["c", "b"]]), "zeros and ones"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_labels_are_refused_by_name(Y, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC().fit(np.eye(3), Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"multi_class": "crammer_singer"}, "multi_class='crammer_singer' is not offered"),
        ({"probability": True}, "probability=True is not offered"),
        ({"penalized_intercept": True, "intercept_scaling": 2.0}, "intercept_scaling"),
        ({"class_weight": {9: 1.0}}, "labels that y does not have: 9"),
        ({"class_weight": {1: -1.0}}, "label 1 has -1.0"),
        ({"sparse_coef": "yes"}, "sparse_coef must be True or False"),
    ],
    ids=str,
)
def test_what_labels_do_not_offer_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(np.eye(3), np.array([[0, 1], [1, 0], [1, 1]]))


def test_class_weights_are_per_label():
    X, Y = _set()
    parameters = {"tol": 1e-9, "class_weight": "balanced"}
    model = LinearSVC(**parameters).fit(X, Y)
    for j in range(2, Y.shape[1]):
        alone = _alone(X, Y[:, j], **parameters)
        assert model.certificate_.parts[j].primal == pytest.approx(alone.certificate_.primal)
    weighted = LinearSVC(tol=1e-9, class_weight={3: 5.0}).fit(X, Y)
    alone = _alone(X, Y[:, 3], tol=1e-9, class_weight={1: 5.0})
    assert weighted.certificate_.parts[3].primal == pytest.approx(alone.certificate_.primal)
    assert certify(weighted, X, Y).relative_gap <= 1e-9


@given(
    seed=st.integers(0, 1000),
    tol=st.sampled_from([1e-1, 1e-2, 1e-3, 1e-5]),
    loss=st.sampled_from(["hinge", "squared_hinge"]),
)
def test_a_sparse_model_is_certified_as_it_is(seed, tol, loss):
    X, Y = _set(60, 20, 4, seed)
    model = LinearSVC(tol=tol, loss=loss, sparse_coef=True).fit(X, Y)
    assert model.coef_.dtype == np.float32
    assert model.certificate_.relative_gap <= tol
    C = model.coef_.toarray().astype(float)
    for j, part in enumerate(model.certificate_.parts):
        z = np.maximum(0.0, 1 - (2 * Y[:, j] - 1) * (X @ C[j] + model.intercept_[j]))
        losses = z.sum() if loss == "hinge" else (z**2).sum()
        assert 0.5 * C[j] @ C[j] + losses <= part.primal * (1 + 1e-12) + 1e-12
        exact = LinearSVC(tol=1e-9, loss=loss, sparse_coef=False).fit(X, Y[:, [j, j]])
        assert part.dual <= exact.certificate_.parts[0].primal * (1 + 1e-12) + 1e-12


def test_many_labels_have_sparse_coefficients():
    X, _ = _set(60)
    Y = sp.random(60, 100, 0.05, format="csr", random_state=0, data_rvs=np.ones)
    model = LinearSVC().fit(X, Y)
    assert model.coef_.format == "csc"
    assert isinstance(LinearSVC().fit(X, Y[:, :99]).coef_, np.ndarray)
    assert model.predict(X).shape == (60, 100)


def test_the_best_labels_are_those_of_the_largest_scores():
    X, Y = _set(50, k=40)
    for sparse in (True, False):
        model = LinearSVC(sparse_coef=sparse).fit(X, Y)
        scores = model.decision_function(X)
        for k in (1, 5, 39, 40, 1000):
            labels, best = model.predict_top(X, k)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            assert np.array_equal(labels, order)
            assert np.array_equal(best, np.take_along_axis(scores, order, axis=1))
        little = model.set_params(memory_budget=2000)
        assert np.array_equal(
            little.predict_top(X, 3).labels, np.argsort(-scores, kind="stable")[:, :3]
        )
        assert np.array_equal(little.predict(X), (scores > 0).astype(int))
    with pytest.raises(ValueError, match="k must be"):
        model.predict_top(X, 0)
    two = LinearSVC().fit(X, Y[:, 3])
    assert np.array_equal(two.predict_top(X, 1).labels[:, 0], two.predict(X))


@pytest.mark.parametrize("sparse", [True, False])
def test_files_hold_models_of_labels(tmp_path, sparse):
    X, Y = _set()
    names = ["z", "y", "c", "d", "e", "f"]
    for labels in (Y, sp.csr_matrix(Y), pd.DataFrame(Y, columns=names)):
        model = LinearSVC(sparse_coef=sparse).fit(X, labels)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
        assert type(loaded.predict(X)) is type(model.predict(X))
        assert np.array_equal(loaded.classes_, model.classes_)
        certificate = certify(loaded, X, labels)
        assert certificate.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
        assert certificate.dual == pytest.approx(model.certificate_.dual, rel=1e-12)
    one = LinearSVC().fit(X, sp.csr_matrix(Y[:, 2:3]))
    save_model(one, tmp_path / "model")
    assert load_model(tmp_path / "model").predict(X).shape == (120, 1)


def test_a_warm_start_takes_the_last_fit():
    X, Y = _set()
    for sparse in (True, False):
        model = LinearSVC(warm_start=True, sparse_coef=sparse, tol=1e-4).fit(X, Y)
        first = model.n_iter_
        assert model.fit(X, Y).n_iter_ <= first
        assert model.certificate_.relative_gap <= 1e-4
        model.fit(X, Y[:, 2])  # and now one label for each row
        assert not model.multilabel_
        assert model.predict(X).shape == (120,)
        model.fit(X, Y)
        assert model.predict(X).shape == Y.shape


def test_reports_do_not_measure_labels():
    X, Y = _set()
    model = LinearSVC().fit(X, Y)
    assert "6 classes" in str(model)
    with pytest.raises(ValueError, match=r"sklearn.metrics and widemargin.metrics"):
        judge(model, X, Y)


def test_a_certificate_of_other_labels_is_refused():
    X, Y = _set()
    model = LinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="y has 5 columns, and the model has 6"):
        certify(model, X, Y[:, :5])
    with pytest.raises(ValueError, match="trained on a matrix of labels"):
        certify(model, X, Y[:, 2])
    with pytest.raises(ValueError, match="no twin"):
        model.to_sklearn()
