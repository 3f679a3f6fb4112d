"""The benchmark of tables: what it writes is what it says."""

import csv
import gzip
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/ is no part of the package

from benchmarks import tables


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(tables, "_MADE_ROWS", 400)
    return tables.TASKS["made"].write(Path())


def test_names_with_blanks(tmp_path):
    (tmp_path / "ordinal").mkdir()
    attributes = "@attribute 'Sex' {M, F}\n@attribute 'Whole weight' real\n@attribute R integer\n"
    text = f"% abalone\n@relation a\n{attributes}@data\nM,0.5,8\nF,0.1,9\nM,0.2,11\n"
    (tmp_path / "ordinal" / "abalone.arff.gz").write_bytes(gzip.compress(text.encode()))
    found = tables.TASKS["abalone"].write(tmp_path)
    assert found[0] == ["Sex", "Whole weight", "age"]
    assert found[1:] == [["M", "0.5", "young"], ["F", "0.1", "middle"], ["M", "0.2", "old"]]


def test_rows_are_in_one_of_two_files(rows, tmp_path):
    train, test = (read(path) for path in tables.split(rows, tmp_path))
    assert train[0] == test[0] == rows[0]
    assert len(test) - 1 == 100
    assert sorted(train[1:] + test[1:]) == sorted(rows[1:])


def test_the_made_table_has_strings_dates_gaps_and_text(rows):
    columns = dict(zip(rows[0], zip(*rows[1:])))
    assert set(columns["visit"]) == {"n", "y"}
    assert set(columns["warranty"]) == {"", "true", "false"}
    for name in ("opened", "site", "model", "hours", "pressure", "report"):
        assert "" in columns[name], name
    assert any(" " in text for text in columns["report"])


def test_both_ways_give_a_score(rows, tmp_path):
    files = tables.split(rows, tmp_path)
    for way in (tables.ours, tables.theirs):
        result = way(tables.TASKS["made"], *files)
        assert 0.5 < result.score <= 1.0
        assert result.seconds > 0.0
        assert result.megabytes > 10.0
