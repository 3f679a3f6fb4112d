"""Kernels by features, as scikit-learn transformers before a linear model."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, RandomState, dense
from widemargin.data import Rows, as_rows
from widemargin.data.devices import is_on_gpu
from widemargin.data.kernel_maps import (
    LANDMARK_KERNELS,
    FourierMap,
    KernelMap,
    LandmarkMap,
    MappedRows,
    expanded,
)
from widemargin.data.memory import csr_in_place
from widemargin.data.rows import BlockRows, SingleRows
from widemargin.estimators.validation import (
    check_bytes,
    check_choice,
    check_count,
    check_finite,
    check_matrix,
    check_positive,
    check_threads,
    is_real,
)
from widemargin.solvers.auto import DEFAULT_BUDGET


class KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The common part of transformers whose features approximate a kernel."""

    n_components: int
    gamma: float | str
    memory_budget: int | str | None
    n_jobs: int | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Draw the features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or rows on disk from `widemargin.open_rows`.
        y : ignored
        """
        self.check_parameters()
        rows = self._rows(X, reset=True)
        self.gamma_ = _gamma(self.gamma, rows)
        self._draw(rows)
        return self

    def check_parameters(self) -> None:
        """Raise ValueError for a parameter of no use."""
        check_count("n_components", self.n_components)
        if not (is_real(self.gamma) or self.gamma in ("scale", "auto")):
            raise ValueError(
                f"gamma must be 'scale', 'auto' or a positive number, not {self.gamma!r}"
            )
        if is_real(self.gamma):
            check_positive("gamma", self.gamma)
        check_bytes("memory_budget", self.memory_budget)
        check_threads("n_jobs", self.n_jobs)

    def transform(self, X: Matrix) -> "np.ndarray | MappedRows":
        """Return the features of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or rows on disk from `widemargin.open_rows`.

        Returns
        -------
        features : ndarray of float32, shape (n_samples, n_components)
            Or, if this array would be larger than `memory_budget`, rows whose features are made
            anew in each pass; all estimators of widemargin take them.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        budget = check_bytes("memory_budget", self.memory_budget) or DEFAULT_BUDGET
        with threads.lent(1 if self.n_jobs is None else effective_n_jobs(self.n_jobs)):
            found = expanded(rows, self.map(), budget)
        return found if isinstance(found, MappedRows) else found.matrix

    @property
    def _n_features_out(self) -> int:
        return self.map().n_features

    @abstractmethod
    def map(self) -> KernelMap:
        """Return the map that `fit` has drawn."""

    @abstractmethod
    def _draw(self, rows: Rows) -> None:
        """Set the attributes that `map` needs."""

    def _rows(self, X: Matrix, reset: bool) -> Rows:
        if is_on_gpu(X):
            raise ValueError(
                f"X is on a GPU, and {type(self).__name__} makes features on the host"
            )
        X = check_matrix(self, X, reset=reset, finite=False)
        rows = as_rows(X)
        if not isinstance(rows, SingleRows | BlockRows):
            raise TypeError(
                f"{type(self).__name__} takes arrays, and rows in memory or on disk, not "
                f"{type(rows).__name__}"
            )
        check_finite(self, X, rows)
        return rows


class FourierFeatures(KernelFeatures):
    """Random Fourier features of the Gaussian kernel ``exp(-gamma |x - z|^2)``.

    As ``sklearn.kernel_approximation.RBFSampler``, which draws the same features from the same
    `random_state`, in float32. Features that take more memory than `memory_budget` are made in
    each pass over the rows, and only the original rows are stored.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default="scale"
        "scale" is 1 / (n_features X.var()), "auto" is 1 / n_features, as in ``sklearn.svm.SVC``.
    n_components : int, default=1000
        Number of features. Errors of the kernel fall with its square root.
    random_state : int, RandomState instance or None, default=None
    memory_budget : int, str or None, default=None
        How many bytes features may take in memory, or such as "512MB"; None means 1 GiB. Of
        larger ones, so many are kept when they have been made, and the rest is made in each pass.
    n_jobs : int or None, default=None
        Number of threads of ``transform``. None means 1, -1 all processors.

    Attributes
    ----------
    random_weights_ : ndarray of float32, shape (n_features, n_components)
    random_offset_ : ndarray of float32, shape (n_components,)
    gamma_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from sklearn.pipeline import make_pipeline
    >>> from widemargin import FourierFeatures, LinearSVC
    >>> X, y = make_circles(noise=0.05, factor=0.5, random_state=0)
    >>> features = FourierFeatures(n_components=100, random_state=0)
    >>> make_pipeline(features, LinearSVC(random_state=0)).fit(X, y).score(X, y)
    1.0
    """

    def __init__(
        self,
        *,
        gamma: float | str = "scale",
        n_components: int = 1000,
        random_state: RandomState = None,
        memory_budget: int | str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs

    def _draw(self, rows: Rows) -> None:
        random = check_random_state(self.random_state)
        shape = rows.n_features, self.n_components
        weights = (2.0 * self.gamma_) ** 0.5 * random.normal(size=shape)
        self.random_weights_ = weights.astype(np.float32)
        offsets = random.uniform(0.0, 2.0 * np.pi, size=self.n_components)
        self.random_offset_ = offsets.astype(np.float32)

    def map(self) -> FourierMap:
        return FourierMap(self.random_weights_, self.random_offset_)

    def to_sklearn(self) -> RBFSampler:
        """Return scikit-learn's transformer with the same features."""
        check_is_fitted(self)
        twin = RBFSampler(gamma=self.gamma_, n_components=self.n_components)
        twin.random_weights_, twin.random_offset_ = self.random_weights_, self.random_offset_
        return _with_inputs(twin, self)


class NystroemFeatures(KernelFeatures):
    """Nystroem's features: of a kernel, by inner products with a sample of the rows.

    As ``sklearn.kernel_approximation.Nystroem``, which chooses the same rows by the same
    `random_state`. Features are float32, and made in each pass if they take more memory than
    `memory_budget`.

    Parameters
    ----------
    kernel : {"rbf", "polynomial", "sigmoid", "cosine"}, default="rbf"
        ``exp(-gamma |x - z|^2)``, ``(gamma x.z + coef0)^degree``, ``tanh(gamma x.z + coef0)``
        or ``x.z / (|x| |z|)``.
    gamma : float, "scale" or "auto", default="scale"
        "scale" is 1 / (n_features X.var()), "auto" is 1 / n_features, as in ``sklearn.svm.SVC``.
    degree : float, default=3
    coef0 : float, default=1
    n_components : int, default=1000
        Number of landmarks, which is the number of features; all rows if there are fewer.
    random_state : int, RandomState instance or None, default=None
    memory_budget, n_jobs
        As for `FourierFeatures`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The landmarks.
    component_indices_ : ndarray of shape (n_components,)
        The rows they were.
    normalization_ : ndarray of shape (n_components, n_components)
        The inverse root of the landmarks' kernel matrix.
    gamma_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
    """

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 1,
        n_components: int = 1000,
        random_state: RandomState = None,
        memory_budget: int | str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("kernel", self.kernel, LANDMARK_KERNELS)
        check_positive("degree", self.degree)
        if not (is_real(self.coef0) and np.isfinite(self.coef0)):
            raise ValueError(f"coef0 must be a finite number, not {self.coef0!r}")

    def _draw(self, rows: Rows) -> None:
        order = check_random_state(self.random_state).permutation(rows.n_rows)
        self.component_indices_ = order[: self.n_components]
        self.components_ = _picked(rows, self.component_indices_)
        K = pairwise_kernels(
            self.components_, metric=self.kernel, filter_params=True, **self._numbers
        )
        U, S, V = np.linalg.svd(K)
        self.normalization_ = np.dot(U / np.sqrt(np.maximum(S, 1e-12)), V)

    @property
    def _numbers(self) -> dict[str, float]:
        return {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}

    def map(self) -> LandmarkMap:
        return LandmarkMap(self.components_, self.normalization_, self.kernel, **self._numbers)

    def to_sklearn(self) -> Nystroem:
        """Return scikit-learn's transformer with the same features."""
        check_is_fitted(self)
        numbers = {} if self.kernel == "cosine" else {"gamma": self.gamma_}
        if self.kernel in ("polynomial", "sigmoid"):
            numbers["coef0"] = self.coef0
        if self.kernel == "polynomial":
            numbers["degree"] = self.degree
        twin = Nystroem(kernel=self.kernel, n_components=len(self.components_), **numbers)
        twin.components_, twin.normalization_ = self.components_, self.normalization_
        twin.component_indices_ = self.component_indices_
        return _with_inputs(twin, self)


def _gamma(gamma: float | str, rows: Rows) -> float:
    """Return gamma as a number."""
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / rows.n_features
    n = rows.n_rows * rows.n_features
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.combine(np.ones(rows.n_rows)).sum() / n
        variance = rows.squared_norms().sum() / n - mean**2
    if not np.isfinite(variance):
        raise ValueError("gamma='scale' needs the variance of X, which overflows: scale X")
    # As scikit-learn, where all entries are the same, up to rounding.
    return float(1.0 / (rows.n_features * variance)) if variance > 1e-14 * mean**2 else 1.0


def _picked(rows: Rows, index: np.ndarray) -> np.ndarray:
    """Return some rows as a dense float64 array."""
    if isinstance(rows, BlockRows):
        picked = np.zeros((index.size, rows.n_features))
        d = rows.n_features
        for block in rows.blocks():
            inside = np.flatnonzero((index >= block.begin) & (index < block.end))
            values, indices, indptr = block.arrays
            some = csr_in_place(values, indices.view(np.int32), indptr.view(np.int32), d)
            picked[inside] = some[index[inside] - block.begin].toarray()
        return picked
    chosen: Any = rows.take(index)
    return np.array(dense(chosen.matrix), dtype=np.float64)


def _with_inputs(twin: Any, features: KernelFeatures) -> Any:
    twin.n_features_in_ = features.n_features_in_
    if "feature_names_in_" in vars(features):
        twin.feature_names_in_ = features.feature_names_in_
    return twin
