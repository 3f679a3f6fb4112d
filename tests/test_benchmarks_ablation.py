"""Tests of benchmarks/ablation.py."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import ablation, tall_sets  # noqa: E402


@pytest.mark.filterwarnings("ignore:training stopped at max_iter")
@pytest.mark.parametrize("solver", ablation.VARIANTS)
def test_every_variant_trains_and_leaves_the_solver_as_it_was(solver):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 5)).astype(np.float32)
    y = np.where(rows[:, 0] + rng.standard_normal(2000) > 0, 1, -1)
    cell = ablation.Cell("made up", "squared_hinge", 1.0, "free", 1e-3)
    record = ablation.measure(cell, solver, rows, y, fits=2, until=np.inf)
    assert list(record["variants"]) == list(ablation.VARIANTS[solver])
    for fits in record["variants"].values():
        assert (fits["status"], len(fits["seconds"])) == ("converged", 2)
    again = ablation.measure(cell, solver, rows, y, fits=1, until=np.inf)["variants"]
    as_it_is = record["variants"][ablation.AS_IT_IS]
    for of_cell in ("primal", "dual"):
        assert again[ablation.AS_IT_IS][of_cell] == as_it_is[of_cell]


def test_report_tells_what_pays():
    def record(data, seconds):
        times = {"primal": 1.0, "dual": 1.0}
        names = ablation.AS_IT_IS, "without"
        variants = {name: times | {"seconds": some} for name, some in zip(names, seconds)}
        cell = {"data": data, "loss": "hinge", "C": 1.0, "intercept": "none", "tol": 1e-3}
        return {"kind": "cell", "cell": cell, "auto": "newton", "variants": variants}

    first = record("a9a", ([1.0, 9.0, 1.0], [1.1, 1.1, 9.0]))
    assert "| 1.100 | 1.100 | none |" in ablation.report([first])
    assert ablation.report([first]).endswith("| goes |")
    second = record("poker", ([1.0], [1.6]))
    assert ablation.report([first, second]).endswith("| pays |")


def test_sources_are_stored_as_they_were(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((300, 3)).astype(np.float32)
    dense[:, 1] = dense[:, 1] > 0
    sparse = tall_sets.sp.csr_matrix(dense * (rng.random(dense.shape) < 0.5))
    for X in (dense, sparse):
        monkeypatch.setattr(tall_sets, "_SOURCES", {"made": lambda X=X: (X, dense[:, 1] > 0)})
        folder = tmp_path / type(X).__name__
        tall_sets.prepare(folder)
        stored, y = tall_sets._stored(folder, "made")
        assert (y == (dense[:, 1] > 0)).all()
        assert type(stored) is type(X)
        assert (stored != X).sum() == 0
