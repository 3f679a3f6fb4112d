"""widemargin: linear support vector machines, fast, each with a proof of its accuracy."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from widemargin.certificate import Certificate
    from widemargin.data.disk import open_rows
    from widemargin.estimators.audit import Audit, audit
    from widemargin.estimators.certify import certify
    from widemargin.estimators.kernel_features import FourierFeatures, NystroemFeatures
    from widemargin.estimators.linear_ranker import LinearRanker
    from widemargin.estimators.linear_svc import LinearSVC
    from widemargin.estimators.linear_svc_cv import LinearSVCCV
    from widemargin.estimators.linear_svr import LinearSVR
    from widemargin.estimators.logistic_regression import LogisticRegression
    from widemargin.estimators.logistic_regression_cv import LogisticRegressionCV
    from widemargin.estimators.measure_svc import MeasureSVC
    from widemargin.estimators.measure_svc_cv import MeasureSVCCV
    from widemargin.estimators.measuring import tune_threshold
    from widemargin.estimators.one_class_svm import LinearOneClassSVM
    from widemargin.estimators.ordinal_svc import OrdinalSVC
    from widemargin.estimators.path import svm_path
    from widemargin.estimators.path_certificate import PathCertificate, certify_path
    from widemargin.estimators.proof import Proof, prove
    from widemargin.estimators.table_features import TableFeatures
    from widemargin.model_io import load_model, save_model

__all__ = [
    "Audit",
    "Certificate",
    "FourierFeatures",
    "LinearOneClassSVM",
    "LinearRanker",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MeasureSVC",
    "MeasureSVCCV",
    "NystroemFeatures",
    "OrdinalSVC",
    "PathCertificate",
    "Proof",
    "TableFeatures",
    "audit",
    "certify",
    "certify_path",
    "load_model",
    "open_rows",
    "prove",
    "save_model",
    "svm_path",
    "tune_threshold",
]

# Imported on first use: a process that only asks for the version should not load Numba.
_HOMES = {
    "Audit": "widemargin.estimators.audit",
    "Certificate": "widemargin.certificate",
    "FourierFeatures": "widemargin.estimators.kernel_features",
    "LinearOneClassSVM": "widemargin.estimators.one_class_svm",
    "LinearRanker": "widemargin.estimators.linear_ranker",
    "LinearSVC": "widemargin.estimators.linear_svc",
    "LinearSVCCV": "widemargin.estimators.linear_svc_cv",
    "LinearSVR": "widemargin.estimators.linear_svr",
    "LogisticRegression": "widemargin.estimators.logistic_regression",
    "LogisticRegressionCV": "widemargin.estimators.logistic_regression_cv",
    "MeasureSVC": "widemargin.estimators.measure_svc",
    "MeasureSVCCV": "widemargin.estimators.measure_svc_cv",
    "NystroemFeatures": "widemargin.estimators.kernel_features",
    "OrdinalSVC": "widemargin.estimators.ordinal_svc",
    "Proof": "widemargin.estimators.proof",
    "prove": "widemargin.estimators.proof",
    "TableFeatures": "widemargin.estimators.table_features",
    "audit": "widemargin.estimators.audit",
    "PathCertificate": "widemargin.estimators.path_certificate",
    "certify": "widemargin.estimators.certify",
    "certify_path": "widemargin.estimators.path_certificate",
    "load_model": "widemargin.model_io",
    "open_rows": "widemargin.data.disk",
    "save_model": "widemargin.model_io",
    "svm_path": "widemargin.estimators.path",
    "tune_threshold": "widemargin.estimators.measuring",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'widemargin' has no attribute {name!r}")
    with _garbage_collection_paused():
        globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Import without garbage collection.

    Modules make half a million objects that stay for good, and to search them for garbage again
    and again takes a tenth of the import.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
