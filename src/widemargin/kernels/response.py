"""The response of a row, y: a label of a class, or a target.

A row's residual is  target - sign * score.  The type of y says which of the two it has:

    whole numbers, the labels -1 and +1     sign = y,    target = 1
    real numbers, the targets               sign = 1,    target = y

Types are known when a kernel is compiled. So the kernels of labels are the same as if there were
no targets, and those of targets are compiled when they are first used.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from widemargin.kernels.typing import Array


@intrinsic
def _sign_of(typing_context, y):
    """Return the sign of a row's score in its residual, for its y."""

    def generate(context, builder, signature, arguments):
        if isinstance(y, types.Integer):
            return builder.sitofp(arguments[0], ir.DoubleType())
        return ir.Constant(ir.DoubleType(), 1.0)

    return types.float64(y), generate


@intrinsic
def _target_of(typing_context, y):
    """Return the target of a row, for its y."""

    def generate(context, builder, signature, arguments):
        if isinstance(y, types.Integer):
            return ir.Constant(ir.DoubleType(), 1.0)
        return arguments[0]

    return types.float64(y), generate


# mypy takes the typing context for an argument of the call.
sign_of: Any = _sign_of
target_of: Any = _target_of


def are_targets(y: Array) -> bool:
    """Return whether y (n,) are targets, not labels."""
    return y.dtype.kind == "f"


def signs(y: Array) -> Array:
    """Return the signs of scores in residuals, (n,); not to be written to."""
    return np.broadcast_to(np.int8(1), y.shape) if are_targets(y) else y


def targets(y: Array) -> Any:
    """Return the targets, (n,), or the one target of all rows."""
    return y if are_targets(y) else 1.0
