"""Rows larger than memory: StreamSVM, the reader, and features made on the fly.

    OMP_NUM_THREADS=1 python -m benchmarks.out_of_core                  # all of it, half an hour
    OMP_NUM_THREADS=1 python -m benchmarks.out_of_core debian reader    # some sections

rewrites the tables in docs/larger-than-memory.md; `benchmarks.papers.streamsvm` has StreamSVM
beside its rivals. Every fit runs in a process of its own, so that its memory can be measured: how
far resident memory rose above what it was before the rows were opened, with all kernels compiled.
Files stay in a folder in ``$TMPDIR`` from run to run. The operating system keeps what it read of
them in memory that was free, so that disks look fast here; section `reader` has it forget them
first.
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
from benchmarks.files import (
    DNA,
    PATHS,
    bytes_on_disk,
    dna_file,
    files_of,
    in_memory,
    paths_file,
    paths_shards,
)
from benchmarks.sections import apart, run, table
from widemargin import LinearSVC, open_rows
from widemargin.data.shards import ShardWriter
from widemargin.solvers.registry import Place, only_for

DOCUMENT = ROOT / "docs" / "larger-than-memory.md"
SOME_PATHS = 500_000
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
        for solver in only_for(Place.DISK):
            LinearSVC(loss="hinge", solver=solver, fit_intercept=False).fit(rows, y)
    for solver in ("dcd", "acf"):
        LinearSVC(loss="hinge", solver=solver, fit_intercept=False).fit(X, y)


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


# --- the reader -----------------------------------------------------------------------------


def reader() -> str:
    """Reading alone: files forgotten by the operating system, and files it remembers."""
    rows = []
    for name, source, features in (
        ("numbers", paths_shards(SOME_PATHS), None),
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
    files = files_of(source)
    rows = open_rows(source, features)
    on_disk = bytes_on_disk(source)

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
        ("numbers", paths_shards(SOME_PATHS), None, "200MB"),
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
    "reader": reader,
    "busy": busy,
    "splice": splice,
}

if __name__ == "__main__":
    run(__doc__, DOCUMENT, SECTIONS, warm_up)
