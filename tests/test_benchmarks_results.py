"""The benchmark package: its results, tables and pictures, and whole runs of it."""

import contextlib
import json
import platform
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import analyse, machine, peers, run  # noqa: E402
from benchmarks.problems import GRIDS, Cell, Grid, Limits  # noqa: E402

CELL = Cell("rcv1", 1.0)
LIMITS = Limits(fit=8, peer=100, reference=10)


# --- results and tables ---------------------------------------------------------------------


MODULE_OF = {
    "widemargin": "widemargin_svc",
    "sklearn LinearSVC": "sklearn_linearsvc",
    "snapml": "snapml_svm",
}


def a_fit(peer, setting, seconds, objective, **notes):
    return {
        "kind": "fit",
        "cell": CELL.name,
        "peer": peer,
        "peer_module": MODULE_OF[peer],
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
        a_fit("sklearn LinearSVC", {"max_iter": 1}, 0.1, 150.0),
        a_fit("sklearn LinearSVC", {"max_iter": 9}, 0.9, 100.05),
        a_fit("sklearn LinearSVC", {"max_iter": 9}, 0.7, 100.05),
        a_fit("sklearn LinearSVC", {"max_iter": 9}, 0.8, 100.05),
        a_fit("widemargin", {"tol": 1e-3}, 0.2, 100.02),
        a_fit("snapml", {"max_iter": 5}, 3.0, 102.0),
        a_fit("snapml", {"max_iter": 7}, 4.0, 103.0),
        {"kind": "skipped", "cell": "news20_one/hinge/intercept=none/C=1", "why": "missing"},
    ]


def test_table(records):
    lines = analyse.table(analyse.sort_out(records)).splitlines()
    assert lines[0] == "| data | problem | C | optimum | widemargin | sklearn LinearSVC | snapml |"
    assert lines[2] == (
        "| rcv1 | hinge | 1 | 100.01 (gap 1e-04) | **0.2 s** | 0.8 s (4.0×) | "
        "✗ 2 % above after 4 s |"
    )
    assert len([line for line in lines if line.startswith("|")]) == 3
    assert "Python" in lines[-1]
    assert lines[-1].endswith("Skipped, for want of data or of the library: news20_one.")


def test_where_we_lose_the_table_says_so(records):
    records.append(a_fit("snapml", {"max_iter": 9}, 0.1, 100.05))
    row = analyse.table(analyse.sort_out(records)).splitlines()[2]
    assert "| 0.2 s (2.0×) | 0.8 s (8.0×) | **0.1 s** |" in row
    caption = analyse.caption(analyse.sort_out(records))
    assert "fastest in 0 of 1 rows; not in: rcv1, hinge, C = 1 (snapml; ours takes 2.0" in caption


def test_a_peer_whose_fits_all_failed_is_in_the_table(records):
    failed = {"kind": "failed", "why": "overflow"}
    records = [r for r in records if r.get("peer") != "snapml"]
    records.append(a_fit("snapml", {"max_iter": 5}, 3.0, 102.0) | failed)
    results = analyse.sort_out(records)
    assert results.summaries(CELL)["snapml"].seconds is None
    assert "snapml" not in results.peers


def test_costs_table(records):
    told = {
        "kind": "peer",
        "cell": CELL.name,
        "peer": "widemargin",
        "peer_module": "widemargin_svc",
        "first_fit_s": 2.5,
        "warm_fit_s": 0.5,
        "bytes_with_data": 2**27,
        "bytes_at_peak": 2**27 + 2**24,
    }
    lines = analyse.costs_table(analyse.sort_out([*records, told])).splitlines()
    assert lines[0] == "| peer | first fit longer by | rcv1 |"
    assert lines[2:] == ["| widemargin | 2.00 s | 16 MiB |"]


def test_the_largest_proven_bound_counts(records):
    records.append(a_fit("widemargin", {"tol": 1e-4}, 9.0, 100.01, dual=100.005))
    row = analyse.table(analyse.sort_out(records)).splitlines()[2]
    assert "100.01 (gap 5e-05)" in row
    assert "| **0.2 s** |" in row


def test_what_was_skipped_is_said_by_name_and_reason(records):
    skipped = {"kind": "skipped", "why": "not installed: snapml", "peer_module": "snapml_svm"}
    records += [{**skipped, "cell": CELL.name}, {**skipped, "cell": "b/hinge"}]
    assert analyse.skipped_in_words(analyse.sort_out(records)) == [
        "Skipped news20_one: missing",
        "Skipped snapml_svm: not installed: snapml",
    ]


def test_a_fit_below_the_bound_is_noticed(records):
    assert analyse.contradictions(analyse.sort_out(records)) == []
    records.append(a_fit("snapml", {"max_iter": 9}, 1.0, 99.9))
    (contradiction,) = analyse.contradictions(analyse.sort_out(records))
    assert "snapml" in contradiction


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_analyse_rewrites_only_its_tables(records, tmp_path):
    results, docs = tmp_path / "results.jsonl", tmp_path / "benchmarks.md"
    quoting = tmp_path / "README.md"
    write_lines(results, records)
    other = "<!-- table:other -->\nkept\n<!-- end -->\n"
    times = "<!-- table:text -->\nstale\n<!-- end -->\n"
    costs = "<!-- table:text-costs -->\nstale\n<!-- end -->\n"
    docs.write_text(f"{other}before\n{times}{costs}after\n")
    quoting.write_text(times)
    for _ in range(2):  # twice: the markers stay
        analyse.main([str(results), "--documents", str(docs), str(quoting)])
    text = docs.read_text()
    assert text.startswith(f"{other}before\n<!-- table:text -->\n| data |")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "stale" not in text
    assert text.count("| rcv1 | hinge |") == quoting.read_text().count("| rcv1 | hinge |") == 1
    with pytest.raises(ValueError, match="table:unknown"):
        analyse.rewrite_all([docs, quoting], "unknown", "")


def test_without_a_measurement_the_documents_stay(records, tmp_path):
    results, docs = tmp_path / "results.jsonl", tmp_path / "benchmarks.md"
    write_lines(results, [records[0], records[-1]])
    docs.write_text("as it was")
    analyse.main([str(results), "--documents", str(docs)])
    assert docs.read_text() == "as it was"


def test_results_need_their_machine(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"kind": "fit"}\n')
    with pytest.raises(ValueError, match="machine record"):
        analyse.read(path)


def test_the_documentation_has_the_markers_and_the_pictures():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for grid in GRIDS:
        analyse.rewrite(text, grid, "")
        analyse.rewrite(text, f"{grid}-costs", "")
        analyse.rewrite(text, f"{grid}-picture", "")
    analyse.rewrite(text, "startup", "")
    for picture in re.findall(r"\((images/[^)]+)\)", text):
        assert (ROOT / "docs" / picture).is_file(), picture


def test_pictures_are_the_same_byte_by_byte(records, tmp_path):
    plot = pytest.importorskip("benchmarks.plot", reason="matplotlib is not installed")
    results = analyse.sort_out(records)
    for name in ("a.svg", "b.svg"):
        plot.save(plot.picture(results), tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    for words in ("rcv1, C = 1", "sklearn LinearSVC", "0.1 % of the optimum, hinge", "not"):
        assert words in text
    assert "dc:date" not in text


def test_a_peer_has_a_look_of_its_own():
    plot = pytest.importorskip("benchmarks.plot", reason="matplotlib is not installed")
    names = []
    for module in peers.MODULES:
        with contextlib.suppress(ImportError):
            names.append(peers.load(module).name)
    assert len({plot.LOOKS[name] for name in names}) == len(names)


def test_machine_names_no_host():
    described = json.dumps(machine.describe())
    assert not platform.node() or platform.node() not in described
    assert str(ROOT) not in described


# --- whole runs -----------------------------------------------------------------------------


def test_missing_data_is_skipped_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path))
    kept = []
    run.run_cell(CELL, ["widemargin_svc"], LIMITS, tmp_path, kept.append, [])
    (record,) = kept
    assert record["kind"] == "skipped"
    assert "rcv1.npz" in record["why"]
    assert str(tmp_path) not in record["why"]


TOY_CELLS = (Cell("breast_cancer", 1, "hinge", "free"), Cell("breast_cancer", 0.1), CELL)


@pytest.fixture
def toy_grid(tmp_path, monkeypatch):
    """A grid of two quick cells and one whose data is missing; no process is started."""
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path))
    monkeypatch.setitem(run.GRIDS, "toy", Grid(TOY_CELLS, LIMITS))
    monkeypatch.setattr(run.peers, "MODULES", ("widemargin_svc", "sklearn_svc", "absent"))
    asked = []

    def records_of(module, arguments, limit):
        cell = Cell.from_json(arguments[1])
        if module == "benchmarks.reference":
            if cell.data == "rcv1":
                return [
                    {"kind": "skipped", "cell": cell.name, "why": "data set 'rcv1' is missing"}
                ]
            shape = {"n_rows": 569, "n_features": 30, "n_classes": 2}
            values = {"primal": 100.01, "dual": 100.0, "relative_gap": 1e-4}
            return [{"kind": "reference", "cell": cell.name, **shape, **values}]
        asked.append((cell.C, arguments[arguments.index("--peer") + 1]))
        if asked[-1] == run_toy.interrupt_at:
            raise KeyboardInterrupt
        return [{"kind": "fit", "setting": {}, "seconds": 1.0, "objective": 100.02, "notes": {}}]

    monkeypatch.setattr(run, "records_of", records_of)

    def run_toy(*arguments):
        asked.clear()
        run.main(["--grid", "toy", "--out", str(tmp_path / "toy.jsonl"), *arguments])
        return list(asked)

    run_toy.interrupt_at = None
    run_toy.path = tmp_path / "toy.jsonl"
    return run_toy


def test_a_run_measures_all_and_says_what_it_skipped(toy_grid, capsys):
    assert toy_grid() == [(1, "widemargin_svc"), (1, "sklearn_svc"), (0.1, "widemargin_svc")]
    told = capsys.readouterr().out
    assert "| breast_cancer | hinge, free intercept | 1 |" in told
    assert "Skipped absent: not installed: benchmarks.peers.absent" in told
    assert "Skipped rcv1: data set 'rcv1' is missing" in told
    results = analyse.read(toy_grid.path)
    assert [record["why"] for record in results.of_kind("refused")] == ["has no intercept 'none'"]


def test_only_measures_some_anew_and_keeps_the_rest(toy_grid):
    toy_grid()
    before = analyse.read(toy_grid.path)
    assert toy_grid("--only", "C=1", "peer=sklearn_svc") == [(1, "sklearn_svc")]
    after = analyse.read(toy_grid.path)
    assert sorted(after.fits) == sorted(before.fits)
    assert all(len(fits) == 1 for fits in after.fits.values())
    assert after.references == before.references
    with pytest.raises(SystemExit, match="nothing that --only asks for"):
        toy_grid("--only", "data=unheard_of")
    with pytest.raises(SystemExit):
        toy_grid("--only", "colour=red")


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(toy_grid):
    toy_grid.interrupt_at = (1, "sklearn_svc")
    with pytest.raises(SystemExit) as ended:
        toy_grid()
    assert ended.value.code == 130
    assert list(analyse.read(toy_grid.path).fits) == [(TOY_CELLS[0].name, "widemargin")]
    toy_grid.interrupt_at = None
    assert toy_grid("--resume") == [(1, "sklearn_svc"), (0.1, "widemargin_svc")]
    assert len(analyse.read(toy_grid.path).fits) == 3
    assert toy_grid("--resume") == []


def test_files_of_another_machine_are_not_gone_on_with(toy_grid):
    toy_grid()
    lines = toy_grid.path.read_text().splitlines()
    first = json.loads(lines[0]) | {"cpu": "another"}
    toy_grid.path.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    with pytest.raises(SystemExit, match=r"toy.jsonl was measured with another cpu"):
        toy_grid("--resume")
