"""widemargin's LinearSVC as its users meet it: the default solver, certificate included."""

from widemargin import LinearSVC

from . import RANDOM_SEED, Fit

name = "widemargin"


def prepare(X, y):
    return X, y


def settings():
    # The default tolerance proves what the target asks for; the others are there to show it
    # should the default ever fall short.
    return [{"tol": 1e-3}, {"tol": 3e-4}, {"tol": 1e-4}]


def warm_up_settings():
    # On a few rows "auto" may choose another solver than on all of them.
    return [{"tol": 1e-3, "solver": solver} for solver in ("auto", "dcd", "acf", "newton")]


def fit(prepared, cell, setting, n_threads):
    X, y = prepared
    model = LinearSVC(
        C=cell.C,
        loss=cell.loss,
        fit_intercept=cell.intercept != "none",
        penalized_intercept=cell.intercept == "penalized",
        n_jobs=n_threads,
        random_state=RANDOM_SEED,
        **setting,
    ).fit(X, y)
    notes = {
        "solver": model.solver_,
        "relative_gap": float(model.certificate_.relative_gap),
        "dual": float(model.certificate_.dual),
    }
    return Fit(model.coef_, model.intercept_, notes)
