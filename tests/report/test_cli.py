"""`--report` of the commands."""

import shlex

import numpy as np
import pytest
from cli.commands import refuse, strict_json, succeed
from data.on_disk import matrix
from data.on_disk import write as write_shards
from report.pages import Page

from widemargin.cli import fitting
from widemargin.data.svmlight import read_svmlight
from widemargin.model_io import load_model


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = (X[:, 1] + 0.3 * rng.normal(size=80) > 0).astype(int)
    path = tmp_path / "some rows.svm"
    path.write_text(
        "".join(
            f"{label} qid:{i // 8} " + " ".join(f"{j}:{v:.4f}" for j, v in enumerate(x, 1)) + "\n"
            for i, (label, x) in enumerate(zip(y, X))
        )
    )
    return path


def command_of(page):
    (line,) = [piece for piece in page.pieces if piece.startswith("widemargin ") and "--" in piece]
    return shlex.split(line)


def test_train_says_whose_rows_they_are_and_how_to_repeat_it(data, tmp_path):
    out, html = tmp_path / "model.wm", tmp_path / "page.html"
    arguments = ("-C", "0.5", "--loss", "hinge", "--out", out, "--report", html)
    text = succeed("train", data, *arguments).stdout
    assert f"{out} and {html}" in text
    page, model = Page(html), load_model(out)
    assert f"On {data} (80 rows" in page.text
    assert "These are training rows" in page.text
    rows = read_svmlight(data)
    assert page.tiles()["accuracy"] == f"{model.score(rows.X, rows.y):.4f}"
    largest = int(np.argmax(np.abs(model.coef_[0])))
    assert f"feature {largest + 1}" in page.text  # as in the file
    assert "Features are numbered from 1" in page.text
    command = command_of(page)
    assert command[:3] == ["widemargin", "train", str(data)]
    before = out.read_bytes()
    succeed(*command[1:])
    assert out.read_bytes() == before


def test_evaluate_says_which_rows(data, tmp_path):
    out, html = tmp_path / "model.wm", tmp_path / "page.html"
    succeed("train", data, "--out", out, "--quiet")
    report = strict_json(succeed("evaluate", out, data, "--report", html, "--json"))
    page = Page(html)
    assert page.tiles()["accuracy"] == f"{report['accuracy']:.4f}"
    assert "These are training rows" not in page.text
    assert "do not store the training history" in page.text
    assert command_of(page)[:4] == ["widemargin", "evaluate", str(out), str(data)]
    text = succeed("evaluate", out, data, "--report", html).stdout
    assert text.splitlines()[-1].split() == ["saved", str(html)]


def test_tune_draws_the_curve(data, tmp_path):
    html = tmp_path / "page.html"
    result = strict_json(
        succeed("tune", data, "--Cs", "0.01,0.1,1", "--folds", "3", "--report", html, "--json")
    )
    page = Page(html)
    assert result["report"] == str(html)
    assert f"C = {result['best_C']:g} has the best mean score" in page.text
    for mean in result["mean_scores"]:
        assert f"{mean:.4f}" in page.text
    command = command_of(page)
    assert command[command.index("--Cs") + 1] == "0.01,0.1,1.0"


@pytest.mark.parametrize("task", ["rank", "ordinal", "roc"])
def test_other_tasks(data, task, tmp_path):
    if task == "roc":
        data.write_text(data.read_text().replace(" qid:", " 99:1 #"))
    html = tmp_path / "page.html"
    succeed("train", data, "--task", task, "--out", tmp_path / "m", "--report", html, "--quiet")
    named = {"rank": "NDCG@10", "ordinal": "mean absolute error", "roc": "ROC AUC"}[task]
    assert named in Page(html).tiles()


def test_rows_on_disk(tmp_path):
    X = matrix()
    folder = write_shards(tmp_path / "rows", X, np.arange(X.shape[0]) % 2)
    html = tmp_path / "page.html"
    succeed("train", folder, "--out", tmp_path / "m", "--report", html, "--quiet")
    page = Page(html)
    assert f"On {folder} (40 rows" in page.text
    assert "Features are numbered from 0" in page.text


def test_names_of_features(data, tmp_path):
    names, html = tmp_path / "names.txt", tmp_path / "page.html"
    names.write_text("<one>\ntwo\nthree\nfour\nfive\n")
    arguments = ("train", data, "--out", tmp_path / "m", "--quiet")
    succeed(*arguments, "--report", html, "--feature-names", names)
    page = Page(html)
    assert {"<one>", "two", "three", "four"} <= {row.get("title") for row in page.having("th")}
    assert "five" not in page.text
    names.write_text("one\n")
    refuse(
        *(*arguments, "--report", html, "--feature-names", names),
        naming=[names, "1 names", "4 features"],
    )
    refuse(*arguments, "--feature-names", names, naming=["--feature-names goes with --report"])
    missing = tmp_path / "none.txt"
    refuse(*arguments, "--report", html, "--feature-names", missing, naming=[missing])
    names.write_bytes(b"\xff\n" * 4)
    refuse(*arguments, "--report", html, "--feature-names", names, naming=[names, "UTF-8"])


def test_paths_are_checked_before_the_training(data, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: pytest.fail("trained"))
    out = tmp_path / "m"
    for command in (("train", data, "--out", out), ("tune", data, "--out", out)):
        refuse(*command, "--report", tmp_path / "no" / "page.html", naming=["page.html", "no"])
        refuse(*command, "--report", out, naming=[out, "named twice"])
        refuse(*command, "--report", data, naming=[data, "named twice"])


def test_a_full_disk_costs_no_model(data, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("widemargin.report.write_report", fail)
    out, html = tmp_path / "m", tmp_path / "page.html"
    arguments = ("train", data, "--out", out, "--report", html, "--quiet")
    refuse(*arguments, naming=[html, "No space left"])
    assert load_model(out).n_features_in_ == 4
