"""`widemargin show`: what a model file holds."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from widemargin.cli import options, output

if TYPE_CHECKING:
    from widemargin.cli.inputs import Loaded

Top = Annotated[
    int, typer.Option(min=0, metavar="N", help="Show that many of the largest weights.")
]


def show(model: options.Model, top: Top = 10, json: options.Json = False) -> None:
    """Show a model: its kind, its certificate and its largest weights.

    Reads LIBLINEAR's model files, too. Features of tables have names such as "alcohol" and
    "colour=red"; others are numbered, from 1 on, as in svmlight text.

    \b
    Examples:
      widemargin show model.wm
      widemargin show model.wm --top 30 --json
    """
    from widemargin.cli.inputs import read_model

    loaded = read_model(model)
    summary = summarise(loaded, top)
    if json:
        output.print_json({"model": model, **summary})
        return
    output.print_lines(_as_text(summary))
    for part in summary["weights"]:
        title = f"weights for {part['class']}" if part["class"] is not None else "weights"
        output.write_stdout("\n")
        output.print_table(
            {
                title: [weight["feature"] for weight in part["largest"]],
                "": [f"{weight['weight']:+.4g}" for weight in part["largest"]],
            }
        )


def summarise(loaded: "Loaded", top: int) -> dict[str, Any]:
    """Return what `show` prints of a model."""
    from widemargin import OrdinalSVC
    from widemargin.curves import iterations
    from widemargin.estimators.certify import training_rows
    from widemargin.estimators.kernel_features import KernelFeatures
    from widemargin.fitted import Classifier

    model, features = loaded.model, loaded.features
    summary: dict[str, Any] = {"estimator": type(model).__name__}
    if isinstance(model, Classifier):
        summary["classes"] = model.classes_.tolist()
    summary["features"] = model.n_features_in_
    summary["parameters"] = model.get_params()
    if loaded.certified:
        summary["rows"] = training_rows(model)
        summary["solver"] = model.solver_
        summary["status"] = model.status_
        summary["iterations"] = iterations(model)
        summary["certificate"] = model.certificate_.as_dict()
    summary["result"] = str(model.certificate_) if loaded.certified else "no certificate"
    if isinstance(model, OrdinalSVC):
        summary["thresholds"] = model.thresholds_.tolist()
    if features is not None:
        roles = ("target", "weight", "group")
        summary["table"] = {
            **{role: name for role in roles if (name := features.get_params()[role])},
            "columns": [
                {"name": column.name, "kind": column.kind, "features": len(column.names())}
                for column in features.columns_
            ],
            "left_out": features.skipped_,
        }
    elif isinstance(loaded.preparation, KernelFeatures):
        summary["kernel_features"] = type(loaded.preparation).__name__
        summary["inputs"] = loaded.n_inputs
    elif loaded.preparation is not None:
        summary["scaled"] = True
    summary["weights"] = _weights(loaded, top)
    return summary


def _weights(loaded: "Loaded", top: int) -> list[dict[str, Any]]:
    """Return the largest weights of each class or target; of one problem, if it is one."""
    import numpy as np

    from widemargin import LinearSVC, LogisticRegression, MeasureSVC
    from widemargin.curves import part_names

    model, names = loaded.model, loaded.names
    rows = np.atleast_2d(model.coef_)
    classes: list[Any] = [None]
    if isinstance(model, LinearSVC | LogisticRegression | MeasureSVC):
        classes = model.classes_.tolist()[-len(rows) :]
    elif len(rows) > 1:
        classes = part_names(model)
    parts = []
    for label, weights in zip(classes, rows):
        largest = np.argsort(-np.abs(weights), kind="stable")[:top]
        parts.append(
            {
                "class": label,
                "largest": [
                    {
                        "feature": names[j] if names is not None else f"feature {j + 1}",
                        "weight": weights[j],
                    }
                    for j in largest.tolist()
                    if weights[j] != 0.0
                ],
            }
        )
    return parts


def _as_text(summary: dict[str, Any]) -> dict[str, str]:
    from widemargin.cli.given import loss_in_words
    from widemargin.words import count, listed

    lines = {"model": summary["estimator"]}
    if "classes" in summary:
        classes = summary["classes"]
        lines["classes"] = f"{len(classes):,} ({listed(classes)})"
    if "rows" in summary:
        lines["trained on"] = f"{count(summary['rows'], 'row')}, "
    else:
        lines["trained on"] = ""
    lines["trained on"] += count(summary["features"], "feature")
    table = summary.get("table")
    if table is not None:
        kinds = [column["kind"] for column in table["columns"]]
        words = ", ".join(count(kinds.count(kind), kind) for kind in dict.fromkeys(kinds))
        lines["table"] = f"{words}; predicts {table['target']!r}" if "target" in table else words
        for name, why in table["left_out"].items():
            lines[f"  left out {name}"] = why
    elif "kernel_features" in summary:
        lines["kernel"] = f"{summary['kernel_features']} of {count(summary['inputs'], 'input')}"
    elif summary.get("scaled"):
        lines["scale"] = "features are divided by their standard deviations"
    if "solver" in summary:
        parameters = summary["parameters"]
        loss = f"{loss_in_words(parameters)}, " if "loss" in parameters else ""
        loss = f"{parameters['measure']}, " if "measure" in parameters else loss
        name = "C" if "C" in parameters else "nu"
        chosen = f"{name} = {parameters[name]:g}"
        lines["training"] = f"{loss}{chosen}, solver {summary['solver']}, {summary['status']}"
    lines["result"] = summary["result"]
    return lines
