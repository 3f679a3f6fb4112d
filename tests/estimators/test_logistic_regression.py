"""LogisticRegression: scikit-learn's optimum, probabilities of its own, certificates, messages."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from exact import logistic_optimum
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import scale

from widemargin import LogisticRegression, LogisticRegressionCV, certify, load_model, save_model
from widemargin.problem import Intercept

X2, y2 = load_breast_cancer(return_X_y=True)
X2 = scale(X2)
X3, y3 = load_iris(return_X_y=True)
INTERCEPTS = {
    Intercept.NONE: {"fit_intercept": False},
    Intercept.FREE: {},
    Intercept.PENALIZED: {"penalized_intercept": True},
}
OTHERS = [0, 1, 2, 20, 21, 22]


@pytest.mark.parametrize("solver", ["newton", "dcd", "ocas"])
@pytest.mark.parametrize("intercept", Intercept)
def test_the_optimum_of_two_classes(intercept, solver):
    X, y = X2[::6], y2[::6]
    model = LogisticRegression(C=0.5, solver=solver, tol=1e-4, **INTERCEPTS[intercept]).fit(X, y)
    best = logistic_optimum(X, 2 * y - 1, np.full(len(y), 0.5), intercept=intercept)
    certificate = certify(model, X, y)
    assert certificate.relative_gap <= 1e-4
    assert certificate.dual - 1e-6 <= best <= certificate.primal + 1e-6
    assert model.solver_ == solver


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("many", [False, True])
def test_the_same_as_scikit_learn(many, C):
    X, y = (X3, y3) if many else (X2, y2)
    weights = np.resize([0.5, 1.0, 3.0], len(y))
    # Before 1.7 scikit-learn's "balanced" does not know of weights of rows.
    totals = np.bincount(y, weights)
    balanced = totals.sum() / (len(totals) * totals)
    peer = linear_model.LogisticRegression(C=C, tol=1e-10, max_iter=10000, solver="newton-cg")
    peer.fit(X, y, weights * balanced[y])
    model = LogisticRegression(C=C, tol=1e-9, class_weight="balanced").fit(X, y, weights)
    assert model.status_ in ("converged", "rounding")
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-5)
    assert np.mean(model.predict(X) == peer.predict(X)) > 0.99  # but for rows on the border
    twin = model.to_sklearn()
    np.testing.assert_allclose(twin.predict_proba(X), model.predict_proba(X), atol=1e-14)
    np.testing.assert_allclose(
        np.exp(model.predict_log_proba(X)), model.predict_proba(X), atol=1e-14
    )


@pytest.mark.parametrize("solver", ["auto", "dcd", "newton"])
def test_one_versus_rest(solver):
    model = LogisticRegression(multi_class="ovr", solver=solver, tol=1e-7, max_iter=100000)
    model.fit(X3, y3)
    peer = OneVsRestClassifier(linear_model.LogisticRegression(tol=1e-9, max_iter=10000))
    peer.fit(X3, y3)
    np.testing.assert_allclose(model.predict_proba(X3), peer.predict_proba(X3), atol=1e-3)
    assert len(model.certificate_.parts) == 3
    twin = model.to_sklearn()
    np.testing.assert_allclose(twin.predict_proba(X3), model.predict_proba(X3), atol=1e-14)
    np.testing.assert_array_equal(twin.predict(X3), model.predict(X3))


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, Blocks], ids=lambda f: f.__name__)
@pytest.mark.parametrize("solver", ["newton", "ocas"])
def test_classes_together_on_any_rows(solver, layout):
    X = X3.astype(np.float32)
    X = Blocks(sp.csr_matrix(X), 40) if layout is Blocks else layout(X)
    for given in INTERCEPTS.values():
        model = LogisticRegression(C=0.1, solver=solver, tol=1e-3, **given).fit(X, y3)
        assert model.status_ == "converged"
        peer = LogisticRegression(C=0.1, tol=1e-8, **given).fit(X3.astype(np.float32), y3)
        assert model.certificate_.dual <= peer.certificate_.primal
        assert peer.certificate_.dual <= model.certificate_.primal
        found = model.predict_proba(X3)
        np.testing.assert_allclose(found, peer.predict_proba(X3), atol=0.03)


def test_classes_without_weight_and_constant_features():
    weights = np.where(y3 == 1, 0.0, 1.0)
    X = np.c_[X3, np.ones(len(y3)), np.zeros(len(y3))]
    for multi_class in ("ovr", "multinomial"):
        model = LogisticRegression(multi_class=multi_class).fit(X, y3, weights)
        assert model.certificate_.relative_gap <= 1e-4
        assert np.all(model.predict_proba(X)[:, 1] < 1e-6)
        assert np.all(model.coef_[:, -1] == 0.0)


@pytest.mark.parametrize("multi_class", ["ovr", "multinomial"])
def test_separable_rows_at_huge_costs(multi_class):
    keep = y3 != 1 if multi_class == "ovr" else slice(None)
    model = LogisticRegression(C=1e8, multi_class=multi_class, tol=1e-6, max_iter=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X3[keep], y3[keep])
    assert model.score(X3[keep], y3[keep]) > 0.97
    assert model.certificate_.relative_gap <= 1e-3
    assert np.isfinite(model.predict_log_proba(X3)).all()


def test_warm_start_and_limits():
    model = LogisticRegression(warm_start=True, tol=1e-6).fit(X2, y2)
    assert model.n_iter_ > 1
    coef = model.coef_.copy()
    assert model.fit(X2, y2).n_iter_ == 1  # which stands for none
    np.testing.assert_array_equal(model.coef_, coef)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 with a relative duality gap of"):
        model = LogisticRegression(max_iter=1).fit(X2, y2)
    assert model.status_ == "max_iter"
    assert certify(model, X2, y2).relative_gap == pytest.approx(model.certificate_.relative_gap)


@pytest.mark.parametrize("multi_class", ["ovr", "multinomial"])
def test_threads_change_nothing_but_the_time(multi_class):
    one, two = (
        LogisticRegression(multi_class=multi_class, n_jobs=n).fit(X3, y3).coef_ for n in (1, 2)
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_saved_models_are_the_same(tmp_path):
    for X, y in ((X2, y2), (X3, np.array(["a", "b", "c"])[y3])):
        model = LogisticRegression(C=2.0, class_weight="balanced").fit(X, y)
        save_model(model, tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        assert loaded.get_params() == model.get_params()
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert certify(loaded, X, y) == certify(model, X, y)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"solver": "acf"}, "solver must be one of 'auto', 'dcd', 'newton',"),
        ({"penalty": None}, "penalty=None is not offered"),
        ({"penalty": "l1"}, "penalty='l1' is not for .*: use penalty='l2'"),
        ({"penalty": "l2", "l1_ratio": 0.5}, "l1_ratio=0.5 goes with penalty='elasticnet'"),
        ({"l1_ratio": 1.0}, "penalty='l1' is not for multi_class='multinomial'"),
        ({"l1_ratio": 2.0}, "l1_ratio must be a number from 0 to 1"),
        ({"C": np.inf}, "C=inf is not offered"),
        ({"C": -1.0}, "C must be a positive number"),
        ({"multi_class": "both"}, "multi_class must be one of 'auto', 'multinomial', 'ovr'"),
        ({"solver": "dcd"}, "'dcd' is for .*: multi_class='multinomial' needs one of 'newton'"),
        ({"checkpoint": "c"}, "checkpoint goes with"),
    ],
)
def test_messages(given, said):
    with pytest.raises(ValueError, match=said):
        LogisticRegression(**given).fit(X3, y3)


@pytest.mark.parametrize("solver", ["lbfgs", "liblinear", "newton-cg", "newton-cholesky", "saga"])
def test_names_of_scikit_learns_solvers_mean_auto(solver):
    theirs, ours = (LogisticRegression(solver=name).fit(X2, y2) for name in (solver, "auto"))
    np.testing.assert_array_equal(theirs.coef_, ours.coef_)
    assert (theirs.solver, theirs.solver_) == (solver, ours.solver_)
    search = LogisticRegressionCV(Cs=[1.0], solver=solver, cv=2).fit(X2, y2)
    assert search.best_estimator_.solver == solver


@pytest.mark.parametrize(
    ("l1_ratio", "penalty"), [(0.0, "l2"), (None, "l2"), (0.5, "elasticnet"), (1.0, "l1")]
)
def test_the_ratio_alone_says_the_penalty(l1_ratio, penalty):
    ratio = LogisticRegression(l1_ratio=l1_ratio).fit(X2, y2)
    named = LogisticRegression(penalty, l1_ratio=l1_ratio).fit(X2, y2)
    np.testing.assert_array_equal(ratio.coef_, named.coef_)
    assert certify(ratio, X2, y2) == certify(named, X2, y2)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_of_all_classes_add_up_to_nothing(fit_intercept):
    X, y = X3 * [[1.0, 30.0, 0.1, *[1.0] * (X3.shape[1] - 3)]], y3
    model = LogisticRegression(C=100.0, solver="newton", fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-10)
    assert abs(model.intercept_.sum()) < 1e-10


def test_iterations_are_an_array_as_in_scikit_learn(tmp_path):
    for model in (LogisticRegression(), LogisticRegressionCV(Cs=[1.0], cv=2)):
        model.fit(X2, y2)
        assert model.n_iter_.shape == (1,)
        save_model(model, tmp_path / "m")
        np.testing.assert_array_equal(load_model(tmp_path / "m").n_iter_, model.n_iter_)


def test_clones_have_all_parameters():
    model = LogisticRegression("l2", C=3.0, multi_class="ovr", tol=1e-5, random_state=1)
    assert clone(model).get_params() == model.get_params()
