"""What can be seen of a running fit, and how it can be stopped: never at a model's expense."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest
from callbacks import ProgressBar, ScoringMonitor, needs_callbacks
from processes import PATIENCE, interruptible
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearSVC, certify
from widemargin.estimators.callbacks import LEVELS
from widemargin.monitor import Interruption
from widemargin.words import at_most

_random = np.random.default_rng(0)
X = _random.normal(size=(400, 20))
Y = (X @ _random.normal(size=20) + 3 * _random.normal(size=400) > 0).astype(int)
Y3 = np.digitize(X[:, 0] + _random.normal(size=400), [-0.5, 0.5])
# Random labels, little regularisation: nobody proves much about these within a minute.
X_HARD = _random.standard_normal((4000, 100), dtype=np.float32)
Y_HARD = _random.integers(0, 2, 4000)
Y3_HARD = _random.integers(0, 3, 4000)
HARD = {"C": 1e4, "tol": 1e-12, "random_state": 0}


def assert_honest(model, X, y):
    """Usable, and its certificate is what anybody would compute from its numbers."""
    assert np.isfinite(model.coef_).all()
    assert model.predict(X).shape == y.shape
    found = certify(model, X, y)
    assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert found.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    assert 0.0 <= found.relative_gap <= 1.0
    assert model.history_


# --- scikit-learn's callbacks -------------------------------------------------------------


class Recorder:
    """A callback that notes what it is told, and may ask to stop."""

    def __init__(self, stop=lambda task: False):
        self.stop, self.lock = stop, threading.Lock()
        self.begun, self.ended, self.events = [], [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        with self.lock:
            self.begun.append((context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        with self.lock:
            self.ended.append((context.task_name, context.task_id, fitted_estimator))
        return self.stop(context.task_name)

    def count(self, name):
        return sum(task[0] == name for task in self.ended)


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "three classes"])
def test_progress_bar(y, n_jobs, capfd):
    model = LinearSVC(n_jobs=n_jobs, random_state=0).set_callbacks(ProgressBar()).fit(X, y)
    assert model.status_ == "converged"
    assert_honest(model, X, y)
    shown = capfd.readouterr()
    assert "LinearSVC - fit" in shown.out + shown.err
    assert "100%" in shown.out + shown.err


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "three classes"])
def test_every_task_begins_and_ends(y, n_jobs):
    recorder = Recorder()
    LinearSVC(n_jobs=n_jobs, random_state=0).set_callbacks(recorder).fit(X, y)
    problems = 1 if y is Y else 3
    assert recorder.events == ["setup", "teardown"]
    assert sorted(recorder.begun) == sorted(task[:2] for task in recorder.ended)
    assert recorder.count("fit") == 1
    assert recorder.count("problem") == problems


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "three classes"])
def test_a_converged_problem_has_passed_every_level(y, n_jobs):
    """The last gap check counts as well: it is the one that closes the gap."""
    recorder = Recorder()
    LinearSVC(n_jobs=n_jobs, random_state=0).set_callbacks(recorder).fit(X, y)
    assert recorder.count("gap level") == LEVELS * (1 if y is Y else 3)


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "three classes"])
def test_callbacks_receive_a_model_that_predicts(y, n_jobs):
    recorder = Recorder()
    model = LinearSVC(n_jobs=n_jobs, random_state=0).set_callbacks(recorder).fit(X, y)
    for _, _, snapshot in recorder.ended:
        assert snapshot is not model
        assert snapshot.predict(X).shape == y.shape
        assert set(snapshot.predict(X)) <= set(y)
    last = recorder.ended[-1][2]
    np.testing.assert_array_equal(last.coef_, model.coef_)
    np.testing.assert_array_equal(last.intercept_, model.intercept_)


@needs_callbacks
def test_callbacks_do_not_change_the_model():
    plain = LinearSVC(random_state=0).fit(X, Y3)
    watched = LinearSVC(random_state=0).set_callbacks(Recorder(), ProgressBar()).fit(X, Y3)
    np.testing.assert_array_equal(plain.coef_, watched.coef_)
    assert len(plain.history_) == len(watched.history_)


@needs_callbacks
def test_scoring_monitor_sees_scores_rise():
    monitor = ScoringMonitor(scoring="accuracy")
    model = LinearSVC(random_state=0).set_callbacks(monitor).fit(X, Y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if "accuracy" in row]
    assert scores, "the training data must be handed to callbacks along with the model"
    assert max(scores) == pytest.approx(model.score(X, Y), abs=0.02)


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("y", [Y_HARD, Y3_HARD], ids=["binary", "three classes"])
def test_a_callback_can_stop_training(y, n_jobs):
    recorder = Recorder(stop=lambda task: task == "gap level")
    model = LinearSVC(solver="acf", n_jobs=n_jobs, max_time=20.0, C=0.1, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # whoever asked to stop need not be warned
        model.set_callbacks(recorder).fit(X_HARD, y)
    assert model.status_ == "callback"
    assert model.certificate_.relative_gap > model.tol
    assert_honest(model, X_HARD, y)
    assert recorder.events == ["setup", "teardown"]


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_callback_comes_through_and_leaves_no_trace(n_jobs):
    def fail(task):
        raise ZeroDivisionError("the callback's own")

    handler = signal.getsignal(signal.SIGINT)
    model = LinearSVC(n_jobs=n_jobs, random_state=0).set_callbacks(recorder := Recorder(fail))
    with pytest.raises(ZeroDivisionError, match="the callback's own"):
        model.fit(X, Y3)
    assert recorder.events == ["setup", "teardown"]
    assert signal.getsignal(signal.SIGINT) is handler
    assert model.set_callbacks().fit(X, Y3).status_ == "converged"


# --- verbose ------------------------------------------------------------------------------

_VERBOSE_FIT = textwrap.dedent(
    """
    import sys
    import numpy as np
    from widemargin import LinearSVC, progress

    progress._SECONDS_BETWEEN_LOG_LINES = 0.0
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 30))
    y = random.integers(0, int(sys.argv[1]), 1000)
    C, tol = float(sys.argv[2]), float(sys.argv[3])
    LinearSVC(verbose=1, C=C, tol=tol, n_jobs=int(sys.argv[4]), random_state=0).fit(X, y)
    """
)


def _run_verbose(classes=2, n_jobs=1, **environment):
    return subprocess.run(
        [sys.executable, "-c", _VERBOSE_FIT, str(classes), "1", "1e-2", str(n_jobs)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    "environment",
    [{}, {"FORCE_COLOR": "1"}, {"COLUMNS": "20"}, {"TTY_COMPATIBLE": "1"}],
    ids=["plain", "colour asked for", "narrow", "tty asked for"],
)
def test_a_log_file_gets_whole_plain_lines(environment):
    finished = _run_verbose(**environment)
    assert finished.stdout == ""
    assert "\x1b" not in finished.stderr
    assert "\r" not in finished.stderr
    assert finished.stderr.endswith("\n")
    *checks, summary = finished.stderr.splitlines()
    assert checks
    for line in checks:
        assert re.fullmatch(r"widemargin  .* s  iteration .* gap .* \(tol 1e-02\)", line), line
    wanted = r"widemargin  .* s  objective .*, proved (within .*|optimal)"
    assert re.fullmatch(wanted, summary), summary


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_log_file_counts_the_problems_solved(n_jobs):
    *checks, _ = _run_verbose(classes=3, n_jobs=n_jobs).stderr.splitlines()
    solved = [int(re.search(r"(\d) of 3 solved$", line).group(1)) for line in checks]
    assert solved == sorted(solved)
    assert solved[-1] == 3


def test_nothing_is_shown_unless_asked_for(capfd):
    LinearSVC(random_state=0).fit(X, Y)
    assert capfd.readouterr() == ("", "")


def _run_on_terminal(code, *arguments):
    """Run Python code with stderr on a pseudo-terminal; return what that terminal received."""
    terminal, stderr = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env={**os.environ, "TERM": "xterm-256color"},
    ) as process:
        os.close(stderr)
        received = b""
        while True:
            ready, _, _ = select.select([terminal], [], [], 60.0)
            assert ready, "the fit hangs"
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # Linux's way to say that the other side is closed
                break
            if not piece:
                break
            received += piece
    os.close(terminal)
    assert process.returncode == 0
    return received.decode()


def _screen(received):
    """Return the lines left on a terminal: carriage return, cursor up and erase obeyed."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", received):
        if token == "\r":
            column = 0
        elif token == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif token.startswith("\x1b"):
            if token.endswith("A"):
                row = max(0, row - int(token[2:-1] or 1))
            elif token == "\x1b[2K":
                lines[row] = ""
        else:
            end = column + len(token)
            lines[row] = lines[row][:column].ljust(column) + token + lines[row][end:]
            column = end
    return [line.rstrip() for line in lines if line.strip()]


def test_a_terminal_shows_a_live_line_and_keeps_only_the_summary():
    received = _run_on_terminal(_VERBOSE_FIT, "2", "10", "1e-4", "1")
    assert "\x1b[?25l" in received  # the cursor is hidden while the line lives
    assert received.rindex("\x1b[?25h") > received.rindex("\x1b[?25l")  # and comes back
    assert "gap" in received
    (left,) = _screen(received)
    assert re.fullmatch(r"widemargin  .* s  objective .*, proved (within .*|optimal)", left)


# --- limits -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "solver", "n_jobs"),
    [(Y_HARD, "dcd", 1), (Y_HARD, "acf", 2), (Y3_HARD, "dcd", 2), (Y3_HARD, "acf", 1)],
    ids=["binary, dcd", "binary, acf", "three classes, dcd, threads", "three classes, acf"],
)
@pytest.mark.usefixtures("time_by_looks")
def test_max_time(y, solver, n_jobs):
    LinearSVC(solver=solver, tol=0.9).fit(X_HARD[:50], y[:50])  # compiles
    model = LinearSVC(solver=solver, n_jobs=n_jobs, max_time=1.2, max_iter=10**9, **HARD)
    with pytest.warns(ConvergenceWarning, match=r"max_time=1\.2.* gap of \d") as caught:
        model.fit(X_HARD, y)
    assert model.status_ == "max_time"
    assert_honest(model, X_HARD, y)
    worst = max(part.relative_gap for part in model.certificate_.parts or [model.certificate_])
    assert at_most(worst) in str(caught[0].message)
    # Every class has had its share of the time.
    assert (model.dual_variables_.max(axis=1).toarray() > 0.0).all()


@pytest.mark.parametrize("solver", ["dcd", "acf"])
@pytest.mark.parametrize("y", [Y_HARD, Y3_HARD], ids=["binary", "three classes"])
def test_max_iter(y, solver):
    model = LinearSVC(solver=solver, max_iter=7, **HARD)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=7 .* gap of \d"):
        model.fit(X_HARD, y)
    assert model.status_ == "max_iter"
    assert model.n_iter_ == 7
    assert_honest(model, X_HARD, y)


def test_the_warning_points_at_the_line_that_called_fit():
    with pytest.warns(ConvergenceWarning) as caught:
        LinearSVC(solver="acf", max_iter=1, **HARD).fit(X_HARD, Y_HARD)
    assert caught[0].filename == __file__


def test_no_warning_where_the_gap_is_proved():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LinearSVC(random_state=0).fit(X, Y3).status_ == "converged"


# --- Ctrl-C -------------------------------------------------------------------------------


@pytest.fixture
def usual_ctrl_c():
    """Python's own SIGINT handler in place, whatever the test runner prefers."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _press_ctrl_c(times=1):
    """Return a callback's answer to its first task: Ctrl-C, as often as said."""
    left = [times]

    def press(task):
        while left[0] and task == "gap level":
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)

    return press


def test_interruption_notes_the_first_ctrl_c_and_obeys_the_second(usual_ctrl_c):
    interruption = Interruption()
    with interruption.watching():
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interruption_respects_another_handler(usual_ctrl_c):
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append("mine"))
    with Interruption().watching() as interruption:
        signal.raise_signal(signal.SIGINT)
    assert seen == ["mine"]
    assert not interruption.requested


@needs_callbacks
@pytest.mark.parametrize("y", [Y_HARD, Y3_HARD], ids=["binary", "three classes"])
def test_ctrl_c_keeps_the_model(y, usual_ctrl_c):
    model = LinearSVC(solver="acf", C=0.1, tol=1e-12, max_time=20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_callbacks(Recorder(_press_ctrl_c())).fit(X_HARD, y)
    assert model.status_ == "interrupted"
    assert_honest(model, X_HARD, y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@needs_callbacks
def test_ctrl_c_twice_is_a_keyboard_interrupt(usual_ctrl_c):
    recorder = Recorder(_press_ctrl_c(times=2))
    model = LinearSVC(solver="acf", C=0.1, tol=1e-12, max_time=20.0).set_callbacks(recorder)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X_HARD, Y3_HARD)
    assert recorder.events == ["setup", "teardown"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert model.set_callbacks().set_params(tol=1e-3).fit(X, Y).status_ == "converged"


_LONG_FIT = textwrap.dedent(
    """
    import json, signal, sys
    import numpy as np
    from widemargin import LinearSVC, certify
    from widemargin.monitor import Monitor

    settings = json.loads(sys.argv[1])
    random = np.random.default_rng(0)
    X = random.standard_normal((20_000, 200), dtype=np.float32)
    y = random.integers(0, settings.pop("classes"), 20_000)
    LinearSVC(tol=0.9, solver=settings["solver"]).fit(X[:50], y[:50])  # compiles
    model = LinearSVC(C=1e4, tol=1e-12, max_time=600.0, random_state=0, **settings)
    check = Monitor.check

    def say_so(self, *arguments):
        Monitor.check = check
        print("under way", flush=True)
        return check(self, *arguments)

    Monitor.check = say_so
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        print(json.dumps({"status": "KeyboardInterrupt"}))
        sys.exit()
    found, claimed = certify(model, X, y), model.certificate_
    print(json.dumps({
        "status": model.status_,
        "restored": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "agree": abs(found.primal - claimed.primal) + abs(found.dual - claimed.dual),
        "primal": claimed.primal,
        "relative_gap": claimed.relative_gap,
        "finite": bool(np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()),
        "predicts": sorted(set(model.predict(X).tolist())),
    }))
    """
)


@pytest.mark.parametrize(
    "settings",
    [
        {"classes": 2, "solver": "acf"},
        {"classes": 2, "solver": "dcd", "verbose": 1},
        {"classes": 4, "solver": "acf"},
        {"classes": 4, "solver": "acf", "n_jobs": 2},
    ],
    ids=["acf", "dcd, verbose", "four classes", "four classes in threads"],
)
def test_ctrl_c_ends_a_long_fit_at_once(settings):
    """Long before its time is up, which is longer than the test would wait."""
    with interruptible(
        [sys.executable, "-c", _LONG_FIT, json.dumps(settings)], text=True
    ) as process:
        assert process.stdout.readline() == "under way\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    result = json.loads(output)
    assert result["status"] == "interrupted"
    assert result["restored"]
    assert result["finite"]
    assert result["agree"] <= 1e-9 * result["primal"]
    assert 1e-12 < result["relative_gap"] <= 1.0
    assert set(result["predicts"]) <= set(range(settings["classes"]))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fit_in_another_thread(n_jobs, usual_ctrl_c):
    models = []

    def work():
        models.append(LinearSVC(n_jobs=n_jobs, random_state=0).fit(X, Y3))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=PATIENCE)
    assert not thread.is_alive()
    assert models[0].status_ == "converged"
    assert_honest(models[0], X, Y3)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
