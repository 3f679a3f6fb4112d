"""`widemargin certify`: recompute a certificate and compare it with the stored one."""

import math
from typing import Any

from widemargin import LinearRanker, MeasureSVC
from widemargin.certificate import Certificate
from widemargin.cli.errors import BadInput, complain, reading, shown
from widemargin.cli.inputs import (
    read_data,
    read_model,
    read_rows,
    read_weights,
    scaled,
    with_features,
)
from widemargin.cli.table_options import TableOptions
from widemargin.estimators.certify import certify, training_rows
from widemargin.words import percent_at_most, shape_in_words


def certify_again(model: str, data: list[str], options: TableOptions) -> dict[str, Any]:
    """Recompute a model's certificate; warn if it differs from the stored one."""
    loaded = read_model(model)
    if not loaded.certified:
        raise BadInput(f"{model}: LIBLINEAR's models have no dual variables to certify them by")
    certified = loaded.model
    n_rows = training_rows(certified)
    n_features = certified.n_features_in_ if loaded.features is not None else loaded.n_inputs
    rows = read_data(data) if loaded.features is None else read_rows(data, loaded, options, True)
    if rows.X.shape[0] != n_rows or rows.X.shape[1] > n_features:
        raise BadInput(
            f"{shown(data[0])}: {shape_in_words(*rows.X.shape)}, but the model was trained on "
            f"{shape_in_words(n_rows, n_features)}; "
            "a certificate needs the complete training data in its original order"
        )
    if options.weight is not None and loaded.features is not None:
        raise BadInput("--weight: the model knows the column of its table that holds the weights")
    if options.weight is not None:
        rows = rows._replace(weight=read_weights(options.weight, n_rows))
    if loaded.features is None:
        rows = rows._replace(X=scaled(loaded, with_features(rows.X, n_features)))

    qid = rows.qid if isinstance(certified, LinearRanker | MeasureSVC) else None
    with reading(data[0]):
        certificate = certify(certified, rows.X, rows.y, rows.weight, qid=qid)
    stored = certified.certificate_
    # Both are float64 sums over the same rows; only the order of summation can differ.
    agrees = math.isclose(certificate.primal, stored.primal, rel_tol=1e-9) and math.isclose(
        certificate.dual, stored.dual, rel_tol=1e-9, abs_tol=1e-9 * abs(stored.primal)
    )
    if not agrees:
        complain(
            f"warning: {model} states a primal value of {stored.primal:.6g} and a dual value of "
            f"{stored.dual:.6g}: this is not the data it was trained on, or the model was changed"
        )
    return {"rows": n_rows, "certificate": certificate, "agrees_with_model": agrees}


def as_text(certificate: Certificate) -> dict[str, str]:
    """Return a certificate as named lines of text."""
    relative_gap = percent_at_most(max(0.0, certificate.relative_gap))  # rounding
    return {
        "primal": f"{certificate.primal:.10g}",
        "dual": f"{certificate.dual:.10g}",
        "gap": f"{max(0.0, certificate.gap):.3g} ({relative_gap} of the primal value)",
        "result": str(certificate),
    }
