"""Round trips to the workers of a cluster, shared by problems that are solved side by side.

A round answers the questions of all problems by one graph of tasks,

    line_sums, worker by worker -> choose -> answers, worker by worker -> their sum, up a tree

so the driver waits once, and little data goes from worker to worker in between.
"""

from collections.abc import Callable, Sequence
from typing import Any

from widemargin.dask import tasks
from widemargin.dask.partitions import Partitions
from widemargin.dask.questions import Line, Proof, Questions, Spot
from widemargin.meeting import Asked, Meeting

# Data of more bytes is sent as a task of its own, not inside the graph.
_SMALL = 1 << 20


# Kinds of questions, in the order of `answers`.
_KINDS = (Line, Spot, Proof)
# More problems than this do not share rounds.
_AT_ONCE = 1 << 10


class Rounds(Meeting):
    """Answers the questions of problems that are solved side by side.

    `count` is how many round trips there were so far.
    """

    def __init__(self, parts: Partitions):
        super().__init__(self._answer_all, n_at_once=_AT_ONCE)
        self.parts, self.count = parts, 0

    def _answer_all(self, asked: Asked) -> dict[int, Any]:
        def place(one: tuple[int, Any]) -> tuple[int, int]:
            return _KINDS.index(type(one[1])), one[1].recipe.slot

        asked = sorted(asked, key=place)
        answers = self.answers([question for _, question in asked])
        return {seat: answer for (seat, _), answer in zip(asked, answers, strict=True)}

    def answers(self, asked: Sequence[Line | Spot | Proof]) -> list:
        """Return the answers to questions of different slots, in one round.

        Lines come first, and proofs last.
        """
        lines = [question for question in asked if isinstance(question, Line)]
        spots = [question for question in asked if isinstance(question, Spot)]
        proofs = [question for question in asked if isinstance(question, Proof)]
        questions = Questions(lines, spots, proofs)

        def graph() -> Any:
            sent = self.sent(questions, questions.nbytes)
            steps: object = []
            if lines:
                steps = self.parts.do(
                    tasks.choose, self.parts.each(tasks.line_sums, sum, sent), sent
                )
            return self.parts.sum(tasks.answers, tasks.add_answers, sent, steps)

        return self.result(graph)

    def sent(self, thing: Any, nbytes: int) -> Any:
        """Return an argument for tasks that holds what is sent to all workers.

        This is a task of its own, whose result workers take from each other. Small data is sent as
        it is, which saves waiting for such a task.
        """
        if nbytes * len(self.parts) <= _SMALL:
            return thing
        return self.parts.do(tasks.itself, thing)

    def result(self, make_graph: Callable) -> Any:
        """Return the result of a graph, in one round."""
        self.count += 1
        return self.parts.result(make_graph)
