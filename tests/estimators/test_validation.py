"""Labels, as numbers of classes."""

import numpy as np
import pytest

from tests.device_array import device
from widemargin.estimators.validation import classes_of


@pytest.mark.parametrize(
    "y",
    [
        np.array([3, 3, 1]),
        np.array([-128, 127, 5, -128], dtype=np.int8),
        np.array([250, 3], dtype=np.uint8),
        np.array([2**63 + 5, 2**63 + 1], dtype=np.uint64),
        np.array([-(2**63), -(2**63) + 3]),
        np.array([10**12, 5]),
        np.array([], dtype=int),
        np.array([1.5, 2.0]),
        np.array([True, False]),
        np.array(["b", "a"]),
    ],
    ids=str,
)
def test_classes_and_codes(y):
    classes, codes = classes_of(y)
    expected = np.unique(y)
    assert classes.dtype == expected.dtype
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(classes[codes], y)


def test_labels_on_a_device_stay_there():
    y = device(np.array([3, 3, 1]))
    classes, codes = classes_of(y)
    np.testing.assert_array_equal(classes, [1, 3])
    np.testing.assert_array_equal(codes.get(), [1, 1, 0])
