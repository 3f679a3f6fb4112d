"""Where rows live."""

from widemargin.data.memory import as_rows
from widemargin.data.rows import Rows

__all__ = ["Rows", "as_rows"]
