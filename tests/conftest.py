"""Settings for all tests: they repeat themselves, unless they are asked to explore.

``make test`` tries the same examples everywhere and every time. ``make fuzz`` gives
``--fuzz-until``: then property tests alone run, on new examples, and on many more of them.
"""

import itertools
import random
import time
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

# Hypothesis tries numbers that stand in the source, too, of all modules imported so far: which
# these are depends on what ran before, and on how tests were dealt out to processes.
providers._get_local_constants = lambda: providers._local_constants

# Compilation happens inside the first example, and machines are busy: no time is too long.
_ANYWHERE = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("repeat", derandomize=True, **_ANYWHERE)
settings.register_profile("fuzz", derandomize=False, **_ANYWHERE)
settings.load_profile("repeat")

# How many times as many examples a test tries at a time where it explores.
_MORE = 4


def pytest_addoption(parser):
    parser.addoption(
        "--fuzz-until",
        type=float,
        metavar="SECONDS",
        help="run property tests alone, on new examples; none begins after this time since 1970",
    )


def pytest_configure(config):
    if config.getoption("--fuzz-until") is not None:
        settings.load_profile("fuzz")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--fuzz-until") is None:
        return
    properties = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
    config.hook.pytest_deselected(items=[item for item in items if item not in properties])
    multiplied = set()
    for item in properties:
        test = getattr(item.obj, "__func__", item.obj)
        if test not in multiplied:  # it has one item for each set of parameters
            multiplied.add(test)
            usual = test._hypothesis_internal_use_settings
            test._hypothesis_internal_use_settings = settings(
                usual, max_examples=_MORE * usual.max_examples
            )
    # Not all may get their turn.
    random.Random(config.getoption("--hypothesis-seed")).shuffle(properties)
    items[:] = properties


def pytest_runtest_setup(item):
    until = item.config.getoption("--fuzz-until")
    if until is not None and time.time() > until:
        pytest.skip("time is up")


@pytest.fixture
def time_by_looks(monkeypatch):
    """Each look at the clock of time limits takes 5 ms, however busy the machine is."""
    looks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: 0.005 * next(looks))
    monkeypatch.setattr("widemargin.kernels.jit.time", clock)
