"""HTML report on a fitted model: predictions, weights, certificate and training history."""

from widemargin.report.measures import JudgedRows
from widemargin.report.page import Report, write_report

__all__ = ["JudgedRows", "Report", "write_report"]
