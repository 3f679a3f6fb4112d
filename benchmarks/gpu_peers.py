"""What `benchmarks.gpu` works with: problems, fits, and peers, PyTorch's and scikit-learn's.

As a program it measures scikit-learn, or compiles our own kernels for the host ahead of time:

    python -m benchmarks.gpu_peers --sklearn mnist --data DIR --bound 1e4 --limit 60
    python -m benchmarks.gpu_peers --compile
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count, product
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.problems import Cell, primal_objective, relative_suboptimality
from widemargin import LinearRanker, LinearSVC
from widemargin.arrays import on_host

CORES = os.cpu_count()
TARGET = 1e-3
# Learning rates to try: SGD's in units of 1 / mean |x|^2, Adam's; and rows of a mini-batch.
DENSE_RATES = {"SGD": (1.0, 10.0, 100.0, 1e3), "Adam": (0.001, 0.01, 0.1, 1.0)}
SPARSE_RATES = {"SGD": (10.0, 100.0, 1e3, 1e4), "Adam": (0.001, 0.01, 0.1, 1.0)}
DENSE_BATCH, SPARSE_BATCH = 4096, 16384
# Sweeps over the rows that scikit-learn's may take, one after the other until it is enough.
LADDER = (1, 3, 10, 30, 100, 300, 1000)


# --- problems -------------------------------------------------------------------------------


class Skip(RuntimeError):
    """Something cannot be measured, and why."""


class Sets:
    """Problems (X, y) by name, on the host and on the device; each is loaded or made once.

    `folder` has NAME.npz, CSR, and NAME_y.npy; `shrink` divides the rows of sets that are made.
    """

    def __init__(self, folder: Path, shrink: int = 1):
        self.folder, self.shrink, self._host, self.on_device = folder, shrink, {}, {}

    def host(self, name: str):
        if name not in self._host:
            self._host[name] = self._load(name)
        return self._host[name]

    def device(self, name: str):
        if name not in self.on_device:
            if name in MADE:
                make, n_rows, *size = MADE[name]
                self.on_device[name] = make(n_rows // self.shrink, *size)
            else:
                self.on_device[name] = tuple(map(to_device, self.host(name)))
        return self.on_device[name]

    def _load(self, name):
        if name in MADE:
            return tuple(map(on_host, self.device(name)))
        if name == "covtype_binary":
            X, y = self.host("covtype")
            return X, np.where(y == 2, 1, -1)
        path = self.folder / f"{name}.npz"
        if not path.exists():
            raise Skip(f"{path.name} is not in the data folder")
        X = sp.csr_matrix(sp.load_npz(path)).astype(np.float32)
        y = np.load(self.folder / f"{name}_y.npy")
        if name == "rcv1":
            X.sum_duplicates()
            classes = np.unique(y)
            return X, y if set(classes) == {-1, 1} else np.where(y == classes[0], 1, -1)
        X = X.toarray()
        if name == "mnist":  # pixels, to [0, 1]
            return X / np.float32(255.0 if X.max() > 1.0 else 1.0), y
        low, high = X.min(axis=0), X.max(axis=0)  # as `datasets.load` does; again changes nothing
        return (X - low) / np.where(high > low, high - low, 1), y


def to_device(X):
    """Return a copy on the device."""
    import cupy
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse.csr_matrix(X) if sp.issparse(X) else cupy.asarray(X)


def text(n: int, d: int, words: int):
    """Rows of at most `words` entries, as of text: few columns are common, most are rare.

    One entry in five has a column of rank r with frequency r^-1, the others r^(-2/3). Values are
    like tf-idf, rows have length 1.
    """
    import cupy
    import cupyx.scipy.sparse

    random = cupy.random.RandomState(0)
    place = random.random_sample((n, words), dtype=np.float32)
    place[:, : words // 5] = cupy.exp(float(np.log(d)) * (place[:, : words // 5] - 1))
    place[:, words // 5 :] **= 3
    keys = cupy.minimum((place * d).astype(np.int64), d - 1)
    keys += cupy.arange(n, dtype=np.int64)[:, None] * d
    keys = cupy.sort(keys.ravel())
    first = cupy.ones(keys.size, dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    keys = keys[first]
    del place, first
    rows, columns = keys // d, (keys % d).astype(np.int32)
    starts = cupy.searchsorted(keys, cupy.arange(n + 1, dtype=np.int64) * d)
    del keys
    rarity = cupy.log(1.0 + n / cupy.maximum(cupy.bincount(columns, minlength=d), 1))
    chance = random.random_sample(columns.size, dtype=np.float32)
    values = rarity.astype(np.float32)[columns] * (1 - cupy.log(1 - chance))
    sums = cupy.zeros(columns.size + 1)
    sums[1:] = cupy.cumsum(values.astype(np.float64) ** 2)
    lengths = cupy.sqrt(sums[starts[1:]] - sums[starts[:-1]])
    values /= lengths.astype(np.float32)[rows]
    X = cupyx.scipy.sparse.csr_matrix((values, columns, starts.astype(np.int32)), shape=(n, d))
    truth = random.standard_normal(d, dtype=np.float32)
    truth *= random.random_sample(d, dtype=np.float32) < 0.1
    return X, _noisy_signs(random, X @ truth)


def dense(n: int, d: int):
    """Standard normal rows."""
    import cupy

    random = cupy.random.RandomState(0)
    truth = random.standard_normal(d, dtype=np.float32)
    X, score = cupy.empty((n, d), dtype=np.float32), cupy.empty(n, dtype=np.float32)
    for begin in range(0, n, 1 << 20):
        part = X[begin : begin + (1 << 20)]
        part[...] = random.standard_normal(part.shape, dtype=np.float32)
        score[begin : begin + (1 << 20)] = part @ truth
    return X, _noisy_signs(random, score)


def _noisy_signs(random, score):
    """Return labels: the signs of noisy scores, and of each ten labels about one is wrong."""
    noise = random.standard_normal(score.size, dtype=np.float32)
    wrong = random.random_sample(score.size, dtype=np.float32) < 0.1
    positive = (score + 0.3 * score.std() * noise > 0) != wrong
    return (2 * positive.astype(np.int8) - 1).astype(np.int8)


#: how to make a set: by what, how many rows, and what else there is to say
MADE = {
    "text": (text, 2_000_000, 1_000_000, 51),
    "dense": (dense, 10_000_000, 256),
    "small_text": (text, 1_000_000, 20_000, 105),
    "small_dense": (dense, 2_000_000, 128),
}


# --- fits -----------------------------------------------------------------------------------


def fit(X, y, device: str, limit: float, kind=LinearSVC, **settings):
    """Return a fitted model and the seconds it took; to a gap of 1e-3, without an intercept."""
    if kind is LinearSVC:
        settings = {"loss": "hinge", "fit_intercept": False, "random_state": 0} | settings
    model = kind(device=device, max_time=limit, n_jobs=CORES, **settings)
    _synchronize(device)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a limit was reached: the record says so
        model.fit(X, y)
    _synchronize(device)
    return model, time.perf_counter() - started


def _synchronize(device):
    if device == "cuda":
        import cupy

        cupy.cuda.Device().synchronize()


def account(model) -> dict:
    """What there is to say of a fit but its time; phases summed over classes."""
    phases = {}
    for record in {record.problem: record for record in model.history_}.values():
        for name, seconds in record.phases.items():
            phases[name] = round(phases.get(name, 0.0) + seconds, 5)
    certificate = model.certificate_
    fields = {"solver": model.solver_, "status": model.status_, "iterations": model.n_iter_}
    fields |= {"primal": certificate.primal, "dual": certificate.dual}
    return fields | {"gap": certificate.relative_gap, "phases": phases}


def pace(model) -> float:
    """Return seconds per iteration, without the first one and the last one, which certifies."""
    history = model.history_
    first, last = history[0], history[-2 if len(history) > 2 else -1]
    return (last.time - first.time) / max(1e-9, last.iteration - first.iteration)


def times(call, *arguments, repeats: int = 20) -> list[float]:
    """Return the device's seconds for each of some calls, after one that does not count."""
    import cupy

    call(*arguments)
    seconds = []
    for _ in range(repeats):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        call(*arguments)
        end.record()
        end.synchronize()
        seconds.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return seconds


def _few_rows():
    rng = np.random.default_rng(0)
    X, y = rng.random((600, 12)).astype(np.float32), rng.integers(0, 3, 600)
    return X, sp.csr_matrix(X), y


def compile_on_gpu() -> None:
    """Fit our models to a few rows on the device."""
    *both, y = map(to_device, _few_rows())
    for rows, labels, solver in product(both, (y, y > 0), ("newton", "ocas")):
        fit(rows, labels, "cuda", 60.0, solver=solver)


def compile_kernels() -> None:
    """Fit our models to a few rows on the host: what is compiled is kept on disk."""
    X, sparse, y = _few_rows()
    for rows in (X, sparse):
        for solver in ("newton", "acf", "dcd", "ocas"):
            fit(rows, y, "cpu", 60.0, solver=solver)
        fit(rows, y, "cpu", 60.0, fit_intercept=True)
    fit(X, y, "cpu", 60.0, multi_class="crammer_singer")
    fit(X, y, "cpu", 60.0, kind=LinearRanker)


# --- PyTorch --------------------------------------------------------------------------------


class _Over(Exception):
    """The goal is reached, or time is out."""


class Race:
    """The best objective so far, and when it was good enough.

    The clock stands still while an objective is computed that the method itself does not need.
    """

    def __init__(self, problem, bound, limit):
        self.problem, self.bound, self.limit = problem, bound, limit
        self.best, self.best_w, self.reached = np.inf, None, None
        self.spent, self.next_look = 0.0, 0.0
        problem.wait()
        self.started = time.perf_counter()

    @property
    def clock(self) -> float:
        return self.spent + time.perf_counter() - self.started

    def see(self, w, value):
        """Take note of a point and its objective; raise _Over if that is enough."""
        if value < self.best:
            self.best, self.best_w = value, w.detach().clone()
        if relative_suboptimality(self.best, self.bound) <= TARGET:
            self.reached = self.clock
        if self.reached is not None or self.clock > self.limit:
            raise _Over

    def look(self, *points):
        """Compute objectives, if the last time is long enough ago."""
        if self.clock < self.next_look:
            return
        self.problem.wait()
        self.spent = self.clock
        self.next_look = 1.15 * self.spent
        values = [self.problem.value(w) for w in points]
        self.started = time.perf_counter()
        for w, value in zip(points, values, strict=True):
            self.see(w, value)


class TorchProblem:
    """Hinge losses in PyTorch: a column of weights for each class, one for two classes.

    Methods are given the mean objective,  |w|^2 / (2 C n) + mean loss,  and judged by ours.
    """

    def __init__(self, X, y, C):
        import torch

        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        self.torch, self.C = torch, C
        self.n, self.d = X.shape
        self.sparse = not hasattr(X, "__dlpack__")
        y = torch.from_dlpack(y)
        classes = torch.unique(y)
        mine = y == classes[1] if classes.numel() == 2 else y[:, None] == classes
        self.Y = 2.0 * mine.float() - 1.0
        if self.sparse:
            squares = float((X.data.astype(np.float64) ** 2).sum())
            self.rows = (_csr_tensor(X), _csr_tensor(X.T))
            parts = [X[i : i + SPARSE_BATCH] for i in range(0, self.n, SPARSE_BATCH)]
            self.parts = [(_csr_tensor(part), _csr_tensor(part.T)) for part in parts]
        else:
            X = torch.from_dlpack(X)
            squares = float(X.square().sum(dtype=torch.float64))
            self.rows = (X, X.T)
        self.mean_square = squares / self.n
        self.rates = SPARSE_RATES if self.sparse else DENSE_RATES

    def zeros(self):
        return self.torch.zeros((self.d, *self.Y.shape[1:]), device=self.Y.device)

    def wait(self):
        if self.Y.is_cuda:
            self.torch.cuda.synchronize()

    def value(self, w, slack=None) -> float:
        """Return our objective; it has been computed when this returns."""
        if slack is None:
            slack = (1.0 - self.Y * (self.rows[0] @ w)).clamp_(min=0.0)
        sums = (w * w).sum(dtype=self.torch.float64), slack.sum(dtype=self.torch.float64)
        return float(0.5 * sums[0] + self.C * sums[1])

    def gradient(self, w, rows, Y):
        """Return that of the mean objective over some rows, and the slack."""
        slack = (1.0 - Y * (rows[0] @ w)).clamp_(min=0.0)
        pull = Y * (slack > 0.0)
        return w / (self.C * self.n) - (rows[1] @ pull) / len(Y), slack

    def sweeps(self) -> Iterator:
        """Yield sweep, rows and labels of mini-batches, without end.

        In random order, of sparse rows blocks of them.
        """
        generator = self.torch.Generator(self.Y.device).manual_seed(0)
        size = SPARSE_BATCH if self.sparse else DENSE_BATCH
        for sweep in count():
            n = len(self.parts) if self.sparse else self.n
            order = self.torch.randperm(n, generator=generator, device=self.Y.device)
            if self.sparse:
                for part in order.tolist():
                    yield sweep, self.parts[part], self.Y[part * size : (part + 1) * size]
            else:
                X, Y = self.rows[0][order], self.Y[order]
                for part, labels in zip(X.split(size), Y.split(size), strict=True):
                    yield sweep, (part, part.T), labels


def _csr_tensor(X):
    import torch

    X = X.tocsr()
    parts = map(torch.from_dlpack, (X.indptr, X.indices, X.data))
    return torch.sparse_csr_tensor(*parts, size=X.shape, check_invariants=False)


def lbfgs(problem, race, _rate):
    """All rows at once; of the hinge's kinks it knows nothing."""
    w = problem.zeros()
    never = {"tolerance_grad": 0.0, "tolerance_change": 0.0}
    optimizer = problem.torch.optim.LBFGS([w], line_search_fn="strong_wolfe", **never)

    def closure():
        w.grad, slack = problem.gradient(w, problem.rows, problem.Y)
        value = problem.value(w, slack)
        race.see(w, value)
        return value / (problem.C * problem.n)

    before = np.inf
    while race.best < before or before == np.inf:  # else it is stuck
        before = race.best
        optimizer.step(closure)


def stochastic(problem, race, rate, adam=False):
    """Mini-batches and the mean of late iterates; SGD's steps shrink from sweep to sweep."""
    w = problem.zeros()
    mean = w.clone()
    optimizer = problem.torch.optim.Adam([w], lr=rate)
    for number, (sweep, rows, Y) in enumerate(problem.sweeps()):
        w.grad = problem.gradient(w, rows, Y)[0]
        if adam:
            optimizer.step()
        else:
            w.sub_(w.grad, alpha=rate / problem.mean_square / (1.0 + sweep) ** 0.5)
        mean.lerp_(w, 4.0 / (number + 4.0))
        race.look(w, mean)


def torch_peers(X, y, host_X, host_y, bound, limit) -> Iterator[dict]:
    """Yield a record for each method, at its best learning rate; tuning is not counted.

    Rates share `limit` seconds, and the best one gets as many for itself. C is 1.
    """
    problem = TorchProblem(X, y, 1.0)
    host_X = host_X if problem.sparse else host_X.astype(np.float64)
    methods = {"L-BFGS": lbfgs, "SGD": stochastic, "Adam": partial(stochastic, adam=True)}
    for name, method in methods.items():
        _race(problem, method, 1.0, bound, limit=0.0)  # libraries are loaded
        rates = problem.rates.get(name, ())
        tried = [(_race(problem, method, r, bound, limit / len(rates)), r) for r in rates]
        rate = min(tried, key=_merit)[1] if tried else None
        race = _race(problem, method, rate, bound, limit)
        seconds = race.clock if race.reached is None else race.reached
        coef = race.best_w.cpu().numpy().T
        objective = primal_objective(Cell("", 1.0), host_X, host_y, coef)
        tuning = [{"rate": r, "seconds": t.reached, "best": t.best} for t, r in tried]
        setting = "" if rate is None else f"rate {rate:g}"
        record = _record(f"PyTorch {name}", setting, seconds, objective, bound)
        yield record | {"reached": race.reached is not None, "tried": tuning}


def _race(problem, method, rate, bound, limit):
    race = Race(problem, bound, limit)
    with suppress(_Over):
        method(problem, race, rate)
    problem.wait()
    return race


def _merit(tried):
    race, _ = tried
    return (1, race.best) if race.reached is None else (0, race.reached)


def _record(method, setting, seconds, objective, bound):
    excess = relative_suboptimality(objective, bound)
    fields = {"method": method, "setting": setting, "seconds": seconds, "objective": objective}
    return fields | {"excess": excess, "reached": excess <= TARGET}


# --- scikit-learn ---------------------------------------------------------------------------


def sklearn_peers(X, y, C, bound, limit) -> Iterator[dict]:
    """Yield a record for each fit of SGDClassifier and LinearSVC: more sweeps until it is enough.

    No fit begins that is expected to end after `limit` seconds for its class.
    """
    from sklearn.linear_model import SGDClassifier
    from sklearn.svm import LinearSVC as SklearnLinearSVC

    warnings.simplefilter("ignore")  # of sweeps that were too few
    sgd = {"alpha": 1.0 / (C * X.shape[0]), "tol": None, "n_jobs": CORES}
    svc = {"C": C, "loss": "hinge", "dual": True, "tol": 1e-9}
    X = X.astype(np.float64)
    for name, kind, settings in (
        ("SGDClassifier", SGDClassifier, sgd),
        ("SGDClassifier, averaged", SGDClassifier, sgd | {"average": True}),
        ("LinearSVC", SklearnLinearSVC, svc),
    ):
        left, last = limit, 0.0
        for sweeps in LADDER:
            if left < 2.5 * last:
                break
            model = kind(**settings, max_iter=sweeps, fit_intercept=False, random_state=0)
            started = time.perf_counter()
            model.fit(X, y)
            last = time.perf_counter() - started
            left -= last
            objective = primal_objective(Cell("", C), X, y, model.coef_)
            record = _record(f"scikit-learn {name}", f"{sweeps} sweeps", last, objective, bound)
            yield record
            if record["reached"]:
                break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--sklearn", metavar="SET")
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--bound", type=float, default=0.0)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    if options.compile:
        compile_kernels()
    if options.sklearn:
        X, y = Sets(options.data).host(options.sklearn)
        for record in sklearn_peers(X, y, 1.0, options.bound, options.limit):
            print(json.dumps(record, default=float), flush=True)


if __name__ == "__main__":
    main()
