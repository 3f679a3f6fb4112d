"""`widemargin demo`: train, certify, and compare with scikit-learn on its own data sets."""

import time
import warnings
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as SklearnLinearSVC

from widemargin import LinearSVC
from widemargin.certificate import Certificate
from widemargin.words import count, percent_at_most, shape_in_words

C = 1.0
FITS = 3
# scikit-learn penalises the intercept and uses the squared hinge by default. Do the same here, so
# that both libraries minimise the same objective.
SAME_PROBLEM: dict[str, Any] = {"C": C, "loss": "squared_hinge", "random_state": 0}


def run() -> list[dict[str, Any]]:
    """Train on each data set with both libraries; return the results."""
    results = []
    for name, load in {"breast cancer": load_breast_cancer, "digits": load_digits}.items():
        X, y = load(return_X_y=True)
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
        scaler = StandardScaler().fit(X_train)
        X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

        ours = LinearSVC(penalized_intercept=True, **SAME_PROBLEM)
        our_seconds = _fit_seconds(ours, X_train, y_train)
        theirs = SklearnLinearSVC(**SAME_PROBLEM)
        their_seconds = _fit_seconds(theirs, X_train, y_train)
        results.append(
            {
                "data": name,
                "rows": X_train.shape[0],
                "features": X_train.shape[1],
                "classes": len(ours.classes_),
                "held_out_rows": X_test.shape[0],
                "widemargin": {
                    "accuracy": ours.score(X_test, y_test),
                    "seconds": our_seconds,
                    "status": ours.status_,
                    "certificate": ours.certificate_.as_dict(),
                },
                "scikit-learn": {
                    "accuracy": theirs.score(X_test, y_test),
                    "seconds": their_seconds,
                    "status": "converged" if theirs.n_iter_ < theirs.max_iter else "max_iter",
                    "primal": _objective(theirs, X_train, y_train),
                },
            }
        )
    return results


def show(results: list[dict[str, Any]]) -> None:
    """Print the comparison as tables, and explain it."""
    console = Console(highlight=False)
    for result in results:
        size = shape_in_words(result["rows"], result["features"], result["classes"])
        held_out = count(result["held_out_rows"], "row")
        table = Table(
            title=f"[bold]{result['data']}[/bold]: {size}; {held_out} held out",
            title_justify="left",
            title_style="",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("")
        for header in ("accuracy", "time", "primal", "dual", "relative gap"):
            table.add_column(header, justify="right")
        ours, theirs = result["widemargin"], result["scikit-learn"]
        certificate = ours["certificate"]
        table.add_row(
            "widemargin",
            *_accuracy_and_time(ours),
            f"{certificate['primal']:.3f}",
            f"{certificate['dual']:.3f}",
            percent_at_most(max(0.0, certificate["relative_gap"])),  # rounding
        )
        table.add_row(
            "scikit-learn",
            *_accuracy_and_time(theirs),
            f"{theirs['primal']:.3f}",
            "none",
            "unknown" if theirs["status"] == "converged" else "not converged",
        )
        console.print(table)
    console.print(
        f"Both minimise the same primal objective (squared hinge loss, C = {C:g}, penalised "
        "intercept). Accuracy is on the held-out rows; time is the best of "
        f"{FITS} fits, without compilation."
    )
    certificate, name = results[0]["widemargin"]["certificate"], results[0]["data"]
    bound = Certificate(certificate["primal"], certificate["dual"]).bound_in_words()
    console.print(
        "\n[bold]What the certificate means:[/bold] on the "
        f"{name} data, no linear model has a primal value below {certificate['dual']:.3f} (the "
        f"dual value). This model has {certificate['primal']:.3f}, so it is {bound}. The bound is "
        "computed from the data and the model, independently of the solver."
    )


def _accuracy_and_time(result: dict[str, Any]) -> tuple[str, str]:
    return f"{result['accuracy']:.1%}", f"{1e3 * result['seconds']:.1f} ms"


def _fit_seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Fit several times and return the shortest time.

    The first fit on a machine also compiles the kernels; later fits load them from a cache.
    """
    times = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table shows the status
        for _ in range(FITS):
            started = time.perf_counter()
            model.fit(X, y)
            times.append(time.perf_counter() - started)
    return min(times)


def _objective(model: SklearnLinearSVC, X: np.ndarray, y: np.ndarray) -> float:
    """1/2 (|w|^2 + b^2) + C sum of squared hinge losses, summed over the binary problems."""
    classes = model.classes_ if len(model.classes_) > 2 else model.classes_[1:]
    signs = np.where(y[:, None] == classes, 1.0, -1.0)
    hinge = np.maximum(0.0, 1.0 - signs * (X @ model.coef_.T + model.intercept_))
    penalty = 0.5 * (np.sum(model.coef_**2) + np.sum(model.intercept_**2))
    return float(penalty + C * np.sum(hinge**2))
