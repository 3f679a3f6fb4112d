"""The cache of compiled kernels fails, and nothing else does; a clock leaves out compilation."""

import contextlib
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numba.core import config, event
from sklearn.datasets import make_classification

from widemargin import LinearSVC, LinearSVR
from widemargin.kernels import jit
from widemargin.monitor import Monitor

SOURCE = """
from widemargin.kernels.jit import kernel

@kernel
def double(x):
    return 2.0 * x
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no warning given yet."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(jit, "_warned", False)
    (tmp_path / "module.py").write_text(SOURCE)
    return tmp_path / "cache"


def loaded(cache, source=SOURCE):
    """The kernel as a process that just began would have it."""
    path = cache.parent / "module.py"
    if path.read_text() != source:
        path.write_text(source)
    specification = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.double


def files(cache, ending):
    found = sorted(cache.rglob(f"*{ending}"))
    assert found
    return found


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


def test_compiled_once_and_loaded_ever_after(cache):
    first, second = loaded(cache), loaded(cache)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first(2.0) == 4.0
        assert second(2.0) == 4.0
        assert second(np.float32(2.0)) == 4.0
        third = loaded(cache)
        assert third(2.0) == third(np.float32(2.0)) == 4.0
    assert (hits(first), hits(second), hits(third)) == (0, 1, 2)


def _flipped(content):
    """One bit in the middle of it, which is machine code."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one byte short": lambda content: content[:-1],
    "garbage": lambda content: b"garbage" * 100,
    "zeros": lambda content: bytes(len(content)),
    "another object": lambda content: pickle.dumps([1, 2, 3]),
}


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        *[pytest.param(".nbi", damage, id=f"index {name}") for name, damage in DAMAGE.items()],
        *[pytest.param(".nbc", damage, id=f"code {name}") for name, damage in DAMAGE.items()],
        pytest.param(".nbc", _flipped, id="code with another bit"),
    ],
)
def test_damaged_files_are_made_anew_after_one_warning(cache, ending, damage):
    loaded(cache)(2.0)
    for path in files(cache, ending):
        path.write_bytes(damage(path.read_bytes()))
    kernel = loaded(cache)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert kernel(2.0) == 4.0
        assert kernel(np.float32(2.0)) == 4.0
    assert hits(kernel) == 0
    # An index may also look like one of another version, which is no fault.
    assert len(caught) == 1 or (ending == ".nbi" and not caught)
    for warning in caught:
        assert warning.category is RuntimeWarning
        assert str(warning.message).startswith(str(files(cache, ending)[0].parent))
    mended = loaded(cache)
    assert mended(2.0) == 4.0
    assert hits(mended) == 1


def test_a_full_disk_is_one_warning(cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    kernel = loaded(cache)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.warns(RuntimeWarning, match=r"cache.*: Numba's cache failed .*No space left"):
            assert kernel(2.0) == 4.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kernel(np.float32(2.0)) == 4.0  # once is enough
    assert loaded(cache)(2.0) == 4.0


def test_a_folder_that_takes_no_files_any_more(cache, monkeypatch):
    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    kernel = loaded(cache)
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    with pytest.warns(RuntimeWarning, match=r"cache.*: Numba's cache failed .*Read-only"):
        assert kernel(2.0) == 4.0


def test_no_folder_takes_files_from_the_beginning(cache, monkeypatch):
    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = loaded(cache)  # importing is no reason to warn
    with pytest.warns(RuntimeWarning, match=rf"^{cache}: Numba's cache failed"):
        assert kernel(2.0) == 4.0


def test_an_index_that_names_the_code_of_an_older_source(cache, monkeypatch):
    """What a disk leaves that filled up between an index and what it names."""
    loaded(cache)(2.0)
    stale = files(cache, ".nbc")[0]
    old = stale.read_bytes()
    changed = SOURCE.replace("2.0 *", "3.0 *")
    assert loaded(cache, changed)(2.0) == 6.0
    stale.write_bytes(old)
    assert loaded(cache, changed)(2.0) == 6.0


LIMITED = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
import numpy as np
from module import double
print(double(2.0), double(np.float32(2.0)))
"""


@pytest.mark.skipif(os.name != "posix", reason="no such limits")
def test_a_process_that_may_write_no_more(cache):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(cache.parent)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4.0", "4.0"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert str(cache) in done.stderr


class TestClock:
    @pytest.fixture
    def time(self, monkeypatch):
        """A clock on the wall that tests set."""
        now = SimpleNamespace(reading=100.0)
        monkeypatch.setattr(jit, "time", SimpleNamespace(perf_counter=lambda: now.reading))
        return now

    def test_it_stands_still_while_kernels_are_compiled(self, time):
        before = jit.clock()
        time.reading += 1.0
        with event.trigger_event("numba:compile"):
            time.reading += 10.0
            assert jit.clock() == before + 1.0
            with event.trigger_event("numba:compile"):  # one that the first one calls
                time.reading += 10.0
            assert jit.clock() == before + 1.0
        assert jit.clock() == before + 1.0
        time.reading += 2.0
        assert jit.clock() == before + 3.0

    def test_a_compilation_that_fails_ends_too(self, time):
        before = jit.clock()
        with contextlib.suppress(ValueError), event.trigger_event("numba:compile"):
            time.reading += 10.0
            raise ValueError
        time.reading += 1.0
        assert jit.clock() == before + 1.0

    def test_max_time_does_not_count_it(self, time):
        monitor = Monitor(tol=1e-3, max_iter=10, max_time=5.0)
        with event.trigger_event("numba:compile"):
            time.reading += 60.0
            assert not monitor.must_stop()
        time.reading += 4.0
        assert not monitor.must_stop()
        time.reading += 1.0
        assert monitor.must_stop()
        assert monitor.status == "max_time"

    def test_kernels_that_are_compiled_stop_it(self, cache, monkeypatch):
        readings = iter(np.arange(1e6))
        monkeypatch.setattr(jit, "time", SimpleNamespace(perf_counter=lambda: next(readings)))
        kernel = loaded(cache)
        before = jit.clock()
        kernel(2.0)  # a reading as it begins, and one as it ends
        assert jit.clock() == before + 2.0


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
@pytest.mark.parametrize("solver", ["acf", "dcd", "newton", "ocas"])
def test_read_only_arrays_need_no_compilation_of_their_own(solver, sparse):
    X, y = make_classification(60, 5, random_state=0)
    train = {"hinge": LinearSVC, "absolute_error": LinearSVR}
    models = [
        kind(loss=loss, solver=solver, tol=0.1, random_state=0) for loss, kind in train.items()
    ]
    compiled = []
    for writeable in (True, False):
        y = y.astype(np.float64)
        rows = sp.csr_array(X) if sparse else X.copy()
        for array in (rows.data, rows.indices, rows.indptr) if sparse else (rows,):
            array.flags.writeable = writeable
        y.flags.writeable = writeable
        compiled.append([])
        with listening(compiled[-1]):
            for model in models:
                model.fit(rows, y)
                model.predict(rows)
    assert compiled[1] == []


@contextlib.contextmanager
def listening(names):
    """Have the names of the functions that Numba compiles or loads."""
    loads = jit._Cache.load_overload

    def load_overload(self, sig, target_context):
        names.append(self._name)
        return loads(self, sig, target_context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit._Cache, "load_overload", load_overload)
        yield
