"""`widemargin tune`: the curve, the best C, its model, and the picture."""

import re
import shlex
import signal
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from cli.commands import refuse, run, strict_json, succeed
from processes import PATIENCE, interruptible

from widemargin import LinearSVC, LinearSVCCV, certify
from widemargin.data.svmlight import read_svmlight
from widemargin.model_io import load_model


def write(path, classes=2, n=90, qid=False, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        label = i % classes
        x = np.eye(4)[label] + 0.8 * rng.normal(size=4)
        group = f" qid:{i // 6}" if qid else ""
        lines.append(f"{label}{group} " + " ".join(f"{j}:{v:.4f}" for j, v in enumerate(x, 1)))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "rows.svm")


@pytest.fixture
def three(tmp_path):
    return write(tmp_path / "three.svm", classes=3)


class TestCurve:
    def test_a_table_the_best_and_the_command_that_repeats_it(self, data, tmp_path):
        out = tmp_path / "model.wm"
        text = succeed("tune", data, "--Cs", "0.01,0.1,1", "--out", out).stdout
        table = [line.split() for line in text.splitlines() if re.match(r" +[0-9.]+ +0\.", line)]
        assert [row[0] for row in table] == ["0.01", "0.1", "1"]
        X, y = read_svmlight(data).X, read_svmlight(data).y
        expected = LinearSVCCV(Cs=[0.01, 0.1, 1], random_state=0).fit(X, y)
        for row, mean in zip(table, expected.scores_.mean(axis=0)):
            assert row[1] == f"{mean:.4f}"
            assert ("best" in row) == (float(row[0]) == expected.C_)
            assert "%" in row
        assert "accuracy" in text
        assert "90 rows, 4 features, 2 classes" in text
        assert "3 values of C, 5 folds" in text
        assert "% of the optimum" in text or "proved optimal" in text
        assert str(out) in text

    def test_the_command_repeats_it(self, three, tmp_path):
        options = ("--loss", "hinge", "--penalized-intercept", "--class-weight", "balanced")
        report = strict_json(
            succeed("tune", three, "--Cs", "3", "--tol", "1e-6", "--seed", "4", *options, "--json")
        )
        command = shlex.split(report["train_command"])
        assert command[:3] == ["widemargin", "train", str(three)]
        assert command[-2:] == ["--out", "model.wm"]
        assert "--Cs" not in command
        succeed(*command[1:-1], tmp_path / "again.wm")
        again = load_model(tmp_path / "again.wm")
        assert report["best_C"] == again.C
        assert (again.loss, again.class_weight, again.random_state) == ("hinge", "balanced", 4)
        assert again.penalized_intercept
        assert again.certificate_.primal == pytest.approx(
            report["certificate"]["primal"], rel=1e-5
        )

    def test_json(self, three):
        report = strict_json(succeed("tune", three, "--Cs", "4", "--folds", "3", "--json"))
        assert report["classes"] == [0, 1, 2]
        np.testing.assert_allclose(report["Cs"], [1e-3, 1e-1, 1e1, 1e3])
        assert np.shape(report["scores"]) == np.shape(report["relative_gaps"]) == (4, 3)
        np.testing.assert_allclose(report["mean_scores"], np.mean(report["scores"], axis=1))
        assert report["best_score"] == max(report["mean_scores"])
        assert report["status"] == "converged"
        assert report["model"] is None
        assert report["plot"] is None

    def test_quiet(self, data):
        result = succeed("tune", data, "--Cs", "0.01,0.1,1,10,100", "--quiet")
        assert result.stdout == ""

    def test_scorers(self, data, three):
        for name in ("roc_auc", "average_precision", "f1"):
            text = succeed("tune", data, "--Cs", "0.1,1", "--scoring", name).stdout
            assert name.replace("_", " ") in text
        succeed("tune", three, "--Cs", "0.1,1", "--scoring", "f1_macro")

    def test_options_reach_the_model(self, three, tmp_path):
        out = tmp_path / "m"
        succeed(
            *("tune", three, "--Cs", "0.5,", "--out", out, "--loss", "hinge", "--solver", "dcd"),
            *("--tol", "0.01", "--max-iter", "500", "--max-time", "60", "--no-intercept"),
            *("--n-jobs", "2", "--multi-class", "crammer_singer", "--seed", "3", "--probability"),
        )
        expected = {
            "C": 0.5,
            "loss": "hinge",
            "multi_class": "crammer_singer",
            "solver": "dcd",
            "tol": 0.01,
            "max_iter": 500,
            "max_time": 60.0,
            "fit_intercept": False,
            "n_jobs": 2,
            "random_state": 3,
            "probability": True,
        }
        model = load_model(out)
        assert {key: getattr(model, key) for key in expected} == expected

    def test_the_model_is_certified(self, data, tmp_path):
        out = tmp_path / "m"
        succeed("tune", data, "--Cs", "0.1,1", "--out", out)
        text = read_svmlight(data)
        model = load_model(out)
        assert type(model) is LinearSVC
        assert certify(model, text.X, text.y).primal == pytest.approx(model.certificate_.primal)
        assert "of the optimum" in succeed("certify", out, data).stdout

    def test_groups_stay_together(self, tmp_path):
        data = write(tmp_path / "groups.svm", qid=True)
        report = strict_json(succeed("tune", data, "--Cs", "0.1,1", "--folds", "3", "--json"))
        assert np.shape(report["scores"]) == (2, 3)
        few = write(tmp_path / "few.svm", n=12, qid=True)  # two groups
        refuse("tune", few, "--Cs", "0.1,1", naming=[few, "--folds 5: it has 2 groups"])
        options = ("--task", "rank", "--Cs", "0.1,1")
        refuse("tune", few, *options, naming=[few, "--folds 5: it has 2 groups"])

    def test_rows_on_disk_and_standard_input(self, data, tmp_path):
        succeed("convert", data, tmp_path / "rows")
        arguments = ("--Cs", "0.01,0.1", "--json", "--scoring", "roc_auc", "--tol", "1e-5")
        text = strict_json(succeed("tune", data, *arguments))
        piped = strict_json(succeed("tune", "-", *arguments, stdin=data.read_bytes()))
        disk = strict_json(succeed("tune", tmp_path / "rows", *arguments))
        assert piped["scores"] == text["scores"]
        assert disk["solver"] == text["solver"]  # few rows are read into memory
        np.testing.assert_allclose(disk["scores"], text["scores"], atol=1e-6)
        stream = strict_json(succeed("tune", tmp_path / "rows", *arguments, "--solver", "stream"))
        assert stream["solver"] == "stream"
        np.testing.assert_allclose(stream["scores"], text["scores"], atol=0.02)


class TestDoubts:
    def test_a_best_c_at_the_end(self, data):
        result = run("tune", data, "--Cs", "0.0001,0.00011", "--quiet")
        assert result.exit_code == 0
        assert re.search("best C is the (smallest|largest) one tried", result.stderr)
        assert "best C is" not in succeed("tune", data, "--Cs", "1,1").stderr

    def test_early_stops(self, data):
        result = succeed(
            *("tune", data, "--Cs", "1,10,100", "--tol", "1e-12", "--max-iter", "2"),
            *("--solver", "dcd", "--quiet"),
        )
        assert re.search(r"\d+ of 15 trainings stopped before --tol 1e-12", result.stderr)
        assert "the last training stopped early" in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (("--Cs", "0"), "--Cs"),
            (("--Cs", "a,b"), "'a,b'"),
            (("--Cs", "1,-1"), "-1 is not a positive number"),
            (("--Cs", ","), "--Cs"),
            (("--Cs", "nan,"), "nan"),
            (("--folds", "1"), "--folds"),
            (("--folds", "50"), "of its largest class, too few"),
            (("--folds", "500", "--task", "rank"), "--folds 500: it has"),
            (("--scoring", "akkuracy"), "--scoring akkuracy"),
            (("--scoring", "neg_log_loss"), "wants probabilities"),
            (("--plot", "curve.gif"), ".png, .svg, .pdf"),
            (("--plot", "nowhere/curve.png"), "nowhere"),
            (("--no-intercept", "--penalized-intercept"), "contradict"),
            (("--out", "same.png", "--plot", "same.png"), "named twice"),
            (("--memory-budget", "much"), "--memory-budget"),
        ],
    )
    def test_bad_options(self, data, arguments, named, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        refuse("tune", data, *arguments, "--quiet", naming=[named])

    def test_bad_data(self, tmp_path):
        refuse("tune", tmp_path / "none", naming=[tmp_path / "none", "No such file"])
        refuse("tune", "-", stdin="1 1:1\n1 1:2\n", naming=["standard input"])
        refuse(
            "tune",
            "-",
            stdin="1.5 1:1\n1 1:2\n",
            naming=["row 0 (counted from 0) has the label 1.5"],
        )


class TestPlot:
    @pytest.mark.parametrize(
        ("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")]
    )
    def test_formats(self, data, tmp_path, ending, magic):
        pytest.importorskip("matplotlib")
        plot = tmp_path / f"curve.{ending}"
        text = succeed("tune", data, "--Cs", "3", "--plot", plot).stdout
        assert plot.read_bytes().startswith(magic)
        assert str(plot) in text

    def test_without_matplotlib_nothing_is_trained(self, data, tmp_path, monkeypatch):
        from importlib import util

        from widemargin.cli import fitting

        find_spec = util.find_spec
        monkeypatch.setattr(
            util, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name)
        )
        monkeypatch.setattr(fitting, "fit", lambda *_, **__: pytest.fail("trained"))
        plot = tmp_path / "curve.png"
        refuse(
            "tune", data, "--plot", plot, naming=["matplotlib", "pip install 'widemargin[plot]'"]
        )
        assert not plot.exists()

    def test_help_and_search_do_not_load_it(self, data):
        code = (
            "import sys; from widemargin.cli.app import app\n"
            f"try: app(['tune', {str(data)!r}, '--Cs', '0.1,', '--quiet'])\n"
            "except SystemExit as end: assert not end.code\n"
            "sys.exit('matplotlib' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_help_has_examples():
    text = succeed("tune", "--help").stdout
    assert "widemargin tune train.svm" in text.split("Examples:")[1]
    assert "--json" in text


def test_probabilities_from_file_to_file(three, tmp_path):
    model = tmp_path / "m"
    succeed("tune", three, "--Cs", "0.1,1", "--probability", "--out", model)
    lines = succeed("predict", model, three, "--probability").stdout.splitlines()
    found = np.array([[float(word) for word in line.split("\t")] for line in lines])
    assert found.shape == (90, 4)
    np.testing.assert_allclose(found[:, 1:].sum(axis=1), 1.0)
    report = strict_json(succeed("predict", model, three, "--probability", "--json"))
    np.testing.assert_array_equal(report["probabilities"], found[:, 1:])
    trained = tmp_path / "trained"
    succeed("train", three, "-C", "0.1", "--probability", "--out", trained)
    assert load_model(trained).probability
    plain = tmp_path / "plain"
    succeed("train", three, "--out", plain)
    refuse("predict", plain, three, "--probability", naming=[plain, "--probability"])
    refuse("predict", model, three, "--probability", "--scores", naming=["--scores"])
    refuse(
        *("train", three, "--task", "ordinal", "--probability", "--out", plain),
        naming=["--probability goes with --task classify only"],
    )


def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 40)), rng.integers(0, 2, 3000)
    data = tmp_path / "hard.svm"
    data.write_text(
        "".join(
            f"{label} " + " ".join(f"{j}:{v:.3f}" for j, v in enumerate(x, 1)) + "\n"
            for x, label in zip(X, y)
        )
    )
    code = (
        "import sys\n"
        "from widemargin.estimators import path\n"
        "advance = path.CostPath.advance\n"
        "def slow(self, C):\n"
        "    print('at', C, file=sys.stderr, flush=True); advance(self, C)\n"
        "path.CostPath.advance = slow\n"
        "from widemargin.cli.app import app; app()"
    )
    out = tmp_path / "m"
    arguments = ["--Cs", "1e-5,1e4,1e5", "--solver", "dcd", "--tol", "1e-9", "--json"]
    with interruptible(
        [sys.executable, "-c", code, "tune", data, "--out", out, *arguments], text=True
    ) as process:
        for line in process.stderr:
            if line.startswith("at 10000"):
                break
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    assert "interrupted: 1 of 3 values of C tried" in stderr
    assert '"status": "interrupted"' in stdout
    assert load_model(out).C == 1e-5


@pytest.mark.parametrize("command", [["train"], ["tune"]])
def test_no_gpu(command, data, tmp_path):
    if find_spec("cupy") is not None:
        pytest.skip("there is a CuPy")
    message = refuse(*command, data, "--out", tmp_path / "model.wm", "--device", "cuda")
    assert "--device cuda needs CuPy: install widemargin[gpu]" in message
    succeed(*command, data, "--out", tmp_path / "model.wm", "--device", "auto", "--quiet")
