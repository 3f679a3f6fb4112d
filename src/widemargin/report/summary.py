"""A fitted model in a few lines, as text and for notebooks."""

from widemargin.curves import iteration_unit, iterations
from widemargin.fitted import Fitted, Search, class_names
from widemargin.markup import table
from widemargin.report.details import n_rows
from widemargin.report.proof import why_it_stopped
from widemargin.words import count, shape_in_words


def summary(model: Fitted) -> dict[str, str]:
    """Return named lines: the data, the training, the certificate."""
    n_classes = len(class_names(model)) or None
    work = f"{model.solver_}, {count(iterations(model), iteration_unit(model))}"
    if model.status_ != "converged":
        work += f", stopped early: {why_it_stopped(model)}"
    lines = {
        "trained on": shape_in_words(n_rows(model), model.n_features_in_, n_classes),
        "training": work,
        "certificate": str(model.certificate_),
    }
    if isinstance(model, Search):
        best = model.scores_[:, model.Cs_ == model.C_].mean()
        lines["cross-validation"] = f"C = {model.C_:.6g}, mean score {best:.4f}"
    return lines


def as_html(lines: dict[str, str]) -> str:
    """Return the lines as a small table; nothing for a model that is not fitted."""
    return table(lines) if lines else ""
