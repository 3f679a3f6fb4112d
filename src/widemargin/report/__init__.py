"""One page about a fitted model: its proof, its training, its predictions, its weights."""

from widemargin.report.page import JudgedRows, write_report

__all__ = ["JudgedRows", "write_report"]
