"""Rows larger than memory: StreamSVM and its rivals, the reader, and features made on the fly.

    OMP_NUM_THREADS=1 python -m benchmarks.out_of_core                  # all of it, about an hour
    OMP_NUM_THREADS=1 python -m benchmarks.out_of_core debian rivals    # some sections

rewrites the tables in docs/larger-than-memory.md. Every fit runs in a process of its own, so that
its memory can be measured: how far resident memory rose above what it was before the rows were
opened, with all kernels compiled. Files stay in a folder in ``$TMPDIR`` from run to run. The
operating system keeps what it read of them in memory that was free, so that disks look fast here;
section `reader` has it forget them first.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.analyse import ROOT
from benchmarks.sections import apart, run, table
from widemargin import LinearSVC, datasets, open_rows
from widemargin.data.expand import HashedNgrams, WeightedDegree
from widemargin.data.shards import ShardWriter
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge
from widemargin.solvers import auto
from widemargin.solvers.out_of_core import bytes_beside_rows

DOCUMENT = ROOT / "docs" / "larger-than-memory.md"
FILES = Path(tempfile.gettempdir()) / "widemargin-out-of-core"
PATHS = HashedNgrams("path", n_features=2**20)
DNA = WeightedDegree("sequence", length=398, max_degree=8)
SOME_PATHS = 500_000
SHARES = {"1/20": 1 / 20, "1/10": 1 / 10, "1/4": 1 / 4}
MEGABYTE = 1e6


# --- processes, and their memory --------------------------------------------------------------


class Memory:
    """How far resident memory rises while inside, in bytes: `rise`."""

    def __enter__(self):
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        self.before = _status("VmRSS")
        return self

    def __exit__(self, *exception):
        self.rise = _status("VmHWM") - self.before


def _status(key: str) -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(key + r":\s*(\d+)", text)[1])


def warm_up() -> None:
    """Compile what the fits below use, on a few rows."""
    X = sp.random(60, 20, density=0.5, format="csr", random_state=0, dtype=np.float32)
    y = np.arange(60) % 2
    with tempfile.TemporaryDirectory() as folder:
        with ShardWriter(f"{folder}/few") as writer:
            writer.add(X, y)
        rows = open_rows(f"{folder}/few")
        for solver in auto.OUT_OF_CORE:
            LinearSVC(loss="hinge", solver=solver, fit_intercept=False).fit(rows, y)
    for solver in ("dcd", "acf"):
        LinearSVC(loss="hinge", solver=solver, fit_intercept=False).fit(X, y)


# --- files ----------------------------------------------------------------------------------


def paths_file(one_in: int = 1) -> Path:
    """An Arrow file of debian_paths in random order; section doc is 1, others are -1."""
    return _file(f"paths-{one_in}.arrow", _write_paths, one_in)


def dna_file() -> Path:
    """An Arrow file of splice_worm, in random order."""
    return _file("dna.arrow", _write_dna)


def paths_shards() -> Path:
    """Shards of numbers: the hashed n-grams of some paths."""
    return _file("paths-shards", _write_paths_shards)


def _file(name: str, write, *arguments) -> Path:
    path = FILES / name
    if not path.exists():
        FILES.mkdir(exist_ok=True)
        apart(write, path, *arguments)
    return path


def _write_paths(path: Path, one_in: int) -> None:
    import pyarrow as pa

    pieces = datasets.debian_paths_batches()
    doc = datasets.DEBIAN_SECTIONS.index("doc")
    everything = pa.Table.from_batches(list(pieces))
    n = everything.num_rows // one_in
    chosen = np.random.default_rng(0).permutation(everything.num_rows)[:n]
    everything = everything.take(pa.array(chosen))
    labels = np.where(everything["label"].to_numpy() == doc, 1, -1)
    _write_arrow(path, everything.set_column(0, "label", pa.array(labels)))


def _write_dna(path: Path) -> None:
    import pyarrow as pa

    everything = pa.Table.from_batches(list(datasets.splice_worm_batches()))
    order = np.random.default_rng(0).permutation(everything.num_rows)
    _write_arrow(path, everything.take(pa.array(order)))


def _write_arrow(path: Path, rows) -> None:
    import pyarrow.ipc as ipc

    options = ipc.IpcWriteOptions(compression="lz4")
    unfinished = path.with_suffix(".unfinished")
    with ipc.new_file(unfinished, rows.schema, options=options) as writer:
        writer.write_table(rows.combine_chunks(), max_chunksize=1 << 14)
    unfinished.rename(path)


def _write_paths_shards(path: Path) -> None:
    rows = open_rows(paths_file(), PATHS)
    with ShardWriter(path) as writer:
        for block in rows.blocks():
            end = min(block.end, SOME_PATHS)
            if block.begin < end:
                X = _matrix(block, rows.n_features)[: end - block.begin]
                writer.add(X, rows.labels[block.begin : end])


def _matrix(block, n_features):
    values, indices, starts = block.arrays
    shape = (starts.size - 1, n_features)
    return sp.csr_matrix((values, indices.view(np.int32), starts.view(np.int32)), shape=shape)


def in_memory(rows, n_rows: int) -> sp.csr_matrix:
    """The first rows of `rows` as one matrix, at no more memory than it takes."""
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    for block in rows.blocks():
        lengths = np.diff(block.arrays[2])[: max(0, n_rows - block.begin)]
        starts[block.begin + 1 : block.begin + 1 + lengths.size] = lengths
    np.cumsum(starts, out=starts)
    values, indices = np.empty(starts[-1], np.float32), np.empty(starts[-1], np.int32)
    for block in rows.blocks():
        end = min(block.end, n_rows)
        if block.begin < end:
            part, count = (
                slice(starts[block.begin], starts[end]),
                starts[end] - starts[block.begin],
            )
            values[part], indices[part] = block.arrays[0][:count], block.arrays[1][:count]
    matrix = sp.csr_matrix((n_rows, rows.n_features), dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = values, indices, starts  # as they are: no copies
    return matrix


# --- one set, larger than memory ----------------------------------------------------------------


def debian() -> str:
    """debian_paths, 512 MB, against all of it in memory."""
    file = paths_file()
    rows = []
    for tol in (1e-2, 1e-3):
        for solver, budget in (("stream", "512MB"), ("dcd", ""), ("acf", "")):
            rows.append([f"{tol:g}", *apart(_fit_strings, file, PATHS, solver, budget, tol, 1.0)])
    return table(["gap", "solver", *_FIT_COLUMNS], rows)


def splice() -> str:
    """splice_worm, substrings of up to 8 letters, made on the fly."""
    file = dna_file()
    rows = []
    for tol in (1e-2, 1e-3):
        for solver, budget in (("stream", "1500MB"), ("acf", "")):
            rows.append([f"{tol:g}", *apart(_fit_strings, file, DNA, solver, budget, tol, 1.0)])
    return table(["gap", "solver", *_FIT_COLUMNS], rows)


def splice_part() -> str:
    """The first 10,000 strings: the same objective on the fly as in memory."""
    file = dna_file()
    rows = [
        [name, *(f"{value:.6f}" for value in apart(_objective_of_strings, file, 10_000, name))]
        for name in ("stream", "acf")
    ]
    return table(["solver", "objective", "certified lower bound"], rows)


_FIT_COLUMNS = [
    "budget",
    "time",
    "of which making rows",
    "gap reached",
    "passes over the disk",
    "visits / rows",
    "data expanded",
    "memory",
]
_LIMIT = 600.0


def _fit_strings(file, features, solver, budget, tol, C) -> list[str]:
    warm_up()
    with Memory() as memory:
        began = time.perf_counter()
        rows = open_rows(file, features)
        y = rows.labels
        X = rows if budget else in_memory(rows, rows.n_rows)
        opened = time.perf_counter() - began
        model = LinearSVC(
            C=C,
            loss="hinge",
            fit_intercept=False,
            solver=solver,
            tol=tol,
            memory_budget=budget or None,
            max_time=_LIMIT,
        ).fit(X, y)
        taken = time.perf_counter() - began
    last = model.history_[-1]
    return [
        solver,
        budget or "none",
        f"{taken:.0f} s",
        f"{opened:.0f} s",
        f"{model.certificate_.relative_gap:.1e}",
        f"{last.disk_passes}" if budget else "",
        f"{last.iteration:.1f}",
        f"{rows.nbytes / MEGABYTE:,.0f} MB",
        f"{memory.rise / MEGABYTE:,.0f} MB",
    ]


def _objective_of_strings(file, n_rows, solver) -> tuple[float, float]:
    import pyarrow.feather as feather

    few = FILES / "few-dna.arrow"
    _write_arrow(few, feather.read_table(file).slice(0, n_rows))
    rows = open_rows(few, DNA)
    X = rows if solver == "stream" else in_memory(rows, n_rows)
    model = LinearSVC(loss="hinge", fit_intercept=False, solver=solver, tol=1e-4)
    model.fit(X, rows.labels)
    return model.certificate_.primal, model.certificate_.dual


# --- rivals ---------------------------------------------------------------------------------


COSTS = (0.1, 1.0, 10.0)
REACHED = 1e-3
RACE_SECONDS = 30.0


def rivals() -> str:
    """Time to an objective 0.1 % above the best, by solver, C and memory, on paths."""
    shards = paths_shards()
    cells, firsts, close = [], 0, 0
    for C in COSTS:
        optimum = apart(_optimum, shards, C)
        for name, share in SHARES.items():
            cell = [f"{C:g}", name]
            reached = {}
            for solver in auto.OUT_OF_CORE:
                found = apart(_race, shards, solver, C, share, optimum)
                reached[solver] = found["reached"]
                seconds = f"{found['reached']:.1f} s" if found["reached"] < np.inf else "-"
                cell += [
                    seconds,
                    f"{100 * found['above']:.2g} %",
                    f"{found['passes']}",
                    f"{found['memory'] / found['budget']:.2f}",
                ]
            best = min(reached.values())
            firsts += reached["stream"] == best < np.inf
            close += reached["stream"] <= 1.1 * best < np.inf
            cells.append(cell)
    print(f"stream first in {firsts} of {len(cells)} cells, within 10 % of the first in {close}")
    header = ["C", "memory"]
    for solver in auto.OUT_OF_CORE:
        header += [f"{solver}: to 0.1 %", "above at the end", "passes", "memory / budget"]
    return table(header, cells)


def _optimum(shards, C) -> float:
    rows = open_rows(shards)
    X = in_memory(rows, rows.n_rows)
    model = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-4, max_time=60.0)
    return model.fit(X, rows.labels).certificate_.primal


def _race(shards, solver, C, share, optimum) -> dict:
    """Run a solver within `share` of the rows' bytes; tell when its w was good enough."""
    warm_up()
    with Memory() as memory:
        rows = open_rows(shards)
        problem = Problem(
            rows, Hinge(np.sign(rows.labels), np.full(rows.n_rows, C)), Intercept.NONE
        )
        budget = int(bytes_beside_rows(problem) + share * rows.nbytes)
        monitor = Sampler(tol=1e-4, max_iter=10**9, max_time=RACE_SECONDS)
        method = auto.make(solver, problem.risk, 0, budget)
        method.solve(problem, State.zero(problem), monitor)
    objectives = _objectives(problem, rows, monitor.samples)
    times = [seconds for seconds, value in objectives if value <= (1.0 + REACHED) * optimum]
    return {
        "reached": min(times, default=np.inf),
        "above": min(value for _, value in objectives) / optimum - 1.0,
        "passes": monitor.disk_passes,
        "memory": memory.rise - monitor.sampled_bytes,
        "budget": budget,
    }


class Sampler(Monitor):
    """Keeps the dual variables twice a second, and writes down when."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.samples: list[tuple[float, np.ndarray]] = []
        self.next = 0.5

    @property
    def sampled_bytes(self) -> int:
        return sum(alpha.nbytes for _, alpha in self.samples)

    def save_now_and_then(self, state) -> None:
        now = time.perf_counter() - self.started
        if now >= self.next:
            self.samples.append((now, state.dual.astype(np.float32)))
            self.next = now + max(0.5, 0.02 * now)


def _objectives(problem, rows, samples) -> list[tuple[float, float]]:
    """Objective of the w that each sample of dual variables makes, and when that was."""
    A = np.stack([problem.risk.signed(alpha.astype(np.float64)) for _, alpha in samples], axis=1)
    W = rows.combine(A)
    S = rows.scores(W)
    return [
        (seconds, 0.5 * float(W[:, j] @ W[:, j]) + problem.risk.value(S[:, j]))
        for j, (seconds, _) in enumerate(samples)
    ]


# --- the reader -----------------------------------------------------------------------------


def reader() -> str:
    """Reading alone: files forgotten by the operating system, and files it remembers."""
    rows = []
    for name, source, features in (
        ("numbers", paths_shards(), None),
        ("paths to n-grams", paths_file(10), PATHS),
        ("DNA to substrings", dna_file(), DNA),
    ):
        rows.append([name, *apart(_read, source, features)])
    header = [
        "rows of",
        "on disk",
        "in memory",
        "plain reading, forgotten",
        "our reader, forgotten",
        "plain reading, remembered",
        "our reader, remembered",
        "our rows in memory",
    ]
    return table(header, rows)


def _read(source: Path, features) -> list[str]:
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    rows = open_rows(source, features)
    on_disk = sum(file.stat().st_size for file in files)

    def plain():
        for file in files:
            with open(file, "rb", buffering=0) as stream:
                while stream.read(1 << 22):
                    pass

    def ours():
        for _ in rows.blocks():
            pass

    ours()  # checksums are compared once
    seconds = {}
    for forgotten in (True, False):
        for task in (plain, ours):
            times = []
            for _ in range(3):
                if forgotten:
                    _forget(files)
                began = time.perf_counter()
                task()
                times.append(time.perf_counter() - began)
            seconds[task, forgotten] = float(np.median(times))
    speeds = [
        f"{on_disk / seconds[key] / MEGABYTE:,.0f} MB/s"
        for key in ((plain, True), (ours, True), (plain, False), (ours, False))
    ]
    sizes = [f"{size / MEGABYTE:,.0f} MB" for size in (on_disk, rows.nbytes)]
    return [*sizes, *speeds, f"{rows.nbytes / seconds[ours, False] / MEGABYTE:,.0f} MB/s"]


def _forget(files) -> None:
    """Have the operating system drop what it keeps of these files."""
    for file in files:
        with open(file, "rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def busy() -> str:
    """What both threads do all the time, as shares of it."""
    rows = []
    for name, source, features, budget in (
        ("numbers", paths_shards(), None, "200MB"),
        ("paths to n-grams", paths_file(10), PATHS, "200MB"),
        ("DNA to substrings", dna_file(), DNA, "1500MB"),
    ):
        rows.append([name, *apart(_busy, source, features, budget)])
    return table(["rows of", "reader: reads", "trainer: visits", "checks", "waits"], rows)


def _busy(source, features, budget) -> list[str]:
    warm_up()
    rows = open_rows(source, features)
    model = LinearSVC(
        loss="hinge",
        fit_intercept=False,
        solver="stream",
        tol=1e-3,
        memory_budget=budget,
        max_time=60.0,
    ).fit(rows, rows.labels)
    last = model.history_[-1]
    return [
        f"{100 * last.phases.get(phase, 0.0) / last.time:.0f} %"
        for phase in ("reading", "visits", "checks", "waiting")
    ]


SECTIONS = {
    "debian": debian,
    "rivals": rivals,
    "reader": reader,
    "busy": busy,
    "splice": splice,
    "splice-part": splice_part,
}

if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, warm_up)
