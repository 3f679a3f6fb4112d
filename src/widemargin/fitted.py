"""Attributes of fitted models that plots and reports read."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from widemargin.certificate import Certificate
from widemargin.monitor import Record

#: the `scoring` of a search: a name, a callable or the default
Scoring: TypeAlias = str | Callable[..., float] | None


class Fitted(Protocol):
    """Any fitted model."""

    coef_: Any  # an array on the host or on a GPU
    certificate_: Certificate
    history_: list[Record]
    n_features_in_: int
    n_iter_: int | np.ndarray  # an array if it is one in scikit-learn's twin
    solver_: str
    status_: str
    max_iter: int
    max_time: float | None
    tol: float

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""


@runtime_checkable
class Classifier(Protocol):
    """A model that predicts labels."""

    classes_: np.ndarray


@runtime_checkable
class Measured(Protocol):
    """A classifier of two classes that was trained for a measure."""

    measure: str

    def measure_scores(self, positive: Any, scores: Any, *, qid: Any = None) -> float:
        """Return the measure of scores, (n,), where `positive` rows are to be found."""


@runtime_checkable
class Ordinal(Protocol):
    """A classifier whose classes are ordered."""

    classes_: np.ndarray
    thresholds_: np.ndarray

    def score_samples(self, X: Any) -> Any:
        """Return the score of each row."""


@runtime_checkable
class Ordering(Protocol):
    """A model trained on pairs of rows."""

    n_pairs_: int


@runtime_checkable
class Counted(Protocol):
    """A model that knows how many rows it was trained on."""

    n_samples_fit_: int


@runtime_checkable
class Separating(Protocol):
    """A model trained on rows, each with a dual variable per problem."""

    dual_variables_: Any  # an array of shape (n_problems, n_samples)


@runtime_checkable
class Calibrated(Protocol):
    """A classifier with probabilities."""

    sigmoids_: np.ndarray


@runtime_checkable
class Probabilistic(Protocol):
    """A classifier whose scores are probabilities in other words."""

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class, (n, n_classes), from decision values."""


@runtime_checkable
class Labelling(Protocol):
    """A classifier that may have been fitted to a matrix of labels."""

    multilabel_: bool


@runtime_checkable
class Search(Protocol):
    """A search for C by cross-validation."""

    Cs_: np.ndarray
    C_: float
    scores_: np.ndarray
    relative_gaps_: np.ndarray
    scoring: Scoring


class FittedSearch(Fitted, Search, Protocol):
    """A fitted model whose C was chosen by cross-validation."""


@runtime_checkable
class Named(Protocol):
    """A model whose features have names."""

    feature_names_in_: np.ndarray


def class_names(model: Fitted) -> list[str]:
    """Return the classes as text; none for a ranking."""
    return (
        [str(label) for label in model.classes_.tolist()] if isinstance(model, Classifier) else []
    )
