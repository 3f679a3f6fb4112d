"""Small HTML tables for notebooks."""

from collections.abc import Mapping
from html import escape
from typing import Protocol


def table(lines: Mapping[str, str]) -> str:
    """Return a table of names and values."""
    cells = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in lines.items()
    )
    return f"<table><tbody>{cells}</tbody></table>"


class _Bounds(Protocol):
    primal: float
    dual: float

    @property
    def relative_gap(self) -> float: ...

    def bound_in_words(self) -> str: ...


class CertificateInNotebooks:
    """Mixin for a certificate, which a notebook shows as a table."""

    def _repr_html_(self: _Bounds) -> str:
        return table(
            {
                "objective": f"{self.primal:.8g}",
                "lower bound": f"{self.dual:.8g}",
                "relative gap": f"{self.relative_gap:.2g}",
                "so the model is": self.bound_in_words(),
            }
        )
