import threading

import pytest

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
    meeting = threading.Barrier(3, timeout=10)
    with threads.lent(3):
        threads.run(lambda _: meeting.wait(), [(0,), (1,), (2,)])


def test_an_error_in_a_share_comes_through():
    def fail(j):
        if j == 1:
            raise ValueError("share 1")

    with threads.lent(2), pytest.raises(ValueError, match="share 1"):
        threads.run(fail, [(0,), (1,)])
