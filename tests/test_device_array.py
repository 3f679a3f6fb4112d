"""The double of a CuPy array refuses what CuPy refuses, and computes the rest."""

import copy
import operator

import numpy as np
import pytest

from tests.device_array import MIXED, DeviceArray, device, host

HOST = np.array([3.0, 1.0, 2.0])
X = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def d():
    return device(HOST)


def on_device(x, expected):
    """Whether `x` is a device array with the expected values, shape and dtype."""
    expected = np.asarray(expected)
    assert isinstance(x, DeviceArray)
    assert isinstance(x.host_array, np.ndarray)
    assert x.dtype == expected.dtype
    np.testing.assert_array_equal(host(x), expected, strict=True)
    return True


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 2.0 * x - x / np.float64(3.0) + True,
        lambda x: np.float32(2.0) * x,
        lambda x: np.float64(2.0) < x,
        lambda x: np.int64(2) == x,
        lambda x: (x > 1) & ~(x > 2),
        lambda x: np.maximum(x, 0.0, dtype=np.float32, casting="same_kind"),
        lambda x: np.sum(x),
        lambda x: np.max(x, axis=0, keepdims=True),
        lambda x: x @ x,
        lambda x: np.outer(x, x) @ x,
        lambda x: np.vdot(x, x),
        lambda x: np.dot(x, x),
        lambda x: np.where(x > 1, x, 0.0),
        lambda x: np.argsort(x, kind="stable"),
        lambda x: np.searchsorted(np.sort(x), x, side="right"),
        lambda x: np.concatenate([x, x[:1]]),
        lambda x: np.stack([x, x], axis=1),
        lambda x: np.append(x, x),
        lambda x: np.count_nonzero(x),
        lambda x: np.array_equal(x, x),
        lambda x: np.allclose(x, 0.0),
        lambda x: np.isin(x, x[:2]),
        lambda x: np.bincount(x.astype(np.int64), weights=x, minlength=5),
        lambda x: np.unpackbits(np.packbits(x > 1)),
        lambda x: np.repeat(x, 2),
        lambda x: np.linalg.norm(x),
        lambda x: np.linalg.solve(np.diag(x), x),
        lambda x: np.nan_to_num(x),
        lambda x: np.atleast_1d(x[0]),
        lambda x: np.asarray([x[0], x[1]], like=x) if isinstance(x, DeviceArray) else x[:2],
        lambda x: np.zeros_like(x, shape=(2, 2), dtype=np.int32),
        lambda x: np.full_like(x, 7),
        lambda x: np.ones_like(x, order="F"),
        lambda x: np.arange(4, like=x),
        lambda x: np.asarray([1, 2], like=x),
        lambda x: np.zeros((2, 3), dtype=np.float32, like=x),
        lambda x: np.eye(3, like=x),
    ],
)
def test_same_text_same_values(f, d):
    assert on_device(f(d), f(HOST))


def test_several_results(d):
    (places,) = np.nonzero(d > 1)
    assert on_device(places, [0, 2])
    values, inverse = np.unique(d, return_inverse=True)
    assert on_device(values[inverse], HOST)
    mantissa, exponent = np.frexp(d)
    assert on_device(np.ldexp(mantissa, exponent), HOST)
    decomposed = np.linalg.eigh(np.diag(d))
    assert on_device(decomposed.eigenvalues, [1.0, 2.0, 3.0])
    assert np.shape(d) == (3,)
    assert type(np.ndim(d)) is type(np.size(d)) is int
    assert np.iscomplexobj(d) is False
    assert np.result_type(d, np.float32) == np.float64
    assert np.empty((2, 4), like=d).shape == np.empty_like(d, shape=(2, 4)).shape == (2, 4)


@pytest.mark.parametrize(
    "f",
    [
        lambda d: d + HOST,
        lambda d: HOST + d,
        lambda d: HOST @ d,
        lambda d: operator.lt(HOST, d),
        lambda d: d == HOST,
        lambda d: d * np.array(2.0),
        lambda d: np.add(d, 1.0, out=np.empty(3)),
        lambda d: np.add(HOST, 1.0, out=d),
        lambda d: np.sqrt(d, where=HOST > 1),
        lambda d: d.__iadd__(HOST),
        lambda d: HOST.copy().__iadd__(d),
        lambda d: np.dot(d, HOST),
        lambda d: np.concatenate([d, HOST]),
        lambda d: np.where(d > 1, HOST, 0.0),
        lambda d: np.searchsorted(HOST, d),
        lambda d: np.searchsorted(d, HOST),
        lambda d: np.cumsum(d, out=np.empty(3)),
        lambda d: np.full_like(d, HOST),
        lambda d: np.copyto(d, HOST),
        lambda d: d.dot(HOST),
        lambda d: d.take(np.array([0])),
        lambda d: d.clip(HOST, None),
        lambda d: d[np.array([0, 1])],
        lambda d: d[HOST > 1],
        lambda d: d[..., np.array(0)],
        lambda d: d.__setitem__(..., HOST),
        lambda d: d.__setitem__(0, np.array(1.0)),
        lambda d: d.__setitem__(HOST > 1, 0.0),
    ],
)
def test_host_arrays_are_refused(f, d):
    with pytest.raises(TypeError, match=MIXED):
        f(d)
    assert on_device(d, HOST)


@pytest.mark.parametrize(
    "f",
    [
        np.asarray,
        np.array,
        np.ascontiguousarray,
        lambda d: np.asarray([d[0], d[1]]),
        lambda d: HOST[d > 1],
        lambda d: HOST[np.argsort(d)],
        lambda d: HOST.copy().__setitem__(..., d),
        lambda d: np.testing.assert_array_equal(d, d),
        lambda d: np.random.default_rng(0).permutation(d),
    ],
)
def test_no_implicit_way_to_the_host(f, d):
    with pytest.raises(TypeError, match="Implicit conversion to a NumPy array"):
        f(d)


@pytest.mark.parametrize(
    "f",
    [
        lambda d: np.add.at(d, [0], 1.0),
        lambda d: np.add.reduceat(d, [0, 1]),
        lambda d: np.maximum.accumulate(d),
        lambda d: np.multiply.outer(d, d),
        lambda d: np.add.reduce(d),
        lambda d: np.max(d, initial=0.0),
        lambda d: np.sum(d, where=d > 1),
        lambda d: d.max(initial=0.0),
        lambda d: d.mean(where=d > 1),
        lambda d: np.argsort(d, kind="quicksort"),
        lambda d: np.argsort(d, stable=True),
        lambda d: np.lexsort((d, d)),
        lambda d: np.insert(d, 0, 1.0),
        lambda d: np.block([d, d]),
        lambda d: np.repeat(d, d.astype(np.int64)),
        lambda d: np.searchsorted(d, 1.0),
        lambda d: d.searchsorted([1.0]),
        lambda d: operator.add(d, [1.0, 2.0, 3.0]),
        lambda d: d < "text",
        lambda d: d.__setitem__(slice(2), [1.0, 2.0]),
        lambda d: hash(d),
    ],
)
def test_what_cupy_cannot_do(f, d):
    with pytest.raises(TypeError):
        f(d)


def test_names_that_cupy_lacks(d):
    for name in ("data", "ctypes", "setflags", "byteswap", "__array_interface__"):
        assert not hasattr(d, name)
    assert not hasattr(d.flags, "writeable")
    with pytest.raises(ValueError, match="exactly one"):
        np.frexp(d, out=(np.empty_like(d), np.empty_like(d)))


def test_indexing():
    x = device(X)
    for key in (1, -1, (0, 1), slice(1), (slice(None), None, 2), ..., (..., 0), [1, 0]):
        assert on_device(x[key], X[key])
    assert on_device(x[x > 2], X[X > 2])
    assert on_device(x[:, device([2, 0])], X[:, [2, 0]])
    assert on_device(x[device(1), np.int64(2)], X[1, 2])
    x[:, device([0, 1])] = x[:, 1:]
    x[x == 5] = 9.0
    x[1, 0] = x[0, 0] + 1
    x[:, 2] = np.float32(0.5)
    assert on_device(x, [[1.0, 2.0, 0.5], [2.0, 9.0, 0.5]])
    assert [row.tolist() for row in x] == x.tolist()
    assert len(x) == 2


def test_elements_and_sums_are_arrays_and_change_in_place(d):
    first, total = d[0], d.sum()
    before = total
    first += 1
    total += 1
    assert on_device(d, [4.0, 1.0, 2.0])
    assert before is total
    assert np.multiply(d, 2.0, out=d) is d
    assert np.cumsum(d, out=d) is d
    assert on_device(d, [8.0, 10.0, 14.0])
    np.fill_diagonal(square := np.zeros_like(d, shape=(3, 3)), 1.0)
    np.copyto(square, 2.0, where=square > 0)
    assert on_device(square, 2 * np.eye(3))


def test_to_python(d):
    assert float(d[0]) == d[0].item() == d.item(0) == 3.0
    assert int(d[0]) == 3
    assert complex(d[0]) == 3
    assert d[1] == 1
    assert bool(d[0] > 2)
    assert f"{d[0]:.1f}" == "3.0"
    assert [5, 6, 7, 8][np.argmin(d)] == 6
    assert HOST[np.argmax(d)] == 3.0
    with pytest.raises(ValueError, match="ambiguous"):
        bool(d)
    with pytest.raises(TypeError):
        float(d)
    with pytest.raises(TypeError):
        range(3)[d[0]]


def test_transfers_copy(d):
    source = np.asfortranarray(X)
    for x in (device(source), np.asarray(source, like=d)):
        assert x.flags["F_CONTIGUOUS"]
        assert not x.flags.c_contiguous
        x += 1
        assert on_device(x, X + 1)
        x.get()[...] = 0
        assert x.get(out=np.empty((2, 3))).tolist() == (X + 1).tolist()
    assert source.tolist() == X.tolist()
    assert np.asarray(d, like=d) is device(d) is d
    assert np.array(d, like=d) is not d
    assert host(HOST) is HOST
    assert host("text") == "text"
    for other in (copy.copy(d), copy.deepcopy(d), d.copy()):
        assert on_device(other, HOST)
        assert not np.shares_memory(other, d)


def test_attributes_and_methods():
    x = device(np.asfortranarray(X))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize) == ((2, 3), 2, 6, 48, 8)
    assert (x.dtype, x.strides) == (np.dtype(np.float64), (8, 16))
    assert on_device(x.T, X.T)
    flat = x.ravel(order="K")
    flat.fill(2.0)
    assert np.may_share_memory(x.T.reshape(-1), x)
    assert x.astype(np.float64, copy=False) is x
    x = device(X)
    for name in ("sum", "max", "min", "mean", "std", "prod", "argmax", "argmin", "cumsum"):
        assert on_device(getattr(x, name)(), getattr(X, name)())
        assert on_device(getattr(x, name)(axis=1), getattr(X, name)(axis=1))
    for name in ("any", "all", "copy", "conj", "squeeze", "flatten", "transpose", "diagonal"):
        assert on_device(getattr(x, name)(), getattr(X, name)())
    assert on_device(x.clip(1, None), X.clip(1, None))
    assert on_device(x.reshape(3, -1).dot(x), X.reshape(3, -1).dot(X))
    assert on_device(x[0].searchsorted(x[0]), [0, 1, 2])
    assert on_device(x.argsort()[0].take([0, 1]).repeat(2), [0, 0, 1, 1])
    assert on_device(x.view(np.int64), X.view(np.int64))
    assert [places.tolist() for places in (x > 4).nonzero()] == [[1], [2]]
