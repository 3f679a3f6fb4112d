"""Models of other libraries, written as ours: their problem and their coefficients.

scikit-learn's LinearSVC, LinearSVR   1/2 |w|^2 + 1/2 (b / intercept_scaling)^2 + C sum_i loss
SVC, SVR with kernel="linear"         1/2 |w|^2 + C sum_i loss, b not penalised
SGDClassifier                         alpha / 2 |w|^2 + 1/n sum_i loss: C = 1 / (alpha n)
LogisticRegression                    1/2 |w|^2 + C sum_i loss, all classes in one problem, b not
                                      penalised; of solver="liblinear" as in LinearSVC
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import Vector, dense
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.logistic_regression import LogisticRegression
from widemargin.estimators.problems import LOGISTIC
from widemargin.estimators.validation import check_labels, check_positive
from widemargin.losses import LOSSES, TARGET_LOSSES

Ours = LinearSVC | LinearSVR | LogisticRegression


def as_ours(model: Any, y: Vector, **parameters: Any) -> Ours:
    """Return a model with our parameters and the coefficients of `model`.

    Parameters
    ----------
    model : fitted estimator, or tuple of (coef, intercept)
        The intercept is None if the problem has none.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        What the model was trained on.
    **parameters
        Of `LinearSVC` or `LinearSVR`. They take the place of those that `model` has.
    """
    if isinstance(model, tuple):
        return _plain(model, y, parameters)
    check_is_fitted(model)
    if isinstance(model, Ours):
        if "C" not in parameters and "dual_variables_" not in vars(model):
            raise ValueError("C is not in LIBLINEAR's model files: name the C of the training")
        found, read = type(model), model.get_params(deep=False)
    else:
        translate = _TRANSLATIONS.get(type(model))
        if translate is None:
            raise TypeError(
                f"a {type(model).__name__} is none of the models that can be audited: "
                f"{', '.join(kind.__name__ for kind in _TRANSLATIONS)}, LIBLINEAR's model files, "
                "or (coef, intercept)"
            )
        found, read = translate(model, len(y))
    ours = found(**(read | _known(found, parameters)))
    return _with_coefficients(ours, model.coef_, model.intercept_, vars(model).get("classes_"))


def _plain(model: tuple, y: Vector, parameters: dict[str, Any]) -> Ours:
    """Return (coef, intercept) as a model; its loss tells whether it has classes or targets."""
    if len(model) != 2:
        raise ValueError(f"a plain model is (coef, intercept), not {len(model)} things")
    for name in ("C", "loss"):
        if name not in parameters:
            raise ValueError(
                f"{name} is needed: (coef, intercept) does not tell what it minimises"
            )
    coef, intercept = model
    loss = parameters["loss"]
    known = [*LOSSES, LOGISTIC, *TARGET_LOSSES]
    if loss not in known:
        raise ValueError(f"loss must be one of {', '.join(known)}, not {loss!r}")
    kind: type = LinearSVC if loss in LOSSES else LinearSVR
    if loss == LOGISTIC:
        kind, parameters = (
            LogisticRegression,
            {k: parameters[k] for k in parameters if k != "loss"},
        )
    given = {"fit_intercept": intercept is not None} | _known(kind, parameters)
    classes = None if kind is LinearSVR else np.unique(check_labels(y))
    return _with_coefficients(
        kind(**given), coef, 0.0 if intercept is None else intercept, classes
    )


def _known(kind: type, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters; TypeError if `kind` does not have one."""
    unknown = parameters.keys() - kind().get_params(deep=False).keys()
    if unknown:
        raise TypeError(f"{kind.__name__} has no parameter {', '.join(sorted(unknown))}")
    return parameters


def _with_coefficients(ours: Ours, coef: Any, intercept: Any, classes: np.ndarray | None) -> Ours:
    coef = np.atleast_2d(np.asarray(dense(coef), dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(intercept, dtype=np.float64).ravel(), len(coef)).copy()
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("the model's coefficients are not finite")
    ours._check_parameters()
    if not isinstance(ours, LinearSVR):
        assert classes is not None
        expected = 1 if len(classes) == 2 else len(classes)
        if len(coef) != expected:
            raise ValueError(
                f"{len(classes)} classes need {expected} rows of coef, not {len(coef)}"
            )
        ours.classes_ = classes
        ours.coef_ = coef
    else:
        ours.coef_ = coef[0] if len(coef) == 1 else coef
    ours.intercept_, ours.n_features_in_ = intercept, coef.shape[1]
    return ours


def _of_linear_svc(model: svm.LinearSVC, n_rows: int) -> tuple[type, dict[str, Any]]:
    read = _common(model, "C", "loss", "class_weight", "multi_class", "penalty")
    return LinearSVC, read | _liblinear_intercept(model)


def _of_linear_svr(model: svm.LinearSVR, n_rows: int) -> tuple[type, dict[str, Any]]:
    return LinearSVR, _common(model, "C", "loss", "epsilon") | _liblinear_intercept(model)


def _of_svc(model: svm.SVC, n_rows: int) -> tuple[type, dict[str, Any]]:
    _check_linear(model)
    if len(model.classes_) > 2:
        raise ValueError("SVC trains a problem for each pair of classes: audit it for two classes")
    return LinearSVC, _common(model, "C", "class_weight") | {"loss": "hinge"}


def _of_svr(model: svm.SVR, n_rows: int) -> tuple[type, dict[str, Any]]:
    _check_linear(model)
    return LinearSVR, _common(model, "C", "epsilon")


def _of_sgd(model: linear_model.SGDClassifier, n_rows: int) -> tuple[type, dict[str, Any]]:
    if model.penalty != "l2" or model.loss not in (*LOSSES, "log_loss"):
        raise ValueError(
            f"an SGDClassifier with loss={model.loss!r} and penalty={model.penalty!r} minimises "
            f"another objective: the loss must be one of {', '.join(LOSSES)}, log_loss, the "
            "penalty 'l2'"
        )
    check_positive("alpha", model.alpha)
    read = _common(model, "class_weight", "fit_intercept") | {"C": 1.0 / (model.alpha * n_rows)}
    if model.loss == "log_loss":
        return LogisticRegression, read | {"multi_class": "ovr"}
    return LinearSVC, read | {"loss": model.loss}


def _of_logistic(
    model: linear_model.LogisticRegression, n_rows: int
) -> tuple[type, dict[str, Any]]:
    given = model.get_params(deep=False)
    if given["penalty"] not in ("l2", "deprecated") or given["l1_ratio"] not in (None, 0, 0.0):
        raise ValueError("a LogisticRegression whose penalty is not l2 has another objective")
    if not math.isfinite(given["C"]):
        raise ValueError("a LogisticRegression with an infinite C has no penalty, and no proof")
    read = _common(model, "C", "class_weight", "fit_intercept")
    # Before scikit-learn 1.8 it had multi_class, and wrote two classes as one problem with "ovr".
    multi_class = given.get("multi_class", "deprecated")
    if multi_class == "multinomial" and len(model.classes_) == 2:
        raise ValueError("two classes with multi_class='multinomial' have another objective")
    one_by_one = given["solver"] == "liblinear" or multi_class == "ovr"
    read["multi_class"] = "ovr" if one_by_one else "multinomial"
    if given["solver"] == "liblinear":
        read |= _liblinear_intercept(model)
    return LogisticRegression, read


def _common(model: BaseEstimator, *names: str) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    return {name: parameters[name] for name in names}


def _liblinear_intercept(model: BaseEstimator) -> dict[str, Any]:
    return _common(model, "fit_intercept", "intercept_scaling") | {"penalized_intercept": True}


def _check_linear(model: BaseEstimator) -> None:
    if model.kernel != "linear":
        raise ValueError(f"only kernel='linear' has weights; this one is {model.kernel!r}")


_TRANSLATIONS: dict[type, Callable[[Any, int], tuple[type, dict[str, Any]]]] = {
    svm.LinearSVC: _of_linear_svc,
    svm.LinearSVR: _of_linear_svr,
    svm.SVC: _of_svc,
    svm.SVR: _of_svr,
    linear_model.SGDClassifier: _of_sgd,
    linear_model.LogisticRegression: _of_logistic,
}
