"""States, and how they are kept."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from widemargin.problem import SparseDual, State, Tangents

NUMBERS = st.just(0.0) | st.floats(allow_nan=False, width=64)


@given(arrays(np.float64, st.integers(0, 40), elements=NUMBERS))
def test_a_packed_state_is_the_same_and_no_larger(dual):
    state = State(np.ones(3), 2.0, dual)
    packed = state.packed()
    assert packed.dual.nbytes <= dual.nbytes
    assert isinstance(packed.dual, SparseDual) == (12 * np.count_nonzero(dual) < 8 * dual.size)
    again = packed.unpacked()
    np.testing.assert_array_equal(again.dual, dual)
    assert again.coef is state.coef
    assert again.offset == 2.0
    assert packed.packed() is packed
    assert again.unpacked() is again


def test_what_has_no_zeros_or_is_of_several_classes_stays_as_it_is():
    for dual in (np.zeros((4, 3)), Tangents(np.ones(1), np.ones((1, 3))), np.ones(5)):
        state = State(np.ones(3), 0.0, dual)
        assert state.packed() is state
