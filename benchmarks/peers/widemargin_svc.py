"""widemargin's LinearSVC as its users meet it: the default solver, certificate included."""

from widemargin import LinearSVC

from . import N_THREADS, RANDOM_SEED, Fit

name = "widemargin"
losses = ("hinge", "squared_hinge", "crammer_singer")
intercepts = ("none", "penalized", "free")
most_rows = None
several_classes = True


def prepare(X, y, cell):
    return X, y


def ladders(cell):
    # The default tolerance proves what the target asks for; the others are there to show it
    # should the default ever fall short.
    return [[{"tol": 1e-3}, {"tol": 3e-4}, {"tol": 1e-4}]]


def warm_up_settings(cell):
    # On a few rows "auto" may choose another solver than on all of them.
    solvers = ["auto", "dcd", "acf"] + ["newton"] * (cell.loss != "crammer_singer")
    return [{"tol": 1e-3, "solver": solver} for solver in solvers]


def estimator(cell, **settings):
    """The estimator that states the cell's problem; the reference uses it too."""
    if cell.loss == "crammer_singer":
        loss = {"multi_class": "crammer_singer"}
    else:
        loss = {"loss": cell.loss}
    return LinearSVC(
        C=cell.C,
        fit_intercept=cell.intercept != "none",
        penalized_intercept=cell.intercept == "penalized",
        n_jobs=N_THREADS,
        random_state=RANDOM_SEED,
        **loss,
        **settings,
    )


def fit(prepared, cell, setting):
    model = estimator(cell, **setting).fit(*prepared)
    notes = {
        "solver": model.solver_,
        "relative_gap": float(model.certificate_.relative_gap),
        "dual": float(model.certificate_.dual),
    }
    return Fit(model.coef_, model.intercept_, notes)
