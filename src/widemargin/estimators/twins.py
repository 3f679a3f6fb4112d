"""Plain scikit-learn models that predict as fitted models do.

For exporters that support only scikit-learn, and for machines without widemargin.
"""

from typing import Any

import numpy as np
import scipy.sparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDOneClassSVM
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import LinearSVC

from widemargin.arrays import on_host


def classifier_twin(model: BaseEstimator) -> LinearSVC | CalibratedClassifierCV:
    """Return the twin of a fitted LinearSVC; with probabilities, if the model has them."""
    parameters = model.get_params(deep=False)
    shared = LinearSVC().get_params().keys() & parameters.keys()
    twin = LinearSVC(**{name: parameters[name] for name in shared})
    _learn(twin, model, coef_=model.coef_, intercept_=model.intercept_, classes_=model.classes_)
    return _calibrated(twin, model) if model.probability else twin


def logistic_twin(model: BaseEstimator) -> LogisticRegression | OneVsRestClassifier:
    """Return the twin of a fitted LogisticRegression."""
    settings = {"C": model.C, "max_iter": model.max_iter, "fit_intercept": model.fit_intercept}
    coef, classes = on_host(model.coef_), model.classes_
    if classes.size == 2 or model.multi_class != "ovr":
        twin = LogisticRegression(**settings)
        return _learn(twin, model, coef_=coef, intercept_=model.intercept_, classes_=classes)
    each = []
    for j in range(classes.size):
        one = LogisticRegression(**settings)
        parts = {"coef_": coef[[j]], "intercept_": model.intercept_[[j]]}
        each.append(_learn(one, model, classes_=np.array([0, 1]), **parts))
    together = OneVsRestClassifier(LogisticRegression(**settings))
    together.estimators_, together.n_features_in_ = each, model.n_features_in_
    together.classes_ = classes
    together.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(classes)
    return _take_names(together, model)


def measure_twin(model: BaseEstimator) -> LinearSVC:
    """Return the twin of a fitted MeasureSVC."""
    twin = LinearSVC(C=model.C, loss="hinge", max_iter=model.max_iter)
    return _learn(
        twin, model, coef_=model.coef_, intercept_=model.intercept_, classes_=model.classes_
    )


def ranker_twin(model: BaseEstimator) -> LinearRegression:
    """Return the twin of a fitted LinearRanker."""
    twin = LinearRegression(fit_intercept=False)
    return _learn(twin, model, coef_=model.coef_, intercept_=0.0)


def regressor_twin(model: BaseEstimator) -> LinearRegression:
    """Return the twin of a fitted LinearSVR."""
    intercept = model.intercept_[0] if model.coef_.ndim == 1 else model.intercept_
    twin = LinearRegression(fit_intercept=model.fit_intercept)
    return _learn(twin, model, coef_=model.coef_, intercept_=intercept)


def one_class_twin(model: BaseEstimator) -> SGDOneClassSVM:
    """Return the twin of a fitted LinearOneClassSVM."""
    twin = SGDOneClassSVM(nu=model.nu, max_iter=model.max_iter)
    return _learn(twin, model, coef_=model.coef_[0], offset_=np.array([model.offset_]))


def ordinal_twin(model: BaseEstimator) -> LinearSVC:
    """Return the twin of a fitted OrdinalSVC.

    With the score s and the thresholds t_1 <= t_2 <= ..., class j has the score
    j s - (t_1 + ... + t_j). The score of the next class is larger if s > t_{j+1}. So the largest
    one belongs to the class that is predicted. Classes that are never predicted are left out.
    """
    coef, thresholds = on_host(model.coef_), model.thresholds_
    begins, ends = np.append(-np.inf, thresholds), np.append(thresholds, np.inf)
    possible = np.flatnonzero(begins < ends)
    between = thresholds[possible[1:] - 1]
    if possible.size > 2:
        steps = np.arange(possible.size)
        coef, intercept = steps[:, None] * coef, -np.append(0.0, np.cumsum(between))
    elif possible.size == 2:
        coef, intercept = coef[None], -between
    else:  # one class is predicted for all rows, and LinearSVC needs two
        (only,) = possible
        possible = np.array([only, only + 1]) if only == 0 else np.array([only - 1, only])
        coef, intercept = np.zeros((1, coef.size)), np.array([-1.0 if only == 0 else 1.0])
    twin = LinearSVC(C=model.C, loss="hinge", max_iter=model.max_iter)
    return _learn(twin, model, coef_=coef, intercept_=intercept, classes_=model.classes_[possible])


def _learn(twin: Any, model: BaseEstimator, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(twin, name, on_host(value))
    twin.n_iter_, twin.n_features_in_ = model.n_iter_, model.n_features_in_
    return _take_names(twin, model)


def _take_names(twin: Any, model: BaseEstimator) -> Any:
    if "feature_names_in_" in vars(model):
        twin.feature_names_in_ = model.feature_names_in_
    return twin


def _calibrated(twin: LinearSVC, model: BaseEstimator) -> CalibratedClassifierCV:
    """Return a classifier with the scores of `twin` and the sigmoids of `model`."""
    # It is fitted to one row of zeros per class, and then gets our sigmoids in place of its own.
    classes = np.arange(twin.classes_.size)
    rows = scipy.sparse.csr_matrix((classes.size, twin.n_features_in_))
    vars(twin).pop("feature_names_in_", None)  # those rows have none
    folds, frozen = [(classes, classes)], FrozenEstimator(twin)
    calibrated = CalibratedClassifierCV(frozen, method="sigmoid", cv=folds, ensemble=False)
    with config_context(enable_metadata_routing=False):  # routing would have to be requested
        calibrated.fit(rows, twin.classes_)
    (fitted,) = calibrated.calibrated_classifiers_
    for sigmoid, (a, b) in zip(fitted.calibrators, model.sigmoids_, strict=True):
        sigmoid.a_, sigmoid.b_ = a, b
    _take_names(twin, model)
    return _take_names(calibrated, model)
