"""What fitted classifiers do: the common parts of `LinearSVC`, `MeasureSVC` and their searches."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import Matrix, move_to, on_host
from widemargin.data import Rows
from widemargin.data.devices import is_on_gpu
from widemargin.estimators.callbacks import CallbackSupportMixin
from widemargin.estimators.reporting import Reporting
from widemargin.estimators.scoring import model_scores


class _WithProbability:
    """A method that exists only with ``probability=True``; the error says so in a note."""

    def __init__(self, method: Callable):
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, model: BaseEstimator | None, kind: type) -> Callable:
        if model is None:
            return self.method
        if not model.probability:
            name = self.method.__name__
            error = AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            error.add_note(f"{name} is available with probability=True.")
            raise error
        return MethodType(self.method, model)


class LinearScores(ClassifierMixin, BaseEstimator):
    """A classifier that predicts by linear scores, one per class or one for two classes."""

    coef_: Matrix  # an array, or sparse after `LinearSVC.sparsify`
    intercept_: np.ndarray
    classes_: np.ndarray
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return w.x + b for each row: (n,) for two classes, (n, n_classes) for more."""
        check_is_fitted(self)
        stays_on_gpu = is_on_gpu(X) and not isinstance(X, Rows)
        coef, intercept = self.coef_.T, self.intercept_
        if intercept.size == 1 and not scipy.sparse.issparse(coef):
            coef, intercept = coef[:, 0], intercept[0]
        scores = model_scores(self, X, coef, intercept, self.n_jobs)
        scores = scores if stays_on_gpu else on_host(scores)
        return scores[:, 0] if scores.ndim > 1 and scores.shape[1] == 1 else scores

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the predicted class label of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        if self.classes_.dtype.kind not in "biuf":
            places = on_host(places)  # there are no words on a GPU
        return move_to(self.classes_, places)[places]


class LinearClassifier(Reporting, CallbackSupportMixin, LinearScores):
    """A classifier that has probabilities, on demand, and reports."""

    @_WithProbability
    def predict_proba(self, X: Matrix) -> np.ndarray:
        """Return the probability of each class, (n, n_classes); with ``probability=True``."""
        from widemargin.sigmoids import probabilities

        scores = on_host(self.decision_function(X))
        check_is_fitted(self, "sigmoids_", msg="%(name)s was fitted with probability=False")
        return probabilities(scores.reshape(scores.shape[0], -1), self.sigmoids_)

    @_WithProbability
    def predict_log_proba(self, X: Matrix) -> np.ndarray:
        """Return the logarithms of the probabilities; with ``probability=True``."""
        return np.log(self.predict_proba(X))
