"""What workers remember saves time, and changes nothing; nor does sharing a pass."""

import numpy as np
import pytest

from widemargin.dask import questions, tasks
from widemargin.dask.oracle import ClusterOracle
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Tangents
from widemargin.solvers.line_search import Penalty


@pytest.fixture
def part():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(50, 4)), random.integers(0, 2, 50)
    yield questions.Part(as_rows(X), y, None, None, "a part", random.integers(0, 3, 50))
    tasks.forget(["a part"])


def recipe(positive=1, **others):
    return questions.Recipe(np.array([0, 1]), np.ones(2), "hinge", positive, **others)


def point(name, seed):
    return questions.Point(name, np.random.default_rng(seed).normal(size=4), 0.1)


def line(of, seed=1):
    steps, penalty = np.array([0.0, 0.5]), Penalty(1.0, -1.0, 1.0)
    ends = point(f"center {seed}", seed), point(f"target {seed}", seed + 1)
    return questions.Line(of, *ends, steps, penalty, 0.0, 0.1, f"next {seed}")


def spot(of, seed=9):
    return questions.Spot(of, point(f"spot {seed}", seed))


def assert_same(found, expected):
    for sums, other in zip(found, expected, strict=True):
        for value, wanted in zip(sums, other, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)


def test_scores_of_another_point_are_not_taken_for_those_of_this_one(part):
    asked = questions.Questions([line(recipe())], [])
    expected = tasks.line_sums(part, asked)
    tasks.forget([part.name])
    elsewhere = questions.Questions([], [spot(asked.lines[0].recipe)])
    tasks.answers(part, elsewhere, [])  # as a part that comes back may find
    np.testing.assert_array_equal(tasks.line_sums(part, asked), expected)
    plane = tasks.answers(part, asked, [0.5])
    tasks.forget([part.name])
    assert_same(tasks.answers(part, asked, [0.5]), plane)


def test_a_risk_of_another_recipe_is_not_taken_for_this_one(part):
    def losses(of):
        return tasks.answers(part, questions.Questions([], [spot(of)]), [])[0].loss

    recipes = [recipe(0), recipe(1), recipe(1, fold=2)]
    found = [losses(of) for of in recipes]
    tasks.forget([part.name])
    assert found[1] == losses(recipes[1])
    assert len(set(found)) == 3


def test_questions_together_are_answered_as_one_by_one(part):
    lines = [line(recipe(slot="a"), 1), line(recipe(slot="b", fold=1), 3)]
    spots = [spot(recipe(0, slot="c"), 5), spot(recipe(slot="d"), 6)]
    together = questions.Questions(lines, spots)
    steps = tasks.choose([tasks.line_sums(part, together)], together)
    found = tasks.answers(part, together, steps)
    tasks.forget([part.name])
    expected = []
    for asked, step in zip(lines, steps, strict=True):
        alone = questions.Questions([asked], [])
        chosen = tasks.choose([tasks.line_sums(part, alone)], alone)
        np.testing.assert_allclose(chosen, [step], rtol=1e-12)
        expected += tasks.answers(part, alone, chosen)
    for asked in spots:
        expected += tasks.answers(part, questions.Questions([], [asked]), [])
    assert_same(found, expected)


class OneWorker:
    """Answers as `Rounds` does, from one part and without a cluster."""

    n_workers = 1

    def __init__(self, part):
        self.parts, self.part = self, part

    def ask(self, question):
        if isinstance(question, questions.Proof):
            return tasks.answers(self.part, questions.Questions([], [], [question]), [])[0]
        if isinstance(question, questions.Spot):
            return tasks.answers(self.part, questions.Questions([], [question]), [])[0]
        asked = questions.Questions([question], [])
        steps = tasks.choose([tasks.line_sums(self.part, asked)], asked)
        return tasks.answers(self.part, asked, steps)[0]


def test_an_answer_to_a_very_long_step_is_true(part):
    monitor = Monitor(1e-8, 1)  # below which points are not rounded
    oracle = ClusterOracle(OneWorker(part), recipe(), 4, Intercept.FREE, monitor)
    w = np.random.default_rng(3).normal(size=4)
    center, target = oracle.place(w, 0.1), oracle.place((1.0 - 1e-10) * w, 0.1)
    oracle.begin(center, None)
    oracle.guess = 1e9
    answer = oracle.step(center, target, None, 0.0, 0.1)
    assert answer.step > 1e8
    nothing = Tangents(np.empty(0), np.empty((0, 5)))
    loss = oracle.certify(answer.center, [], nothing)[0].primal
    assert answer.value == pytest.approx(loss, rel=1e-12)
    # The plane touches the risk where it was taken.
    a, e, constant, _ = answer.plane
    here = answer.center.vector @ a + answer.center.free @ e + constant
    assert here == pytest.approx(loss - answer.center.penalty, rel=1e-12)
