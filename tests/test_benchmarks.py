"""The benchmark package: its ladder, its objective, its peers on a toy, its table."""

import json
import platform
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import analyse, machine, measure, peers, run  # noqa: E402
from benchmarks.problems import GRIDS, Cell, primal_objective, relative_suboptimality  # noqa: E402

CELL = Cell("rcv1", 1.0)
LIBRARIES = {
    "sklearn_linearsvc": "sklearn",
    "liblinear_official": "liblinear",
    "snapml_svm": "snapml",
}


@pytest.fixture(scope="module")
def toy():
    random = np.random.default_rng(0)
    X = sp.random(120, 30, density=0.3, format="csr", dtype=np.float32, random_state=0)
    X = sp.csr_matrix(X)
    y = np.where(X @ random.standard_normal(30) + 0.3 * random.standard_normal(120) > 0, 1, -1)
    return X, y


# --- the ladder -----------------------------------------------------------------------------


@pytest.mark.parametrize("first_good", range(20))
def test_climb_finds_the_first_rung_that_holds(first_good):
    tried = []

    def attempt(rung):
        tried.append(rung)
        return rung >= first_good

    assert measure.climb(20, attempt, stride=3) == first_good
    assert len(tried) == len(set(tried))
    assert max(tried) <= min(first_good + 2, 19)


def test_climb_gives_up_at_the_end_and_out_of_time():
    assert measure.climb(7, lambda rung: False) is None
    assert measure.climb(7, lambda rung: None if rung > 3 else False) is None


def test_climb_keeps_what_holds_when_time_is_up_on_the_way_back():
    outcomes = {0: False, 3: True, 1: None}
    assert measure.climb(9, outcomes.__getitem__, stride=3) == 3


def fake_peer(seconds_of, good_from):
    """A peer whose fit with setting i takes `seconds_of(i)` and is good from `good_from` on."""
    fits = []

    def timed_fit(setting):
        fits.append(setting["rung"])
        objective = 1.0 if setting["rung"] >= good_from else 100.0 - setting["rung"]
        return seconds_of(setting["rung"]), objective

    return fits, timed_fit, [{"rung": rung} for rung in range(30)]


def is_good(objective):
    return objective <= 1.0


def test_the_good_fit_is_repeated():
    fits, timed_fit, settings = fake_peer(lambda rung: 0.5, good_from=4)
    limits = measure.Limits(per_fit=8, in_all=100)
    assert measure.time_to_target(timed_fit, settings, is_good, limits) == "reached"
    assert fits.count(4) == measure.MIN_REPEATS
    assert limits.spent == pytest.approx(0.5 * len(fits))


def test_quick_fits_are_repeated_more_and_slow_ones_less():
    fits, timed_fit, settings = fake_peer(lambda rung: 0.001, good_from=0)
    measure.time_to_target(timed_fit, settings, is_good, measure.Limits(8, 100))
    assert fits.count(0) == measure.MAX_REPEATS
    fits, timed_fit, settings = fake_peer(lambda rung: 6.0, good_from=0)
    measure.time_to_target(timed_fit, settings, is_good, measure.Limits(8, 10))
    assert fits.count(0) == 1


def test_time_limits_end_the_climb():
    fits, timed_fit, settings = fake_peer(lambda rung: 1.25**rung, good_from=29)
    limits = measure.Limits(per_fit=8, in_all=20)
    assert measure.time_to_target(timed_fit, settings, is_good, limits) == "time limit"
    assert max(1.25**rung for rung in fits) <= 8
    assert limits.spent <= 20


def test_a_ladder_that_ends_says_so():
    _, timed_fit, settings = fake_peer(lambda rung: 0.001, good_from=99)
    outcome = measure.time_to_target(timed_fit, settings, is_good, measure.Limits(8, 20))
    assert outcome == "ladder ended"


def test_a_peer_that_moves_no_more_is_left_alone():
    tried = []

    def timed_fit(setting):
        tried.append(setting)
        return 0.001, max(2.0, 9.0 - setting)

    outcome = measure.time_to_target(timed_fit, list(range(60)), is_good, measure.Limits(8, 20))
    assert outcome == "ladder ended"
    assert tried == [0, 3, 6, 9, 12]


def test_iteration_ladder_rises():
    ladder = peers.iteration_ladder(limit=1000)
    assert ladder[0] == 1
    assert ladder[-1] >= 1000
    assert all(low < high <= 1.25 * low + 1 for low, high in pairwise(ladder))


# --- problems and peers ---------------------------------------------------------------------


def test_grid_of_texts():
    cells = GRIDS["text"].cells
    assert len(cells) == 10
    assert {cell.C for cell in cells} == {0.1, 1, 10, 100, 1000}
    assert all(cell.loss == "hinge" and cell.intercept == "none" for cell in cells)
    assert set(GRIDS["text"].quick) <= set(cells)
    assert all(Cell.from_json(cell.to_json()) == cell for cell in cells)


def test_objective_by_hand():
    X, y = np.array([[1.0, 0.0], [0.0, 2.0]], dtype=np.float32), np.array([1, -1])
    # Margins 0.5 and -2, so slacks 0.5 and 3 without intercept; with intercept 1: 0 and 4.
    assert primal_objective(Cell("toy", 10), X, y, [0.5, 1.0]) == 0.625 + 35
    penalized = Cell("toy", 10, "squared_hinge", "penalized")
    assert primal_objective(penalized, X, y, [0.5, 1.0], 1.0) == 0.625 + 0.5 + 160
    assert relative_suboptimality(4.0, 3.0) == 0.25


@pytest.mark.parametrize("intercept", ["none", "penalized"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.1, 5.0])
@pytest.mark.parametrize("module", peers.MODULES)
def test_peers_state_the_same_problem(module, C, loss, intercept, toy):
    if module != "widemargin_svc":  # the others are extras
        pytest.importorskip(LIBRARIES[module])
    peer = peers.load(module)
    X, y = toy
    cell = Cell("toy", C, loss, intercept)
    exact = LinearSVC(
        C=C,
        loss=loss,
        dual=True,
        fit_intercept=intercept == "penalized",
        tol=1e-10,
        max_iter=200_000,
        random_state=0,
    ).fit(X.astype(np.float64), y)
    optimum = primal_objective(cell, X, y, exact.coef_, float(np.ravel(exact.intercept_)[0]))
    settings = peer.settings()
    near_the_optimum = settings[min(35, len(settings) - 1)]
    fitted = peer.fit(peer.prepare(X, y), cell, near_the_optimum, 1)
    reached = primal_objective(cell, X, y, fitted.coef, fitted.intercept)
    assert reached == pytest.approx(optimum, rel=5e-3)


def test_few_rows_hold_both_classes(toy):
    X, y = measure.few_rows(*toy)
    assert set(y) == {-1, 1}
    assert X.dtype == np.float32
    assert sp.isspmatrix_csr(X)


# --- results and tables ---------------------------------------------------------------------


def a_fit(peer, setting, seconds, objective, **notes):
    return {
        "kind": "fit",
        "cell": CELL.name,
        "peer": peer,
        "setting": setting,
        "seconds": seconds,
        "objective": objective,
        "notes": notes,
    }


@pytest.fixture
def records():
    first = machine.describe() | {
        "grid": "text",
        "target": 1e-3,
        "cells": [{"data": "rcv1", "C": 1.0}, {"data": "news20_one", "C": 1.0}],
    }
    reference = {"kind": "reference", "cell": CELL.name, "primal": 100.01, "dual": 100.0}
    return [
        first,
        reference,
        a_fit("scikit-learn", {"max_iter": 1}, 0.1, 150.0),
        a_fit("scikit-learn", {"max_iter": 9}, 0.9, 100.05),
        a_fit("scikit-learn", {"max_iter": 9}, 0.7, 100.05),
        a_fit("scikit-learn", {"max_iter": 9}, 0.8, 100.05),
        a_fit("widemargin", {"tol": 1e-3}, 0.2, 100.02),
        a_fit("snapml", {"max_iter": 5}, 3.0, 102.0),
        a_fit("snapml", {"max_iter": 7}, 4.0, 103.0),
        {"kind": "skipped", "cell": "news20_one/hinge/intercept=none/C=1", "why": "missing"},
    ]


def test_table(records):
    lines = analyse.table(analyse.sort_out(records)).splitlines()
    assert lines[0] == "| data | loss | C | optimum | widemargin | scikit-learn | snapml |"
    assert lines[2] == (
        "| rcv1 | hinge | 1 | 100.01 (gap 1e-04) | 0.200 s | 0.800 s (4.0×) | "
        "not reached (2 % above after 4.00 s; over 20.0×) |"
    )
    assert len([line for line in lines if line.startswith("|")]) == 3
    assert "Python" in lines[-1]


def test_the_largest_proven_bound_counts(records):
    records.append(a_fit("widemargin", {"tol": 1e-4}, 9.0, 100.01, dual=100.005))
    row = analyse.table(analyse.sort_out(records)).splitlines()[2]
    assert "100.01 (gap 5e-05)" in row
    assert "| 0.200 s |" in row


def test_what_was_skipped_is_gathered_by_reason(records):
    records.append({"kind": "skipped", "cell": "b", "peer_module": "p", "why": "missing"})
    gathered = analyse.skipped_by_reason(analyse.sort_out(records))
    assert gathered == {"missing": ["news20_one/hinge/intercept=none/C=1", "b by p"]}


def test_a_fit_below_the_bound_is_noticed(records):
    assert analyse.contradictions(analyse.sort_out(records)) == []
    records.append(a_fit("snapml", {"max_iter": 9}, 1.0, 99.9))
    (contradiction,) = analyse.contradictions(analyse.sort_out(records))
    assert "snapml" in contradiction


def test_analyse_rewrites_only_its_table(records, tmp_path):
    results, docs = tmp_path / "results.jsonl", tmp_path / "benchmarks.md"
    results.write_text("\n".join(json.dumps(record) for record in records))
    other = "<!-- table:other -->\nkept\n<!-- end -->\n"
    docs.write_text(f"{other}before\n<!-- table:text -->\nold\n<!-- end -->\nafter\n")
    command = [sys.executable, "-m", "benchmarks.analyse", str(results), "--documents", str(docs)]
    for _ in range(2):  # twice: the markers stay
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    text = docs.read_text()
    assert text.startswith(f"{other}before\n<!-- table:text -->\n| data |")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert text.count("| rcv1 |") == 1
    with pytest.raises(ValueError, match="table:unknown"):
        analyse.rewrite(text, "unknown", "")


def test_results_need_their_machine(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"kind": "fit"}\n')
    with pytest.raises(ValueError, match="machine record"):
        analyse.read(path)


def test_the_documentation_has_the_markers():
    for document in analyse.DOCUMENTS:
        analyse.rewrite(document.read_text(encoding="utf-8"), "text", "")


def test_machine_names_no_host():
    described = json.dumps(machine.describe())
    assert not platform.node() or platform.node() not in described
    assert str(ROOT) not in described


def test_missing_data_is_skipped_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path))
    kept = []
    run.run_cell(CELL, run.parse(["--out", str(tmp_path / "out.jsonl")]), kept.append)
    (record,) = kept
    assert record["kind"] == "skipped"
    assert "rcv1.npz" in record["why"]
    assert str(tmp_path) not in record["why"]
