"""HTML report on a fitted model: certificate, training history, predictions and weights."""

from widemargin.report.page import JudgedRows, write_report

__all__ = ["JudgedRows", "write_report"]
