"""Estimators take rows on disk where they take X."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning

from widemargin import (
    LinearRanker,
    LinearSVC,
    LinearSVCCV,
    OrdinalSVC,
    certify,
    load_model,
    open_rows,
)
from widemargin.data.convert import convert
from widemargin.data.disk import DiskRows
from widemargin.data.shards import ShardWriter
from widemargin.estimators.checkpoint import CheckpointError
from widemargin.estimators.validation import check_bytes
from widemargin.monitor import Monitor


def data(n=1500, d=80, classes=2):
    rng = np.random.default_rng(0)
    X = sp.random(n, d, density=0.1, format="csr", random_state=0, dtype=np.float32)
    scores = X @ rng.standard_normal((d, classes)) + 0.1 * rng.standard_normal((n, classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("solver", ["auto", "stream", "sbm", "ocas"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_model_is_that_of_the_same_rows_in_memory(solver, classes):
    X, y = data(classes=classes)
    rows = Blocks(X, 100)
    model = LinearSVC(loss="hinge", solver=solver, random_state=0).fit(rows, y)
    assert model.solver_ == ("ocas" if solver == "auto" else solver)
    assert model.status_ == "converged"
    in_memory = LinearSVC(loss="hinge", tol=1e-6, random_state=0).fit(X, y)
    best = in_memory.certificate_
    assert best.dual * (1 - 1e-9) <= model.certificate_.primal <= best.primal * (1 + 1.1e-3)
    np.testing.assert_allclose(
        model.decision_function(rows), model.decision_function(X), rtol=1e-6
    )
    assert np.mean(model.predict(rows) == y) == pytest.approx(
        np.mean(in_memory.predict(X) == y), abs=0.01
    )
    for where in (rows, X):
        again = certify(model, where, y)
        assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-6)


def stored(folder, X, y):
    with ShardWriter(folder) as writer:
        writer.add(X, y)
    return open_rows(folder)


@pytest.mark.parametrize(
    ("model", "rows_too"),
    [
        (LinearSVC(random_state=0), True),
        (LinearSVC(random_state=0, probability=True), True),
        (LinearSVC(random_state=0, multi_class="crammer_singer"), True),
        (LinearSVCCV(Cs=[0.1, 1], cv=3, random_state=0), True),
        (LinearRanker(), False),
        (OrdinalSVC(), False),
    ],
    ids=["svc", "probability", "together", "cv", "ranker", "ordinal"],
)
def test_rows_that_fit_are_read_into_memory(tmp_path, monkeypatch, model, rows_too):
    """Once; and the model is that of the same rows, to the last bit."""
    X, y = data(classes=3)
    rows = stored(tmp_path / "rows", X, y)
    passes, blocks = [], DiskRows.blocks
    monkeypatch.setattr(DiskRows, "blocks", lambda self: passes.append(1) or blocks(self))
    ours, theirs = clone(model).fit(rows, y), clone(model).fit(X, y)
    assert len(passes) == 1
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    assert ours.solver_ == theirs.solver_
    if rows_too:
        few = clone(model).set_params(memory_budget="64MB")
        monkeypatch.setattr("widemargin.estimators.fitting._PER_ROW", 10**6)
        together = getattr(model, "multi_class", "ovr") == "crammer_singer"
        assert few.fit(rows, y).solver_ == ("ocas" if together else "newton")
        assert len(passes) > 5


def test_solvers_that_were_asked_for_read_from_disk(tmp_path):
    X, y = data()
    rows = stored(tmp_path / "rows", X, y)
    for solver in ("stream", "ocas", "newton"):
        model = LinearSVC(solver=solver, random_state=0).fit(rows, y)
        assert (model.solver_, model.history_[-1].disk_passes > 0) == (solver, True)
    model = LinearSVC(checkpoint=tmp_path / "run", random_state=0).fit(rows, y)
    assert model.solver_ == "stream"


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", ["newton", "ocas", "cpa", "bm", "sbm", "stream"])
def test_passes_over_the_disk_are_counted(tmp_path, monkeypatch, solver, classes):
    """Each as it ends, whoever made it; in the next fit from zero again."""
    X, y = data(classes=classes)
    rows = stored(tmp_path / "rows", X, y)
    passes, at_checks = [], []
    blocks, check = DiskRows.blocks, Monitor.check

    def counted(self):
        yield from blocks(self)
        passes.append(1)

    def noted(self, *arguments):
        at_checks.append(len(passes))
        return check(self, *arguments)

    monkeypatch.setattr(DiskRows, "blocks", counted)
    monkeypatch.setattr(Monitor, "check", noted)
    for _ in range(2):
        passes.clear(), at_checks.clear()
        model = LinearSVC(solver=solver, tol=1e-2, C=0.1, random_state=0).fit(rows, y)
        seen = sorted(record.disk_passes for record in model.history_)
        assert 0 < seen[-1] <= len(passes)
        if solver != "stream":  # whose reader goes on meanwhile
            assert seen == sorted(at_checks)


def test_little_memory_is_for_the_stream(tmp_path, monkeypatch):
    """Others hold more for each row than it does."""
    X, y = data()
    rows = Blocks(X, 100)
    model = LinearSVC(memory_budget="64MB", random_state=0)
    assert model.fit(rows, y).solver_ == "newton"
    monkeypatch.setattr("widemargin.estimators.fitting._PER_ROW_IN_PASSES", 10**5)
    assert model.fit(rows, y).solver_ == "stream"
    search = LinearSVCCV(Cs=[0.1], cv=2, memory_budget="64MB", random_state=0)
    assert search.fit(rows, y).solver_ == "stream"


def test_others_take_them_too():
    X, y = data(classes=4)
    rows = Blocks(X, 100)
    for model in (LinearRanker(), OrdinalSVC(), LinearSVC(multi_class="crammer_singer")):
        on_disk = type(model)(**model.get_params()).fit(rows, y)
        in_memory = type(model)(**model.get_params()).fit(X, y)
        primal = in_memory.certificate_.primal
        assert on_disk.certificate_.primal == pytest.approx(primal, rel=2e-3)
        assert on_disk.predict(rows).shape == y.shape


def test_weights_count():
    X, y = data()
    weight = np.random.default_rng(1).integers(0, 3, y.size)
    on_disk = LinearSVC(random_state=0).fit(Blocks(X, 100), y, sample_weight=weight)
    in_memory = LinearSVC(random_state=0).fit(X, y, sample_weight=weight)
    assert on_disk.certificate_.primal == pytest.approx(in_memory.certificate_.primal, rel=2e-3)


@pytest.mark.parametrize(
    ("parameters", "on_disk", "message"),
    [
        (
            {"solver": "stream"},
            False,
            "solver='stream' needs rows on disk .*, and these are in memory",
        ),
        ({"solver": "acf"}, True, "solver='acf' needs rows in memory"),
        ({"solver": "bm", "multi_class": "crammer_singer"}, True, "needs one of 'cpa'"),
        ({"memory_budget": "much"}, True, "memory_budget must be a number of bytes"),
        ({"memory_budget": "1MB"}, True, "need [0-9]+ MiB at least"),
    ],
)
def test_what_cannot_be_is_said(parameters, on_disk, message):
    X, y = data(classes=3)
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(Blocks(X, 100) if on_disk else X, y)


def test_other_features_are_refused():
    X, y = data()
    model = LinearSVC().fit(Blocks(X, 100), y)
    with pytest.raises(ValueError, match="X has 70 features, but LinearSVC is expecting 80"):
        model.predict(Blocks(X[:, :70], 100))
    with pytest.raises(ValueError, match="inconsistent numbers of samples: 1500 and 10"):
        LinearSVC().fit(Blocks(X, 100), y[:10])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (10, 10),
        ("10", 10),
        ("512MB", 512 * 10**6),
        ("1.5 GiB", 3 * 2**29),
        ("2K", 2000),
    ],
)
def test_bytes_in_words(value, expected):
    assert check_bytes("memory_budget", value) == expected


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "MB", "1 TBB", "-3MB"])
def test_bytes_that_are_none(value):
    with pytest.raises(ValueError, match="memory_budget"):
        check_bytes("memory_budget", value)


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    X, y = data(classes=3)
    rows = Blocks(X, 100)
    path = tmp_path / "run.ckpt"
    monkeypatch.setattr("widemargin.monitor._SECONDS_BETWEEN_SAVES", 0.0)
    model = LinearSVC(
        loss="hinge", C=10, tol=1e-4, solver="stream", checkpoint=path, random_state=0
    )

    class Dies(Blocks):
        """At a random instant: in the middle of a block that the reader is about to hand over."""

        left = 200

        def blocks(self):
            for block in super().blocks():
                self.left -= 1
                if self.left < 0:
                    raise Killed
                yield block

    kills = 0
    while True:
        dying = Dies(X, 100)
        dying.left = 200 + 50 * kills
        try:
            model.fit(dying, y)
            break
        except Killed:
            kills += 1
            assert list(tmp_path.glob("run.ckpt.*"))
    assert kills >= 3
    assert not list(tmp_path.iterdir())  # nothing is left to go on with
    assert certify(model, rows, y).relative_gap <= 1e-4
    assert model.status_ == "converged"


def test_an_interrupted_run_saves_its_last_state(tmp_path):
    X, y = data()
    rows = Blocks(X, 100)
    path = tmp_path / "run.ckpt"
    model = LinearSVC(C=100, tol=1e-6, max_iter=2, checkpoint=path, solver="stream")
    with pytest.warns(ConvergenceWarning):
        model.fit(rows, y)
    assert path.exists()
    resumed = model.set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning):
        resumed.fit(rows, y)
    assert resumed.history_[0].dual > 0.0  # it did not begin at zero


def test_a_checkpoint_of_another_problem_is_refused_and_left_alone(tmp_path):
    X, y = data()
    rows = Blocks(X, 100)
    path = tmp_path / "run.ckpt"
    with pytest.warns(ConvergenceWarning):
        LinearSVC(tol=1e-6, max_iter=1, checkpoint=path).fit(rows, y)
    saved = path.read_bytes()
    for other in (LinearSVC(C=2, checkpoint=path), LinearSVC(loss="hinge", checkpoint=path)):
        with pytest.raises(ValueError, match=r"run\.ckpt: a checkpoint of another problem"):
            other.fit(rows, y)
    assert path.read_bytes() == saved
    for damaged in (b"", saved[: len(saved) // 2], b"x" * 100):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"run\.ckpt: not a checkpoint"):
            LinearSVC(checkpoint=path).fit(rows, y)
        assert path.read_bytes() == damaged
    with pytest.raises(ValueError, match="checkpoint goes with 'stream'"):
        LinearSVC(checkpoint=path).fit(X, y)


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("coef", lambda a: a * np.nan, "the tensor 'coef' holds values that are not finite"),
        ("coef", lambda a: a + np.inf, "the tensor 'coef' holds values that are not finite"),
        ("coef", lambda a: a.astype(np.float32), "the tensor 'coef' has the unexpected type F32"),
        ("coef", lambda a: a[:-1], "the tensor 'coef' has shape"),
        ("offset", lambda a: a * np.nan, "the tensor 'offset' holds values that are not finite"),
        ("offset", lambda a: a[:0], "the tensor 'offset' has shape"),
        ("dual", lambda a: a * np.nan, "the tensor 'dual' holds values that are not finite"),
        ("dual", lambda a: a + np.inf, "the tensor 'dual' holds values that are not finite"),
        ("dual", lambda a: -1.0 - a, "the tensor 'dual' holds values below zero"),
        ("dual", lambda a: a.astype(np.int64), "the tensor 'dual' has the unexpected type I64"),
        ("dual", lambda a: a.astype(np.float16), "the tensor 'dual' has the unexpected type F16"),
        ("dual", lambda a: a[:, None], "the tensor 'dual' has shape"),
        ("dual", None, "the tensor 'dual' is missing"),
    ],
)
def test_a_checkpoint_with_numbers_that_cannot_be(tmp_path, name, change, match):
    X, y = data()
    rows = Blocks(X, 100)
    path = tmp_path / "run.ckpt"
    with pytest.warns(ConvergenceWarning):
        LinearSVC(tol=1e-6, max_iter=1, checkpoint=path).fit(rows, y)
    with safe_open(path, framework="numpy") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    array = tensors.pop(name)
    if change is not None:
        tensors[name] = np.ascontiguousarray(change(array))
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(CheckpointError, match=rf"run\.ckpt: a damaged checkpoint: {match}"):
        LinearSVC(checkpoint=path).fit(rows, y)


def test_a_checkpoint_with_a_header_that_cannot_be(tmp_path):
    X, y = data()
    path = tmp_path / "run.ckpt"
    for header in ("", "{", "[" * 100_000, "NaN", '{"rows": 1, "rows": 2}', "1e999"):
        save_file({"coef": np.zeros(1)}, path, metadata={"widemargin checkpoint": header})
        with pytest.raises(CheckpointError, match=r"run\.ckpt: not a checkpoint, or a damaged"):
            LinearSVC(checkpoint=path).fit(Blocks(X, 100), y)
    for header in ("null", "[]", "{}", "3"):
        save_file({"coef": np.zeros(1)}, path, metadata={"widemargin checkpoint": header})
        with pytest.raises(CheckpointError, match=r"run\.ckpt: a checkpoint of another problem"):
            LinearSVC(checkpoint=path).fit(Blocks(X, 100), y)


def test_a_checkpoint_with_a_name_too_long(tmp_path):
    X, y = data()
    path = tmp_path / ("n" * 300)
    with pytest.raises(CheckpointError, match="n: File name too long"):
        LinearSVC(checkpoint=path).fit(Blocks(X, 100), y)


def test_from_text_to_shards_to_a_model(tmp_path):
    X, y = data()
    dump_svmlight_file(X, 2 * y - 1, str(tmp_path / "rows.svm"), zero_based=False)
    convert(str(tmp_path / "rows.svm"), str(tmp_path / "shards"))
    rows = open_rows(tmp_path / "shards")
    assert rows.shape == X.shape
    model = LinearSVC(solver="stream", random_state=0).fit(rows, rows.labels)
    in_memory = LinearSVC(tol=1e-6).fit(X, y)
    assert model.certificate_.primal <= in_memory.certificate_.primal * (1 + 1.1e-3)
    np.testing.assert_allclose(
        model.decision_function(rows), model.decision_function(X), atol=1e-5
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_killed_at_any_instant(tmp_path):
    """A process of its own, killed ten times; the eleventh run ends with the gap asked for."""
    X, y = data(n=6000)
    with ShardWriter(str(tmp_path / "shards")) as writer:
        writer.add(X, y)
    code = (
        "import sys, widemargin.monitor as m; m._SECONDS_BETWEEN_SAVES = 0.0\n"
        "from widemargin import LinearSVC, open_rows, save_model\n"
        "rows = open_rows(sys.argv[1]); print('ready', flush=True)\n"
        "model = LinearSVC(loss='hinge', C=10, tol=1e-4, checkpoint=sys.argv[2], max_time=120)\n"
        "save_model(model.fit(rows, rows.labels), sys.argv[3])\n"
    )
    shards, checkpoint, saved = (str(tmp_path / name) for name in ("shards", "ckpt", "model"))
    command = [sys.executable, "-c", code, shards, checkpoint, saved]
    rng = np.random.default_rng(0)
    for kill in range(11):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            if kill < 10 and not os.path.exists(saved):
                time.sleep(0.3 * rng.random())
                process.kill()
    assert not os.path.exists(checkpoint)
    assert certify(load_model(saved), open_rows(shards), y).relative_gap <= 1e-4


MEASURED = """
import re, sys
from pathlib import Path
import numpy as np
from widemargin import LinearSVC, open_rows

def kilobytes(key):
    return int(re.search(key + r":\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

def fit(folder, solver, max_time):
    rows = open_rows(folder)
    return LinearSVC(
        loss="hinge", solver=solver, C=10, tol=1e-4, memory_budget=int(sys.argv[3]),
        max_time=max_time,
    ).fit(rows, rows.labels)

fit(sys.argv[1] + "/few", sys.argv[2], 1.0)  # compiles
Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
before = kilobytes("VmRSS")
fit(sys.argv[1] + "/many", sys.argv[2], 2.0)
print(1024 * (kilobytes("VmHWM") - before))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="measures as Linux does")
@pytest.mark.parametrize("solver", ["stream", "sbm"])
def test_memory_stays_within_the_budget(solver, tmp_path):
    """The interpreter and what it has loaded are not counted; the budget is for all else."""
    rng = np.random.default_rng(0)
    n, d, entries = 5_000, 10_000, 100
    for name, times in (("few", 1), ("many", 30)):
        with ShardWriter(tmp_path / name) as writer:
            for _ in range(times):
                indices = np.sort(rng.integers(0, d // entries, (n, entries))) + np.arange(
                    0, d, d // entries
                )
                values = rng.random(n * entries, dtype=np.float32)
                starts = np.arange(0, n * entries + 1, entries)
                X = sp.csr_matrix((values, indices.ravel(), starts), shape=(n, d))
                writer.add(X, np.where(rng.random(n) < 0.5, -1, 1))
    budget = 60_000_000
    assert open_rows(tmp_path / "many").nbytes > 1.9 * budget
    command = [sys.executable, "-W", "ignore", "-c", MEASURED, str(tmp_path), solver, str(budget)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rise = int(done.stdout)
    assert 0.3 * budget < rise < budget + (16 << 20)  # the slack is the allocators'
