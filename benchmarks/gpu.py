"""Training on a GPU: beside the host, beside the memory's speed, and beside PyTorch.

    python -m benchmarks.gpu --data DIR                         # all of it; needs a GPU and CuPy
    python -m benchmarks.gpu --data DIR --only same,roofline    # some sections
    python -m benchmarks.gpu --tables                           # rewrites the documents

DIR has rcv1, covtype and mnist as NAME.npz, CSR of SciPy's, and NAME_y.npy; what is not there is
skipped. Measurements are appended to a file as soon as they are made, and of those of the same
thing the last one counts. Problems have no intercept but where it is said.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from operator import matmul
from pathlib import Path
from statistics import mean, median
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from benchmarks import gpu_peers, machine
from benchmarks.analyse import ROOT, rewrite
from benchmarks.gpu_peers import MADE, Skip, account, fit, pace, times, to_device
from benchmarks.problems import Cell, primal_objective, relative_suboptimality
from benchmarks.run import records_of, say
from benchmarks.sections import table
from widemargin import LinearRanker
from widemargin.arrays import on_host

RESULTS = ROOT / "benchmarks" / "results" / "gpu.jsonl"
DOCUMENTS = [ROOT / "docs" / "gpu.md", ROOT / "README.md"]
# Seconds for a fit on the GPU; on the host; there, of sets that are made; of section same; for a
# method of PyTorch's; for a class of scikit-learn's.
LIMITS = {"gpu": 60.0, "cpu": 120.0, "large": 100.0, "same": 40.0, "peer": 20.0, "sklearn": 60.0}
# Seconds below which there is no point in beginning another measurement.
TOO_LITTLE = 3.0
# A fit that takes longer than this is not repeated.
SLOW = 8.0
# One of the host that takes less is repeated.
QUICK = 2.0
# Other solvers of the host get so many times what the one that `auto` chose took, or so long.
PATIENCE, LEAST_PATIENCE = 5.0, 10.0
SPEED = [("covtype_binary", 1.0), ("covtype_binary", 100.0), ("covtype", 1.0), ("mnist", 1.0)]
SPEED += [("rcv1", 1.0), ("text", 1.0), ("dense", 1e-4)]


class Run:
    """One run: its options, its sets, and where measurements go."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.sets = gpu_peers.Sets(options.data, options.shrink)
        self.name, self.started = int(time.time()), time.perf_counter()
        self.children = ThreadPoolExecutor(4)
        self.compiled = None

    def keep(self, kind: str, **fields) -> None:
        """Append a measurement to the results, at once."""
        at = round(time.perf_counter() - self.started, 1)
        record = {"kind": kind, "run": self.name, "at": at, **fields}
        with self.options.out.open("a") as file:
            file.write(json.dumps(record, default=float) + "\n")
        say(json.dumps(record, default=float))

    @contextmanager
    def attempt(self, section: str, what: str):
        """Go on after whatever goes wrong inside, and say what it was."""
        try:
            yield
        except Skip as why:
            self.keep("skipped", section=section, what=what, why=str(why))
        except Exception as error:
            say(traceback.format_exc())
            why = f"{type(error).__name__}: {error}"[:500]
            self.keep("error", section=section, what=what, why=why)
        gc.collect()

    def limit(self, wanted: float) -> float:
        """Return how many of the wanted seconds there are."""
        if self.options.within is None:
            return wanted
        left = self.options.within - (time.perf_counter() - self.started)
        if left < TOO_LITTLE:
            raise Skip("the time for the whole run is over")
        return min(wanted, left)

    def child(self, limit: float, *arguments: str):
        """Begin to run benchmarks.gpu_peers in a process of its own; return its future records."""
        module, limit = "benchmarks.gpu_peers", self.limit(limit)
        return self.children.submit(records_of, module, list(arguments), limit)


def load_kernels(run: Run, X, y, **settings) -> None:
    """Wait until the host's kernels are compiled, and load those that a fit needs."""
    if run.compiled is not None:
        error = run.compiled.exception(timeout=run.limit(240.0))
        say(f"the host's kernels are compiled: {error or 'no error'}")
        run.compiled = None
    few = np.linspace(0, len(y) - 1, 2000).astype(int)
    fit(X[few], y[few], "cpu", run.limit(10.0), **settings)


# --- sections -------------------------------------------------------------------------------


def same(run: Run) -> None:
    """The same answer as on the host, and the same bits in every run."""
    ranked, together = {"kind": LinearRanker}, {"multi_class": "crammer_singer"}
    for what, name, n_rows, C, settings in (
        ("rcv1", "rcv1", None, 1.0, {}),
        ("covtype, 2 classes", "covtype_binary", None, 1.0, {}),
        ("covtype, 2 classes, intercept", "covtype_binary", None, 1.0, {"fit_intercept": True}),
        ("covtype, 7 classes", "covtype", None, 1.0, {}),
        ("mnist, 10 classes", "mnist", None, 1.0, {}),
        ("covtype, ranked", "covtype", 20_000, 1.0, ranked),
        ("covtype, Crammer-Singer", "covtype", 100_000, 0.01, together),
    ):
        with run.attempt("same", what):
            X, y = run.sets.host(name)
            if n_rows is not None:
                order = np.random.default_rng(0).permutation(len(y))
                chosen = slice(n_rows) if settings is ranked else order[:n_rows]
                X, y = X[chosen], y[chosen]
            on_gpu = to_device(X), y if settings is ranked else to_device(y)
            limit, settings = run.options.same_limit, settings | {"C": C}
            one, _ = fit(*on_gpu, "cuda", run.limit(limit), **settings)
            other, seconds = fit(*on_gpu, "cuda", run.limit(limit), **settings)
            coefs = [on_host(model.coef_) for model in (one, other)]
            statuses = [one.status_, other.status_]
            fields = {"what": what, "C": C, "recomputed": None, "statuses": statuses}
            fields["gpu"] = account(other) | {"seconds": seconds}
            fields["same_coef"] = np.array_equal(*coefs)
            fields["same_certificate"] = one.certificate_ == other.certificate_
            if settings == {"C": C}:  # the objective once more, by NumPy
                value = primal_objective(Cell("", C), X, y, coefs[1])
                fields["recomputed"] = value / other.certificate_.primal - 1.0
            load_kernels(run, X, y, **settings)
            host, seconds = fit(X, y, "cpu", run.limit(limit), **settings)
            run.keep("same", **fields, cpu=account(host) | {"seconds": seconds})


def speed(run: Run) -> None:
    """Time to a certified gap of 1e-3, and what the host needs for it; all GPU fits first."""
    for device in ("cuda", "cpu"):
        for name, C in SPEED:
            with run.attempt("speed", f"{name}, C={C:g}, {device}"):
                _speed(run, name, C, device)


def _speed(run, name, C, device):
    X, y = run.sets.device(name) if device == "cuda" else run.sets.host(name)
    solvers, limit = ["auto", "newton", "ocas"], run.options.gpu_limit
    if device == "cpu":
        solvers = {"text": ["auto", "dcd"], "dense": ["auto"]}.get(name, ["auto", "newton", "acf"])
        limit = run.options.large_limit if name in MADE else run.options.cpu_limit
    for solver in solvers:
        settings = {"C": C, "solver": solver}
        if device == "cpu":
            load_kernels(run, X, y, **settings)
        model, first = fit(X, y, device, run.limit(limit), **settings)
        took = [first]
        if device == "cuda" or first < QUICK:  # a first fit may compile something
            repeats = 3 if first < SLOW else 1
            took = [fit(X, y, device, run.limit(limit), **settings)[1] for _ in range(repeats)]
        fields = {"data": name, "shape": X.shape, "C": C, "device": device, "asked": solver}
        fields |= {"seconds": median(took), "times": took, "threads": gpu_peers.CORES}
        run.keep("speed", **fields, **account(model))
        if solver == "auto" and model.solver_ in solvers:
            solvers.remove(model.solver_)
        if device == "cpu" and model.status_ == "converged":
            limit = min(limit, max(LEAST_PATIENCE, PATIENCE * first))


def roofline(run: Run) -> None:
    """Products and iterations against the speed of a copy."""
    import cupy

    size = int(2e9) // run.options.shrink
    arrays = cupy.empty(size, np.uint8), cupy.ones(size, np.uint8)
    seconds = min(times(cupy.copyto, *arrays, repeats=10))
    roof = 2 * size / seconds
    fields = {"bytes": 2 * size, "seconds": seconds, "rate": roof, "share": 1.0}
    run.keep("roofline", data="bytes", what="copy", **fields)
    for name, C in (("text", 1.0), ("dense", 1e-4), ("covtype_binary", 1.0)):
        with run.attempt("roofline", name):
            run.limit(10.0)
            X, y = run.sets.device(name)
            for what, seconds, n_bytes, more in _products(X, y, C):
                fields = {"data": name, "what": what, "bytes": n_bytes, "seconds": seconds}
                fields |= {"rate": n_bytes / seconds, "share": n_bytes / seconds / roof}
                run.keep("roofline", **fields, **more)


def _products(X, y, C):
    """Yield (what, seconds, bytes that must move, more) of products and of an iteration."""
    import cupy

    from widemargin.data.devices import gpu_rows
    from widemargin.solvers.bundle import Bundle

    rows, (n, d) = gpu_rows(X), X.shape
    random = cupy.random.RandomState(0)
    w, g = random.standard_normal(d), random.standard_normal(n)
    # As OCAS has them: rounded where that helps, and slopes of a hinge.
    target = rows.rounded("scores", w)
    slopes = cupy.sign(g) * (abs(g) > 0.7)
    sparse = hasattr(X, "indptr")
    entries = X.nnz * (X.data.itemsize + 4) if sparse else X.nbytes
    vectors = 8 * (n + d)
    of_scores = entries + vectors + 8 * (n + 1) * sparse
    of_combine = entries + vectors + 8 * (d + 1) * sparse
    yield "scores", median(times(rows.scores, target)), of_scores, {}
    yield "combine", median(times(rows.combine, slopes)), of_combine, {}
    if sparse:
        yield "scores, any numbers", median(times(rows.scores, w)), of_scores, {}
        yield "combine, any numbers", median(times(rows.combine, g)), of_combine, {}
    short = entries + vectors // 2 + 4 * (n + 1) * sparse
    yield "CuPy, X @ w", median(times(matmul, X, w.astype(np.float32))), short, {}
    counts, used, solve = [], [], Bundle.solve

    def noted(bundle, tolerance):
        counts.append(bundle.count)
        # Of the last solution, which has fewer: nobody need wait for the next one here.
        used.append(np.count_nonzero(bundle.z[: bundle.count]))
        return solve(bundle, tolerance)

    with patch.object(Bundle, "solve", noted):
        model, _ = fit(X, y, "cuda", 60.0, C=C, solver="ocas", tol=1e-9, max_iter=50)
    more = account(model) | {"planes": mean(counts), "used_planes": mean(used)}
    # All planes are read for the products of a new one, and those in use for the solution.
    of_bundle = int(8 * d * (mean(counts) + mean(used)))
    yield "ocas, iteration", pace(model), of_scores + of_combine + of_bundle, more


def peers(run: Run) -> None:
    """What PyTorch on the same GPU and scikit-learn on the host need, at C = 1."""
    bounds, children = {}, {}
    for name in ("covtype_binary", "mnist", "text"):
        with run.attempt("peers", f"{name}, widemargin"):
            X, y = run.sets.device(name)
            bound = fit(X, y, "cuda", run.limit(15.0), tol=1e-5)[0].certificate_.dual
            fits = [fit(X, y, "cuda", run.limit(30.0)) for _ in range(3)]
            model, seconds = fits[-1][0], median(seconds for _, seconds in fits)
            excess = relative_suboptimality(model.certificate_.primal, bound)
            fields = {"data": name, "method": "widemargin", "setting": model.solver_}
            fields |= {"seconds": seconds, "excess": excess, "reached": excess <= gpu_peers.TARGET}
            run.keep("peers", **fields, bound=bound, objective=model.certificate_.primal)
            bounds[name] = bound
            if name not in MADE:
                limit, folder = run.options.sklearn_limit, str(run.options.data.resolve())
                command = ["--sklearn", name, "--bound", repr(bound), "--limit", str(limit)]
                children[name] = run.child(3 * limit + 30.0, *command, "--data", folder)
    for name, bound in bounds.items():
        with run.attempt("peers", f"{name}, PyTorch"):
            limit = run.limit(run.options.peer_limit)
            sets = *run.sets.device(name), *run.sets.host(name)
            for record in gpu_peers.torch_peers(*sets, bound, limit):
                _keep_peer(run, name, bound, record)
                run.limit(limit)
    for name, records in children.items():
        with run.attempt("peers", f"{name}, scikit-learn"):
            for record in records.result():
                _keep_peer(run, name, bounds[name], record)


def _keep_peer(run, name, bound, record):
    run.keep("peers", data=name, **record)
    if record["objective"] < bound - 1e-9 * abs(bound):
        raise ArithmeticError(f"{record['method']} found an objective below the bound {bound!r}")


def larger(run: Run) -> None:
    """Rows twice the size of the memory allowed to them stream through the device."""
    import cupy
    import cupyx

    with run.attempt("larger", "copy"):
        size = (1 << 29) // run.options.shrink
        source, target = cupyx.empty_pinned(size, np.uint8), cupy.empty(size, np.uint8)
        source[:] = 1
        seconds = min(times(target.set, source, repeats=5))
        run.keep("larger", data="pinned", what="copy", seconds=seconds, rate=size / seconds)
    for name, C in (("small_dense", 1e-4), ("small_text", 1.0)):
        with run.attempt("larger", name):
            X, y = run.sets.host(name)
            run.sets.on_device.clear()
            size = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
            room = size // 2 + 8 * (15 * X.shape[0] + 192 * X.shape[1])  # and for vectors
            fields = {"data": name, "C": C, "size": size}
            with run.attempt("larger", f"{name}, products"), _memory(room):
                for more in _streamed(X):
                    rate = size / more["seconds"]
                    run.keep("larger", **fields, allowed=room, **more, rate=rate)
            for solver, allowed in product(("ocas", "newton"), (None, room)):
                what = f"{name}, {solver}, {allowed}"
                with run.attempt("larger", what), _memory(allowed):
                    limit = run.limit(run.options.gpu_limit)
                    model, seconds = fit(X, y, "cuda", limit, C=C, solver=solver)
                    more = {"what": solver, "allowed": allowed, "pace": pace(model)}
                    run.keep("larger", **fields, **more, seconds=seconds, **account(model))


def _streamed(X):
    """Yield what products with rows take that do not fit."""
    import cupy

    from widemargin.data.devices import to_gpu

    rows = to_gpu(X)
    for what, length in (("scores", X.shape[1]), ("combine", X.shape[0])):
        vector = cupy.random.RandomState(0).standard_normal(length)
        seconds = median(times(getattr(rows, what), vector, repeats=5))
        yield {"what": what, "rows": type(rows).__name__, "seconds": seconds}


@contextmanager
def _memory(size: int | None):
    """Allow so many bytes of device memory, besides those in use."""
    import cupy

    pool = cupy.get_default_memory_pool()
    gc.collect()
    pool.free_all_blocks()
    if size is not None:
        pool.set_limit(size=pool.used_bytes() + size)
    try:
        yield
    finally:
        pool.set_limit(size=0)
        pool.free_all_blocks()


SECTIONS = {"same": same, "speed": speed, "roofline": roofline, "peers": peers, "larger": larger}


# --- tables ---------------------------------------------------------------------------------


def latest(records: list[dict], section: str, *keys: str) -> list[dict]:
    """Return the last record of each thing that was measured, in the order they first came."""
    return list({tuple(map(r.get, keys)): r for r in records if r["kind"] == section}.values())


def _seconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _fit(record: dict, solver: bool = False) -> str:
    seconds = _seconds(record["seconds"])
    text = f"{seconds}, {record['iterations']} it"
    if record["status"] != "converged":
        text = f"not in {seconds} (gap {record['gap']:.0e})"
    return f"{record['solver']}: {text}" if solver else text


def _rank(record: dict) -> tuple:
    """Fits that converged first, and of these the fastest; others by how far they came."""
    done = record.get("reached", record.get("status") == "converged")
    return not done, record["seconds"] if done else record.get("excess", record.get("gap"))


def table_same(records: list[dict]) -> str:
    rows = []
    for r in latest(records, "same", "what"):
        gpu, cpu = r["gpu"], r["cpu"]
        bits = "yes" if r["same_coef"] and r["same_certificate"] else "no"
        if set(r["statuses"]) != {"converged"}:
            bits = "stopped by time"
        cells = [f"{at['primal']:.8g} (gap {at['gap']:.1e})" for at in (gpu, cpu)]
        cells.append("—" if r["recomputed"] is None else f"{abs(r['recomputed']):.0e}")
        rows.append([f"{r['what']}, {r['C']:g}", *cells, bits, _fit(gpu, True), _fit(cpu, True)])
    header = ["problem, C", "GPU", "CPU", "recomputed", "same bits", "GPU's time", "CPU's time"]
    return table(header, rows)


def table_speed(records: list[dict]) -> str:
    rows = []
    found = latest(records, "speed", "data", "C", "device", "asked")
    for data, C in dict.fromkeys((r["data"], r["C"]) for r in found):
        mine = [r for r in found if (r["data"], r["C"]) == (data, C)]
        on = {d: {r["solver"]: r for r in mine if r["device"] == d} for d in ("cuda", "cpu")}
        cells = [_fit(on["cuda"][s]) if s in on["cuda"] else "—" for s in ("newton", "ocas")]
        cells.append("; ".join(_fit(r, True) for r in on["cpu"].values()) or "—")
        best = [min(fits.values(), key=_rank) for fits in on.values() if fits]
        ratio = "—"
        if len(best) == 2 and best[0]["status"] == "converged":
            over = "" if best[1]["status"] == "converged" else "over "
            ratio = f"{over}{best[1]['seconds'] / best[0]['seconds']:.3g}×"
        label = f"{data}, {' × '.join(f'{size:,}' for size in mine[0]['shape'])}, {C:g}"
        rows.append([label, *cells, ratio])
    return table(["data, C", "GPU, newton", "GPU, ocas", "CPU", "best against best"], rows)


def table_roofline(records: list[dict]) -> str:
    rows = []
    for r in latest(records, "roofline", "data", "what"):
        moved = [f"{r['bytes'] / 1e9:.3g} GB", _seconds(r["seconds"])]
        rate = [f"{r['rate'] / 1e9:,.0f} GB/s", f"{100 * r['share']:.0f} %"]
        rows.append([f"{r['data']}, {r['what']}", *moved, *rate])
    return table(["what", "must move", "time", "speed", "of a copy's"], rows)


def table_peers(records: list[dict]) -> str:
    rows = []
    found = latest(records, "peers", "run", "data", "method", "setting")
    for data, method in dict.fromkeys((r["data"], r["method"]) for r in found):
        tried = [r for r in found if (r["data"], r["method"]) == (data, method)]
        best = min((r for r in tried if r["run"] == tried[-1]["run"]), key=_rank)
        reached, excess = "" if best["reached"] else "not in ", f"{100 * best['excess']:.2g} %"
        label = ", ".join(filter(None, (method, best["setting"])))
        rows.append([data, label, reached + _seconds(best["seconds"]), excess])
    return table(["data", "method", "time to 0.1 %", "above the bound"], rows)


def table_larger(records: list[dict]) -> str:
    rows = []
    for r in latest(records, "larger", "data", "what", "allowed"):
        room = f"{r['allowed'] / 1e6:,.0f} MB" if r.get("allowed") else "all"
        size = f"{r['size'] / 1e6:,.0f} MB" if "size" in r else "—"
        cells = [f"{r['data']}, {r['what']}", size, room, _seconds(r.get("pace", r["seconds"]))]
        rate = f"{r['rate'] / 1e9:.3g} GB/s" if "rate" in r else "—"
        fitted = f"{r['primal']:.8g} (gap {r['gap']:.1e})" if "primal" in r else "—"
        rows.append([*cells, rate, fitted, _fit(r) if "primal" in r else r.get("rows", "—")])
    header = ["what", "rows", "memory", "a product or iteration", "speed", "objective", "fit"]
    return table(header, rows)


def table_machine(records: list[dict]) -> str:
    """One line on what was measured last, and what it ran on."""
    m = [r for r in records if r["kind"] == "machine"][-1]
    versions = ", ".join(f"{name} {v}" for name, v in m["versions"].items() if v)
    host = f"{m['cpu']}, {m['cores']} cores, {m['system']}, Python {m['python']}"
    return f"{m['gpu']}, CUDA {m['cuda'] / 1000:.1f}; {host}; {versions}; {m['day']}."


def rewrite_tables(results: Path, documents: list[Path]) -> None:
    """Rewrite those tables that a document has."""
    records = [json.loads(line) for line in results.read_text().splitlines() if line.strip()]
    kinds = {record["kind"] for record in records}
    for document in documents:
        page = document.read_text(encoding="utf-8")
        for name in (name for name in (*SECTIONS, "machine") if name in kinds):
            if f"<!-- table:gpu-{name} -->" in page:
                page = rewrite(page, f"gpu-{name}", globals()[f"table_{name}"](records))
        document.write_text(page, encoding="utf-8")
    for r in records:
        if r["kind"] in ("skipped", "error"):
            say(f"{r['kind']}: {r['section']}, {r['what']}: {r['why']}")


# --- the program ----------------------------------------------------------------------------


def describe() -> dict:
    """The machine's record, with its GPU."""
    import cupy

    record = {name: value for name, value in machine.describe().items() if name != "kind"}
    record["versions"] |= {"cupy": cupy.__version__, "torch": machine._version("torch")}
    query = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    gpu = subprocess.getoutput(query).replace(",", ", driver")
    return record | {"gpu": gpu, "cuda": cupy.cuda.runtime.runtimeGetVersion()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, default=Path("."), help="folder with NAME.npz and NAME_y.npy")
    add("--out", type=Path, default=RESULTS, help="JSON lines to append to")
    add("--only", default=",".join(SECTIONS), help="sections, with commas between them")
    add("--tables", action="store_true", help="rewrite the document's tables; measure nothing")
    add("--documents", type=Path, nargs="+", default=DOCUMENTS)
    add("--within", type=float, help="seconds after which nothing more is begun")
    for name, seconds in LIMITS.items():
        add(f"--{name}-limit", type=float, default=seconds, help=f"seconds; {seconds:g}")
    add("--shrink", type=int, default=1, help="divides sizes of made sets, to try the script")
    options = parser.parse_args()
    if options.tables:
        rewrite_tables(options.out, options.documents)
        return
    chosen = options.only.split(",")
    if unknown := sorted(set(chosen) - set(SECTIONS)):
        parser.error(f"no section is called {unknown[0]!r}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    run = Run(options)
    if {"same", "speed"} & set(chosen):
        run.compiled = run.child(240.0, "--compile")
    with run.attempt("machine", "description"):
        run.keep("machine", **describe())
    with run.attempt("warm-up", "all of it"):
        gpu_peers.compile_on_gpu()
    for name in chosen:
        with run.attempt(name, "all of it"):
            SECTIONS[name](run)
    run.children.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
