"""show, export, standard output, completion, and the first run."""

import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
from cli.commands import refuse, strict_json, succeed

from widemargin import LinearRanker, __version__, load_model, save_model
from widemargin.cli import compiling
from widemargin.data.svmlight import read_svmlight


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.svm"
    lines = (f"{i % 3} 1:{rng.normal() + i % 3:.3f} 7:{rng.normal():.3f}\n" for i in range(60))
    path.write_text("".join(lines))
    return path


@pytest.fixture
def model(rows, tmp_path):
    path = tmp_path / "m.wm"
    succeed("train", rows, "--out", path)
    return path


class TestShow:
    def test_a_classifier(self, model):
        text = succeed("show", model, "--top", "1").stdout
        for words in (
            "LinearSVC",
            "3 (0, 1, 2)",
            "60 rows, 7 features",
            "solver",
            "weights for 2",
        ):
            assert words in text
        assert "feature 1 " in text
        assert text.count("feature ") == 3
        found = strict_json(succeed("show", model, "--json"))
        loaded = load_model(model)
        assert found["certificate"]["primal"] == loaded.certificate_.primal
        for part, weights in zip(found["weights"], loaded.coef_):
            largest = {weight["feature"]: weight["weight"] for weight in part["largest"]}
            assert largest == {"feature 1": weights[0], "feature 7": weights[6]}

    def test_a_ranker(self, rows, tmp_path):
        data = read_svmlight(rows)
        save_model(LinearRanker().fit(data.X, data.y), tmp_path / "r.wm")
        text = succeed("show", tmp_path / "r.wm").stdout
        assert "LinearRanker" in text
        assert "classes" not in text

    def test_liblinears(self, rows, model, tmp_path):
        path = tmp_path / "ll"
        succeed("export", model, "--format", "liblinear", "--out", path)
        assert "no certificate" in succeed("show", path).stdout
        for command in ("predict", "evaluate"):
            assert succeed(command, path, rows).stdout == succeed(command, model, rows).stdout
        refuse("certify", path, rows, naming=[path, "no dual variables"])
        html = tmp_path / "page.html"
        refuse("evaluate", path, rows, "--report", html, naming=["--report", "no certificate"])
        path.write_text(path.read_text()[:-20])
        refuse("show", path, naming=[path, "not a LIBLINEAR model"])


class TestStandardOutput:
    def test_models(self, rows, model):
        assert succeed("train", rows, "--out", "-").stdout_bytes == model.read_bytes()

    def test_exports(self, model, tmp_path):
        succeed("export", model, "--format", "liblinear", "--out", tmp_path / "ll")
        printed = succeed("export", model, "--format", "liblinear").stdout_bytes
        assert printed == (tmp_path / "ll").read_bytes()

    def test_predictions(self, rows, model):
        assert succeed("predict", model, rows, "--out", "-").stdout.count("\n") == 60

    def test_not_twice(self, rows, model):
        refuse("train", rows, "--out", "-", "--json", naming=["--json and --out -"])
        refuse("export", model, "--format", "c", "--json", naming=["--json needs --out"])


def test_the_module_and_completion():
    assert "--install-completion" in succeed("--help").stdout
    assert succeed("-V").stdout == f"widemargin {__version__}\n"
    environment = {"_WIDEMARGIN_COMPLETE": "complete_bash", "COMP_WORDS": "widemargin ex"}
    done = subprocess.run(
        [sys.executable, "-m", "widemargin"],
        capture_output=True,
        text=True,
        env=os.environ | environment | {"COMP_CWORD": "1"},
    )
    assert done.stdout.split() == ["export"]


class TestFirstRun:
    @pytest.fixture(autouse=True)
    def fresh(self, monkeypatch):
        monkeypatch.setattr(compiling._notice, "says", True)

    def test_says_once_that_it_compiles(self, monkeypatch, capsys):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        for _ in range(2):
            compiling._notice.on_start(None)
        assert capsys.readouterr().err.count("widemargin: compiling") == 1

    def test_is_silent_in_a_pipe(self, capsys):
        compiling._notice.on_start(None)
        assert capsys.readouterr().err == ""


def test_class_weights_that_are_none(rows, tmp_path):
    for text in ("heavy", "1=x", "1=-1", "=", "1=inf", "1=2,"):
        refuse(
            *("train", rows, "--class-weight", text, "--out", tmp_path / "m"),
            naming=["--class-weight", "spam=5,ham=1"],
        )


def test_sklearn_ranks_as_an_exported_ranker(rows, tmp_path):
    data = read_svmlight(rows)
    model = LinearRanker().fit(data.X, data.y)
    save_model(model, tmp_path / "r.wm")
    succeed("export", tmp_path / "r.wm", "--format", "sklearn", "--out", tmp_path / "r.joblib")
    twin = joblib.load(tmp_path / "r.joblib")
    assert type(twin).__module__.startswith("sklearn.")
    assert twin.predict(data.X) == pytest.approx(model.predict(data.X))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--max-iter", "0"), "'--max-iter': must be at least 1"),
        (("--seed", "4294967296"), "'--seed': must be at most 4294967295"),
        (("-C", "much"), "'-C': not a number"),
        (("--max-iter", "1.5"), "'--max-iter': not a whole number"),
        (("--loss", "log"), "'--loss': 'log' is not one of 'hinge', 'squared_hinge'"),
    ],
)
def test_messages_have_the_words_of_no_library(rows, tmp_path, options, words):
    line = refuse("train", rows, *options, "--out", tmp_path / "m", naming=[words])
    for word in ("Input should", "Value error", "parse"):
        assert word not in line
