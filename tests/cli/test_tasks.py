"""Ranking, ordinal labels and the ROC area, from the shell: each task from training to proof."""

import re

import numpy as np
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from widemargin import LinearRanker, OrdinalSVC, certify, load_model, save_model
from widemargin.data.svmlight import read_svmlight

TASKS = ("rank", "ordinal", "roc")
WEIGHTS = np.array([1.0, 2.0, -1.0, 0.5])


def svmlight(X, y, qid=None) -> str:
    lines = []
    for i, (row, label) in enumerate(zip(X, y)):
        group = "" if qid is None else f"qid:{qid[i]} "
        features = " ".join(f"{j + 1}:{value:.6g}" for j, value in enumerate(row))
        lines.append(f"{label:g} {group}{features}\n")
    return "".join(lines)


def graded(task, seed=0, n_rows=120):
    """Noisy rows with labels of the kind that the task learns from, and groups of ten."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    truth = X @ WEIGHTS + rng.normal(size=n_rows)
    labels = {
        "rank": np.clip(np.round(truth), 0, 3),
        "ordinal": 3.0 + np.clip(np.round(truth), -2, 2) / 2,  # with half steps
        "roc": np.where(truth > 1.0, 1, -1),
    }
    return X, labels[task], np.arange(n_rows) // 10 + 7


def write(path, task, seed=0, groups=None):
    X, y, qid = graded(task, seed)
    groups = task == "rank" if groups is None else groups
    path.write_text(svmlight(X, y, qid if groups else None))
    return path


@pytest.fixture
def sources(tmp_path):
    """Training data for each task."""
    return {task: write(tmp_path / f"{task}.txt", task) for task in TASKS}


@pytest.fixture
def held_out(tmp_path):
    return {task: write(tmp_path / f"{task}_test.txt", task, seed=1) for task in TASKS}


@pytest.fixture
def models(sources, tmp_path):
    """A model of each task."""
    paths = {task: tmp_path / f"{task}.wm" for task in TASKS}
    for task, path in paths.items():
        succeed("train", sources[task], "--task", task, "--out", path, "--quiet")
    return paths


def brute_force_pairs(y, scores, qid):
    """Return how many pairs there are, and the fraction of them in the right order."""
    won = [
        1.0 if scores[i] > scores[j] else 0.5 * (scores[i] == scores[j])
        for i in range(len(y))
        for j in range(len(y))
        if y[i] > y[j] and qid[i] == qid[j]
    ]
    return len(won), np.mean(won)


class TestTrain:
    def test_rank_names_groups_and_pairs(self, sources, tmp_path):
        result = succeed("train", sources["rank"], "--task", "rank", "--out", tmp_path / "m")
        _, y, qid = graded("rank")
        n_pairs, _ = brute_force_pairs(y, y, qid)
        assert re.search(r"task +rank\n", result.stdout)
        assert f"120 rows, 4 features, 12 groups, {n_pairs} pairs" in result.stdout
        assert re.search(
            r"pairwise hinge loss, C = 1, solver ocas, \d+ iterations,", result.stdout
        )
        assert "% of the optimum" in result.stdout
        assert type(load_model(tmp_path / "m")) is LinearRanker

    def test_rank_without_qid_says_that_all_rows_are_one_group(self, tmp_path):
        source = write(tmp_path / "data", "rank", groups=False)
        result = succeed("train", source, "--task", "rank", "--out", tmp_path / "m")
        assert "1 group (no qid: all rows are one group)" in result.stdout
        report = strict_json(
            succeed("train", source, "--task", "rank", "--out", tmp_path / "m", "--json")
        )
        assert report["groups"] == 1
        _, y, _ = graded("rank")
        assert report["pairs"] == brute_force_pairs(y, y, np.zeros(len(y)))[0]

    def test_the_model_is_the_librarys(self, sources, models):
        for task, estimator in (("rank", LinearRanker), ("roc", LinearRanker)):
            data = read_svmlight(sources[task])
            expected = estimator().fit(data.X, data.y, qid=data.qid)
            np.testing.assert_array_equal(load_model(models[task]).coef_, expected.coef_)
        data = read_svmlight(sources["ordinal"])
        expected = OrdinalSVC().fit(data.X, np.round(2 * data.y).astype(int))
        loaded = load_model(models["ordinal"])
        np.testing.assert_array_equal(loaded.thresholds_, expected.thresholds_)
        np.testing.assert_array_equal(2 * loaded.predict(data.X), expected.predict(data.X))

    def test_ordinal_takes_half_steps(self, sources, tmp_path):
        arguments = ("train", sources["ordinal"], "--task", "ordinal", "--out", tmp_path / "m")
        text = succeed(*arguments).stdout
        assert "120 rows, 4 features, 5 classes, " in text
        assert re.search(r"task +ordinal\n", text)
        report = strict_json(succeed(*arguments, "--json"))
        assert report["classes"] == [2.0, 2.5, 3.0, 3.5, 4.0]
        assert report["pairs"] > 0
        assert type(load_model(tmp_path / "m")) is OrdinalSVC

    def test_roc_measures_its_area(self, sources, tmp_path):
        arguments = ("train", sources["roc"], "--task", "roc", "--out", tmp_path / "m")
        report = strict_json(succeed(*arguments, "--json"))
        data = read_svmlight(sources["roc"])
        scores = load_model(tmp_path / "m").decision_function(data.X)
        assert report["roc_area"] == pytest.approx(roc_auc_score(data.y, scores))
        assert report["pairs"] == (data.y == 1).sum() * (data.y == -1).sum()
        text = succeed(*arguments).stdout
        assert re.search(rf"ROC AUC +{report['roc_area']:.4f} on the training set", text)
        assert re.search(r"task +roc\n", text)

    def test_options_reach_the_estimator(self, sources, tmp_path):
        shared = ("-C", "0.25", "--solver", "gca2", "--tol", "0.01", "--max-iter", "500")
        shared += ("--max-time", "60", "--n-jobs", "2", "--out", tmp_path / "m")
        expected = {"C": 0.25, "solver": "gca2", "tol": 0.01, "max_iter": 500, "n_jobs": 2}
        for task in TASKS:
            succeed("train", sources[task], "--task", task, *shared)
            parameters = load_model(tmp_path / "m").get_params()
            assert expected.items() <= parameters.items()
        succeed(
            *("train", sources["rank"], "--task", "rank", "--normalization", "queries"), *shared
        )
        assert load_model(tmp_path / "m").normalization == "queries"

    @pytest.mark.parametrize("task", TASKS)
    def test_stopping_early_warns_once_and_saves(self, sources, tmp_path, task):
        result = succeed(
            *("train", sources[task], "--task", task, "--out", tmp_path / "m", "--quiet"),
            *("--max-iter", "1", "--tol", "1e-12"),
        )
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
        assert "warning: --max-iter 1 reached before --tol 1e-12" in result.stderr
        assert load_model(tmp_path / "m").status_ == "max_iter"

    @pytest.mark.parametrize("quiet", [["--quiet"], ["--json"]])
    def test_groups_without_pairs_are_one_warning(self, tmp_path, quiet):
        text = "1 qid:1 1:1\n0 qid:1 1:2\n5 qid:2 1:1\n2 qid:3 1:1\n2 qid:3 1:4\n"
        arguments = ("train", "-", "--task", "rank", "--out", tmp_path / "m", *quiet)
        for _ in range(2):  # shown every time, not once per process
            result = succeed(*arguments, stdin=text)
            assert result.stderr.count("\n") == 1
            assert result.stderr.startswith("widemargin: warning: 2 groups have no two rows")
        assert load_model(tmp_path / "m").n_pairs_ == 1

    @pytest.mark.parametrize("task", TASKS)
    @pytest.mark.parametrize(
        "option",
        [
            ("--loss", "squared_hinge"),  # the default, but given
            ("--loss", "hinge"),
            ("--multi-class", "ovr"),
            ("--no-intercept",),
            ("--penalized-intercept",),
            ("--class-weight", "balanced"),
            ("--seed", "0"),
            ("--liblinear", "model.txt"),
            ("--solver", "dcd"),
            ("--solver", "acf"),
        ],
        ids=" ".join,
    )
    def test_options_of_classify(self, sources, tmp_path, task, option):
        shown = " ".join(option) if option[0] == "--solver" else option[0]
        tasks = {
            "--loss": "classify or regress",
            "--multi-class": "classify",
            "--no-intercept": "classify, regress, logistic or f1|prbep|...",
            "--penalized-intercept": "classify, regress, logistic or f1|prbep|...",
            "--class-weight": "classify, logistic or f1|prbep|...",
            "--seed": "classify, regress or logistic",
            "--liblinear": "classify, regress or logistic",
            "--solver dcd": "classify, logistic or regress",
            "--solver acf": "classify or regress",
        }[shown]
        refuse(
            *("train", sources[task], "--task", task, "--out", tmp_path / "m", *option),
            naming=[f"{shown} goes with --task {tasks} only, not with --task {task}"],
        )
        assert not (tmp_path / "m").exists()

    @pytest.mark.parametrize("task", [["--task", "ordinal"], ["--task", "roc"], []])
    def test_options_of_rank(self, sources, tmp_path, task):
        refuse(
            *("train", sources["roc"], *task, "--out", tmp_path / "m"),
            *("--normalization", "pairs"),
            naming=["--normalization goes with --task rank only", (task or ["classify"])[-1]],
        )

    def test_unknown_words(self, sources, tmp_path):
        arguments = ("train", sources["rank"], "--out", tmp_path / "m")
        refuse(*arguments, "--task", "cluster", naming=["--task", "cluster"])
        refuse(
            *(*arguments, "--task", "rank", "--normalization", "rows"), naming=["--normalization"]
        )

    @pytest.mark.parametrize(
        ("task", "text", "word"),
        [
            ("rank", "2 1:1\n2 1:2\n", "same grade, 2"),
            ("rank", "2 qid:1 1:1\n2 qid:1 1:2\n", "same grade, 2"),
            ("rank", "1 qid:1 1:1\n2 qid:2 1:2\n", "no group has rows of different grades"),
            ("rank", "1 qid:1 1:1\n2 1:2\n", "line 2"),
            ("rank", "1 qid:x 1:1\n2 qid:x 1:2\n", "line 1"),
            ("ordinal", "2 1:1\n2 1:2\n", "every row has the label 2"),
            ("ordinal", "1.5 1:1\n", "every row has the label 1.5"),
            ("roc", "2 1:1\n2 1:2\n", "exactly two labels, not 1 (2)"),
            ("roc", "0 1:1\n1 1:2\n2 1:3\n", "exactly two labels, not 3 (0, 1, 2)"),
            ("roc", "1 qid:1 1:1\n2 qid:1 1:2\n", "--task rank"),
            *((task, "1 1:1\nnan 1:2\n", "line 2: label 'nan' is not a number") for task in TASKS),
            *((task, "1 1:1\nhigh 1:2\n", "line 2: label 'high'") for task in TASKS),
            *((task, "1\n2\n", "feature") for task in TASKS),
        ],
    )
    def test_bad_data(self, tmp_path, task, text, word):
        refuse(
            *("train", "-", "--task", task, "--out", tmp_path / "m", "--quiet"),
            naming=["standard input", word],
            stdin=text,
        )
        assert not (tmp_path / "m").exists()


class TestPredict:
    @pytest.mark.parametrize("task", ["rank", "roc"])
    def test_rankers_print_scores(self, models, held_out, tmp_path, task):
        expected = load_model(models[task]).predict(read_svmlight(held_out[task]).X)
        text = succeed("predict", models[task], held_out[task]).stdout
        np.testing.assert_array_equal(np.array(text.split(), float), expected)
        report = strict_json(succeed("predict", models[task], held_out[task], "--json"))
        assert report["scores"] == expected.tolist()
        assert "labels" not in report
        succeed("predict", models[task], held_out[task], "--out", tmp_path / "scores")
        assert (tmp_path / "scores").read_text() == text

    def test_whole_scores_stay_scores(self, models, tmp_path):
        ranker = load_model(models["rank"])
        ranker.coef_ = np.array([1.0, 2.0, 0.0, 0.0])
        save_model(ranker, tmp_path / "m")
        assert (
            succeed("predict", tmp_path / "m", "-", stdin="0 1:3\n0 2:2\n").stdout == "3.0\n4.0\n"
        )

    def test_rankers_have_no_labels_to_put_scores_beside(self, models, held_out):
        refuse(
            *("predict", models["rank"], held_out["rank"], "--scores"),
            naming=["--scores", models["rank"]],
        )

    def test_ordinal(self, models, held_out):
        X = read_svmlight(held_out["ordinal"]).X
        model = load_model(models["ordinal"])
        lines = succeed("predict", models["ordinal"], held_out["ordinal"]).stdout.splitlines()
        assert lines == [str(label) for label in model.predict(X)]
        assert set(lines) <= {"2.0", "2.5", "3.0", "3.5", "4.0"}
        both = succeed("predict", models["ordinal"], held_out["ordinal"], "--scores").stdout
        fields = [line.split("\t") for line in both.splitlines()]
        assert [label for label, _ in fields] == lines
        np.testing.assert_array_equal([float(s) for _, s in fields], model.score_samples(X))


class TestEvaluate:
    def test_rank(self, models, held_out):
        report = strict_json(succeed("evaluate", models["rank"], held_out["rank"], "--json"))
        data = read_svmlight(held_out["rank"])
        scores = load_model(models["rank"]).predict(data.X)
        assert report["rows"] == 120
        assert report["groups"] == 12
        assert report["pairwise_accuracy"] == pytest.approx(
            brute_force_pairs(data.y, scores, data.qid)[1]
        )
        groups = [data.qid == group for group in np.unique(data.qid)]
        relevant = [g for g in groups if data.y[g].max() > 0]
        assert report["ndcg_at_10"] == pytest.approx(
            np.mean([ndcg_score([2 ** data.y[g] - 1], [scores[g]], k=10) for g in relevant])
        )
        assert report["mean_average_precision"] == pytest.approx(
            np.mean([average_precision_score(data.y[g] > 0, scores[g]) for g in relevant])
        )
        text = succeed("evaluate", models["rank"], held_out["rank"]).stdout
        assert [line.split("  ")[0] for line in text.splitlines()] == [
            *("rows", "groups", "pairwise accuracy", "NDCG@10", "MAP")
        ]
        assert re.search(r"groups +12\n", text)

    @pytest.mark.parametrize("task", ["rank", "roc"])
    def test_two_labels_without_groups_have_a_roc_area(self, models, held_out, task):
        report = strict_json(succeed("evaluate", models[task], held_out["roc"], "--json"))
        data = read_svmlight(held_out["roc"])
        scores = load_model(models[task]).predict(data.X)
        assert report["roc_area"] == pytest.approx(roc_auc_score(data.y, scores))
        assert report["average_precision"] == pytest.approx(
            average_precision_score(data.y > 0, scores)
        )
        assert "pairwise_accuracy" not in report
        text = succeed("evaluate", models[task], held_out["roc"]).stdout
        assert "120, positive class 1\n" in text
        assert re.search(r"ROC AUC +0\.", text)

    def test_ordinal(self, models, held_out):
        report = strict_json(succeed("evaluate", models["ordinal"], held_out["ordinal"], "--json"))
        data = read_svmlight(held_out["ordinal"])
        model = load_model(models["ordinal"])
        predicted = model.predict(data.X)
        # The labels are half a unit apart, and the error is in steps.
        assert report["mean_absolute_error"] == pytest.approx(
            2 * np.abs(predicted - data.y).mean()
        )
        assert report["accuracy"] == pytest.approx(np.mean(predicted == data.y))
        assert report["pairwise_accuracy"] == pytest.approx(
            brute_force_pairs(data.y, model.score_samples(data.X), np.zeros(len(data.y)))[1]
        )
        text = succeed("evaluate", models["ordinal"], held_out["ordinal"]).stdout
        assert re.search(rf"mean absolute error +{report['mean_absolute_error']:.4f}\n", text)

    def test_undefined(self, models):
        text = "0 qid:1 1:1\n0 qid:1 1:2\n"
        report = strict_json(succeed("evaluate", models["rank"], "-", "--json", stdin=text))
        assert report["pairwise_accuracy"] is report["ndcg_at_10"] is None
        assert report["mean_average_precision"] is None
        printed = succeed("evaluate", models["rank"], "-", stdin=text).stdout
        assert printed.count("undefined") == 3
        # Gains of negative grades are undefined; pairs are not.
        text = "-1 qid:1 1:1\n-2 qid:1 1:2\n"
        report = strict_json(succeed("evaluate", models["rank"], "-", "--json", stdin=text))
        assert report["ndcg_at_10"] is None
        assert report["pairwise_accuracy"] is not None
        report = strict_json(
            succeed("evaluate", models["ordinal"], "-", "--json", stdin="3 1:1\n3 1:2\n")
        )
        assert report["pairwise_accuracy"] is None

    def test_labels_that_the_ordinal_model_never_saw(self, models):
        result = succeed("evaluate", models["ordinal"], "-", "--json", stdin="9 2:9\n4 2:9\n")
        assert "1 row with labels unknown to the model (9), counted as errors" in result.stderr
        report = strict_json(result)
        assert report["accuracy"] == 0.5
        assert report["mean_absolute_error"] == 0.5  # 9 is one step above 4
        refuse("evaluate", models["ordinal"], "-", stdin="9 1:1\n", naming=["(9)", "2.5"])


class TestCertify:
    @pytest.mark.parametrize("task", TASKS)
    def test_agrees_with_training(self, sources, models, task):
        result = succeed("certify", models[task], sources[task], "--json")
        report = strict_json(result)
        assert report["agrees_with_model"] is True
        assert result.stderr == ""
        assert report["certificate"]["relative_gap"] <= 1e-3
        assert "% of the optimum" in succeed("certify", models[task], sources[task]).stdout

    def test_other_groups_are_other_data(self, models, tmp_path):
        without = write(tmp_path / "without", "rank", groups=False)
        result = succeed("certify", models["rank"], without, "--json")
        assert strict_json(result)["agrees_with_model"] is False
        assert "not the data it was trained on" in result.stderr

    def test_other_rows(self, sources, models, held_out, tmp_path):
        fewer = tmp_path / "fewer"
        fewer.write_text("".join(sources["rank"].read_text().splitlines(keepends=True)[:-1]))
        refuse("certify", models["rank"], fewer, naming=[fewer, "119 rows", "120 rows"])
        result = succeed("certify", models["roc"], held_out["roc"], "--json")
        assert strict_json(result)["agrees_with_model"] is False

    def test_a_model_that_lies_about_its_certificate(self, sources, models):
        ranker = load_model(models["rank"])
        data = read_svmlight(sources["rank"])
        honest = certify(ranker, data.X, data.y, qid=data.qid)
        ranker.certificate_ = type(honest)(honest.primal, honest.primal)
        save_model(ranker, models["rank"])
        report = strict_json(succeed("certify", models["rank"], sources["rank"], "--json"))
        assert report["agrees_with_model"] is False
        assert report["certificate"]["dual"] == pytest.approx(honest.dual)

    def test_labels_that_the_model_does_not_know(self, sources, models):
        text = sources["ordinal"].read_text().replace("\n4 ", "\n8 ")
        refuse("certify", models["ordinal"], "-", stdin=text, naming=["does not know"])

    @pytest.mark.parametrize("command", ["predict", "evaluate", "certify"])
    @pytest.mark.parametrize("task", TASKS)
    def test_models_cut_short(self, sources, models, command, task):
        whole = models[task].read_bytes()
        models[task].write_bytes(whole[: len(whole) - 9])
        refuse(command, models[task], sources[task], naming=[models[task], "cut short"])
