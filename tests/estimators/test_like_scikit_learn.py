"""LinearSVC takes scikit-learn's parameters with their meanings, and refuses what it refuses."""

import itertools
import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC as SklearnLinearSVC

from widemargin import LinearSVC, certify, load_model, open_rows, save_model, svm_path
from widemargin.data.shards import ShardWriter

X, Y = load_iris(return_X_y=True)
ARGUMENTS = list(
    itertools.product(
        ("l1", "l2"), ("hinge", "squared_hinge"), (True, False, "auto"), ("ovr", "crammer_singer")
    )
)


def refusal(kind, penalty, loss, dual, multi_class):
    """Return why a class refuses these arguments, or None."""
    try:
        kind(penalty, loss, dual=dual, multi_class=multi_class, max_iter=10**5).fit(X, Y)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_the_same_combinations_are_refused_in_the_same_words(arguments):
    ours, theirs = refusal(LinearSVC, *arguments), refusal(SklearnLinearSVC, *arguments)
    if arguments[0] == "l1" and arguments[3] == "crammer_singer":  # which ignores the penalty
        assert ours == "penalty='l1' is not for multi_class='crammer_singer'"
    elif arguments[2] == "auto" and theirs:  # there the number of rows decides what is tried last
        assert ours.rpartition("dual=")[0] == theirs.rpartition("dual=")[0]
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "l0"}, "penalty must be one of 'l2', 'l1', 'elasticnet', not 'l0'"),
        ({"dual": "no"}, "dual must be one of 'auto', True, False, not 'no'"),
        ({"intercept_scaling": 0}, "intercept_scaling must be a positive number, not 0"),
        ({"intercept_scaling": True}, "intercept_scaling must be a positive number, not True"),
    ],
)
def test_what_cannot_be_is_said(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LinearSVC(**parameters).fit(X, Y)


@pytest.mark.parametrize("scaling", [0.1, 30.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_scaled_intercept_is_penalised_as_by_liblinear(scaling, loss, make):
    theirs = SklearnLinearSVC(
        loss=loss, dual=True, intercept_scaling=scaling, tol=1e-10, max_iter=10**6, random_state=0
    ).fit(X, Y)
    ours = LinearSVC(
        loss=loss,
        penalized_intercept=True,
        intercept_scaling=scaling,
        tol=1e-10,
        random_state=0,
        warm_start=True,
    )
    data = make(X)
    for _ in range(2):  # the second fit starts at the solution of the first
        ours.fit(data, Y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    squares = np.sum(ours.coef_**2) + np.sum((ours.intercept_ / scaling) ** 2)
    margins = np.where(Y[:, None] == np.arange(3), 1, -1) * ours.decision_function(X)
    losses = np.maximum(0, 1 - margins) ** (1 if loss == "hinge" else 2)
    again = certify(ours, data, Y)
    assert again.primal == pytest.approx(0.5 * squares + losses.sum(), rel=1e-12)
    assert again.primal == ours.certificate_.primal
    assert again.relative_gap <= 1e-10


def test_a_scaled_intercept_in_single_precision():
    """The value is rounded as the rows are, for the model and its certificate alike."""
    model = LinearSVC(penalized_intercept=True, intercept_scaling=0.1, tol=1e-9, random_state=0)
    model.fit(X.astype(np.float32), Y)
    squares = np.sum(model.coef_**2) + np.sum((model.intercept_ / float(np.float32(0.1))) ** 2)
    margins = np.where(Y[:, None] == np.arange(3), 1, -1) * (
        X.astype(np.float32).astype(float) @ model.coef_.T + model.intercept_
    )
    objective = 0.5 * squares + np.sum(np.maximum(0, 1 - margins) ** 2)
    assert model.certificate_.primal == pytest.approx(objective, rel=1e-12)


def test_a_scaled_intercept_of_all_classes_together():
    parameters = {"multi_class": "crammer_singer", "intercept_scaling": 10.0, "random_state": 0}
    theirs = SklearnLinearSVC(tol=1e-10, max_iter=10**6, **parameters).fit(X, Y)
    ours = LinearSVC(penalized_intercept=True, tol=1e-9, **parameters).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_a_path_and_probabilities_know_the_scaled_intercept():
    parameters = {"penalized_intercept": True, "intercept_scaling": 5.0, "random_state": 0}
    path = svm_path(X, Y, Cs=[0.1, 1.0], tol=1e-8, **parameters)
    model = LinearSVC(tol=1e-8, **parameters).fit(X, Y)
    np.testing.assert_allclose(path.coefs[1], model.coef_, atol=1e-4)
    np.testing.assert_allclose(path.intercepts[1], model.intercept_, atol=1e-4)
    likely = LinearSVC(probability=True, **parameters).fit(X, Y).predict_proba(X)
    assert np.mean(likely.argmax(axis=1) == Y) > 0.9


def test_a_free_intercept_ignores_its_scaling():
    plain, scaled = LinearSVC(random_state=0), LinearSVC(random_state=0, intercept_scaling=7)
    np.testing.assert_array_equal(plain.fit(X, Y).coef_, scaled.fit(X, Y).coef_)


def test_rows_on_disk_have_no_scaled_intercept(tmp_path):
    with ShardWriter(tmp_path / "rows") as writer:
        writer.add(sp.csr_array(X), Y)
    model = LinearSVC(penalized_intercept=True, intercept_scaling=2, solver="ocas")
    with pytest.raises(ValueError, match="intercept_scaling other than 1 needs rows in memory"):
        model.fit(open_rows(tmp_path / "rows"), Y)


@pytest.mark.parametrize("labels", [Y, Y == 1], ids=["three classes", "two"])
def test_sparse_coefficients_score_the_same(tmp_path, labels):
    model = LinearSVC(probability=True, random_state=0).fit(X, labels)
    model.coef_[:, 1] = 0.0
    dense, likely = model.decision_function(X), model.predict_proba(X)
    assert model.sparsify() is model
    assert sp.issparse(model.coef_)
    assert model.coef_.nnz == 3 * model.intercept_.size
    for rows in (X, sp.csr_array(X), sp.csc_matrix(X), X.tolist()):
        np.testing.assert_allclose(model.decision_function(rows), dense, rtol=1e-12)
        np.testing.assert_allclose(model.predict_proba(rows), likely, rtol=1e-12)
    np.testing.assert_allclose(model.to_sklearn().predict_proba(X), likely, rtol=1e-12)
    model.report(tmp_path / "report.html", X, labels)
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").decision_function(X), dense)
    assert certify(model, X, labels).primal > 0
    assert not sp.issparse(model.densify().coef_)
    np.testing.assert_array_equal(model.decision_function(X), dense)
    assert isinstance(model.sparsify().fit(X, labels).coef_, np.ndarray)


def test_logarithms_of_probabilities():
    model = LinearSVC(probability=True, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))


@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba"])
def test_there_are_no_probabilities_unless_asked_for(name):
    model = LinearSVC()
    assert not hasattr(model, name)
    with pytest.raises(AttributeError) as caught:
        getattr(model, name)
    assert str(caught.value) == f"'LinearSVC' object has no attribute '{name}'"
    assert caught.value.__notes__ == [f"{name} is available with probability=True."]
    assert hasattr(LinearSVC(probability=True), name)


def test_a_fit_that_falls_short_warns_as_scikit_learn_does():
    data, labels = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="training stopped at max_iter=1 "):
        LinearSVC(max_iter=1, solver="dcd", tol=1e-9).fit(scale(data), labels)
