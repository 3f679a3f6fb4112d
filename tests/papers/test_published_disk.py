"""Solvers over rows on disk, to the letter, against the papers' pseudocode, pass by pass."""

import numpy as np
import pytest
from blocks import Blocks
from papers import disk
from papers.test_published import TWO_CLASSES, assert_same

from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge
from widemargin.solvers import published_disk
from widemargin.solvers.out_of_core import END_OF_PASS
from widemargin.solvers.published_disk import PublishedBlocks, PublishedStream

SIZE, EPS = 20, 0.2


def on_disk(data, C):
    X, y = data()
    X = X.astype(np.float32).astype(np.float64)
    return X, y, Problem(Blocks(X, SIZE), Hinge(y, np.full(len(y), C)), Intercept.NONE)


class InTurn:
    """A reader without a thread: its blocks come when they are asked for."""

    busy = 0.0

    def __init__(self, rows):
        self.items = self.read(rows)

    def read(self, rows):
        while True:
            yield from rows.blocks()
            yield END_OF_PASS

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def take(self, timeout):
        return next(self.items)


@pytest.fixture
def passes(monkeypatch):
    """A list of copies of (w, alpha) after each pass."""
    seen, check = [], published_disk.Certified.check

    def noted(certified, visits, n_passes, rule, active):
        if n_passes:
            seen.append((visits.w.copy(), visits.alpha.copy()))
        check(certified, visits, n_passes, rule, active)

    monkeypatch.setattr(published_disk.Certified, "check", noted)
    monkeypatch.setattr(published_disk, "Reader", InTurn)
    return seen


def assert_same_passes(passes, printed):
    assert_same([w for w, _ in passes], [w for w, _ in printed])
    assert_same([alpha for _, alpha in passes], [alpha for _, alpha in printed])


@pytest.mark.parametrize("data", TWO_CLASSES)
@pytest.mark.parametrize("selective", [False, True])
def test_block_minimization(data, selective, passes):
    X, y, problem = on_disk(data, 0.1)
    monitor = Monitor(EPS, 10_000)
    solver = PublishedBlocks(1 << 30, selective, seed=1)
    room = 8.0 * np.count_nonzero(X) / 3
    run = published_disk._BlockRun(problem, State.zero(problem), monitor, room, solver)
    parts = [np.concatenate([piece.ids for piece in part]) for part in run._parts()]
    assert len(parts) >= 2
    sizes = 8 * np.count_nonzero(X, axis=1) + 48

    def nearest(distance, rows):
        """Those that fit into the kept half, in the order of memory."""
        order = np.argsort(distance)
        return np.sort(order[np.cumsum(sizes[rows][order]) <= run.kept_room])

    run.run()
    assert monitor.status == "published"
    random = np.random.default_rng(1)
    random.integers(1, 2**63, 1)  # what a run of any kind draws first
    keep = nearest if selective else None
    assert_same_passes(passes, disk.block_minimization(X, y, 0.1, EPS, parts, random, keep=keep))


@pytest.mark.parametrize("data", TWO_CLASSES)
@pytest.mark.parametrize("fraction", [0.3, 0.7, 1.5])
def test_stream(data, fraction, passes):
    X, y, problem = on_disk(data, 0.1)
    monitor = Monitor(EPS, 10_000)
    size = int(fraction * np.count_nonzero(X))
    run = published_disk._StreamRun(
        problem, State.zero(problem), monitor, size, PublishedStream(1 << 30, seed=5)
    )
    state = run.run()
    assert monitor.status == "published"
    random = np.random.default_rng([5, 0]), np.random.default_rng([5, 1])
    printed = disk.stream(X, y, 0.1, EPS, run.room, SIZE, *random)
    assert_same_passes(passes, printed)
    np.testing.assert_array_equal(state.dual, passes[-1][1])
