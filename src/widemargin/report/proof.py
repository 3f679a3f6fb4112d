"""The certificate as text."""

import math
from collections.abc import Callable
from typing import Any

from widemargin.certificate import Certificate
from widemargin.curves import iteration_unit, iterations, part_names, stopped_early
from widemargin.fitted import Fitted
from widemargin.words import at_most, count, percent, percent_at_most

# A relative gap below this is rounding error.
_ROUNDING = 1e-12


def _as_keyword(name: str) -> str:
    return f"{name} ="


def why_it_stopped(model: Fitted, spelled: Callable[[str], str] = _as_keyword) -> str:
    """Say why training stopped before `tol`; `spelled` formats a parameter's name."""
    reasons = {
        "max_iter": f"{spelled('max_iter')} {model.max_iter} reached",
        "max_time": f"{spelled('max_time')} {model.max_time} reached",
        "rounding": "float64 cannot prove a smaller gap on this data",
        "inconsistent": "the lower bound is above the objective: trust neither",
        "interrupted": "interrupted",
        "callback": "stopped by a callback",
    }
    return reasons.get(model.status_, model.status_)


def relative_gap_text(fraction: float) -> str:
    """Format a relative gap, which rounding may have made negative."""
    return percent_at_most(fraction) if fraction > _ROUNDING else "0 %"


def proof(model: Fitted) -> dict[str, Any]:
    """Return what the template shows of a model's certificate.

    Parameters
    ----------
    model : fitted estimator
    """
    certificate = model.certificate_
    stopped = stopped_early(model)
    # The tolerance of a paper's own rule is no gap.
    loose = math.inf if model.status_ == "published" else model.tol
    bound = certificate.bound_in_words()
    if not certificate.dual > 0.0:
        bound = "no useful bound yet"
    headline = f"stopped early, {bound}" if stopped else bound
    parts = [
        {"name": name, **_row(part), "loose": part.relative_gap > loose}
        for name, part in zip(part_names(model), certificate.parts)
    ]
    headline = headline.replace(" %", "\N{NO-BREAK SPACE}%")
    return {
        "headline": headline[0].upper() + headline[1:],
        "stopped": why_it_stopped(model) if stopped else None,
        "tol": percent(model.tol),
        "work": count(iterations(model), iteration_unit(model)),
        "n_loose": sum(part["loose"] for part in parts),
        "n_parts": len(parts),
        "parts": parts,
        "useful": certificate.dual > 0.0,
        "optimal": certificate.relative_gap <= _ROUNDING,
        **_row(certificate),
    }


def _row(certificate: Certificate) -> dict[str, str]:
    gap = max(certificate.gap, 0.0)  # rounding may make it negative

    def formatted(value: float) -> str:
        """Format with enough digits to show the gap, and at least three."""
        has_gap = gap > _ROUNDING * abs(certificate.primal)
        digits = max(_decimals(gap, 2), _decimals(value, 3)) if has_gap else _decimals(value, 6)
        return f"{value:,.{digits}f}"

    return {
        "primal": formatted(certificate.primal),
        "dual": formatted(certificate.dual),
        "gap": at_most(gap) if gap < 100.0 else f"{math.ceil(gap):,}",
        "relative_gap": relative_gap_text(certificate.relative_gap),
    }


def _decimals(value: float, significant: int) -> int:
    """Return the number of decimals that shows so many significant digits, at most 8."""
    if value == 0.0:
        return 0
    return min(max(significant - 1 - math.floor(math.log10(abs(value))), 0), 8)
