"""A double of a CuPy array, for machines without a GPU.

`DeviceArray` holds an ndarray and answers NumPy's functions as a CuPy array would: what it
computes stays on the "device", a host array beside it is an error, and so is turning it into a
host array without `get()`. Where versions of CuPy differ, the double takes the stricter one.
"""

import operator

import numpy as np

MIXED = "host and device arrays are mixed"
SCALARS = (bool, int, float, complex, np.number, np.bool_)
# These answer about an array, in plain Python.
PLAIN = {"shape", "ndim", "size", "iscomplexobj", "isrealobj", "result_type", "can_cast"}
PLAIN |= {"common_type", "min_scalar_type", "may_share_memory", "shares_memory"}
# With `like=`, these carry what they are given to the device.
TRANSFERS = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"}
# CuPy lacks these, or takes other arguments.
MISSING = {"full", "lexsort", "insert", "block", "matvec", "vecmat"}
MISSING_KEYWORDS = {"initial", "where", "stable"}
# Whether the second argument is to be on the device: only so, or never.
SECOND = {"searchsorted": ("v", True), "repeat": ("repeats", False)}
# NumPy makes a scalar on the left of these a 0-d array before it asks the other side.
COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
ATTRIBUTES = ("dtype", "shape", "ndim", "size", "nbytes", "itemsize", "strides")
VIEWS = ("T", "real", "imag")
METHODS = """
    all any argmax argmin argpartition argsort astype clip compress conj copy cumprod cumsum
    diagonal dot fill flatten max mean min nonzero prod ravel repeat reshape round searchsorted
    squeeze std sum swapaxes take trace transpose var view
"""


class Flags:
    """The flags that a CuPy array has."""

    def __init__(self, flags):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata = flags.owndata

    def __getitem__(self, name):
        return vars(self)[name.lower()]


def _unwrap(x, seen):
    """The host's form of an argument; notes in `seen` whose ndarrays it gave away."""
    if isinstance(x, DeviceArray):
        seen[id(x.host_array)] = x
        return x.host_array
    if isinstance(x, np.ndarray):
        raise TypeError(MIXED)
    if isinstance(x, list | tuple):
        items = [_unwrap(item, seen) for item in x]
        return items if isinstance(x, list) else tuple(items)
    return x


def _wrap(x, seen):
    """The device's form of a result; an argument that comes back is itself again."""
    if id(x) in seen:
        return seen[id(x)]
    if isinstance(x, (np.ndarray, *SCALARS)):
        return DeviceArray(np.asarray(x))
    if isinstance(x, list | tuple):
        items = [_wrap(item, seen) for item in x]
        if hasattr(x, "_fields"):
            return type(x)(*items)
        return items if isinstance(x, list) else tuple(items)
    return x


def _call(function, args, kwargs):
    """`function`, of NumPy or ndarray, on the arrays inside; refused where CuPy refuses it."""
    name, seen = function.__name__, {}
    if name in MISSING:
        raise TypeError(f"CuPy cannot do numpy.{name}")
    if name != "copyto" and (keywords := MISSING_KEYWORDS & kwargs.keys()):
        raise TypeError(f"{name}() got an unexpected keyword argument {min(keywords)!r}")
    if kwargs.get("kind") not in (None, "stable"):
        raise TypeError(f"{name}() sorts by kind None or 'stable' only")
    host_args = _unwrap(tuple(args), seen)
    host_kwargs = {key: _unwrap(value, seen) for key, value in kwargs.items()}
    if name in SECOND:
        keyword, on_device = SECOND[name]
        second = args[1] if len(args) > 1 else kwargs[keyword]
        if isinstance(second, DeviceArray) != on_device:
            raise TypeError(f"{name}() takes no {type(second).__name__} as {keyword}")
    result = function(*host_args, **host_kwargs)
    return result if name in PLAIN else _wrap(result, seen)


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An ndarray that is taken to be in a GPU's memory."""

    def __init__(self, host_array):
        self.host_array = host_array

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        name, seen = ufunc.__name__, {}
        if method != "__call__" or name in MISSING:
            raise TypeError(f"CuPy cannot do numpy.{name} ({method})")
        if len(out) > 1:
            raise ValueError("The 'out' parameter must have exactly one array value")
        if name in COMPARISONS:
            inputs = [x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs]
        host_inputs = [_unwrap(x, seen) for x in inputs]
        for x in inputs:
            if not isinstance(x, (DeviceArray, *SCALARS)):
                raise TypeError(f"Unsupported type {type(x)}")
        kwargs |= {"out": out} if out else {}
        kwargs = {key: _unwrap(value, seen) for key, value in kwargs.items()}
        return _wrap(ufunc(*host_inputs, **kwargs), seen)

    def __array_function__(self, func, types, args, kwargs):
        if func.__name__ in TRANSFERS:
            args = [device(x) if isinstance(x, np.ndarray) else x for x in args]
        return _call(func, args, kwargs)

    def __getitem__(self, key):
        key = _unwrap(key if isinstance(key, tuple) else (key,), {})
        if not any(item is Ellipsis for item in key):
            key = (*key, Ellipsis)  # an element is a view too
        return DeviceArray(self.host_array[key])

    def __setitem__(self, key, value):
        if isinstance(value, list | tuple):
            raise TypeError(f"Unsupported type {type(value)}")
        self.host_array[_unwrap(key, {})] = _unwrap(value, {})

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __len__(self):
        return len(self.host_array)

    def __bool__(self):
        return bool(self.host_array)

    def __int__(self):
        return int(self.host_array)

    def __float__(self):
        return float(self.host_array)

    def __complex__(self):
        return complex(self.host_array)

    def __index__(self):
        return operator.index(self.host_array)

    def __repr__(self):
        return f"device {self.host_array!r}"

    def __format__(self, spec):
        return format(self.host_array, spec)

    def __copy__(self):
        return self.copy()

    @property
    def flags(self):
        return Flags(self.host_array.flags)

    def get(self, stream=None, order="C", out=None):
        """A copy on the host, in `out` where given."""
        if out is None:
            return np.array(self.host_array, order=order)
        if out.dtype != self.dtype or out.shape != self.shape:
            raise TypeError("out has another shape or dtype")
        out[...] = self.host_array
        return out

    def item(self, *args):
        return self.host_array.item(*args)

    def tolist(self):
        return self.host_array.tolist()


def _method(name):
    function = getattr(np.ndarray, name)
    return lambda self, *args, **kwargs: _call(function, (self, *args), kwargs)


for _name in METHODS.split():
    setattr(DeviceArray, _name, _method(_name))
for _name in (*ATTRIBUTES, *VIEWS):
    _get = operator.attrgetter(f"host_array.{_name}")
    _view = property(lambda self, get=_get: DeviceArray(get(self)))
    setattr(DeviceArray, _name, _view if _name in VIEWS else property(_get))


def device(x):
    """A copy of an array or a scalar on the device; what is there already stays."""
    return x if isinstance(x, DeviceArray) else DeviceArray(np.array(x))


def host(x):
    """A copy on the host of what is on the device; anything else as it is."""
    return x.get() if isinstance(x, DeviceArray) else x
