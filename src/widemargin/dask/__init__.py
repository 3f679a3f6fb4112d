"""Training on a Dask cluster: the estimators of `widemargin`, over rows that workers hold."""

from widemargin.dask.linear_ranker import LinearRanker
from widemargin.dask.linear_svc import LinearSVC, certify
from widemargin.dask.linear_svc_cv import LinearSVCCV
from widemargin.dask.partitions import ClusterError

__all__ = ["ClusterError", "LinearRanker", "LinearSVC", "LinearSVCCV", "certify"]
