import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from processes import PATIENCE
from threadpoolctl import ThreadpoolController

from widemargin import LinearRanker, LinearSVC, LinearSVCCV, OrdinalSVC, svm_path, threads
from widemargin.monitor import Monitor


def test_alone_unless_threads_are_lent():
    assert threads.chunks(100, 1 << 30) == [(0, 100)]
    assert threads.run(lambda a, b: a + b, [(1, 2), (3, 4)]) == [3, 7]


def test_rows_are_shared_out_whole():
    with threads.lent(3):
        assert threads.chunks(100, 1 << 30) == [(0, 33), (33, 66), (66, 100)]
        assert threads.chunks(2, 1 << 30) == [(0, 1), (1, 2)]
        assert threads.chunks(100, 10) == [(0, 100)]  # too little to share
        assert threads.chunks(0, 0) == [(0, 0)]
        with threads.lent(1):
            assert threads.chunks(100, 1 << 30) == [(0, 100)]
    assert threads.chunks(100, 1 << 30) == [(0, 100)]


def test_shares_run_side_by_side():
    meeting = threading.Barrier(3, timeout=60)
    with threads.lent(3):
        threads.run(lambda _: meeting.wait(), [(0,), (1,), (2,)])


def test_an_error_in_a_share_comes_through():
    def fail(j):
        if j == 1:
            raise ValueError("share 1")

    with threads.lent(2), pytest.raises(ValueError, match="share 1"):
        threads.run(fail, [(0,), (1,)])


LIBRARIES = ThreadpoolController().select(user_api="blas")


def of_blas():
    """Return how many threads there are to each BLAS."""
    return {library["num_threads"] for library in LIBRARIES.info()}


def set_threads(counts):
    """Give so many threads to each BLAS, and let others do so as well."""
    for library, count in zip(LIBRARIES.lib_controllers, counts):
        library.set_num_threads(count)
        if library.internal_api == "openblas":
            library.clear_controlling_thread()


@pytest.fixture
def two_for_blas():
    if not LIBRARIES.lib_controllers:
        pytest.skip("this BLAS takes no orders")
    before = [library.get_num_threads() for library in LIBRARIES.lib_controllers]
    set_threads([2] * len(before))
    yield
    set_threads(before)


def test_blas_gets_its_threads_back_when_the_last_one_ends(two_for_blas):
    first, second = threads.one_for_blas(), threads.one_for_blas()
    first.__enter__()
    second.__enter__()
    assert of_blas() == {1}
    first.__exit__(None, None, None)  # they need not end in turn
    assert of_blas() == {1}
    second.__exit__(None, None, None)
    assert of_blas() == {2}


def test_the_last_one_may_be_another_thread(two_for_blas):
    fitting, ended = threading.Event(), threading.Event()

    def fit():
        with threads.one_for_blas():
            fitting.set()
            ended.wait(PATIENCE)
        return of_blas()

    with ThreadPoolExecutor(1) as pool:
        with threads.one_for_blas():
            beside = pool.submit(fit)
            fitting.wait(PATIENCE)
        assert of_blas() == {1}
        ended.set()
        assert beside.result() == {2}
    assert of_blas() == {2}


def test_blas_gets_its_threads_back_after_an_error(two_for_blas):
    with pytest.raises(ValueError, match="at least 2 classes"):
        LinearSVC().fit(np.ones((4, 2)), np.ones(4))
    assert of_blas() == {2}


X = np.random.default_rng(0).standard_normal((60, 3))
Y = np.arange(60) % 3


@pytest.mark.parametrize(
    "fit",
    [
        lambda: LinearSVC().fit(X, Y),
        lambda: LinearSVC(solver="newton", n_jobs=2).fit(X, Y),
        lambda: LinearSVC(probability=True).fit(X, Y),
        lambda: LinearSVCCV(Cs=[0.1, 1.0], n_jobs=2).fit(X, Y),
        lambda: LinearRanker().fit(X, Y),
        lambda: OrdinalSVC().fit(X, Y),
        lambda: svm_path(X, Y, Cs=[0.1, 1.0]),
        lambda: ThreadPoolExecutor(2).submit(LinearSVC().fit, X, Y).result(),
    ],
    ids=["svc", "rows in threads", "probability", "cv", "ranker", "ordinal", "path", "thread"],
)
def test_blas_has_one_thread_during_a_fit(fit, two_for_blas, monkeypatch):
    seen, check = set(), Monitor.check

    def look(self, *arguments):
        seen.update(of_blas())
        return check(self, *arguments)

    monkeypatch.setattr(Monitor, "check", look)
    fit()
    assert seen == {1}
    assert of_blas() == {2}


def test_a_fit_uses_the_one_core_it_was_given():
    """BLAS's threads would spin beside ours, from one short product to the next."""
    code = textwrap.dedent(
        """
        import time
        import numpy as np
        import scipy.sparse as sp
        from widemargin import LinearSVC, certify, svm_path

        random = np.random.default_rng(0)
        X = sp.random(2000, 30_000, density=2e-3, format="csr", random_state=random)
        y = random.integers(0, 5, 2000)
        model = LinearSVC(loss="hinge", random_state=0).fit(X, y)  # compiles
        time.sleep(0.5)  # so that threads which that has left behind come to rest
        processor, wall = time.process_time(), time.perf_counter()
        for _ in range(3):
            model.fit(X, y)
            certify(model, X, y)
            svm_path(X, y, Cs=[0.1, 1.0], loss="hinge", random_state=0)
            model.decision_function(X)
        print((time.process_time() - processor) / (time.perf_counter() - wall))
        """
    )
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in limits}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) <= 1.3
