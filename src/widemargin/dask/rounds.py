"""Round trips to the workers of a cluster, shared by problems that are solved side by side.

A round answers the questions of all problems by one graph of tasks,

    line_sums, worker by worker -> choose -> answers, worker by worker -> their sum, up a tree

so the driver waits once, and little data goes from worker to worker in between. Each problem is
solved in its own thread, by a solver that does not know of the others. A round begins when all
unsolved problems have asked a question.
"""

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from widemargin import threads
from widemargin.dask import tasks
from widemargin.dask.partitions import Partitions
from widemargin.dask.questions import Line, Proof, Questions, Spot

# Data of more bytes is sent as a task of its own, not inside the graph.
_SMALL = 1 << 20


class Rounds:
    """Answers the questions of several problems.

    Parameters
    ----------
    parts : Partitions

    Attributes
    ----------
    count : int
        Round trips so far.
    """

    def __init__(self, parts: Partitions):
        self.parts, self.count = parts, 0
        self.said: queue.SimpleQueue = queue.SimpleQueue()

    def ask(self, question: Line | Spot | Proof):
        """Return the answer to a question, with those of the others; only inside `run`."""
        answer: Future = Future()
        self.said.put((question, answer))
        return answer.result()

    def run(self, solvers: Sequence[Callable]) -> list:
        """Return the results of several functions, all of which may call `ask`.

        If one of them fails, or a round, then all fail.
        """
        with threads.pool(len(solvers)) as pool:
            solved = [pool.submit(solver) for solver in solvers]
            for one in solved:
                one.add_done_callback(lambda ended: self.said.put((None, ended)))
            self._serve(len(solvers))
            return [one.result() for one in solved]

    def _serve(self, running):
        """Answer questions until all threads have ended."""
        failure, asked = None, []
        while running:
            try:
                question, future = self.said.get()
                if question is None:
                    running -= 1
                    failure = failure or future.exception()
                else:
                    asked.append((question, future))
                if failure is None and asked and len(asked) == running:
                    self._answer_all(asked)
                    asked = []
            except BaseException as error:  # Ctrl-C, too: threads must not wait for ever
                failure = error
            if failure is not None:
                for _, future in asked:
                    if not future.done():  # when the answers to the others failed
                        future.set_exception(failure)
                asked = []
        if failure is not None:
            raise failure

    def _answer_all(self, asked):
        asked.sort(key=lambda pair: pair[0].recipe.slot)
        asked.sort(key=lambda pair: (Line, Spot, Proof).index(type(pair[0])))
        for answer, (_, future) in zip(
            self.answers([question for question, _ in asked]), asked, strict=True
        ):
            future.set_result(answer)

    def answers(self, asked: Sequence[Line | Spot | Proof]) -> list:
        """Return the answers to questions of different slots, in one round.

        Lines come first, and proofs last.
        """
        lines = [question for question in asked if isinstance(question, Line)]
        spots = [question for question in asked if isinstance(question, Spot)]
        proofs = [question for question in asked if isinstance(question, Proof)]
        questions = Questions(lines, spots, proofs)

        def graph():
            sent = self.sent(questions, questions.nbytes)
            steps: object = []
            if lines:
                steps = self.parts.do(
                    tasks.choose, self.parts.each(tasks.line_sums, sum, sent), sent
                )
            return self.parts.sum(tasks.answers, tasks.add_answers, sent, steps)

        return self.result(graph)

    def sent(self, thing, nbytes: int):
        """Return an argument for tasks that holds what is sent to all workers.

        This is a task of its own, whose result workers take from each other. Small data is sent as
        it is, which saves waiting for such a task.
        """
        if nbytes * len(self.parts) <= _SMALL:
            return thing
        return self.parts.do(tasks.itself, thing)

    def result(self, make_graph: Callable):
        """Return the result of a graph, in one round."""
        self.count += 1
        return self.parts.result(make_graph)
