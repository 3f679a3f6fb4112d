import threading
from contextvars import copy_context

import numpy as np  # noqa: F401 (brings a BLAS)
import pytest
from threadpoolctl import ThreadpoolController

from widemargin import threads


def test_alone_unless_threads_are_lent():
    assert threads.shares(100, 1 << 30) == [(0, 100)]
    assert threads.run(lambda a, b: a + b, [(1, 2), (3, 4)]) == [3, 7]


def test_rows_are_shared_out_whole():
    with threads.lent(3):
        assert threads.shares(100, 1 << 30) == [(0, 33), (33, 66), (66, 100)]
        assert threads.shares(2, 1 << 30) == [(0, 1), (1, 2)]
        assert threads.shares(100, 10) == [(0, 100)]  # too little to share
        assert threads.shares(0, 0) == [(0, 0)]
        with threads.lent(1):
            assert threads.shares(100, 1 << 30) == [(0, 100)]
    assert threads.shares(100, 1 << 30) == [(0, 100)]


def test_shares_run_side_by_side():
    meeting = threading.Barrier(3, timeout=60)
    with threads.lent(3):
        threads.run(lambda _: meeting.wait(), [(0,), (1,), (2,)])


def test_an_error_in_a_share_comes_through():
    def fail(j):
        if j == 1:
            raise ValueError("share 1")

    with threads.lent(2), pytest.raises(ValueError, match="share 1"):
        threads.run(fail, [(0,), (1,)])


def test_blas_has_one_thread_while_threads_are_lent():
    libraries = ThreadpoolController().select(user_api="blas")

    def of_blas():
        return {library["num_threads"] for library in libraries.info()}

    def two_fits():
        first, second = threads.lent(2), threads.lent(3)
        first.__enter__()
        second.__enter__()
        assert of_blas() == {1}
        first.__exit__(None, None, None)  # they need not end in turn
        assert of_blas() == {1}
        second.__exit__(None, None, None)
        assert of_blas() == {2}

    with libraries.limit(limits=2, user_api="blas"):
        if of_blas() != {2}:
            pytest.skip("this BLAS takes no orders")
        copy_context().run(two_fits)
        with threads.lent(1):
            assert of_blas() == {2}
