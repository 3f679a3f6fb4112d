"""Rows for clusters of processes: in parts, and slow ones."""

import time
from pathlib import Path

from dask import array, delayed
from sklearn.datasets import make_classification

from widemargin.data.memory import DenseRows

QUIET = {"dashboard_address": None, "worker_dashboard_address": None}


def rows(n_classes=2, n=1200):
    return make_classification(
        n, 15, n_informative=8, n_classes=n_classes, flip_y=0.1, random_state=0
    )


def collections(X, y, size=350):
    return array.from_array(X, chunks=(size, -1)), array.from_array(y, chunks=size)


def assert_same(model, twin, most_more=0.1):
    """Both are proved to be within their tolerance of the same optimum, in about the same time."""
    assert model.status_ == "converged"
    for one, other in ((model, twin), (twin, model)):
        assert one.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-12)
    assert model.n_iter_ <= (1.0 + most_more) * twin.n_iter_ + 2


class SlowRows(DenseRows):
    """Dense rows whose scores take so many seconds more, while a file is there.

    The file has a byte for each time that this was so. While there is `held(file)` beside it,
    they are waited for.
    """

    def __init__(self, X, seconds: float, file: Path):
        super().__init__(X)
        self.seconds, self.file = seconds, file

    def scores(self, W):
        if self.file.exists():
            with self.file.open("a") as counted:
                counted.write(".")
            time.sleep(self.seconds)
        while held(self.file).exists():
            time.sleep(0.02)
        return super().scores(W)


def held(file: Path) -> Path:
    """Return the file that, as long as it is there, lets no pass over slow rows end."""
    return file.with_name(file.name + "-held")


def slow_parts(X, seconds, file):
    """Return two parts of X, both slow as long as there is a file, which is made."""
    file.touch()
    half = len(X) // 2
    return [delayed(SlowRows)(some, seconds, file) for some in (X[:half], X[half:])]


def halves(y):
    return [y[: len(y) // 2], y[len(y) // 2 :]]
