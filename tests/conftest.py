"""Settings for all tests."""

import os

from hypothesis import settings

# Compilation happens inside the first example, so no deadlines. Continuous integration
# repeats itself exactly; everywhere else each run tries new examples.
settings.register_profile("explore", deadline=None)
settings.register_profile("repeat", deadline=None, derandomize=True)
settings.load_profile("repeat" if os.environ.get("CI") else "explore")
