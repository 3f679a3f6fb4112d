"""What can be seen of a running search for C, how it can be stopped, and what it keeps."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from callbacks import ProgressBar, ScoringMonitor, needs_callbacks
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearSVCCV, certify
from widemargin.estimators.path import CostPath

_random = np.random.default_rng(0)
X = _random.normal(size=(200, 8))
Y = (X @ _random.normal(size=8) + 2 * _random.normal(size=200) > 0).astype(int)
Y3 = np.digitize(X[:, 0] + _random.normal(size=200), [-0.5, 0.5])
COSTS = [0.01, 0.1, 1.0, 10.0]


def assert_honest(model, X, y):
    found = certify(model, X, y)
    assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert found.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    assert 0.0 <= found.relative_gap <= 1.0
    assert model.predict(X).shape == y.shape


@pytest.fixture
def usual_ctrl_c():
    """Python's own SIGINT handler in place, whatever the test runner prefers."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press_ctrl_c(monkeypatch, at):
    """Have Ctrl-C be pressed when the path goes to its training number `at`."""
    advance, passed = CostPath.advance, []

    def press_and_advance(self, C):
        if len(passed) == at:
            signal.raise_signal(signal.SIGINT)
        passed.append(C)
        advance(self, C)

    monkeypatch.setattr(CostPath, "advance", press_and_advance)
    return passed


class Recorder:
    """A callback that notes what it is told, and may ask to stop."""

    def __init__(self, stop=lambda task, done: False):
        self.stop, self.events, self.ended = stop, [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        self.ended.append((context.task_name, fitted_estimator))
        return self.stop(context.task_name, len(self.ended))


# --- Ctrl-C and other ends --------------------------------------------------------------------


@pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "three classes"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_keeps_the_best_so_far(y, n_jobs, monkeypatch, usual_ctrl_c):
    press_ctrl_c(monkeypatch, at=2)
    model = LinearSVCCV(Cs=COSTS[::-1], tol=1e-8, probability=True, n_jobs=n_jobs, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    assert model.status_ == model.best_estimator_.status_ == "interrupted"
    # From the smallest on: two were done, the third was not, the fourth not begun.
    assert np.isnan(model.scores_).all(axis=0).tolist() == [True, True, False, False]
    assert np.isnan(model.relative_gaps_).all(axis=0).tolist() == [True, True, False, False]
    assert model.C_ in (0.01, 0.1)
    assert_honest(model, X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_ctrl_c_at_the_first(monkeypatch, usual_ctrl_c):
    passed = press_ctrl_c(monkeypatch, at=0)
    model = LinearSVCCV(Cs=COSTS, tol=1e-12, random_state=0).fit(X, Y3)
    assert model.status_ == "interrupted"
    assert passed == [0.01, 0.01]  # the folds, and all rows
    assert np.isfinite(model.scores_[:, 0]).all()
    assert np.isnan(model.scores_[:, 1:]).all()
    assert_honest(model, X, Y3)


def test_ctrl_c_in_the_last_training(monkeypatch, usual_ctrl_c):
    press_ctrl_c(monkeypatch, at=4)
    model = LinearSVCCV(Cs=COSTS, tol=1e-9, random_state=0).fit(X, Y)
    assert model.status_ == "interrupted"
    assert np.isfinite(model.scores_).all()
    assert_honest(model, X, Y)


@pytest.mark.usefixtures("time_by_looks")
def test_max_time():
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((2000, 50), dtype=np.float32), rng.integers(0, 2, 2000)
    hard = {"tol": 1e-12, "solver": "dcd", "max_iter": 10**9, "random_state": 0}
    LinearSVCCV(Cs=[1.0], solver="dcd", tol=0.9).fit(rows[:50], y[:50])  # compiles
    model = LinearSVCCV(Cs=[1e3, 1e4, 1e5], max_time=1.0, **hard)
    with pytest.warns(ConvergenceWarning, match=r"of 16 trainings .* max_time=1\.0") as caught:
        model.fit(rows, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.status_ == "max_time"
    assert np.isfinite(model.scores_).all()
    assert model.max_time == model.best_estimator_.max_time == 1.0
    assert_honest(model, rows, y)


def test_max_iter_is_told_once():
    model = LinearSVCCV(Cs=COSTS, tol=1e-12, max_iter=3, solver="dcd", random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"of 63 trainings .* max_iter=3 ") as caught:
        model.fit(X, Y3)
    assert len(caught) == 1
    assert model.relative_gaps_.max() > 1e-12


# --- callbacks --------------------------------------------------------------------------------


@needs_callbacks
def test_callbacks_see_every_cost():
    recorder = Recorder()
    model = LinearSVCCV(Cs=COSTS, random_state=0).set_callbacks(recorder).fit(X, Y3)
    steps = ["begin C", "end C"] * 4 + ["begin refit", "end refit"]
    assert recorder.events == ["setup", "begin fit", *steps, "end fit", "teardown"]
    for _, snapshot in recorder.ended:
        assert snapshot is not model
        assert set(snapshot.predict(X)) <= set(Y3)
    np.testing.assert_array_equal(recorder.ended[-1][1].predict(X), model.predict(X))
    plain = LinearSVCCV(Cs=COSTS, random_state=0).fit(X, Y3)
    np.testing.assert_array_equal(plain.coef_, model.coef_)


@needs_callbacks
def test_a_callback_can_stop_the_search():
    recorder = Recorder(stop=lambda task, done: task == "C" and done == 2)
    model = LinearSVCCV(Cs=COSTS, random_state=0).set_callbacks(recorder).fit(X, Y)
    assert model.status_ == "callback"
    assert np.isnan(model.scores_).all(axis=0).tolist() == [False, False, True, True]
    assert model.certificate_.relative_gap <= 1e-3
    assert_honest(model, X, Y)


@needs_callbacks
def test_an_error_comes_through_and_leaves_no_trace(usual_ctrl_c):
    def fail(estimator, X, y):
        raise ZeroDivisionError("the scorer's own")

    model = LinearSVCCV(Cs=COSTS, scoring=fail, verbose=1).set_callbacks(recorder := Recorder())
    with pytest.raises(ZeroDivisionError, match="the scorer's own"):
        model.fit(X, Y)
    assert recorder.events[-1] == "teardown"
    assert not hasattr(model, "best_estimator_")


@needs_callbacks
def test_scikit_learns_own_callbacks(capfd):
    monitor = ScoringMonitor(scoring="accuracy")
    model = LinearSVCCV(Cs=COSTS, random_state=0).set_callbacks(ProgressBar(), monitor)
    model.fit(X, Y)
    shown = capfd.readouterr()
    assert "LinearSVCCV - fit" in shown.out + shown.err
    assert "100%" in shown.out + shown.err
    scores = [row["accuracy"] for row in monitor.get_logs().data if "accuracy" in row]
    assert scores[-1] == pytest.approx(model.score(X, Y))


# --- verbose ----------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1", "COLUMNS": "20"}])
def test_a_log_file_gets_whole_plain_lines(environment):
    code = textwrap.dedent(
        """
        import numpy as np
        from widemargin import LinearSVCCV, progress

        progress._SECONDS_BETWEEN_LOG_LINES = 0.0
        X = np.random.default_rng(0).normal(size=(60, 3))
        LinearSVCCV(Cs=[0.1, 1], cv=3, verbose=1, random_state=0).fit(X, X[:, 0] > 0)
        """
    )
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **environment},
    )
    assert finished.stdout == ""
    assert "\x1b" not in finished.stderr
    assert "\r" not in finished.stderr
    lines = finished.stderr.splitlines()
    assert len(lines) == 4
    for line, done in zip(lines, (3, 6, 7, 7)):
        assert re.match(rf"widemargin  [0-9.]+ s  {done} of 7 trainings", line), line
    assert re.search(r"C = 0\.1: 0\.\d{4}$", lines[0])


def test_nothing_is_shown_unless_asked_for(capfd):
    LinearSVCCV(Cs=[0.1], random_state=0).fit(X, Y)
    assert capfd.readouterr() == ("", "")


# --- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_folds_share_the_rows(layout):
    """Beside X, which is not written to: one fold's held-out rows, and arrays as long as rows."""
    n, d, folds = 10_000, 300, 8
    rows = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    size = rows.nbytes
    if layout == "CSR":
        rows = sp.csr_matrix(rows)
        size *= 2
    y = np.arange(n) % 2
    model = LinearSVCCV(Cs=[1e-3, 1e-2], cv=folds, tol=0.5, solver="dcd", random_state=0)
    model.fit(rows, y)  # compiles
    tracemalloc.start()
    try:
        model.fit(rows, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{layout}: X has {size / 1e6:.1f} MB, beside it {peak / 1e6:.1f} MB")
    # Per fold: weights, costs, dual variables before and after, what is remembered of them,
    # row numbers; and what a solver needs, one at a time.
    needed = size / folds + 8 * n * (10 * folds + 30) + 8 * d * 4 * folds + 500_000
    assert peak <= needed
    assert needed < 1.1 * size
