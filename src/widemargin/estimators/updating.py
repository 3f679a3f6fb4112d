"""Training rows that are added to a fitted model, or taken from it, from where it is."""

from typing import Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import Matrix, Vector
from widemargin.data import Rows
from widemargin.data.devices import is_on_gpu
from widemargin.estimators.validation import check_row_numbers, count_rows


class Updating(BaseEstimator):
    """Mixin with the method `update`, of models with a dual variable for each row."""

    dual_variables_: Matrix
    warm_start: bool

    def update(
        self,
        X: Matrix,
        y: Vector,
        sample_weight: Vector | None = None,
        *,
        remove: Vector | None = None,
    ) -> Self:
        """Add rows to the training set, and remove rows, from the present solution.

        Dual variables of the rows that stay are kept, and training goes on until `tol`: the
        certificate is that of the new training set, as if `fit` had had it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            The rows of the last training, in order, and after them the rows to add.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
        remove : array-like of int, or of bool (n,), default=None
            Which of these rows to leave out.

        Returns
        -------
        self : fitted on the rows that are left, in their order
        """
        check_is_fitted(self, "dual_variables_")
        if isinstance(X, Rows) or is_on_gpu(X) or is_on_gpu(self.dual_variables_):
            raise TypeError("update needs rows in memory: fit with warm_start=True instead")
        dual, n_rows = scipy.sparse.csc_array(self.dual_variables_), count_rows(X)
        if n_rows < dual.shape[1]:
            raise ValueError(
                f"X has {n_rows} rows, and the model was trained on {dual.shape[1]}: X begins "
                "with these, and `remove` says which of them to leave out"
            )
        removed = np.zeros(n_rows, dtype=bool)
        if remove is not None:
            removed = check_row_numbers("remove", remove, n_rows)
        if removed.all():
            raise ValueError("remove: no rows are left")
        if removed.any():
            keep = np.flatnonzero(~removed)
            X, y = _safe_indexing(X, keep), _safe_indexing(y, keep)
            sample_weight = None if sample_weight is None else _safe_indexing(sample_weight, keep)
        new = scipy.sparse.csc_array((dual.shape[0], n_rows - dual.shape[1]))
        start = scipy.sparse.hstack([dual, new], format="csc")[:, np.flatnonzero(~removed)]
        former, warm_start = self.dual_variables_, self.warm_start
        self.dual_variables_, self.warm_start = scipy.sparse.csr_array(start), True
        try:
            return self.fit(X, y, sample_weight)
        except BaseException:
            self.dual_variables_ = former
            raise
        finally:
            self.warm_start = warm_start
