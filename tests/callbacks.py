"""scikit-learn's callbacks, where it has them: from version 1.9 on."""

import pytest

try:
    from sklearn.callback import ProgressBar, ScoringMonitor
except ImportError:
    ProgressBar = ScoringMonitor = None

needs_callbacks = pytest.mark.skipif(
    ProgressBar is None, reason="scikit-learn before 1.9 has no callbacks"
)
