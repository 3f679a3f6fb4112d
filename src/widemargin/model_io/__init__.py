"""Model files: widemargin's own format, and LIBLINEAR's text format."""

from widemargin.atomic import atomic_write
from widemargin.model_io.liblinear import liblinear_labels, write_liblinear
from widemargin.model_io.liblinear_reader import (
    is_liblinear,
    read_liblinear,
)
from widemargin.model_io.saved import ModelFileError, load_model, save_model

__all__ = [
    "ModelFileError",
    "atomic_write",
    "is_liblinear",
    "liblinear_labels",
    "load_model",
    "read_liblinear",
    "save_model",
    "write_liblinear",
]
