"""`widemargin certify`: recompute a certificate and compare it with the stored one."""

import math
from typing import Any

from widemargin.certificate import Certificate
from widemargin.cli.errors import BadInput, complain, reading, shown
from widemargin.cli.inputs import read_data, read_model, with_features
from widemargin.estimators.certify import certify, training_rows
from widemargin.words import percent_at_most, shape_in_words


def certify_again(model: str, data: str) -> dict[str, Any]:
    """Recompute a model's certificate; warn if it differs from the stored one."""
    certified = read_model(model)
    n_rows, n_features = training_rows(certified), certified.n_features_in_
    X, y, qid, weight = read_data(data)
    if X.shape[0] != n_rows or X.shape[1] > n_features:
        raise BadInput(
            f"{shown(data)}: {shape_in_words(*X.shape)}, but the model was trained on "
            f"{shape_in_words(n_rows, n_features)}; "
            "a certificate needs the complete training data in its original order"
        )
    X = with_features(X, n_features)

    with reading(data):
        certificate = certify(certified, X, y, weight, qid=qid)
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
