"""Linear ranking on a Dask cluster."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from distributed import Client
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.dask import tasks
from widemargin.dask.questions import RankingRecipe
from widemargin.dask.training import ClusterModel, Job, Problems, fitted, graded_part
from widemargin.estimators.linear_ranker import LinearRanker as LocalLinearRanker
from widemargin.estimators.ranking import NORMALIZATIONS
from widemargin.estimators.validation import check_choice
from widemargin.problem import State, Tangents
from widemargin.solvers.registry import Place, RiskKind, names


class LinearRanker(ClusterModel):
    """Linear ranking over rows that a cluster holds, with a certificate.

    The problem is that of `widemargin.LinearRanker`, and so are its parameters and attributes. All
    rows of a group must be in one part.

    Parameters
    ----------
    C, normalization, tol, max_iter, max_time, verbose
        As in `widemargin.LinearRanker`.
    solver : str, default="ocas"
        "ocas" or "cpa", as in `widemargin.dask.LinearSVC`.
    client : distributed.Client or None, default=None
        None is the current one.
    """

    local_class = LocalLinearRanker

    def __init__(
        self,
        *,
        C: float = 1.0,
        normalization: str = "pairs",
        solver: str = "ocas",
        tol: float = 1e-3,
        max_iter: int | None = 10000,
        max_time: float | None = None,
        client: Client | None = None,
        verbose: int = 0,
    ):
        self.C = C
        self.normalization = normalization
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.client = client
        self.verbose = verbose

    @threads.one_for_blas()
    def fit(
        self, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None
    ) -> "LinearRanker":
        """Fit the model to training data.

        Parameters
        ----------
        X : dask array or DataFrame, list of Delayed, or path
            As for `widemargin.dask.LinearSVC`.
        y, qid, sample_weight : the same, or array-like of shape (n_samples,)
            Grades, groups and weights, in parts that match those of X. None if the files have
            them.

        Returns
        -------
        self : LinearRanker
        """
        check_choice("solver", self.solver, names(Place.CLUSTER, RiskKind.ANY))
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        self._local()._check_parameters()
        return self._train(_RankingProblem(self, X, y, sample_weight, qid))

    def _record(self, problems: Any, states: Sequence[State]) -> None:
        (state,) = states
        self.coef_ = state.coef
        self.dual_weights_, self.dual_points_ = state.dual.weights, state.dual.coefs
        self.n_pairs_ = problems.n_pairs

    def to_local(self) -> LocalLinearRanker:
        """Return a `widemargin.LinearRanker` that makes the same predictions on one machine."""
        check_is_fitted(self)
        local = self._local()
        local.__dict__.update(fitted(self))
        return local


class _RankingProblem(Problems):
    """The single problem whose solution orders the rows."""

    def __init__(self, model: LinearRanker, X: Any, y: Any, sample_weight: Any, qid: Any) -> None:
        super().__init__(model, graded_part, tasks.describe_ranking, X, y, sample_weight, qid)
        groups, n_pairs, sums = self.described
        _check_groups(groups)
        self.n_pairs = sum(n_pairs)
        if self.n_pairs == 0:
            raise ValueError("no group has rows of different grades: there is no pair to order")
        weight, pairs, by_group = np.sum(sums, axis=0)
        queries = model.normalization == "queries"
        scale = model.C * weight / (by_group if queries else pairs)
        self.recipe = RankingRecipe(float(scale), queries)

    def jobs(self) -> list[Job]:
        coef = np.zeros(self.n_features)
        return [Job(self.recipe, State(coef, 0.0, Tangents(np.empty(0), coef[None][:0])))]


def _check_groups(groups: Sequence[np.ndarray | None]) -> None:
    """Raise ValueError if a group has rows in several parts."""
    if any(some is None for some in groups):
        n_parts = sum(some is None or some.size > 0 for some in groups)  # parts with rows
        if n_parts > 1:
            raise ValueError(
                f"without qid all rows are one group, and X has {n_parts} parts: put it into one, "
                "or say which rows belong together"
            )
        return
    owner: dict = {}
    for part, some in enumerate(groups):
        for group in [] if some is None else some.tolist():
            if owner.setdefault(group, part) != part:
                raise ValueError(
                    f"qid {group} has rows in parts {owner[group]} and {part} of X: all rows of a "
                    "group must be in one part"
                )
