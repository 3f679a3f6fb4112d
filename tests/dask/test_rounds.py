"""Threads that ask, and what becomes of them when a round fails."""

import threading
from types import SimpleNamespace

import pytest

from widemargin.dask.questions import Spot
from widemargin.dask.rounds import Rounds


def test_an_interrupt_while_answering_ends_all():
    rounds = Rounds(None)
    question = Spot(recipe=SimpleNamespace(slot=""), point=None)

    def answers(asked):
        raise KeyboardInterrupt

    def solver():
        rounds.ask(question)

    rounds.answers, before = answers, threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        rounds.run([solver, solver])
    assert threading.active_count() == before
