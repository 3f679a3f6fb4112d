"""A golden master: a hundred small fits, to see that a change of the code changes no answer.

    python -m benchmarks.golden record FILE     # with the code as it was
    python -m benchmarks.golden compare FILE    # with the code as it is; 1 if fits differ

"same bits": coefficients, bounds and iterations are the same. "same gap": both fits keep their
tolerance, and each objective is within the certified gap of the other. Anything else "DIFFERS".
StreamSVM ("stream") never has the same bits: its visits depend on when rows arrive. Use the same
machine for both commands: another processor rounds sums of vectors in another order.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from widemargin import (
    Certificate,
    LinearRanker,
    LinearSVC,
    LinearSVCCV,
    OrdinalSVC,
    open_rows,
    svm_path,
)

LOSSES = ("hinge", "squared_hinge")
IN_MEMORY = ("dcd", "acf", "newton", "cpa", "ocas", "gca", "gca2", "tca")
ON_DISK = ("newton", "ocas", "stream", "bm", "sbm")
INTERCEPTS: dict[str, dict[str, Any]] = {
    "free": {},
    "penalised": {"penalized_intercept": True},
    "none": {"fit_intercept": False},
}
# Rows, features, and the part of these that a row has.
SHAPES = {
    "wide": (120, 400, 0.1),
    "square": (400, 150, 0.1),
    "tall": (3000, 15, 0.7),
    "classes": (300, 30, 0.4),
    "text": (4000, 3000, 0.01),
    "large": (24_000, 120, 0.4),
}
# Bytes; not enough for all rows of "large".
SMALL_BUDGET = 42 << 20
# How much accuracies, thresholds and the like may change where coefficients do.
NEAR = 0.05


@dataclass(frozen=True)
class Outcome:
    """What is remembered of a model."""

    bits: str
    objective: float
    dual: float
    relative_gap: float
    n_iter: int
    status: str
    solver: str
    tol: float
    more: list[float]

    def difference(self, other: Outcome) -> str:
        """Return in which way an answer is another one; nothing if both are as good."""
        if (self.status, self.solver, self.tol) != (other.status, other.solver, other.tol):
            return f"{self.solver}, {self.status} -> {other.solver}, {other.status}"
        if max(self.relative_gap, other.relative_gap) > self.tol:
            return f"gap {self.relative_gap:.2e} -> {other.relative_gap:.2e}, tol {self.tol:g}"
        if self.objective < other.dual or other.objective < self.dual:
            return f"objective {self.objective!r} -> {other.objective!r}"
        if len(self.more) != len(other.more):
            return f"{len(self.more)} -> {len(other.more)} numbers"
        if not np.allclose(self.more, other.more, rtol=NEAR, atol=NEAR):
            return f"{self.more} -> {other.more}"
        return ""


Fit = Callable[[], list[Outcome]]


# --- data -----------------------------------------------------------------------------------


@cache
def numbers(shape: str, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dense rows, made of a seed, and a score of each row for each class."""
    n, d, density = SHAPES[shape]
    random = np.random.default_rng(len(shape))
    X = random.standard_normal((n, d)) * (random.random((n, d)) < density) + 0.2 * (density > 0.5)
    scores = X @ random.standard_normal((d, n_classes)) + 0.3
    return X, scores + 0.5 * scores.std() * random.standard_normal(scores.shape)


@cache
def rows(shape: str, kind: str, n_classes: int) -> Any:
    """Return rows; kind is csr, dense, csr32, dense32 or disk."""
    X = numbers(shape, n_classes)[0]
    if kind.endswith("32") or kind == "disk":
        X = X.astype(np.float32)
    if kind == "disk":
        return on_disk(sp.csr_array(X), f"{shape}-{n_classes}")
    return X if kind.startswith("dense") else sp.csr_array(X)


def data(shape: str, kind: str, n_classes: int) -> tuple[Any, np.ndarray]:
    """Return rows and labels of classes."""
    return rows(shape, kind, n_classes), numbers(shape, n_classes)[1].argmax(axis=1)


def graded(shape: str, kind: str) -> tuple[Any, np.ndarray]:
    """Return rows and four grades, which have an order."""
    scores = numbers(shape, 2)[1][:, 0]
    return rows(shape, kind, 2), np.digitize(scores, np.quantile(scores, [0.3, 0.6, 0.8]))


@cache
def folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="golden-")


def on_disk(X: sp.csr_array, name: str) -> Any:
    path = Path(folder().name) / f"{name}.arrow"
    cut = pa.array(X.indptr.astype(np.int32))
    columns = {
        "indices": pa.ListArray.from_arrays(cut, pa.array(X.indices.astype(np.int32))),
        "values": pa.ListArray.from_arrays(cut, pa.array(X.data)),
        "label": pa.array(np.zeros(X.shape[0])),
    }
    table = pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=X.shape[0] // 5)
    return open_rows(path)


# --- fits -----------------------------------------------------------------------------------


def outcome(model: Any, *more: Any) -> list[Outcome]:
    """Return what is remembered of a fitted estimator; `more` are further numbers of it."""
    arrays = model.coef_, getattr(model, "intercept_", np.empty(0)), *more
    facts = model.certificate_, model.n_iter_, model.status_, model.solver_, model.tol
    return [told(arrays, *facts, np.concatenate([[], *map(np.ravel, more)]))]


def told(
    arrays: Iterable[np.ndarray],
    proof: Certificate,
    n_iter: int,
    status: str,
    solver: str,
    tol: float,
    more: Iterable[float] = (),
) -> Outcome:
    text = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return Outcome(
        bits=hashlib.sha256(text).hexdigest(),
        objective=float(proof.primal),
        dual=float(proof.dual),
        relative_gap=float(proof.relative_gap),
        n_iter=int(n_iter),
        status=status,
        solver=solver,
        tol=tol,
        more=[float(number) for number in more],
    )


def svc(
    shape: str, kind: str = "csr", n_classes: int = 2, weigh: bool = False, **parameters: Any
) -> Fit:
    def fit() -> list[Outcome]:
        X, y = data(shape, kind, n_classes)
        model = LinearSVC(random_state=0, **parameters)
        model.fit(X, y, sample_weight=weights(y.size) if weigh else None)
        return outcome(model, *([model.sigmoids_] if model.probability else []))

    return fit


def weights(n: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4, n).astype(np.float64)


def warm(shape: str, kind: str, **parameters: Any) -> Fit:
    def fit() -> list[Outcome]:
        model = LinearSVC(warm_start=True, random_state=0, C=0.1, **parameters)
        first = outcome(model.fit(*data(shape, kind, 2)))
        return first + outcome(model.set_params(C=0.3).fit(*data(shape, kind, 2)))

    return fit


def path(shape: str, kind: str, n_classes: int = 2, **parameters: Any) -> Fit:
    def fit() -> list[Outcome]:
        tol = 1e-3
        X, y = data(shape, kind, n_classes)
        found = svm_path(X, y, Cs=[0.01, 1.0, 0.1], tol=tol, random_state=0, **parameters)
        each = zip(found.certificates, found.n_iter, found.statuses, found.solvers)
        arrays = zip(found.coefs, found.intercepts)
        return [told(some, *facts, tol) for some, facts in zip(arrays, each)]

    return fit


def search(shape: str, kind: str, n_classes: int = 2, **parameters: Any) -> Fit:
    def fit() -> list[Outcome]:
        model = LinearSVCCV(Cs=[0.01, 0.1, 1.0], cv=3, random_state=0, **parameters)
        model.fit(*data(shape, kind, n_classes))
        sigmoids = [model.sigmoids_] if model.probability else []
        return outcome(model, model.C_, model.scores_, *sigmoids)

    return fit


def ranker(
    shape: str, kind: str, n_groups: int = 0, weigh: bool = False, **parameters: Any
) -> Fit:
    def fit() -> list[Outcome]:
        X, y = graded(shape, kind)
        qid = np.arange(y.size) % n_groups if n_groups else None
        weight = 1.0 + weights(y.size) if weigh else None
        return outcome(LinearRanker(**parameters).fit(X, y, qid=qid, sample_weight=weight))

    return fit


def ordinal(shape: str, kind: str, **parameters: Any) -> Fit:
    def fit() -> list[Outcome]:
        model = OrdinalSVC(**parameters).fit(*graded(shape, kind))
        return outcome(model, model.thresholds_)

    return fit


def fits() -> dict[str, Fit]:
    """Return all fits by their names."""
    found: dict[str, Fit] = {}
    kinds = ("csr", "dense", "csr32", "dense32")
    for place, (solver, loss) in enumerate(product(IN_MEMORY, LOSSES)):
        kind, of_intercept = kinds[place % 4], ("free", "penalised", "none")[place % 3]
        options = {"solver": solver, "loss": loss, **INTERCEPTS[of_intercept]}
        found[f"{solver} {loss} square {kind}, {of_intercept}"] = svc("square", kind, **options)
    cells = product(("dcd", "acf", "newton", "ocas"), LOSSES, INTERCEPTS)
    for place, (solver, loss, of_intercept) in enumerate(cells):
        shape, kind = ("wide", "tall")[place % 2], kinds[place // 2 % 4]
        options = {"solver": solver, "loss": loss, "C": 0.2, **INTERCEPTS[of_intercept]}
        found[f"{solver} {loss} {shape} {kind}, {of_intercept}"] = svc(shape, kind, **options)
    for place, (solver, loss) in enumerate(product(ON_DISK, LOSSES)):
        of_intercept = ("penalised", "none", "free")[place % 3]
        options = {"solver": solver, "loss": loss, "C": 0.1, **INTERCEPTS[of_intercept]}
        found[f"{solver} {loss} disk, {of_intercept}"] = svc("square", "disk", **options)
    for solver in ("stream", "bm", "sbm"):
        options = {"solver": solver, "loss": "hinge", "C": 1e-4, "tol": 0.01}
        options["memory_budget"] = SMALL_BUDGET
        found[f"{solver} hinge disk, little memory"] = svc("large", "disk", **options)
    for solver, loss in product(("dcd", "acf"), LOSSES):
        found[f"{solver} {loss} text"] = svc("text", "csr32", solver=solver, loss=loss, C=10.0)
    for solver, loss in product(("newton", "ocas"), LOSSES):
        found[f"{solver} {loss} large"] = svc("large", "dense32", solver=solver, loss=loss, C=0.1)
    for loss, kind in product(LOSSES, ("csr", "disk")):
        found[f"auto {loss} {kind}"] = svc("square", kind, loss=loss)
    for solver in ("acf", "newton", "ocas"):
        name = f"{solver} hinge square dense, tol 1e-6"
        found[name] = svc("square", "dense", solver=solver, loss="hinge", tol=1e-6, C=0.1)
    for solver, kind in (("dcd", "csr"), ("acf", "csr32"), ("newton", "dense"), ("ocas", "disk")):
        options = {"solver": solver, "loss": "squared_hinge" if kind == "dense" else "hinge"}
        found[f"{solver} ovr {kind}"] = svc("classes", kind, 4, **options)
        found[f"{solver} weights {kind}"] = svc("square", kind, weigh=True, **options)
        found[f"{solver} warm {kind}"] = warm("square", kind, **options)
        found[f"{solver} path {kind}"] = path("square", kind, **options)
    for solver, of_intercept in product(("dcd", "acf", "ocas", "gca"), ("free", "none")):
        options = {"multi_class": "crammer_singer", "solver": solver, "C": 0.1}
        kind, name = kinds[len(found) % 4], f"{solver} crammer_singer, {of_intercept}"
        found[name] = svc("classes", kind, 4, **options, **INTERCEPTS[of_intercept])
    found["auto crammer_singer disk"] = svc("classes", "disk", 4, multi_class="crammer_singer")
    found["auto crammer_singer weights"] = svc(
        "classes", "dense", 4, True, multi_class="crammer_singer", penalized_intercept=True
    )
    found["auto balanced"] = svc("tall", "dense32", class_weight="balanced")
    found["ocas two threads"] = svc("tall", "csr", solver="ocas", loss="hinge", n_jobs=2)
    found["acf ovr two threads"] = svc("classes", "csr", 4, solver="acf", n_jobs=2)
    for solver in ("acf", "newton"):
        found[f"{solver} probability"] = svc("square", "csr", solver=solver, probability=True)
        found[f"{solver} search"] = search("square", "csr", solver=solver)
    found["auto ovr probability"] = svc("classes", "dense", 4, probability=True)
    found["auto ovr path"] = path("classes", "csr", 4)
    found["auto ovr search probability"] = search("classes", "csr32", 4, probability=True)
    found["auto ovr search disk"] = search("classes", "disk", 4, loss="hinge")
    found["auto crammer_singer search"] = search(
        "classes", "dense", 4, multi_class="crammer_singer"
    )
    for solver in ("cpa", "ocas", "tca"):
        found[f"ranker {solver}"] = ranker("square", "csr", solver=solver, C=0.1)
    found["ranker groups"] = ranker("square", "dense32", 20, normalization="queries")
    found["ranker weights disk"] = ranker("classes", "disk", 5, weigh=True)
    found["ordinal"] = ordinal("square", "dense", C=0.1)
    found["ordinal zero_one disk"] = ordinal("classes", "disk", error="zero_one")
    return found


# --- commands -------------------------------------------------------------------------------


def run(only: str) -> dict[str, list[Outcome]]:
    return {name: fit() for name, fit in fits().items() if only in name}


def verdict(before: list[Outcome] | None, now: list[Outcome]) -> tuple[str, str]:
    """Return how two answers compare, and what is to be said about it."""
    if before == now:
        return "same bits", ""
    if before is None or len(before) != len(now):
        return "DIFFERS", "was not recorded" if before is None else "not as many models"
    notes = [old.difference(new) for old, new in zip(before, now)]
    if any(notes):
        return "DIFFERS", "; ".join(filter(None, notes))
    counts = [[some.n_iter for some in answer] for answer in (before, now)]
    return "same gap", "" if counts[0] == counts[1] else f"iterations {counts[0]} -> {counts[1]}"


def record(file: Path, only: str = "") -> int:
    answers = run(only)
    stored = {name: [asdict(some) for some in answer] for name, answer in answers.items()}
    file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    print(f"{len(answers)} fits recorded")
    return 0


def compare(file: Path, only: str = "") -> int:
    stored = json.loads(file.read_text(encoding="utf-8"))
    before = {name: [Outcome(**some) for some in answer] for name, answer in stored.items()}
    counts: Counter[str] = Counter()
    for name, now in run(only).items():
        found, note = verdict(before.get(name), now)
        counts[found] += 1
        print(f"{found:<10} {name}{note and ': ' + note}")
    print(", ".join(f"{counts[found]} {found}" for found in ("same bits", "same gap", "DIFFERS")))
    return int(counts["DIFFERS"] > 0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="fits whose names have this in them")
    given = parser.parse_args(arguments)
    return {"record": record, "compare": compare}[given.command](given.file, given.only)


if __name__ == "__main__":
    sys.exit(main())
