"""The examples of README.md and docs/ run, and print what they say they print."""

import gzip
import re
import shlex
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pytest
from cli.commands import succeed
from sklearn.datasets import dump_svmlight_file, load_iris

import widemargin

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# `print(...)  # what it prints`, at the end of a line that is not part of a loop or function.
PRINTED = re.compile(r"^print\(.*\)  # (.+)$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
SKIP = re.compile(r"<!-- skip: (.*) -->")


def run_commands(example):
    """Run a block of `widemargin ...` commands in this process."""
    lines = example.parsed.replace("\\\n", " ").splitlines()
    for words in (shlex.split(line, comments=True) for line in lines):
        if words:
            assert words[0] == "widemargin", f"not a command of ours, and not skipped: {words}"
            succeed(*words[1:])


def examples(page):
    sybil = pytest.importorskip("sybil", reason="needs sybil, which finds examples in pages")
    from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser

    parsers = [
        PythonCodeBlockParser(),
        CodeBlockParser(language="sh", evaluator=run_commands),
        SkipParser(),
    ]
    return list(sybil.Sybil(parsers, path=str(page.parent)).parse(page).examples())


def agree(shown, printed):
    """Compare two lines; digits may differ in the last place from one processor to the next."""
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", printed)
    numbers = [[float(n) for n in NUMBER.findall(line)] for line in (shown, printed)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-3)


def test_the_quick_start_says_what_is_printed_to_the_digit(small_files, capsys):
    """Its numbers are such as every processor prints: who begins should see what is said."""
    for example in examples(ROOT / "docs" / "quickstart.md"):
        capsys.readouterr()
        try:
            example.evaluate()
        except SkipTest:
            continue
        promised = PRINTED.findall(str(example.parsed))
        if promised:
            assert capsys.readouterr().out.splitlines() == promised


@pytest.fixture
def small_files(tmp_path, monkeypatch):
    """The files that commands are shown with, small, in a current folder of their own."""
    monkeypatch.chdir(tmp_path)
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order], y[order]
    for name in ("data.svm", "test.svm", "big.svm"):
        dump_svmlight_file(X, y, name, zero_based=False)
    table = np.column_stack([X, y.astype(int)])
    for name, rows in {"flowers.csv": table[:120], "test.csv": table[120:]}.items():
        np.savetxt(name, rows, "%g", ",", header="a,b,c,d,species", comments="")
    Path("big.svm.gz").write_bytes(gzip.compress(Path("big.svm").read_bytes()))
    queries = np.repeat(np.arange(10), 15)
    dump_svmlight_file(X, y, "queries.txt", query_id=queries, zero_based=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run_in_order(page, small_files, capsys):
    for example in examples(page):
        capsys.readouterr()
        try:
            example.evaluate()
        except SkipTest:
            continue
        if promised := PRINTED.findall(str(example.parsed)):
            lines = capsys.readouterr().out.splitlines()
            assert len(lines) == len(promised), f"line {example.line}: printed {lines}"
            for shown, printed in zip(promised, lines):
                agree(shown, printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_skipped_has_a_reason(page):
    for arguments in SKIP.findall(page.read_text(encoding="utf-8")):
        assert re.fullmatch(r'(next|start) ".+"|end', arguments), arguments


def test_every_public_name_has_a_place_in_the_reference():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in widemargin.__all__ if f"   widemargin.{name}\n" not in text] == []


def test_changes_that_a_page_shows_fit_the_files():
    """What they replace, and the lines around, are there, in this order."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    shown = re.findall(r"In `([\w/]+\.py)`[^\n]*:\n\n```diff\n(.*?)```", text, re.DOTALL)
    assert len(shown) == text.count("```diff")
    for name, change in shown:
        source, place = (ROOT / "src" / "widemargin" / name).read_text(encoding="utf-8"), 0
        for hunk in re.split(r"^@@.*\n", change, flags=re.MULTILINE):
            before = "\n".join(line[1:] for line in hunk.splitlines() if not line.startswith("+"))
            assert before in source[place:], f"{name}: {before}"
            place = source.index(before, place)


def test_links_between_pages_lead_somewhere():
    """On code hosts as well: the site's builder looks at its own pages only."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", text):
            assert (page.parent / target).is_file(), f"{page.name} links to {target}"
