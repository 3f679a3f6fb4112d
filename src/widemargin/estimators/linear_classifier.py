"""What fitted classifiers do: the common parts of `LinearSVC` and `LinearSVCCV`."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import Matrix, move_to, on_host
from widemargin.data import Rows
from widemargin.data.devices import is_on_gpu
from widemargin.estimators.reporting import Reporting
from widemargin.estimators.validation import check_matrix, linear_scores


def wants_probability(estimator: BaseEstimator) -> bool:
    """Return True, or raise AttributeError if ``probability=False``."""
    if not estimator.probability:
        raise AttributeError("predict_proba is available only with probability=True")
    return True


class LinearClassifier(Reporting, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """A classifier that predicts by linear scores, one per class or one for two classes."""

    coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return w.x + b for each row: (n,) for two classes, (n, n_classes) for more."""
        check_is_fitted(self)
        stays_on_gpu = is_on_gpu(X) and not isinstance(X, Rows)
        X = check_matrix(self, X, reset=False)
        scores = linear_scores(X, self.coef_.T, self.intercept_)
        if not stays_on_gpu:
            scores = on_host(scores)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the predicted class label of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        if self.classes_.dtype.kind not in "biuf":
            places = on_host(places)  # there are no words on a GPU
        return move_to(self.classes_, places)[places]

    @available_if(wants_probability)
    def predict_proba(self, X: Matrix) -> np.ndarray:
        """Return the probability of each class, (n, n_classes); with ``probability=True``."""
        from widemargin.sigmoids import probabilities

        scores = on_host(self.decision_function(X))
        check_is_fitted(self, "sigmoids_", msg="%(name)s was fitted with probability=False")
        return probabilities(scores.reshape(scores.shape[0], -1), self.sigmoids_)
