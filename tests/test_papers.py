"""The papers' pages: every section on made-up rows, the verdicts, and what a rerun may change."""

import re
import shutil
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import files  # noqa: E402
from benchmarks.papers import report, squared_hinge  # noqa: E402
from benchmarks.papers.__main__ import main  # noqa: E402
from benchmarks.papers.report import Check, all_of, at_least, at_most, verdict  # noqa: E402
from benchmarks.papers.sorted_search import sorted_exact  # noqa: E402
from benchmarks.solving import growing, problem_of, slope, solve  # noqa: E402
from widemargin import LinearSVC, datasets  # noqa: E402
from widemargin.data.expand import HashedNgrams, WeightedDegree  # noqa: E402
from widemargin.solvers.line_search import Penalty, exact  # noqa: E402

DENSE = {"covtype", "mnist", "poker", "covtype_binary"}
MULTI = {"covtype", "mnist", "poker", "rcv1_multi"}


def made_up(name, **_):
    """A little set: noisy, so that no problem is trivial; three classes or two."""
    rng = np.random.default_rng(0)
    X = rng.random((240, 8), dtype=np.float32) * (rng.random((240, 8)) < 0.7)
    scores = X @ rng.standard_normal((8, 3)) + 0.3 * rng.standard_normal((240, 3))
    y = scores.argmax(axis=1) + 1
    if name not in MULTI:
        y = np.where(y == 1, 1, -1)
    return SimpleNamespace(X=X if name in DENSE else sp.csr_matrix(X), y=y)


def write_made_up_strings(folder):
    """Files of strings where the scripts look for those of debian_paths and splice_worm."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.4, 1, -1)
    words = [f"usr/{'doc' if label > 0 else 'bin'}/{rng.integers(50)}" for label in y]
    files.write_arrow(folder / "paths-10.arrow", pa.table({"label": y, "path": words}))
    letters = rng.choice(list("ACGT"), (300, 20))
    letters[:, 5] = np.where(y > 0, "A", letters[:, 5])
    dna = ["".join(row) for row in letters]
    files.write_arrow(folder / "dna.arrow", pa.table({"label": y, "sequence": dna}))


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """A copy of the pages, which scripts rewrite in place of the real ones; made-up data."""
    pytest.importorskip("matplotlib", reason="figures are drawn by matplotlib")
    folder = tmp_path / "papers"
    shutil.copytree(report.DOCUMENTS, folder, ignore=shutil.ignore_patterns("images"))
    monkeypatch.setattr(report, "DOCUMENTS", folder)
    monkeypatch.setattr(datasets, "load", made_up)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return folder


@pytest.fixture
def strings(tmp_path, monkeypatch):
    """Made-up strings in place of the large files, and few features of them."""
    streamsvm = import_module("benchmarks.papers.streamsvm")
    dna = WeightedDegree("sequence", length=20, max_degree=2)
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(files, "apart", lambda task, *arguments: task(*arguments))
    monkeypatch.setattr(files, "PATHS", HashedNgrams("path", n_features=256))
    for module in (files, streamsvm):
        monkeypatch.setattr(module, "DNA", dna)
    monkeypatch.setattr(streamsvm, "PATHS_ROWS", 300)
    monkeypatch.setattr(streamsvm, "DNA_ROWS", 200)
    write_made_up_strings(tmp_path)


def run_script(name, monkeypatch, *chosen):
    """Run a paper's script without its warm-up, and not for long where it takes all its time."""
    script = import_module(f"benchmarks.papers.{name}")
    for limit in ("CURVE_SECONDS", "RACE_SECONDS", "DNA_SECONDS"):
        if hasattr(script, limit):
            monkeypatch.setattr(script, limit, 0.1)
    monkeypatch.setattr(sys, "argv", [name, *chosen])
    report.run(script.__doc__, name, script.SECTIONS, warm_up=lambda: None)
    return script


def by_hand(page):
    """What a rerun must leave alone: all but what lies between markers."""
    return re.sub(r"(<!-- table:\S+ -->\n).*?(<!-- end -->)", r"\1\2", page, flags=re.DOTALL)


def images_in(text):
    return re.findall(r"\]\((images/\S+\.svg)\)", text)


@pytest.mark.parametrize("name", report.PAPERS)
def test_pages_have_their_figures(name):
    page = (report.DOCUMENTS / f"{name}.md").read_text()
    assert images_in(page)
    assert all((report.DOCUMENTS / image).exists() for image in images_in(page))


@pytest.mark.parametrize("name", report.PAPERS)
def test_every_section_runs_and_leaves_what_is_written_by_hand(name, pages, strings, monkeypatch):
    page = pages / f"{name}.md"
    before = page.read_text()
    # Most sections of acf differ in their data only.
    chosen = ["programs", "rcv1", "covtype"] if name == "acf" else []
    script = run_script(name, monkeypatch, *chosen)
    after = page.read_text()
    assert by_hand(after) == by_hand(before)
    blocks = dict(re.findall(r"<!-- table:(\S+) -->\n(.*?)<!-- end -->", after, re.DOTALL))
    assert list(blocks) == list(script.SECTIONS)
    for section in chosen or script.SECTIONS:
        block = blocks[section]
        assert "Python" in block  # what it ran on
        assert re.search(r"^\*\*(Agrees|Agrees in part|Does not agree)\.\*\*$", block, re.M)
        assert all((pages / image).exists() for image in images_in(block))
    claims = report.verdicts_of(after)
    assert len(claims) == sum("**" in block for block in blocks.values())
    index = (pages / "index.md").read_text()
    assert all(f"| {claim} | {word} |" in index for claim, word in claims)


def test_missing_data_leaves_the_table_as_it_is(pages, monkeypatch, capsys):
    def missing(name, **_):
        raise datasets.DatasetMissing(f"data set {name!r} is missing")

    monkeypatch.setattr(datasets, "load", missing)
    before = (pages / "acf.md").read_text()
    run_script("acf", monkeypatch, "rcv1")
    assert (pages / "acf.md").read_text() == before
    assert "data set 'rcv1' is missing" in capsys.readouterr().out


def test_figures_are_the_same_bytes_each_time(pages):
    drawn = []
    for _ in range(2):
        with report.figure("some", ["one", "two"]) as (left, right):
            left.plot([1, 2], label="a")
            left.legend()
            right.loglog([1, 10], [1, 10])
        drawn.append((pages / "images" / "some.svg").read_bytes())
    assert drawn[0] == drawn[1]


def test_an_unknown_paper_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["papers", "pegasos"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "no paper is called 'pegasos'" in capsys.readouterr().err


# --- verdicts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "word"),
    [
        ([True, True], "Agrees"),
        ([True, False], "Agrees in part"),
        ([False, False], "Does not agree"),
    ],
)
def test_verdict_follows_from_its_checks(held, word):
    text = verdict(Check(holds, f"check {i}") for i, holds in enumerate(held))
    assert text.startswith(f"**{word}.**\n")
    for i, holds in enumerate(held):
        assert f"- {'yes' if holds else 'no'}: check {i}" in text


def test_limits_belong_to_what_they_allow():
    assert at_most(1.05, 1.05, "slope").holds
    assert not at_most(1.06, 1.05, "slope").holds
    assert at_least(10.0, 10.0, "ratio").holds
    assert not at_least(9.0, 10.0, "ratio").holds
    assert not at_least(float("nan"), 10.0, "ratio").holds
    assert all_of([True, True], "both") == (True, "both: in 2 of 2 cases")
    assert all_of([True, False], "both") == (False, "both: in 1 of 2 cases")


def test_nothing_measured_is_no_agreement():
    assert not all_of([], "cases").holds


def test_verdicts_are_read_from_their_headings():
    page = "# Title\n\n## One\n\n**Agrees.**\n\n## Two\n\n## Three\n\n**Does not agree.**\n"
    assert report.verdicts_of(page) == [("One", "agrees"), ("Three", "does not agree")]


# --- what the scripts share -------------------------------------------------------------------


@pytest.mark.parametrize("multi", [False, True])
def test_the_search_that_sorts_finds_the_same_step(multi):
    data = made_up("covtype" if multi else "covtype_binary")
    problem = problem_of(data.X, data.y, 50.0, multi)
    rng = np.random.default_rng(1)
    outputs = problem.risk.outputs
    for _ in range(5):
        w, ahead = (rng.standard_normal((8, *outputs)) for _ in range(2))
        S, D = problem.rows.scores(w), problem.rows.scores(ahead)
        penalty = Penalty(float(np.vdot(ahead, ahead)), float(np.vdot(w, ahead)), 0.0)
        found = [
            search(penalty, problem.risk.line(S.copy(), D.copy()), 0.1)
            for search in (sorted_exact, exact)
        ]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_solvers_of_the_squared_hinge_find_the_optimum(form, C):
    data = made_up("covtype_binary")
    X, y = form(data.X.astype(float)), data.y
    best = LinearSVC(C=C, fit_intercept=False, tol=1e-8).fit(X, y).certificate_
    w, _ = squared_hinge.finite_newton(X, y, C)
    v, _, settled = squared_hinge.lagrangian(X, y, C)
    assert settled
    for found, slip in ((w, 1e-3), (v, 1e-5)):
        value = squared_hinge.objective(X, y, C, found)
        assert best.dual * (1 - 1e-9) <= value <= best.primal * (1 + slip)


def test_runs_tell_where_they_went():
    data = made_up("covtype_binary")
    run = solve(problem_of(data.X, data.y, 100.0), "ocas", 1e-3)
    assert run.converged
    assert len(run.values) == len(run.steps) == run.iterations
    assert min(run.values) == pytest.approx(run.history[-1].primal)
    assert run.first(lambda record: record.relative_gap <= 1e-3) is run.history[-1]
    early = solve(problem_of(data.X, data.y, 100.0), "ocas", 1e-9, enough=lambda record: True)
    assert early.converged
    assert early.iterations == 0


def test_slopes_and_sizes():
    assert slope([1, 10, 100], [3, 30, 300]) == pytest.approx(1.0)
    assert growing(581_012, 3, 3) == [64_556, 193_670, 581_012]
    assert growing(200, 2, 5) == [100, 200]
