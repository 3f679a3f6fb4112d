"""What commands print with --json is what docs/output.schema.json says."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.commands import strict_json, succeed
from typer.main import get_command

from widemargin.cli.app import app

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "output.schema.json").read_text())


def check(command, *arguments):
    """Run a command with --json, and compare what it prints with its schema."""
    found = strict_json(succeed(command, *arguments, "--json"))
    one = {"$ref": f"#/$defs/{command}", "$defs": SCHEMA["$defs"]}
    jsonschema.validate(found, one, cls=jsonschema.Draft202012Validator)
    return found


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.svm"
    path.write_text(
        "".join(
            f"{i % 3} qid:{i // 6} 1:{rng.normal() + i % 3:.3f} 2:{rng.normal():.3f}\n"
            for i in range(60)
        )
    )
    return path


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    y = rng.integers(0, 2, 60)
    columns = {
        "size": rng.normal(size=60) + y,
        "hue": rng.choice(["a", "b"], 60),
        "y": y,
        "one": 1,
    }
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]) == {*get_command(app).commands, "certificate"}


@pytest.mark.parametrize("task", ["classify", "rank", "ordinal", "regress", "f1", "precision@2"])
def test_rows(rows, tmp_path, task):
    model = tmp_path / "m.wm"
    if task in ("f1", "precision@2"):
        rows.write_text(re.sub("^2", "1", rows.read_text(), flags=re.MULTILINE))
    check("train", rows, "--task", task, "--out", model)
    check("tune", rows, "--task", task, "--Cs", "0.1,1", "--folds", "3")
    scores = ["--scores"] if task == "ordinal" else []
    found = check("predict", model, rows, *scores)
    named = {"rank": "scores", "ordinal": "scores", "regress": "predictions"}.get(task, "labels")
    assert len(found[named]) == 60
    check("evaluate", model, rows)
    check("show", model)
    check("certify", model, rows)


def test_tables(table, tmp_path):
    model, out = tmp_path / "m.wm", tmp_path / "m.json"
    check("train", table, "--target", "y", "--out", model, "--report", tmp_path / "m.html")
    found = check("show", model)
    assert found["table"]["left_out"] == {"one": "every value is the same"}
    check("predict", model, table, "--scores")
    check("predict", model, table, "--out", tmp_path / "p.txt")
    check("evaluate", model, table, table)
    check("export", model, "--format", "json", "--out", out)
    check("certify", model, table)
    check("train", table, "--target", "y", "--task", "roc", "--out", model)
    check("evaluate", model, table)


def test_the_others(rows, tmp_path):
    check("convert", rows, tmp_path / "folder")
    check("demo")
    check(
        "train", rows, "--out", tmp_path / "m.wm", "--probability", "--liblinear", tmp_path / "ll"
    )
    check("predict", tmp_path / "m.wm", rows, "--probability")
    check("show", tmp_path / "ll")
    check("audit", tmp_path / "ll", rows, "-C", "1")
    check("evaluate", tmp_path / "ll", rows)


def test_what_is_not_in_the_schema_is_refused(rows, tmp_path):
    found = check("train", rows, "--out", tmp_path / "m.wm")
    one = {"$ref": "#/$defs/train", "$defs": SCHEMA["$defs"]}
    for wrong in (found | {"more": 1}, found | {"rows": "60"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, one)
