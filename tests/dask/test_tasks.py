"""What workers remember saves time, and changes nothing."""

import numpy as np
import pytest

from widemargin.dask import tasks
from widemargin.data import as_rows


@pytest.fixture
def part():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(50, 4)), random.integers(0, 2, 50)
    yield tasks.Part(as_rows(X), y, None, None, "a part")
    tasks.forget(["a part"])


def point(name, seed):
    return tasks.Point(name, np.random.default_rng(seed).normal(size=4), 0.1)


def test_scores_of_another_point_are_not_taken_for_those_of_this_one(part):
    recipe = tasks.Recipe(np.array([0, 1]), np.ones(2), "hinge", 1, "a recipe")
    center, target, steps = point("center", 1), point("target", 2), np.array([0.0, 0.5])
    expected = tasks.line_sums(part, recipe, center, target, steps)
    tasks.forget([part.name])
    tasks.plane_at(part, recipe, point("elsewhere", 3))  # as a part that comes back may find
    np.testing.assert_array_equal(tasks.line_sums(part, recipe, center, target, steps), expected)
    plane = tasks.plane(part, recipe, center, target, 0.5, 0.1, "next")
    tasks.forget([part.name])
    again = tasks.plane(part, recipe, center, target, 0.5, 0.1, "next")
    np.testing.assert_array_equal(plane.a, again.a)


def test_a_risk_of_another_recipe_is_not_taken_for_this_one(part):
    recipes = [
        tasks.Recipe(np.array([0, 1]), np.ones(2), "hinge", positive, f"recipe {positive}")
        for positive in (0, 1)
    ]
    losses = [tasks.loss_at(part, recipe, point("here", 1)) for recipe in recipes]
    tasks.forget([part.name])
    assert losses[1] == tasks.loss_at(part, recipes[1], point("here", 1))
    assert losses[0] != losses[1]
