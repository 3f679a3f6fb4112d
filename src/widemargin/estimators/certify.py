"""Recompute the certificate of a fitted model."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d

from widemargin import threads
from widemargin.arrays import Matrix, Vector, dense
from widemargin.certificate import Certificate, certify_state
from widemargin.data import as_rows
from widemargin.data.devices import gpu_array, is_on_gpu
from widemargin.estimators.label_problems import label_problems, unpacked
from widemargin.estimators.label_sets import LabelMatrix, label_matrix
from widemargin.estimators.linear_ranker import LinearRanker
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.logistic_regression import LogisticRegression
from widemargin.estimators.measure_svc import MeasureSVC
from widemargin.estimators.one_class_svm import LinearOneClassSVM, OneClassProblem
from widemargin.estimators.order import check_grades
from widemargin.estimators.problems import ProblemSet, make_problems, with_constant
from widemargin.estimators.ranking import OrderingModel
from widemargin.estimators.targets import target_problems
from widemargin.estimators.validation import (
    check_matrix,
    check_same_length,
    check_targets,
    check_weights,
    count_rows,
)
from widemargin.labels import places_of
from widemargin.problem import State


@threads.one_for_blas()
def certify(
    model: BaseEstimator,
    X: Matrix,
    y: Vector = None,
    sample_weight: Vector | None = None,
    qid: Vector | None = None,
    **parameters: Any,
) -> Certificate:
    """Recompute the duality-gap certificate of `model` on its training data.

    The objective is computed from the coefficients of the model. The lower bound is computed from
    its dual variables (``dual_variables_``, or ``dual_points_`` and ``dual_weights_``). Neither
    depends on the solver that found them. For models of other libraries, which have no dual
    variables, this is the certificate of `widemargin.audit`, which trains.

    Parameters
    ----------
    model : fitted estimator
        LinearSVC, LinearSVCCV, LinearSVR, LogisticRegression, LogisticRegressionCV, LinearRanker,
        OrdinalSVC, MeasureSVC or LinearOneClassSVM.
        Or a model of another library, as in `widemargin.audit`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        A LinearOneClassSVM needs none.
    sample_weight : array-like of shape (n_samples,), default=None
    qid : array-like of shape (n_samples,), default=None
        The data that `model` was fitted on.
    **parameters
        Of `widemargin.audit`: for models of other libraries only.

    Returns
    -------
    Certificate
        If there are several one-versus-rest problems or targets, its `parts` are their
        certificates.
    """
    if qid is None and y is not None and _is_foreign(model):
        from widemargin.estimators.audit import audit  # which imports scikit-learn's models

        return audit(model, X, y, sample_weight, **parameters).certificate
    if parameters:
        raise TypeError(
            f"{type(model).__name__} has parameters of its own: {', '.join(parameters)}"
        )
    check_is_fitted(model)
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, LinearOneClassSVM):
        if qid is not None:
            raise ValueError("qid is for LinearRanker; LinearOneClassSVM knows no groups")
        X = check_matrix(model, X, reset=False)
        _check_count(model, count_rows(X))
        rows = as_rows(X)
        one_class = OneClassProblem(model, rows, check_weights(sample_weight, X))
        return certify_state(one_class[0], one_class.state(model), model.tol)
    if y is None:
        raise ValueError(f"y is missing: {type(model).__name__} was trained on labels")
    if qid is not None and not isinstance(model, LinearRanker | MeasureSVC):
        raise ValueError(f"qid is for LinearRanker; {type(model).__name__} knows no groups")
    if isinstance(model, OrderingModel | MeasureSVC):
        X, y = _training_data(model, X, y)
        problem = model._problem(as_rows(X), y, qid, sample_weight)
        return certify_state(problem[0], problem.state(model), model.tol)
    problems, states = training_problems(model, X, y, sample_weight)
    return Certificate.total(
        certify_state(problems[j], unpacked(state), model.tol) for j, state in enumerate(states)
    )


def training_problems(
    model: BaseEstimator, X: Matrix, y: Vector, sample_weight: Vector | None
) -> tuple[ProblemSet, list[State]]:
    """Return the problems that a classifier or a regressor was trained on, and its states."""
    check_is_fitted(model, "dual_variables_")
    X, y = _training_data(model, X, y)
    if not model.fit_intercept and np.any(model.intercept_ != 0.0):
        raise ValueError(
            "the model has an intercept, and its parameters say that it has none "
            "(fit_intercept=False): it is not a solution of their problem"
        )
    rows, weights = with_constant(as_rows(X), model), check_weights(sample_weight, X)
    problems: ProblemSet
    if isinstance(y, LabelMatrix):
        problems = label_problems(model, rows, y, weights)
        return problems, problems.states(model.coef_, model.intercept_, model.dual_variables_)
    if isinstance(model, LinearSVR):
        problems = target_problems(model, rows, y, weights)
        if len(problems) != len(model.intercept_):
            raise ValueError(
                f"the model has {len(model.intercept_)} targets, and y has {len(problems)}"
            )
    else:
        codes = places_of(y, model.classes_)
        problems = make_problems(model, rows, model.classes_, codes, weights)
    coef = dense(model.coef_)
    return problems, problems.states(coef, model.intercept_, model.dual_variables_)


def _training_data(
    model: BaseEstimator, X: Matrix, y: Vector
) -> tuple[Matrix, np.ndarray | LabelMatrix]:
    """Return the checked data that `model` was trained on."""
    X = check_matrix(model, X, reset=False)
    labels = _labels(model, y)
    found = labels if labels is not None else _checked(model, _fetched(y))
    check_same_length(X, found)
    _check_count(model, found.shape[0])
    return X, found


def _labels(model: BaseEstimator, y: Vector) -> LabelMatrix | None:
    """Return the labels of rows, if `model` was trained for rows with any number of them."""
    if not (isinstance(model, LinearSVC) and model.multilabel_):
        return None
    labels = label_matrix(y, model.classes_)
    if labels is None:
        raise ValueError("the model was trained on a matrix of labels, and y is none")
    return labels


def _check_count(model: BaseEstimator, count: int) -> None:
    n_rows = training_rows(model)
    if count != n_rows:
        raise ValueError(
            f"the model was trained on {n_rows} rows, and X has {count}: a certificate "
            "speaks of the training data"
        )


def _is_foreign(model: Any) -> bool:
    """Return whether a model has no dual variables because another library trained it."""
    if isinstance(model, LinearSVC | LinearSVR | LogisticRegression):
        return "coef_" in vars(model) and "dual_variables_" not in vars(model)
    return isinstance(model, tuple) or type(model).__module__.split(".")[0] == "sklearn"


def _checked(model: BaseEstimator, y: Vector) -> np.ndarray:
    """Return labels, grades or targets as arrays."""
    if isinstance(model, LinearSVR):
        return check_targets(y)
    return check_grades(y) if isinstance(model, LinearRanker) else column_or_1d(y)


def training_rows(model: BaseEstimator) -> int:
    """Return the number of rows that `model` was trained on."""
    if isinstance(model, OrderingModel | MeasureSVC):
        return model.n_samples_fit_
    return model.dual_variables_.shape[1]


def _fetched(y: Vector) -> Vector:
    return gpu_array(y).get() if is_on_gpu(y) else y
