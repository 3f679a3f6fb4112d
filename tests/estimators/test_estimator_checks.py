"""scikit-learn's own conformance suite, on the default estimator, LIBLINEAR's twin and others."""

import warnings
from functools import partial

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from widemargin import (
    LinearOneClassSVM,
    LinearRanker,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    LogisticRegressionCV,
    OrdinalSVC,
)

# These two ask that decision functions of two fits (rows weighted, rows repeated) agree to
# seven digits. The default tol certifies the *objective* to 1e-3, so two fits agree that far
# and no further. Nothing else is excused, and below both run where tol is small.
_NEED_A_SMALLER_TOL = {
    "check_sample_weight_equivalence_on_dense_data": "asks for 1e-7, tol is 1e-3",
    "check_sample_weight_equivalence_on_sparse_data": "asks for 1e-7, tol is 1e-3",
}

_LABELS_HAVE_AN_ORDER = {
    "check_classifiers_regression_target": "labels such as half stars are fractions",
    "check_classifiers_classes": "its labels are words without an order, which are refused",
}

# It asks that the most probable class is the predicted one. A prediction goes by the score, as
# in scikit-learn's SVC; the sigmoid is even where held-out rows of both sides are as frequent,
# which need not be at a score of zero.
_PROBABILITIES_ARE_CALIBRATED = {
    "check_classifiers_train": "a probability of one half need not belong to a score of zero",
}


def _weighs_as_it_repeats(estimator):
    """Whether rows weighted and rows repeated are the same arithmetic, but for the order of sums.

    It is so with cutting planes and with Newton's method, which CV takes for its small C's; and
    with descent over features. Coordinate descent over rows visits each of them by itself.
    """
    if isinstance(estimator, (LinearRanker, OrdinalSVC, LinearOneClassSVM)):
        return True
    if isinstance(estimator, (LogisticRegression, LogisticRegressionCV)):
        return estimator.solver != "dcd"
    if estimator.penalty != "l2":
        return True
    if isinstance(estimator, LinearSVCCV):
        return estimator.loss == "squared_hinge"
    return estimator.solver == "ocas"


@parametrize_with_checks(
    [
        LinearSVC(),
        LinearSVC(loss="hinge", solver="dcd", penalized_intercept=True),
        LinearSVC(loss="hinge", solver="ocas"),
        LinearSVC(multi_class="crammer_singer"),
        LinearSVC(multi_class="crammer_singer", solver="ocas", penalized_intercept=True),
        LinearSVC(probability=True),
        LinearSVCCV(Cs=[0.01, 0.1, 1]),
        LinearSVCCV(Cs=[0.1, 0.01], loss="hinge", scoring="f1_macro"),
        LinearSVCCV(Cs=[0.01], probability=True, penalized_intercept=True),
        LinearSVR(),
        LinearSVR(solver="ocas", epsilon=0.1),
        LinearSVR(loss="absolute_error", solver="ocas", penalized_intercept=True),
        LinearSVR(loss="pinball", quantile=0.2),
        LinearSVR(loss="huber", fit_intercept=False),
        LinearSVC(penalty="l1"),
        LinearSVC(penalty="elasticnet", penalized_intercept=True),
        LinearSVCCV(Cs=[0.1, 1.0], penalty="l1", cv=3),
        LinearSVR(loss="squared_epsilon_insensitive", penalty="l1"),
        LinearSVR(loss="huber", penalty="elasticnet", l1_ratio=0.2),
        LogisticRegression(penalty="l1", multi_class="ovr"),
        LogisticRegression(l1_ratio=0.5, multi_class="ovr", penalized_intercept=True),
        LogisticRegressionCV(Cs=[0.1, 1.0], penalty="l1", multi_class="ovr", cv=3),
        LinearOneClassSVM(),
        LinearOneClassSVM(nu=0.1, tol=1e-8),
        LogisticRegression(),
        LogisticRegression(multi_class="ovr", penalized_intercept=True),
        LogisticRegression(solver="ocas"),
        LogisticRegression(multi_class="ovr", solver="dcd"),
        LogisticRegressionCV(Cs=[0.01, 0.1]),
        LinearRanker(),
        LinearRanker(solver="cpa", normalization="queries"),
        OrdinalSVC(),
    ],
    expected_failed_checks=lambda e: (
        ({} if _weighs_as_it_repeats(e) else _NEED_A_SMALLER_TOL)
        | (_LABELS_HAVE_AN_ORDER if isinstance(e, OrdinalSVC) else {})
        | (_PROBABILITIES_ARE_CALIBRATED if getattr(e, "probability", False) else {})
    ),
)
def test_scikit_learn_conformance(estimator, check):
    if isinstance(estimator, LinearOneClassSVM) and "sample_weight_equivalence" in str(check):
        pytest.skip("compares labels of rows on the plane: see test_weights_are_repetitions")
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_sample_weight_equivalence_on_dense_data,
        check_sample_weight_equivalence_on_sparse_data,
    ],
)
@pytest.mark.parametrize("penalized_intercept", [False, True], ids=["free", "penalized"])
@pytest.mark.parametrize("solver", ["dcd", "acf"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_equal_repetition_at_the_optimum(
    check, loss, solver, penalized_intercept, monkeypatch
):
    """scikit-learn's two checks, asking for what a gap at the limit of float64 can prove.

    A gap g bounds |w - w*| by sqrt(2 g). The objective here is about 5, the rows about 3
    long, and a relative gap below 1e-15 is lost in rounding: scores of two fits agree to
    2 * 3 * sqrt(2 * 5 * 1e-15), about 6e-7. Mostly they do to 1e-8, but that is luck: which
    of the combinations meet scikit-learn's own 1e-7 changes with the order of additions.
    """
    monkeypatch.setattr(
        estimator_checks,
        "assert_allclose_dense_sparse",
        partial(estimator_checks.assert_allclose_dense_sparse, rtol=0.0, atol=1e-6),
    )
    estimator = LinearSVC(
        tol=1e-15, loss=loss, solver=solver, penalized_intercept=penalized_intercept
    )
    with warnings.catch_warnings():
        # Rounding may keep the last bit of the gap from closing; then max_iter ends the fit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        check("LinearSVC", estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_sample_weight_equivalence_on_dense_data,
        check_sample_weight_equivalence_on_sparse_data,
    ],
)
@pytest.mark.parametrize("estimator", [LinearRanker(tol=1e-13), OrdinalSVC(tol=1e-13)])
def test_weights_equal_repetition_in_an_order(check, estimator):
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_sample_weight_equivalence_on_dense_data,
        check_sample_weight_equivalence_on_sparse_data,
    ],
)
def test_weights_equal_repetition_in_the_choice_of_a_cost(check, monkeypatch):
    """As above, with the same folds of weighted and of repeated rows, which scikit-learn makes."""
    monkeypatch.setattr(
        estimator_checks,
        "assert_allclose_dense_sparse",
        partial(estimator_checks.assert_allclose_dense_sparse, rtol=0.0, atol=1e-6),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check("LinearSVCCV", LinearSVCCV(Cs=[0.01, 0.1], tol=1e-15, max_iter=2000))
