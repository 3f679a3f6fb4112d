"""Checkpoints: a run that is killed at any time continues from the last one.

A checkpoint is a safetensors file, written atomically. It has the best coefficients, the
intercept, the dual variables, and a fingerprint of the problem. A run needs only the dual
variables to continue; its first pass recomputes everything else.
"""

import contextlib
import json
import os
import warnings
import zlib
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from widemargin.atomic import atomic_write
from widemargin.problem import Problem, State
from widemargin.tensors import FLOAT, Malformed, read_header, read_tensor

_NAME = "widemargin checkpoint"


class CheckpointError(ValueError):
    """A file that cannot be used as a checkpoint; the message begins with its path."""


class Checkpoint:
    """The checkpoint of one problem."""

    def __init__(self, path: str | os.PathLike, problem: Problem) -> None:
        self.path = os.fspath(path)
        self.fingerprint = _fingerprint(problem)
        self.nonnegative = problem.risk.loss.is_one_sided  # dual variables
        self.shapes = {
            "coef": (problem.rows.n_features,),
            "offset": (1,),
            "dual": (problem.rows.n_rows,),
        }

    def load(self) -> State | None:
        """Return the saved state; None if there is none.

        Raises CheckpointError if the file is not a checkpoint, or one of another problem, or if
        no file can be written there. The file is not changed.
        """
        try:
            os.stat(self.path)
        except FileNotFoundError:
            folder = os.path.dirname(os.path.abspath(self.path))
            if not os.access(folder, os.W_OK):
                raise CheckpointError(
                    f"{self.path}: no file can be written into {folder}"
                ) from None
            return None
        except OSError as error:  # such as a name that is too long
            raise CheckpointError(f"{self.path}: {error.strerror or error}") from error
        try:
            with safe_open(self.path, framework="numpy") as file:
                return self._read(file)
        except (SafetensorError, ValueError, OSError) as error:
            raise CheckpointError(
                f"{self.path}: not a checkpoint, or a damaged one ({error})"
            ) from error
        except Malformed as error:
            raise CheckpointError(f"{self.path}: {error}") from error

    def _read(self, file: safe_open) -> State:
        if read_header(file, _NAME) != self.fingerprint:
            raise Malformed(
                "a checkpoint of another problem (other rows, labels, weights, C, loss or "
                "intercept); remove it, or name another file"
            )
        try:
            coef, offset, dual = (
                read_tensor(file, name, FLOAT, shape) for name, shape in self.shapes.items()
            )
            if self.nonnegative and np.any(dual < 0.0):
                raise Malformed("the tensor 'dual' holds values below zero")
        except Malformed as error:
            raise Malformed(f"a damaged checkpoint: {error}") from error
        return State(coef, float(offset[0]), dual)

    def save(self, state: State) -> None:
        """Replace the saved state by `state`. If that fails, warn and keep the saved one.

        A full disk is no reason to stop the run.
        """
        assert isinstance(state.dual, np.ndarray)
        arrays = {"coef": state.coef, "offset": np.array([state.offset]), "dual": state.dual}
        try:
            with atomic_write(self.path) as file:
                file.write(serialize(arrays, metadata={_NAME: json.dumps(self.fingerprint)}))
        except OSError as error:
            warnings.warn(
                f"{self.path}: {error.strerror or error}: training goes on, and this checkpoint "
                "was not written",
                RuntimeWarning,
                stacklevel=2,
            )

    def remove(self) -> None:
        """Delete the checkpoint: the run has ended."""
        with contextlib.suppress(OSError):  # it was never written, or its disk is gone
            os.unlink(self.path)


def _checksum(values: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(values).data)


def _fingerprint(problem: Problem) -> dict[str, Any]:
    """Return a fingerprint of the problem, which does not read the rows."""
    risk = problem.risk
    return {
        "rows": problem.rows.n_rows,
        "features": problem.rows.n_features,
        "entries": int(problem.rows.n_entries),
        "loss": risk.name,
        "intercept": problem.intercept.value,
        "labels": _checksum(risk.y),
        "costs": _checksum(risk.cost),
    }
