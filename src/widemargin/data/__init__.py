"""Where rows live."""

from widemargin.data.rows import Rows, as_rows, is_rows

__all__ = ["Rows", "as_rows", "is_rows"]
