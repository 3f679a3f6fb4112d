"""Rows to put on disk, and what comes back, for tests."""

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from widemargin.data.blocks import SIZES
from widemargin.data.shards import ShardWriter


def matrix(n=40, d=12, seed=0, density=0.3):
    """Sparse float32 rows, some of them empty."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    return sp.csr_matrix(X.astype(np.float32))


def write(folder, X, y=None, format="arrow", pieces=3, sizes=SIZES, **columns):
    """Write rows to a folder in so many pieces."""
    y = np.arange(X.shape[0]) % 3 if y is None else y
    with ShardWriter(folder, format, sizes) as writer:
        for rows in np.array_split(np.arange(X.shape[0]), pieces):
            writer.add(X[rows], y[rows], **{name: c[rows] for name, c in columns.items()})
    return folder


def read_back(rows):
    """Put the blocks of rows on disk together again."""
    pieces, begin = [], 0
    for block in rows.blocks():
        values, indices, indptr = block.arrays
        assert (values.dtype, indices.dtype, indptr.dtype) == ("f4", "u4", "u4")
        assert block.begin == begin
        assert block.end - block.begin == len(indptr) - 1
        assert indptr[0] == 0
        shape = (len(indptr) - 1, rows.n_features)
        pieces.append(sp.csr_matrix((values, indices, indptr.astype(np.int64)), shape=shape))
        begin = block.end
    assert begin == rows.n_rows
    assert len(pieces) == rows.n_blocks
    return sp.vstack(pieces, format="csr")


def assert_same(X, expected):
    assert X.shape == expected.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X, name), getattr(expected, name))


INT32, FLOAT64 = pa.int32(), pa.float64()


def as_table(X, y=None, index=INT32, value=FLOAT64, list_of=pa.list_):
    """Rows as another program would write them."""
    columns = {
        "indices": pa.array([row.indices.tolist() for row in X], list_of(index)),
        "values": pa.array([row.data.tolist() for row in X], list_of(value)),
    }
    if y is not None:
        columns["label"] = pa.array(y)
    return pa.table(columns)
