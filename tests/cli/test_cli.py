"""Every command as a person or a script meets it: output, exit codes, and bad input."""

import gzip
import os
import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from cli.commands import refuse, run, strict_json, succeed
from processes import COMMAND_LINE, PATIENCE, interruptible
from safetensors.numpy import save_file

from widemargin import LinearSVC, __version__, certify
from widemargin.data.svmlight import read_svmlight
from widemargin.model_io import load_model, save_model, saved
from widemargin.report.measures import break_even_point

COMMANDS = ("train", "tune", "predict", "evaluate", "certify", "demo")


def svmlight(X, y) -> str:
    lines = []
    for row, label in zip(X, y):
        features = (f"{j + 1}:{value:.6g}" for j, value in enumerate(row))
        lines.append(f"{label} {' '.join(features)}\n")
    return "".join(lines)


def write_problem(path, labels, seed=0, n_rows=60):
    rng = np.random.default_rng(seed)
    which = np.arange(n_rows) % len(labels)
    centres = np.random.default_rng(7).normal(size=(len(labels), 4))
    X = centres[which] + rng.normal(size=(n_rows, 4))
    path.write_text(svmlight(X, np.asarray(labels)[which]))
    return path


@pytest.fixture
def data(tmp_path):
    """Two classes."""
    return write_problem(tmp_path / "train.svm", [-1, 1])


@pytest.fixture
def held_out(tmp_path):
    return write_problem(tmp_path / "test.svm", [-1, 1], seed=1)


@pytest.fixture
def three(tmp_path):
    """Three classes."""
    return write_problem(tmp_path / "three.svm", [1, 2, 5])


@pytest.fixture
def model(data, tmp_path):
    """A model of `data`."""
    path = tmp_path / "model.wm"
    succeed("train", data, "--out", path)
    return path


class TestHelp:
    def test_without_arguments(self):
        result = succeed()
        for command in COMMANDS:
            assert command in result.stdout

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_an_example(self, command):
        text = succeed(command, "--help").stdout
        assert f"widemargin {command}" in re.split("Examples?:", text)[1]
        assert "--json" in text

    def test_version(self):
        assert succeed("--version").stdout == f"widemargin {__version__}\n"

    def test_help_loads_nothing_heavy(self):
        code = (
            "import sys; from widemargin.cli.app import app\n"
            "try: app(['train', '--help'])\n"
            "except SystemExit: pass\n"
            "heavy = {'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules)\n"
            "sys.exit(f'loaded {heavy}' if heavy else 0)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_no_search_for_garbage_at_exit(self):
        code = (
            "import atexit, gc, sys; from widemargin.cli.app import main\n"
            "atexit.register(lambda: print(gc.get_freeze_count() > 0, gc.get_threshold()[0]))\n"
            "sys.argv = ['widemargin', '--version']\n"
            "main()"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.splitlines()[1:] == ["True 100000"]


class TestTrain:
    def test_says_once_what_it_proved(self, data, tmp_path):
        result = succeed("train", data, "--out", tmp_path / "m")
        assert (result.stdout + result.stderr).count("proved within") == 1
        for options in (("--out", "-"), ("--out", tmp_path / "m", "--quiet")):
            wanted = int(options[1] == "-")
            assert succeed("train", data, *options).stderr.count("proved within") == wanted

    def test_says_what_it_proved(self, data, tmp_path):
        result = succeed("train", data, "-C", "0.5", "--solver", "dcd", "--out", tmp_path / "m")
        assert "60 rows, 4 features, 2 classes" in result.stdout
        assert re.search(r"solver dcd, \d+ pass(es)?,", result.stdout)
        assert "% of the optimum" in result.stdout
        assert str(tmp_path / "m") in result.stdout
        assert load_model(tmp_path / "m").certificate_.relative_gap <= 1e-3

    def test_cutting_planes_take_iterations(self, data, tmp_path):
        text = succeed("train", data, "--out", tmp_path / "m", "--solver", "ocas").stdout
        assert re.search(r"solver ocas, \d+ iterations,", text)
        assert "pass" not in text

    def test_json(self, data, tmp_path):
        result = succeed("train", data, "--out", tmp_path / "m", "--json")
        report = strict_json(result)
        assert report["task"] == "classify"
        assert report["classes"] == [-1, 1]
        assert report["status"] == "converged"
        assert report["certificate"]["relative_gap"] <= 1e-3
        assert report["model"] == str(tmp_path / "m")

    def test_quiet(self, data, tmp_path):
        result = succeed("train", data, "--out", tmp_path / "m", "--quiet")
        assert result.output == ""

    def test_options_reach_the_estimator(self, data, tmp_path):
        succeed(
            *("train", data, "--out", tmp_path / "m", "-C", "0.25", "--loss", "hinge"),
            *("--solver", "dcd", "--tol", "0.01", "--max-iter", "500", "--max-time", "60"),
            *("--penalized-intercept", "--class-weight", "balanced", "--n-jobs", "2"),
            *("--multi-class", "crammer_singer", "--seed", "3"),
        )
        model = load_model(tmp_path / "m")
        expected = {
            "C": 0.25,
            "loss": "hinge",
            "multi_class": "crammer_singer",
            "solver": "dcd",
            "tol": 0.01,
            "max_iter": 500,
            "max_time": 60.0,
            "fit_intercept": True,
            "penalized_intercept": True,
            "class_weight": "balanced",
            "n_jobs": 2,
            "random_state": 3,
        }
        assert {key: getattr(model, key) for key in expected} == expected

    def test_same_seed_same_file(self, data, tmp_path):
        for name in ("a", "b"):
            succeed("train", data, "--out", tmp_path / name, "--seed", "5")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_from_standard_input_and_compressed(self, data, model, tmp_path):
        text = data.read_bytes()
        succeed("train", "-", "--out", tmp_path / "from_stdin", stdin=text)
        assert (tmp_path / "from_stdin").read_bytes() == model.read_bytes()
        (tmp_path / "train.gz").write_bytes(gzip.compress(text))
        succeed("train", tmp_path / "train.gz", "--out", tmp_path / "from_gz")
        assert (tmp_path / "from_gz").read_bytes() == model.read_bytes()

    def test_liblinear(self, data, tmp_path):
        result = succeed("train", data, "--out", tmp_path / "m", "--liblinear", tmp_path / "m.txt")
        assert (tmp_path / "m.txt").read_text().startswith("solver_type L2R_L2LOSS_SVC_DUAL\n")
        assert str(tmp_path / "m.txt") in result.stdout

    @pytest.mark.parametrize("json_too", [[], ["--json"], ["--quiet"]])
    def test_stopping_early_warns_once_and_saves(self, data, tmp_path, json_too):
        out = tmp_path / "m"
        result = succeed(
            *("train", data, "--out", out, "--max-iter", "1", "--tol", "1e-12", "-C", "100"),
            *json_too,
        )
        warnings = [line for line in result.stderr.splitlines() if "warning" in line]
        assert len(warnings) == 1
        assert "--max-iter 1 reached before --tol 1e-12" in warnings[0]
        model = load_model(out)
        assert model.status_ == "max_iter"
        assert model.certificate_.relative_gap > 1e-12

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("-C", "0"),
            ("-C", "-1"),
            ("-C", "nan"),
            ("-C", "inf"),
            ("-C", "much"),
            ("--tol", "0"),
            ("--max-iter", "0"),
            ("--max-time", "-1"),
            ("--loss", "log"),
            ("--solver", "magic"),
            ("--class-weight", "heavy"),
            ("--n-jobs", "0"),
            ("--seed", "-1"),
        ],
    )
    def test_bad_parameters(self, data, tmp_path, option, value):
        refuse("train", data, "--out", tmp_path / "m", option, value, naming=[option])
        assert not (tmp_path / "m").exists()

    def test_bad_usage(self, data, tmp_path):
        refuse("train", data, naming=["--out"])
        refuse("train", naming=["DATA"])
        refuse("train", data, "--out", tmp_path / "m", "--fast", naming=["--fast"])
        refuse("trian", naming=["trian"])
        refuse(
            *("train", data, "--out", tmp_path / "m", "--no-intercept", "--penalized-intercept"),
            naming=["--no-intercept", "--penalized-intercept"],
        )

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("", "empty"),
            ("# only a comment\n", "no rows"),
            ("1 1:2\n-1 1:nan\n", "line 2"),
            ("1 1:2\n-1 1:inf\n", "line 2"),
            ("1 1:2\n-1 0:3\n", "line 2"),
            ("1 1:2\n-1 4294967296:3\n", "line 2"),
            ("1 1:2\n-1 2:\n", "line 2"),
            ("1 1:2\nx 2:1\n", "line 2"),
            ("1 1:2\n1 2:1\n", "class"),
            ("1 1:2\n1.25 2:1\n0 1:1\n", "row 1 (counted from 0) has the label 1.25"),
            ("1\n-1\n", "feature"),
        ],
    )
    def test_bad_data(self, tmp_path, text, word):
        path = tmp_path / "bad.svm"
        path.write_text(text)
        refuse("train", path, "--out", tmp_path / "m", naming=[path, word])
        refuse("train", "-", "--out", tmp_path / "m", naming=["standard input"], stdin=text)
        assert not (tmp_path / "m").exists()

    def test_data_that_cannot_be_opened(self, tmp_path):
        out = tmp_path / "m"
        refuse("train", tmp_path / "none", "--out", out, naming=[tmp_path / "none", "No such"])
        refuse("train", tmp_path, "--out", out, naming=[tmp_path, "directory"])

    def test_truncated_gzip(self, data, tmp_path):
        path = tmp_path / "cut.gz"
        path.write_bytes(gzip.compress(data.read_bytes())[:-20])
        refuse("train", path, "--out", tmp_path / "m", naming=[path, "truncated"])

    def test_output_that_cannot_be_written(self, data, tmp_path):
        refuse("train", data, "--out", tmp_path, naming=[tmp_path, "directory"])
        refuse("train", data, "--out", tmp_path / "none" / "m", naming=["no directory"])
        refuse("train", data, "--out", data / "m", naming=["no directory"])
        refuse("train", data, "--out", data, naming=[data, "twice"])
        refuse("train", data, "--liblinear", "-", "--out", tmp_path / "m", naming=["./-"])
        refuse(
            *("train", data, "--out", tmp_path / "m", "--liblinear", tmp_path / "none" / "m"),
            naming=["no directory"],
        )
        assert not (tmp_path / "m").exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_output_without_permission(self, data, tmp_path):
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o500)
        refuse("train", data, "--out", folder / "m", naming=[folder / "m", "permission"])

    @pytest.mark.parametrize("option", ["--out", "--liblinear", "--report"])
    def test_a_name_too_long_is_known_before_the_training(
        self, data, tmp_path, option, monkeypatch
    ):
        def too_late(*_):
            raise AssertionError

        monkeypatch.setattr("widemargin.cli.fitting.fit", too_late)
        path = tmp_path / ("n" * 300)
        options = {"--out": tmp_path / "m", option: path}
        words = [word for pair in options.items() for word in pair]
        refuse("train", data, *words, naming=[f"{path}: File name too long"])

    def test_other_names_too_long(self, model, data, tmp_path, monkeypatch):
        def too_late(*_, **__):
            raise AssertionError

        for place in ("fitting.fit", "inputs.read_data"):
            monkeypatch.setattr(f"widemargin.cli.{place}", too_late)
        path = tmp_path / ("n" * 300 + ".png")
        naming = [f"{path}: File name too long"]
        for option in ("--out", "--plot", "--report"):
            refuse("tune", data, option, path, naming=naming)
        refuse("predict", model, data, "--out", path, naming=naming)
        refuse("evaluate", model, data, "--report", path, naming=naming)
        refuse("convert", data, path, naming=naming)

    def test_a_file_in_a_folder_that_takes_no_new_ones(self, data, model, monkeypatch):
        """The model is not written over the old one but beside it."""
        access = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: os.path.isfile(path) and access(path, mode)
        )
        refuse("train", data, "--out", model, naming=[f"{model}: no permission to write here"])

    def test_one_file_for_both_models(self, data, tmp_path):
        out = tmp_path / "m"
        refuse("train", data, "--out", out, "--liblinear", out, naming=[out, "twice"])
        assert not out.exists()

    def test_an_interrupted_fit_saves_what_it_has(self, data, tmp_path, monkeypatch):
        def fit(model, data):
            model.fit(data.X, data.y)
            model.status_ = "interrupted"

        monkeypatch.setattr("widemargin.cli.fitting.fit", fit)
        result = succeed("train", data, "--out", tmp_path / "m", "--quiet")
        assert "warning: interrupted before --tol 0.001; the model is saved" in result.stderr
        assert load_model(tmp_path / "m").status_ == "interrupted"

    def test_full_disk(self, data, model, monkeypatch):
        before = model.read_bytes()

        def full_disk(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full_disk)
        refuse("train", data, "--out", model, "-C", "9", "--quiet", naming=[model, "No space"])
        assert model.read_bytes() == before

    def test_liblinear_needs_integer_labels(self, tmp_path):
        path = write_problem(tmp_path / "big.svm", [1, 3_000_000_000])
        ll = tmp_path / "m.txt"
        refuse("train", path, "--out", tmp_path / "m", "--liblinear", ll, naming=[ll, "32-bit"])
        assert not (tmp_path / "m").exists()


class TestPredict:
    def test_labels_on_stdout(self, model, held_out):
        X = read_svmlight(held_out).X
        lines = succeed("predict", model, held_out).stdout.splitlines()
        assert lines == [str(label) for label in load_model(model).predict(X)]
        assert set(lines) == {"-1", "1"}

    @pytest.mark.parametrize("multiclass", [False, True])
    def test_scores(self, data, three, tmp_path, multiclass):
        source = three if multiclass else data
        succeed("train", source, "--out", tmp_path / "m")
        fields = [
            line.split("\t")
            for line in succeed("predict", tmp_path / "m", source, "--scores").stdout.splitlines()
        ]
        expected = load_model(tmp_path / "m").decision_function(read_svmlight(source).X)
        np.testing.assert_array_equal(
            np.array([f[1:] for f in fields], float), expected.reshape(len(fields), -1)
        )
        values = strict_json(succeed("predict", tmp_path / "m", source, "--scores", "--json"))
        np.testing.assert_array_equal(values["scores"], expected)

    def test_to_a_file(self, model, held_out, tmp_path):
        out = tmp_path / "labels.txt"
        printed = succeed("predict", model, held_out).stdout
        assert succeed("predict", model, held_out, "--out", out).output == ""
        assert out.read_text() == printed
        report = strict_json(succeed("predict", model, held_out, "--out", out, "--json"))
        assert report["rows"] == 60
        assert "labels" not in report

    def test_full_disk(self, model, held_out, tmp_path, monkeypatch):
        def full_disk(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full_disk)
        out = tmp_path / "labels.txt"
        refuse("predict", model, held_out, "--out", out, "--json", naming=[out, "No space"])
        assert not out.exists()

    def test_json(self, model, held_out):
        report = strict_json(succeed("predict", model, held_out, "--json"))
        printed = succeed("predict", model, held_out).stdout.splitlines()
        assert [str(label) for label in report["labels"]] == printed

    def test_other_numbers_of_features(self, model):
        known = "1 1:1 2:-2\n"
        unseen = "1 1:1 2:-2 9:1e6\n"
        answers = {
            succeed("predict", model, "-", "--scores", stdin=text).stdout
            for text in (known, unseen)
        }
        assert len(answers) == 1

    def test_labels_that_are_text_or_whole_floats(self, data, tmp_path):
        X, y = read_svmlight(data).X, read_svmlight(data).y
        for names, shown in (
            (["no", "yes"], {"no", "yes"}),
            ([1.0, 2.0], {"1", "2"}),
        ):
            model = LinearSVC(random_state=0).fit(X, np.array(names)[(y > 0).astype(int)])
            save_model(model, tmp_path / "m")
            assert set(succeed("predict", tmp_path / "m", data).stdout.split()) == shown

    def test_bad_input(self, model, data, tmp_path):
        refuse("predict", model, tmp_path / "none", naming=[tmp_path / "none"])
        refuse("predict", model, "-", stdin="1 0:1\n", naming=["standard input", "line 1"])
        refuse("predict", model, data, "--out", model, naming=[model])
        refuse("predict", model, data, "--out", tmp_path, naming=[tmp_path])


class TestBadModels:
    @pytest.mark.parametrize("command", ["predict", "evaluate", "certify"])
    def test_models_that_cannot_be_read(self, command, model, data, tmp_path):
        whole = model.read_bytes()
        for length in (0, 5, 100, len(whole) // 2, len(whole) - 1):
            model.write_bytes(whole[:length])
            refuse(command, model, data, naming=[model, "cut short"])
        save_file({"weight": np.zeros(3)}, model)
        refuse(command, model, data, naming=[model, "not one that holds a widemargin model"])
        save_file({"weight": np.zeros(3)}, model, metadata={"widemargin": "{}"})
        refuse(command, model, data, naming=[model, "does not describe a model"])
        refuse(command, data, data, naming=[data, "not a model file"])
        refuse(command, tmp_path / "none", data, naming=[tmp_path / "none", "No such file"])
        refuse(command, tmp_path, data, naming=[tmp_path, "directory"])


class TestEvaluate:
    def test_two_classes(self, model, held_out):
        report = strict_json(succeed("evaluate", model, held_out, "--json"))
        data = read_svmlight(held_out)
        assert report["accuracy"] == load_model(model).score(data.X, data.y)
        assert {"roc_area", "break_even", "f1"} < set(report)
        assert all(0.5 < report[key] <= 1 for key in ("roc_area", "break_even", "f1"))
        text = succeed("evaluate", model, held_out).stdout
        assert f"{report['accuracy']:.4f}" in text
        assert "positive class 1" in text

    def test_several_classes(self, three, tmp_path):
        succeed("train", three, "--out", tmp_path / "m")
        report = strict_json(succeed("evaluate", tmp_path / "m", three, "--json"))
        data = read_svmlight(three)
        assert report["accuracy"] == load_model(tmp_path / "m").score(data.X, data.y)
        assert "macro_f1" in report
        assert "roc_area" not in report
        assert "macro F1" in succeed("evaluate", tmp_path / "m", three).stdout

    def test_one_class_leaves_measures_undefined(self, model):
        text = "-1 1:1\n-1 2:1\n"
        report = strict_json(succeed("evaluate", model, "-", "--json", stdin=text))
        assert report["roc_area"] is report["break_even"] is report["f1"] is None
        assert "undefined" in succeed("evaluate", model, "-", stdin=text).stdout

    def test_unknown_labels_count_as_wrong(self, model):
        result = succeed("evaluate", model, "-", "--json", stdin="7 1:1\n1 1:1\n-1 1:1\n")
        assert strict_json(result)["accuracy"] == pytest.approx(1 / 3)
        assert result.stderr.count("\n") == 1
        assert "standard input: 1 row with labels unknown to the model (7)" in result.stderr

    def test_unknown_labels_may_be_fractions(self, model, three, tmp_path):
        succeed("train", three, "--out", tmp_path / "three.wm")
        for path in (model, tmp_path / "three.wm"):
            predicted = succeed("predict", path, "-", stdin="0 2:3\n").stdout.strip()
            text = f"{predicted} 2:3\n{predicted} 2:3\n0.5 2:3\n"
            report = strict_json(succeed("evaluate", path, "-", "--json", stdin=text))
            assert report["accuracy"] == pytest.approx(2 / 3)
        # F1 is 0.8 for the class predicted throughout, and 0 for what is no class.
        assert report["macro_f1"] == pytest.approx(0.4)

    def test_no_label_is_known(self, model, data, tmp_path):
        refuse("evaluate", model, "-", stdin="7 1:1\n", naming=["(7)", "only -1, 1"])
        X, y = read_svmlight(data).X, read_svmlight(data).y
        save_model(LinearSVC().fit(X, np.where(y > 0, "a", "b")), tmp_path / "m")
        refuse("evaluate", tmp_path / "m", data, naming=[data, "labels are numbers"])

    def test_bools_are_zero_and_one(self, data, tmp_path):
        X, y = read_svmlight(data).X, read_svmlight(data).y
        save_model(LinearSVC(random_state=0).fit(X, y > 0), tmp_path / "bools")
        save_model(LinearSVC(random_state=0).fit(X, y), tmp_path / "signs")
        zero_one = data.read_text().replace("-1 1:", "0 1:")
        bools = strict_json(succeed("evaluate", tmp_path / "bools", "-", "--json", stdin=zero_one))
        signs = strict_json(succeed("evaluate", tmp_path / "signs", data, "--json"))
        assert {k: bools[k] for k in ("accuracy", "f1")} == {
            k: signs[k] for k in ("accuracy", "f1")
        }


class TestBreakEven:
    def test_precision_equals_recall(self):
        rng = np.random.default_rng(0)
        scores = rng.normal(size=200)
        positive = scores + rng.normal(size=200) > 0.5
        chosen = np.argsort(-scores)[: positive.sum()]
        assert break_even_point(positive, scores) == pytest.approx(positive[chosen].mean())

    def test_ties_do_not_depend_on_the_order(self):
        positive = np.array([True, False, False, True])
        scores = np.array([1.0, 1.0, 0.0, 0.0])
        assert break_even_point(positive, scores) == 0.5
        assert break_even_point(positive[::-1], scores[::-1]) == 0.5
        assert break_even_point(positive, np.zeros(4)) == 0.5

    def test_without_positives(self):
        assert break_even_point(np.zeros(3, bool), np.zeros(3)) is None


class TestCertify:
    @pytest.mark.parametrize("multiclass", [False, True])
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
    def test_agrees_with_training(self, data, three, tmp_path, multiclass, loss):
        source = three if multiclass else data
        trained = strict_json(
            succeed("train", source, "--out", tmp_path / "m", "--loss", loss, "--json")
        )
        result = succeed("certify", tmp_path / "m", source, "--json")
        report = strict_json(result)
        assert report["agrees_with_model"] is True
        assert result.stderr == ""
        for key in ("primal", "dual"):
            assert report["certificate"][key] == pytest.approx(trained["certificate"][key])
        assert len(report["certificate"]["parts"]) == (3 if multiclass else 0)
        assert re.search(
            "% of the optimum|proved optimal", succeed("certify", tmp_path / "m", source).stdout
        )

    def test_other_rows(self, model, data, held_out, tmp_path):
        fewer = tmp_path / "fewer.svm"
        fewer.write_text("".join(data.read_text().splitlines(keepends=True)[:-1]))
        refuse("certify", model, fewer, naming=[fewer, "59 rows", "60 rows", "training data"])
        wider = tmp_path / "wider.svm"
        wider.write_text(data.read_text().rstrip() + " 8:1\n")
        refuse("certify", model, wider, naming=[wider, "8 features", "training data"])
        result = succeed("certify", model, held_out, "--json")
        assert strict_json(result)["agrees_with_model"] is False
        assert "not the data it was trained on" in result.stderr

    def test_a_model_that_lies_about_its_certificate(self, model, data):
        classifier = load_model(model)
        honest = certify(classifier, *read_svmlight_arrays(data))
        classifier.certificate_ = type(honest)(honest.primal, honest.primal, honest.parts)
        save_model(classifier, model)
        result = succeed("certify", model, data, "--json")
        report = strict_json(result)
        assert report["agrees_with_model"] is False
        assert report["certificate"]["dual"] == pytest.approx(honest.dual)


def read_svmlight_arrays(path):
    data = read_svmlight(path)
    return data.X, data.y


class TestDemo:
    def test_text(self):
        text = succeed("demo").stdout
        for word in ("breast cancer", "digits", "scikit-learn", "relative gap", "certificate"):
            assert word in text

    def test_json(self):
        problems = strict_json(succeed("demo", "--json"))["problems"]
        assert [p["data"] for p in problems] == ["breast cancer", "digits"]
        for problem in problems:
            ours, theirs = problem["widemargin"], problem["scikit-learn"]
            assert ours["certificate"]["relative_gap"] <= 1e-3
            # The bound holds for every model, so for scikit-learn's too.
            assert theirs["primal"] >= ours["certificate"]["dual"]
            assert ours["accuracy"] > 0.9


class TestLabelsAndIndices:
    @pytest.mark.parametrize(
        ("label", "words"),
        [
            ("1.5", "whole numbers"),
            ("1e30", "whole numbers up to 9,007,199"),
            ("9007199254740993", "whole numbers up to 9,007,199,254,740,991"),
        ],
    )
    def test_labels_that_name_no_class(self, tmp_path, label, words):
        path = tmp_path / "rows.svm"
        path.write_text(f"# comments are no rows\n1 1:1\n{label} 2:1\n")
        naming = [path, "row 1 (counted from 0) has the label", words]
        refuse("train", path, "--out", tmp_path / "m", naming=naming)

    @pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="memory is not told")
    def test_an_index_that_no_memory_is_enough_for(self, tmp_path, monkeypatch):
        path = tmp_path / "rows.svm"
        path.write_text("1 1:1\n-1 1000000:1\n")
        monkeypatch.setattr("widemargin.cli.fitting._COEFFICIENT_BYTES", 10**12)
        naming = [path, "largest index means 1,000,000 features", "GB of memory are free"]
        refuse("train", path, "--out", tmp_path / "m", naming=naming)


def test_a_limit_of_compression_that_is_none(data, tmp_path, monkeypatch):
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(data.read_bytes()))
    monkeypatch.setenv("WIDEMARGIN_MAX_COMPRESSION_RATIO", "much")
    words = ["WIDEMARGIN_MAX_COMPRESSION_RATIO must be a positive number, not 'much'"]
    refuse("train", path, "--out", tmp_path / "m", naming=words)
    refuse("convert", path, tmp_path / "rows", naming=words)


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("widemargin.data.compression._HARMLESS_BYTES", 1 << 20)
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(b"1 1:1\n" * (1 << 20)))
    words = [f"{path}: ", "more than 250 times", "WIDEMARGIN_MAX_COMPRESSION_RATIO"]
    refuse("train", path, "--out", tmp_path / "m", naming=words)
    refuse("convert", path, tmp_path / "rows", naming=words)
    assert not (tmp_path / "rows").exists()


def test_a_warning_is_one_line(data, tmp_path, monkeypatch):
    """Whatever the command is at when it comes: kernels may be compiled anywhere."""

    def read(path):
        warnings.warn("/cache: Numba's\ncache failed", RuntimeWarning, stacklevel=1)
        return read_svmlight(path)

    monkeypatch.setattr("widemargin.cli.inputs.read_svmlight", read)
    result = succeed("train", data, "--out", tmp_path / "m", "--quiet")
    assert result.stderr == "widemargin: warning: /cache: Numba's cache failed\n"


class TestInterruption:
    def test_outside_a_fit(self, model, data, monkeypatch):
        def interrupted(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(saved, "_read_description", interrupted)
        result = run("predict", model, data)
        assert result.exit_code == 130
        assert result.stdout == ""
        assert result.stderr.strip() == "widemargin: interrupted"


class TestProcess:
    """The real thing, in a process of its own."""

    command = COMMAND_LINE

    def test_train_predict_and_a_closed_pipe(self, data, tmp_path):
        out = tmp_path / "m"
        done = subprocess.run(
            [*self.command, "train", "-", "--out", out],
            input=data.read_bytes(),
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        assert b"of the optimum" in done.stdout
        assert b"\x1b" not in done.stdout + done.stderr  # no colours, no cursor in a pipe

        many = tmp_path / "many.svm"
        many.write_text(data.read_text() * 500)
        reader = subprocess.Popen(
            [*self.command, "predict", out, many], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert reader.stdout.readline().strip() in (b"1", b"-1")
        reader.stdout.close()
        assert b"Traceback" not in reader.stderr.read()
        reader.wait(timeout=PATIENCE)

    def test_bad_input(self, tmp_path):
        done = subprocess.run(
            [*self.command, "train", tmp_path / "none", "--out", tmp_path / "m"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == f"widemargin: {tmp_path / 'none'}: No such file or directory\n"

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
    def test_output_that_cannot_be_written(self, data, tmp_path):
        train = ["train", data, "--out", tmp_path / "m"]
        for arguments in (train, ["--help"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run(
                    [*self.command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True
                )
            assert done.returncode == 2
            assert done.stderr.endswith("widemargin: standard output: No space left on device\n")
        closed = ["sh", "-c", 'exec "$@" >&-', "sh", *self.command, *train]
        done = subprocess.run(closed, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        assert done.stderr.endswith("widemargin: standard output: it is closed\n")

    def test_ctrl_c_while_waiting_for_input(self, tmp_path):
        process = interruptible(
            [*self.command, "train", "-", "--out", tmp_path / "m"], stdin=subprocess.PIPE
        )
        # More than a pipe holds, anywhere: once all is written, reading has begun.
        process.stdin.write(b"1 1:1\n" * 400_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert stderr.strip() == b"widemargin: interrupted"
