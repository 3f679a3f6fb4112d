"""Rows that out-of-core solvers hold in memory, in compact arrays."""

from dataclasses import dataclass, fields

import numpy as np

from widemargin.kernels import rows as kernels


@dataclass
class Piece:
    """Some rows in CSR form, with everything that coordinate descent needs to visit them.

    Attributes
    ----------
    ids : ndarray of shape (m,), uint32
        Which rows they are, in increasing order.
    arrays : (values, indices, indptr)
        As for the kernels; indptr begins at 0.
    norms, cost : ndarray of shape (m,)
    y : ndarray of shape (m,)
    """

    ids: np.ndarray
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray]
    norms: np.ndarray
    y: np.ndarray
    cost: np.ndarray

    def __len__(self) -> int:
        return self.ids.size

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.arrays, *self._columns().values()))

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Return w.x of each row, (m,)."""
        scores = np.empty(len(self))
        kernels.scores(self.arrays, w, 0, len(self), scores)
        return scores

    def take(self, index: np.ndarray) -> "Piece":
        """Return a copy of the rows `index`, which is increasing, as a piece."""
        values, indices, indptr = self.arrays
        lengths = np.diff(indptr)[index]
        new_indptr = np.zeros(index.size + 1, dtype=indptr.dtype)
        np.cumsum(lengths, out=new_indptr[1:])
        size = int(new_indptr[-1])
        arrays = np.empty(size, values.dtype), np.empty(size, indices.dtype), new_indptr
        kernels.copy_rows(self.arrays, index, arrays)
        return Piece(
            arrays=arrays, **{name: column[index] for name, column in self._columns().items()}
        )

    @staticmethod
    def joined(pieces: list["Piece"]) -> "Piece":
        """Return the rows of several pieces as one piece."""
        ends = np.cumsum([piece.arrays[2][-1] for piece in pieces])
        starts = [0, *ends[:-1]]
        indptr = [piece.arrays[2][1:] + start for piece, start in zip(pieces, starts)]
        arrays = (
            np.concatenate([piece.arrays[0] for piece in pieces]),
            np.concatenate([piece.arrays[1] for piece in pieces]),
            np.concatenate([[0], *indptr]).astype(pieces[0].arrays[2].dtype),
        )
        columns = [piece._columns() for piece in pieces]
        return Piece(
            arrays=arrays,
            **{name: np.concatenate([c[name] for c in columns]) for name in columns[0]},
        )

    def _columns(self) -> dict[str, np.ndarray]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "arrays"}
