"""`widemargin audit`: prove how far a model, LIBLINEAR's too, is from the optimum."""

import typer
from sklearn.pipeline import Pipeline

from widemargin import LinearSVR
from widemargin.cli import certifying, output
from widemargin.cli.errors import BadInput, complain, reading
from widemargin.cli.inputs import read_data, read_model, read_weights, scaled
from widemargin.estimators.audit import Audit, audit
from widemargin.estimators.foreign import Ours
from widemargin.words import percent_at_most


def audit_model(context: typer.Context) -> tuple[int, Audit]:
    """Return the number of rows and the audit of the model of a command; write a better one."""
    given = context.params
    name, data, polish = given["model"], given["data"], given["polish"]
    loaded = read_model(name)
    if not isinstance(loaded.model, Ours) or loaded.features is not None:
        raise BadInput(
            f"{name}: audit is for models of classes and regression on numbered features"
        )
    if not loaded.certified and given["C"] is None:
        raise BadInput(f"{name}: -C is needed, which LIBLINEAR's model files do not hold")
    read = {parameter: given[parameter] for parameter in ("C", "epsilon")}
    chosen = {parameter: value for parameter, value in read.items() if value is not None}
    if "epsilon" in chosen and not isinstance(loaded.model, LinearSVR):
        raise BadInput(f"--epsilon is for regression, and {name} has classes")
    rows = read_data(data, n_features=loaded.n_inputs)
    weights = rows.weight
    if given["weight"] is not None:
        weights = read_weights(given["weight"], rows.X.shape[0])
    with reading(data[0]):
        limits = {parameter: given[parameter] for parameter in ("tol", "max_time", "n_jobs")}
        X = scaled(loaded, rows.X)
        found = audit(loaded.model, X, rows.y, weights, random_state=0, **limits, **chosen)
    if found.better.status_ != "converged":
        gap = percent_at_most(found.better.certificate_.relative_gap)
        complain(f"warning: training stopped at a gap of {gap}: the bound may be far too large")
    if polish is not None:
        better = found.better
        if loaded.preparation is not None:
            better = Pipeline([("features", loaded.preparation), ("model", better)])
        output.save_model(better, polish)
    return rows.X.shape[0], found


def as_text(found: Audit) -> dict[str, str]:
    """Return an audit as named lines of text."""
    return certifying.as_text(found.certificate) | {"better": str(found.better.certificate_)}
