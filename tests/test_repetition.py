"""The tests repeat themselves: the same examples everywhere, new ones where that is asked for."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def examples(*options, **environment):
    """Return the examples that a process of its own tries in two property tests."""
    others = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"),
            *("--hypothesis-verbosity=verbose", "passes/test_lowest.py", *options),
        ],
        cwd=HERE,
        env=others | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.split("Test case: |Trying example: ", done.stdout)[1:]  # new and old Hypothesis


def test_the_same_examples_everywhere():
    here = examples(PYTHONHASHSEED="1")
    # Hypothesis would take numbers from the source of modules that happen to be there.
    elsewhere = examples("-p", "device_array", "-p", "strategies", PYTHONHASHSEED="2", CI="1")
    assert len(here) >= 200
    # What follows the last one is how long the tests took.
    assert here[:-1] == elsewhere[:-1]


def test_others_and_more_of_them_where_that_is_asked_for():
    usual = examples()
    fuzzed = [examples("--fuzz-until=inf", f"--hypothesis-seed={seed}") for seed in (1, 1, 2)]
    assert all(len(some) > 3 * len(usual) for some in fuzzed)
    assert fuzzed[0][:-1] == fuzzed[1][:-1] != fuzzed[2][:-1]


def test_none_begins_once_time_is_up():
    assert examples("--fuzz-until=0") == []
