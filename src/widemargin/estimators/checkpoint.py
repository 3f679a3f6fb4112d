"""A run that can be killed at any instant and goes on from where it last said it was.

A checkpoint is a safetensors file that appears whole or not at all: the point reached (best
coefficients, intercept, dual variables), and a fingerprint of the problem. The dual variables are
all that a run needs to go on; everything else is found again in its first pass.
"""

import contextlib
import json
import os
import warnings
import zlib

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from widemargin.atomic import atomic_write
from widemargin.problem import Problem, State
from widemargin.tensors import FLOAT, Malformed, read_header, read_tensor

_NAME = "widemargin checkpoint"


class CheckpointError(ValueError):
    """A file cannot be used as a checkpoint; the message begins with its path."""


class Checkpoint:
    """Where one problem's progress is kept.

    Parameters
    ----------
    path : path-like
    problem : Problem
    """

    def __init__(self, path, problem: Problem):
        self.path = os.fspath(path)
        self.fingerprint = _fingerprint(problem)
        self.shapes = {
            "coef": (problem.rows.n_features,),
            "offset": (1,),
            "dual": (problem.rows.n_rows,),
        }

    def load(self) -> State | None:
        """Return the state that was saved, None if there is none.

        Raises
        ------
        CheckpointError
            The file is no checkpoint, or one of another problem; it is left as it is. Or there is
            no place for one.
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
        except OSError as error:  # a name too long, say
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

    def _read(self, file) -> State:
        if read_header(file, _NAME) != self.fingerprint:
            raise Malformed(
                "a checkpoint of another problem (other rows, labels, weights, C, loss or "
                "intercept); remove it, or name another file"
            )
        try:
            coef, offset, dual = (
                read_tensor(file, name, FLOAT, shape) for name, shape in self.shapes.items()
            )
            if np.any(dual < 0.0):
                raise Malformed("the tensor 'dual' holds values below zero")
        except Malformed as error:
            raise Malformed(f"a damaged checkpoint: {error}") from error
        return State(coef, float(offset[0]), dual)

    def save(self, state: State) -> None:
        """Replace what was saved by `state`; where that fails, warn, and keep what was saved.

        A disk that is full is no reason to lose the run as well.
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
        """Forget it: there is nothing left to go on with."""
        with contextlib.suppress(OSError):  # never written, or gone with its disk
            os.unlink(self.path)


def _fingerprint(problem):
    """Return what tells problems apart, without a look at the rows themselves."""
    risk = problem.risk
    return {
        "rows": problem.rows.n_rows,
        "features": problem.rows.n_features,
        "entries": int(problem.rows.n_entries),
        "loss": risk.loss.name,
        "intercept": problem.intercept.value,
        "labels": zlib.crc32(np.ascontiguousarray(risk.y)),
        "costs": zlib.crc32(np.ascontiguousarray(risk.cost)),
    }
