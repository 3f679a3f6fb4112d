"""Functions in threads of their own, whose questions are answered together."""

import threading
import time

import pytest

from widemargin import meeting
from widemargin.meeting import Meeting


def answer_all(asked):
    return {place: (place, question, len(asked)) for place, question in asked}


def test_all_questions_are_answered_together():
    room = Meeting(answer_all, n_at_once=1)
    functions = [lambda j=j: [room.ask((j, k)) for k in range(j + 1)] for j in range(4)]
    results = room.run(functions)
    for j, answers in enumerate(results):
        # The one that asks k questions ends after them; the others go on without it.
        assert answers == [(j, (j, k), 4 - k) for k in range(j + 1)]


def test_a_question_may_wait_for_another_round():
    rounds = []

    def largest_first(asked):
        rounds.append([question for _, question in asked])
        place, question = max(asked, key=lambda one: one[1])
        return {place: question}

    room = Meeting(largest_first, n_at_once=2)
    assert room.run([lambda q=q: room.ask(q) for q in (1, 3, 2)]) == [1, 3, 2]
    assert rounds == [[1, 3, 2], [1, 2], [1]]


def test_one_alone_needs_no_thread():
    room = Meeting(answer_all, n_at_once=1)
    (found,) = room.run([lambda: (threading.current_thread(), room.ask("?"))])
    assert found == (threading.main_thread(), (0, "?", 1))


@pytest.mark.parametrize("n_at_once", [1, 3])
def test_no_more_run_at_once_than_may(n_at_once):
    running, most = set(), []

    def work(j):
        for _ in range(5):
            running.add(j)
            most.append(len(running))
            time.sleep(0.001)
            running.discard(j)
            room.ask(j)

    room = Meeting(answer_all, n_at_once)
    room.run([lambda j=j: work(j) for j in range(6)])
    assert max(most) <= n_at_once


def test_others_run_while_one_waits():
    """With one turn, the second function can run only while the first one is waiting."""
    event = threading.Event()

    def waits():
        with meeting.waiting():
            return event.wait(10.0)

    room = Meeting(answer_all, n_at_once=1)
    assert room.run([waits, event.set]) == [True, None]
    with meeting.waiting():  # outside of any meeting
        pass


def test_what_is_common_is_made_once():
    made = []
    room = Meeting(answer_all, n_at_once=4)

    def use():
        return room.once("key", lambda: made.append(1) or len(made))

    assert room.run([use] * 4) == [1] * 4


@pytest.mark.parametrize("error", [ValueError("of a function"), KeyboardInterrupt()])
def test_if_one_fails_all_fail(error):
    room = Meeting(answer_all, n_at_once=2)
    asked = []

    def fails():
        room.ask(1)
        raise error

    def goes_on():
        while True:
            asked.append(room.ask(2))

    with pytest.raises(type(error)):
        room.run([fails, goes_on])
    assert len(asked) <= 3
    assert meeting.current() is None


def test_if_an_answer_fails_all_fail():
    def fail(asked):
        raise RuntimeError("no answer")

    room = Meeting(fail, n_at_once=2)
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="no answer"):
        room.run([lambda: room.ask(1)] * 3)
    assert threading.active_count() == before
