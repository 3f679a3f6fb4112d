"""Threads that ask, and what becomes of them when a round fails."""

import threading
from types import SimpleNamespace

import pytest

from widemargin.dask.questions import Spot
from widemargin.dask.rounds import Rounds


def test_an_interrupt_between_two_answers_ends_all():
    """Also those who have asked, and were not answered yet."""
    rounds = Rounds(None)
    question = Spot(recipe=SimpleNamespace(slot=""), point=None)
    answered = threading.Event()

    def answers(asked):
        yield 1.0
        raise KeyboardInterrupt

    def solver():
        rounds.ask(question)
        answered.set()

    rounds.answers = answers
    with pytest.raises(KeyboardInterrupt):
        rounds.run([solver, solver])
    assert answered.is_set()
