"""Training on a Dask cluster: the same answer, what a round costs, and a thousand workers.

    OMP_NUM_THREADS=1 python -m benchmarks.cluster              # all of it, about half an hour
    OMP_NUM_THREADS=1 python -m benchmarks.cluster same         # some sections

rewrites the tables in docs/cluster.md. Workers are processes of one thread on this machine. Where
there are more of them than cores they wait for each other, so that seconds say little about many
machines; iterations and bytes say all. Section `scaling` computes what many machines would take,
from costs that are measured here one by one.
"""

from __future__ import annotations

import math
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from dask import delayed
from distributed import Client, LocalCluster, get_task_stream, wait

import widemargin
from benchmarks.analyse import ROOT
from benchmarks.files import PATHS, in_memory, kept, paths_file
from benchmarks.problems import load
from benchmarks.sections import run, table
from widemargin.dask import LinearSVC, LinearSVCCV, tasks
from widemargin.dask.partitions import _FAN, Partitions
from widemargin.dask.settings import ClusterSettings
from widemargin.dask.training import labelled_part
from widemargin.data.blocks import Sizes
from widemargin.data.shards import ShardWriter
from widemargin.solvers.line_search import Penalty

DOCUMENT = ROOT / "docs" / "cluster.md"
WORKERS = (1, 2, 4)
TOL = 1e-3


@contextmanager
def cluster(n_workers: int):
    """A client of so many processes."""
    options = {"dashboard_address": None, "worker_dashboard_address": None}
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **options) as local,
        Client(local) as client,
    ):
        yield client


def spread(client, X, y, n_parts: int):
    """Futures of so many parts of X and y, on workers in turn."""
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    cuts = np.linspace(0, len(y), n_parts + 1).astype(int)
    pairs = [
        client.scatter([X[a:b], y[a:b]], workers=[workers[j % len(workers)]], hash=False)
        for j, (a, b) in enumerate(pairwise(cuts))
    ]
    return [list(column) for column in zip(*pairs)]


def loopback() -> int:
    """Bytes that processes of this machine have sent to each other, ever."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[0])
    return 0


def seconds_of(task, times: int = 15) -> float:
    """The median over some calls."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        task()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))


def per_iteration(model, what) -> float:
    """The median growth of something from record to record, without the first few."""
    return float(np.median(np.diff([what(record) for record in model.history_])[2:]))


# --- the same answer --------------------------------------------------------------------------

SOME_PATHS = 50_000
# Sets in files, and the bytes of each of these.
SHARDS = {"rcv1": 1 << 20, "debian_paths": 4 << 20}


def same() -> str:
    """One, two and four workers against one machine."""
    rows = []
    for name, C in (
        ("rcv1", 1.0),
        ("covtype_binary", 0.01),
        ("rcv1, shards", 1.0),
        ("debian_paths, shards", 1.0),
    ):
        settings = {"C": C, "loss": "hinge", "fit_intercept": False, "tol": TOL}
        X, y = _data(name)
        alone = widemargin.LinearSVC(solver="ocas", n_jobs=1, **settings).fit(X, y)
        for n in WORKERS:
            with cluster(n) as client:
                given = (_shards(name),) if "shards" in name else spread(client, X, y, n)
                LinearSVC(max_iter=2, **settings).fit(*given)  # kernels are loaded
                sent = loopback()
                with get_task_stream(client) as stream:
                    model = LinearSVC(**settings).fit(*given)
                sent = (loopback() - sent) / model.n_iter_ / n
            print(f"{name}, {n} workers: {model.history_[-1].time:.1f} s", flush=True)
            seconds = model.history_[-1].time
            phases = model.history_[-1].phases
            busy = _busiest(stream.data)
            driver = phases["planes"] + phases["reduced problem"]
            counted = model.history_[-1].network_bytes / model.n_iter_ / n
            rows.append(
                [
                    f"{name}, {C:g}",
                    f"{n}",
                    f"{model.certificate_.primal:.6g}",
                    f"{model.certificate_.relative_gap:.1e}",
                    f"{model.n_iter_:.0f} / {alone.n_iter_:.0f} = "
                    f"{model.n_iter_ / alone.n_iter_:.2f}",
                    f"{seconds:.1f} s",
                    f"{busy:.1f} s",
                    f"{driver:.1f} s",
                    f"{seconds - busy - driver:.1f} s",
                    f"{counted / (8 * X.shape[1]):.2f}",
                    f"{sent / (8 * X.shape[1]):.1f}",
                ]
            )
    header = ["data, C", "workers", "objective", "gap", "iterations / one machine's", "time"]
    header += ["workers' arithmetic", "driver's", "engine", "bytes / 8d", "on the wire / 8d"]
    return table(header, rows)


def _busiest(stream) -> float:
    """Seconds that the worker with the most work computed."""
    busy: dict[str, float] = {}
    for task in stream:
        for span in task["startstops"]:
            if span["action"] == "compute":
                busy[task["worker"]] = busy.get(task["worker"], 0.0) + span["stop"] - span["start"]
    return max(busy.values())


def _data(name):
    """Rows and labels, in memory; of debian_paths, hashed n-grams of some."""
    name = name.split(",")[0]
    if name == "debian_paths":
        rows = widemargin.open_rows(paths_file(10), PATHS)
        return in_memory(rows, SOME_PATHS), rows.labels[:SOME_PATHS]
    data = load(name)
    return data.X, data.y


def _shards(name: str) -> Path:
    """A folder of a set's rows, in several files."""
    name = name.split(",")[0]
    return kept(f"cluster-{name}", _write_shards, name)


def _write_shards(path: Path, name: str) -> None:
    X, y = _data(name)
    with ShardWriter(path, sizes=Sizes(part_bytes=SHARDS[name])) as writer:
        writer.add(X, y)


# --- problems that share rounds -----------------------------------------------------------------

# What the engine does without, for comparison.
WITHOUT = {
    "as it is": ClusterSettings(),
    "planes not kept from C to C": ClusterSettings(keeps_planes=False),
    "one problem after another": ClusterSettings(most_together=1),
}


def together() -> str:
    """Classes and folds side by side, and one after another."""
    settings = {"loss": "hinge", "fit_intercept": False}
    classes = LinearSVC(C=0.01, tol=1e-2, **settings)
    folds = LinearSVCCV(Cs=np.logspace(-2, 1, 7), cv=5, tol=TOL, **settings)
    rows = []
    with cluster(2) as client:
        for what, name, model in (
            ("classes", "digits", classes),
            ("folds of two classes", "a9a", folds),
        ):
            given = spread(client, *_data(name), 2)
            LinearSVC(max_iter=2, **settings).fit(*given)  # kernels are loaded
            for variant, settings_of in WITHOUT.items():
                if model is classes and "planes" in variant:
                    continue
                model.settings = settings_of
                sent, began = loopback(), time.perf_counter()
                model.fit(*given)
                taken, sent = time.perf_counter() - began, loopback() - sent
                rows.append(
                    [
                        f"{what}, {name}",
                        variant,
                        f"{model.n_rounds_}",
                        f"{sent / 1e6:,.0f} MB",
                        f"{taken:.0f} s",
                        f"{getattr(model, 'C_', None) or model.C:.3g}",
                        f"{model.certificate_.primal:.6g}",
                        f"{model.certificate_.relative_gap:.1e}",
                    ]
                )
    header = ["what", "variant", "rounds", "on the wire", "time", "C", "objective there", "gap"]
    return table(header, rows)


# --- what a round costs -------------------------------------------------------------------------

FEATURES = (20, 50_000, 1_000_000)
FEW = 2000


def random_rows(n_rows: int, n_features: int, n_entries: int, seed: int = 0):
    """Sparse rows with so many entries each, and labels that are hard to tell apart."""
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, n_features, n_rows * n_entries)
    values = rng.random(n_rows * n_entries, dtype=np.float32)
    starts = np.arange(n_rows + 1) * n_entries
    X = sp.csr_matrix((values, indices, starts), shape=(n_rows, n_features))
    return X, np.where(rng.random(n_rows) < 0.5, 1, -1)


def overhead() -> str:
    """Seconds of an iteration that are not the workers' arithmetic."""
    rows = []
    for d in FEATURES:
        for n in WORKERS:
            found = measured_round(d, n)
            cells = [f"{1000 * seconds:.1f} ms" for seconds in found[:-1]]
            rows.append([f"{d:,}", f"{n}", *cells, f"{found[-1] / (8 * d):.1f}"])
    header = ["features", "workers", "iteration", "driver's arithmetic", "workers' arithmetic"]
    header += ["engine", "an empty graph", "on the wire / 8d"]
    return table(header, rows)


@cache
def measured_round(d: int, n: int):
    """Seconds of an iteration, driver, workers, engine, empty graph; bytes per worker."""
    X, y = random_rows(FEW, d, 20)
    with cluster(n) as client:
        given = spread(client, X, y, n)
        settings = {"loss": "hinge", "fit_intercept": False, "tol": 1e-6}
        LinearSVC(max_iter=2, **settings).fit(*given)
        sent = loopback()
        model = LinearSVC(max_iter=30, **settings).fit(*given)
        sent = (loopback() - sent) / model.n_iter_ / n
        empty = empty_round(client, n)
    whole = per_iteration(model, lambda record: record.time)
    round_ = per_iteration(model, lambda record: record.phases["round"])
    work = arithmetic(X[: FEW // n], y[: FEW // n])
    return whole, whole - round_, work, round_ - work, empty, sent


def arithmetic(X, y) -> float:
    """Seconds that a part's tasks of one round take, in this process."""
    part = labelled_part(X, y, None, "bench-0")
    recipe = tasks.Recipe(np.array([-1, 1]), np.ones(2), "hinge", 1)
    rng = np.random.default_rng(0)
    steps, penalty = np.append(0.0, np.geomspace(0.01, 10.0, 63)), Penalty(1.0, 0.0, 0.0)
    center = tasks.Point("0", np.zeros(X.shape[1]), 0.0)
    taken = []
    for j in range(9):
        target = tasks.Point(f"to {j}", rng.normal(0, 0.1, X.shape[1]).astype(np.float32), 0.0)
        line = tasks.Line(recipe, center, target, steps, penalty, 0.0, 0.1, f"{j + 1}")
        questions = tasks.Questions([line], [])
        began = time.perf_counter()
        tasks.line_sums(part, questions)
        tasks.answers(part, questions, [0.1])
        taken.append(time.perf_counter() - began)
        center = center._replace(name=f"{j + 1}")  # whose scores the part has now
    tasks.forget([part.name])
    return float(np.median(taken[2:]))


def empty_round(client, n_groups: int) -> float:
    """Seconds of a graph of a round's shape that does nothing."""
    nothing = delayed(_nothing, pure=False)
    parts = Partitions(client, {f"{j}": nothing(j) for j in range(n_groups)})
    parts.groups = [("", [future]) for future in parts.futures]  # each as if on its own worker

    def round_trip():
        chosen = parts.do(_nothing, parts.each(_nothing, _nothing))
        parts.result(parts.total(_nothing, parts.each(_nothing, _nothing, chosen)))

    round_trip()
    return seconds_of(round_trip, 6)


def _nothing(*arguments):
    return 0.0


# --- averaging ----------------------------------------------------------------------------------


def averaging() -> str:
    """Iterations from the mean of what four parts find by themselves, and from zero."""
    rows = []
    with cluster(2) as client:
        for name in ("rcv1", "covtype_binary", "a9a"):
            data = load(name)
            given = spread(client, data.X, data.y, 4)
            for C in (0.01, 1.0):
                cells = []
                for first in (False, True):
                    model = LinearSVC(
                        C=C,
                        loss="hinge",
                        fit_intercept=False,
                        tol=TOL,
                        average_first=first,
                        max_time=60.0,
                    ).fit(*given)
                    reached = "" if model.status_ == "converged" else f" ({model.status_})"
                    first = model.history_[0].primal / model.certificate_.primal
                    cells += [f"{model.n_iter_:.0f}{reached}", f"{first:.3g}"]
                rows.append([f"{name}, {C:g}", *cells])
    header = ["data, C", "iterations from zero", "first objective / last"]
    return table([*header, "iterations from the mean", "first objective / last"], rows)


# --- many workers -------------------------------------------------------------------------------

MANY = (16, 256, 4096)
N_ROWS, N_ENTRIES, N_FEATURES = 10**9, 50, 10**6
WIRE = 8.0 / 10e9  # seconds per byte, at 10 Gbit/s
PEERS = 10  # that a Dask worker sends to at a time; others ask again after 0.15 s
AGAIN = 0.15


@dataclass(frozen=True)
class Costs:
    """Seconds, each measured alone."""

    row: float  # of arithmetic, for a row
    entry: float  # for a nonzero
    feature: float  # for a feature, whatever the rows
    add: float  # for a number that is added to another's share
    driver: float  # of reduced problem and planes
    task: float  # of scheduler and client
    level: float  # of the graph
    ask: float  # for a byte of a graph, on its way to the first worker
    peer: float  # for a byte from worker to worker
    answer: float  # for a byte of a result, on its way to the driver


def scaling() -> str:
    """Measured costs, put together for more workers than there are here."""
    costs = measured_costs()
    rows = []
    for n in WORKERS:
        found = measured_round(N_FEATURES, n)
        parts = simulated(costs, n, FEW, 20, N_FEATURES)
        cells = [f"{1000 * seconds:.0f} ms" for seconds in [*parts, sum(parts)]]
        rows.append([f"{FEW:,} on {n}, here", *cells, f"{sum(parts) / found[0]:.2f} of measured"])
    wired = {name: max(getattr(costs, name), WIRE) for name in ("ask", "peer", "answer")}
    costs = Costs(**vars(costs) | wired)
    alone = N_ROWS * (costs.row + N_ENTRIES * costs.entry) + N_FEATURES * costs.feature
    for n in MANY:
        parts = simulated(costs, n, N_ROWS, N_ENTRIES, N_FEATURES)
        cells = [f"{seconds:.2f} s" for seconds in [*parts, sum(parts)]]
        rows.append([f"{N_ROWS:,} on {n:,}", *cells, f"{alone / sum(parts):.3g}× one worker"])
    header = ["rows, workers", "workers' arithmetic", "driver's", "scheduler"]
    return table([*header, "vectors down", "tree up", "iteration", ""], rows)


def simulated(costs: Costs, n: int, n_rows: int, n_entries: int, d: int) -> list[float]:
    """Seconds of an iteration: workers, driver, scheduler, vectors down, tree up."""
    work = n_rows / n * (costs.row + n_entries * costs.entry) + d * costs.feature
    depth = math.ceil(math.log(n, _FAN) - 1e-9)
    tree = sum(math.ceil(n / _FAN**j) for j in range(1, depth + 1))
    scheduler = costs.task * (2 * n + 2 + tree) + costs.level * (4 + depth)
    sent, share = 12 * d, 8 * d  # the best point and the next, float64 and float32; a plane
    hops = math.ceil(math.log(n, 1 + PEERS) - 1e-9)
    down = sent * (costs.ask + hops * costs.peer * min(n - 1, PEERS)) + AGAIN * max(0, hops - 1)
    others = min(n, _FAN) - 1
    up = share * costs.answer + depth * others * (share * costs.peer + d * costs.add)
    return [work, costs.driver, scheduler, down, up]


@cache
def measured_costs() -> Costs:
    def one(n_rows, n_entries, d):
        return arithmetic(*random_rows(n_rows, d, n_entries))

    feature = one(10, 1, N_FEATURES) / N_FEATURES
    few, many = ((one(100_000, m, N_FEATURES) - feature * N_FEATURES) / 1e5 for m in (10, 50))
    entry = (many - few) / 40
    sums = tasks.PlaneSums(0.1, np.ones(N_FEATURES), np.ones(1), np.ones(1), 0.0, 0.0, 0)
    add = seconds_of(lambda: tasks.add_answers([[sums]] * _FAN)) / (_FAN - 1) / N_FEATURES
    with cluster(2) as client:
        sizes = np.array([1, 4, 16, 64, 128])
        done = [empty_round(client, n) for n in sizes]
        task = np.polyfit(2 * sizes + 1 + sizes / 7, done, 1)[0]
        level = (done[0] - 3 * task) / 3
        ask, peer, answer = (_per_byte(client, way) for way in (_ask, _peer, _answer))
    driver = measured_round(N_FEATURES, 1)[1]
    row = few - 10 * entry
    costs = Costs(row, entry, feature, add, driver, task, level, ask, peer, answer)
    print({name: f"{value:.2e}" for name, value in vars(costs).items()}, done)
    return costs


def _per_byte(client, way) -> float:
    size = 4 * N_FEATURES  # large beside what a task takes, which varies
    small, large = (seconds_of(way(client, some), 9) for some in (1, size))
    return (large - small) / (8 * size)


def _ask(client, size):
    def task():
        vector = delayed(np.ones(size), name=uuid.uuid4().hex, traverse=False)
        client.compute(delayed(np.size, pure=False)(vector)).result()

    return task


def _peer(client, size):
    here, there = client.scheduler_info()["workers"]
    vectors = [client.submit(np.ones, size, workers=[here], pure=False) for _ in range(9)]
    wait(vectors)
    return lambda: client.submit(np.size, vectors.pop(), workers=[there], pure=False).result()


def _answer(client, size):
    vectors = [client.submit(np.ones, size, pure=False) for _ in range(9)]
    wait(vectors)
    return lambda: vectors.pop().result()


def warm_up() -> None:
    """Compile what the tasks use."""
    arithmetic(*random_rows(60, 20, 5))


SECTIONS = {
    "same": same,
    "together": together,
    "overhead": overhead,
    "averaging": averaging,
    "scaling": scaling,
}

if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, warm_up)
