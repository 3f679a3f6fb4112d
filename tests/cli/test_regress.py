"""Regression, from the shell: from training to proof."""

import numpy as np
import pandas as pd
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.metrics import (
    mean_absolute_error,
    mean_pinball_loss,
    r2_score,
    root_mean_squared_error,
)
from sklearn.model_selection import GroupKFold, KFold

from widemargin import LinearSVR, load_model
from widemargin.data.svmlight import read_svmlight

LOSSES = [
    [],
    ["--loss", "squared_epsilon_insensitive", "--epsilon", "0.5"],
    ["--loss", "huber", "--delta", "0.3"],
    ["--loss", "absolute_error"],
    ["--loss", "pinball", "--quantile", "0.8"],
]


def numbers(seed=0, n_rows=90):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, X @ [1.0, 2.0, -1.0, 0.5] + 3.0 + rng.normal(size=n_rows)


def write(path, seed=0):
    lines = (
        f"{y:.6g} qid:{i // 9} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(x)) + "\n"
        for i, (x, y) in enumerate(zip(*numbers(seed)))
    )
    path.write_text("".join(lines))
    return path


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "numbers.svm")


@pytest.fixture
def held_out(tmp_path):
    return write(tmp_path / "more.svm", seed=1)


@pytest.fixture
def table(tmp_path):
    X, y = numbers()
    path = tmp_path / "houses.csv"
    rooms = pd.DataFrame(X, columns=["area", "age", "noise", "light"])
    rooms.assign(town=np.resize(["A", "B", "C"], len(y)), price=y).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("options", LOSSES, ids=lambda words: words[1] if words else "default")
def test_from_training_to_proof(data, held_out, tmp_path, options):
    path = tmp_path / "m.wm"
    found = strict_json(
        succeed("train", data, "--task", "regress", *options, "-C", "2", "--out", path, "--json")
    )
    assert found["task"] == "regress"
    assert not {"classes", "pairs"} & set(found)
    rows, model = read_svmlight(data), load_model(path)
    given = {name[2:]: value for name, value in zip(options[::2], options[1::2])}
    given = {name: value if name == "loss" else float(value) for name, value in given.items()}
    twin = LinearSVR(C=2.0, random_state=0, **given).fit(rows.X, rows.y)
    assert {k: v for k, v in model.get_params().items() if k != "verbose"} == {
        k: v for k, v in twin.get_params().items() if k != "verbose"
    }
    np.testing.assert_array_equal(model.coef_, twin.coef_)

    more = read_svmlight(held_out)
    expected = model.predict(more.X)
    lines = succeed("predict", path, held_out).stdout.splitlines()
    np.testing.assert_array_equal(np.array(lines, dtype=float), expected)
    measures = strict_json(succeed("evaluate", path, held_out, "--json"))
    wanted = {
        "r2": r2_score(more.y, expected),
        "mean_absolute_error": mean_absolute_error(more.y, expected),
        "root_mean_squared_error": root_mean_squared_error(more.y, expected),
    }
    if "pinball" in options:
        wanted = {
            "mean_pinball_loss": mean_pinball_loss(more.y, expected, alpha=0.8),
            "fraction_below": np.mean(more.y <= expected),
        }
    assert {name: measures[name] for name in wanted} == pytest.approx(wanted, rel=1e-12)
    assert set(measures) == {"model", "data", "report", "rows", *wanted}
    assert "proved" in succeed("certify", path, data).stdout
    assert "LinearSVR" in succeed("show", path).stdout


def test_what_it_says(data, tmp_path):
    path = tmp_path / "m.wm"
    options = ["--task", "regress", "--loss", "pinball", "--quantile", "0.8"]
    text = succeed("train", data, *options, "--out", path).stdout
    assert "pinball loss (quantile = 0.8), C = 1, solver" in text
    assert "90 rows, 4 features, read" in text
    assert "pinball loss (quantile = 0.8), C = 1" in succeed("show", path).stdout
    assert "rows at or below the prediction" in succeed("evaluate", path, data).stdout


def test_tables(table, tmp_path):
    path, page = tmp_path / "m.wm", tmp_path / "m.html"
    options = ["--target", "price", "--task", "regress"]
    succeed("train", table, *options, "-C", "10", "--out", path, "--report", page)
    assert "True and predicted" in page.read_text()
    measures = strict_json(succeed("evaluate", path, table, "--json"))
    assert measures["r2"] > 0.8
    predicted = strict_json(succeed("predict", path, table, "--json"))["predictions"]
    assert r2_score(pd.read_csv(table)["price"], predicted) == pytest.approx(measures["r2"])
    assert "predicts 'price'" in succeed("show", path).stdout
    assert "proved" in succeed("certify", path, table).stdout
    succeed("export", path, "--format", "json", "--out", tmp_path / "m.json")


def test_as_liblinear_writes_models(data, tmp_path):
    path, text = tmp_path / "m.wm", tmp_path / "m.txt"
    succeed("train", data, "--task", "regress", "--out", path, "--liblinear", text)
    assert succeed("predict", text, data).stdout == succeed("predict", path, data).stdout
    assert "R2" in succeed("evaluate", text, data).stdout


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error", None])
@pytest.mark.parametrize("grouped", [True, False])
def test_tune(data, tmp_path, scoring, grouped):
    if not grouped:
        words = (line.split() for line in data.read_text().splitlines())
        data.write_text("".join(" ".join([y, *x]) + "\n" for y, _, *x in words))
    options = ["--loss", "pinball", "--quantile", "0.7"] if scoring is None else []
    path = tmp_path / "m.wm"
    found = strict_json(
        succeed(
            *("tune", data, "--task", "regress", "--Cs", "0.01,1", "--folds", "3"),
            *("--tol", "1e-9", "--out", path, "--json"),
            *options,
            *(["--scoring", scoring] if scoring else []),
        )
    )
    rows = read_svmlight(data)
    score = {
        "r2": r2_score,
        "neg_mean_absolute_error": lambda *pair: -mean_absolute_error(*pair),
        None: lambda *pair: -mean_pinball_loss(*pair, alpha=0.7),
    }[scoring]
    kind = {"loss": "pinball", "quantile": 0.7} if scoring is None else {}
    splitter = GroupKFold(3) if grouped else KFold(3, shuffle=True, random_state=0)
    for C, scores in zip((0.01, 1.0), found["scores"]):
        for (train, test), value in zip(splitter.split(rows.X, rows.y, rows.qid), scores):
            model = LinearSVR(C=C, tol=1e-9, **kind).fit(rows.X[train], rows.y[train])
            expected = score(rows.y[test], model.predict(rows.X[test]))
            assert value == pytest.approx(expected, rel=1e-3)
    assert found["scoring"] == (scoring or "neg_mean_pinball_loss")
    assert "classes" not in found
    assert found["best_C"] == load_model(path).C


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--loss", "hinge"], ["--loss hinge", "--task classify"]),
        (["--quantile", "0.1"], ["--quantile", "--loss pinball", "epsilon_insensitive"]),
        (["--loss", "pinball", "--quantile", "1.5"], ["--quantile", "1.5"]),
        (["--loss", "huber", "--delta", "0"], ["--delta", "0"]),
        (["--epsilon", "-1"], ["--epsilon", "at least 0"]),
        (["--solver", "dcd-paper"], ["--solver dcd-paper", "--task classify"]),
        (["--device", "cuda"], ["--device cuda"]),
        (["--class-weight", "balanced"], ["--class-weight", "--task classify"]),
        (["--probability"], ["--probability", "--task classify"]),
        (["--loss", "none"], ["none", "pinball"]),
    ],
)
def test_options_that_do_not_fit(data, tmp_path, options, words):
    refuse("train", data, "--task", "regress", *options, "--out", tmp_path / "m", naming=words)


def test_options_of_other_tasks(data, tmp_path):
    out = ["--out", tmp_path / "m.wm"]
    refuse("train", data, "--loss", "pinball", *out, naming=["--task regress"])
    refuse("train", data, "--task", "rank", "--epsilon", "1", *out, naming=["--epsilon"])
    refuse("train", data, "--task", "rank", "--solver", "dcd", *out, naming=["regress only"])
    tune = ["tune", data, "--task", "regress"]
    refuse(*tune, "--scoring", "accuracy", naming=["accuracy", "neg_mean_pinball_loss"])
    refuse(*tune, "--folds", "99", naming=["10 groups"])


def test_predictions_have_no_other_scores(data, tmp_path):
    path = tmp_path / "m.wm"
    succeed("train", data, "--task", "regress", "--out", path)
    refuse("predict", path, data, "--scores", naming=["--scores", "numbers"])
    refuse("predict", path, data, "--probability", naming=["--probability"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["high", "low"], ["price", "text"]),
        ([True, False], ["no number"]),
        ([1.5, None], ["row 1", "price"]),
        ([1.5, np.inf], ["row 1", "inf"]),
    ],
)
def test_targets_that_are_no_numbers(table, tmp_path, values, words):
    rooms = pd.read_csv(table).assign(price=np.resize(np.array(values, dtype=object), 90))
    rooms.to_csv(table, index=False)
    options = ["--target", "price", "--task", "regress", "--out", tmp_path / "m.wm"]
    refuse("train", table, *options, naming=["houses.csv", *words])


def test_continuous_targets_have_a_task(table, tmp_path):
    refuse("train", table, "--target", "price", "--out", tmp_path / "m", naming=["--task regress"])


def test_targets_of_words_are_refused(table, tmp_path):
    model, words = tmp_path / "price.wm", tmp_path / "words.csv"
    succeed("train", table, "--target", "price", "--task", "regress", "--out", model)
    rows = pd.read_csv(table).assign(price="dear")
    rows.to_csv(words, index=False)
    refuse("evaluate", model, words, naming=[words, "row 0", "'price'", "'dear' is no number"])
    rows.to_parquet(tmp_path / "words.parquet")
    refuse("evaluate", model, tmp_path / "words.parquet", naming=["'price' holds text"])
