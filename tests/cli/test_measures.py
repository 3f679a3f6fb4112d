"""Training for a measure, from the shell: from training to proof."""

import json

import numpy as np
import pandas as pd
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.metrics import f1_score

from widemargin import MeasureSVC, load_model
from widemargin.data.svmlight import read_svmlight


def rows_and_labels(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 0.7).astype(int)


def write(path, seed=0, grouped=False):
    groups = [f" qid:{i // 15}" * grouped for i in range(120)]
    path.write_text(
        "".join(
            f"{y}{group} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(x)) + "\n"
            for x, y, group in zip(*rows_and_labels(seed), groups)
        )
    )
    return path


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("measure", ["f1", "prbep", "precision@5", "average_precision"])
def test_from_training_to_proof(tmp_path, measure, grouped):
    path, page = tmp_path / "m.wm", tmp_path / "m.html"
    data, more = (write(tmp_path / f"{seed}.svm", seed, grouped) for seed in (0, 1))
    options = ["--task", measure, "-C", "0.5", "--out", path]
    found = strict_json(succeed("train", data, *options, "--json"))
    assert (found["task"], found["parameters"]["measure"]) == (measure, measure)
    groups = found.get("groups", 1)
    assert groups == (8 if grouped else 1)
    rows, model = read_svmlight(data), load_model(path)
    twin = MeasureSVC(measure, C=0.5).fit(rows.X, rows.y, qid=rows.qid)
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    np.testing.assert_array_equal(model.intercept_, twin.intercept_)

    held_out = read_svmlight(more)
    measures = strict_json(succeed("evaluate", path, more, "--report", page, "--json"))
    wanted = twin.score(held_out.X, held_out.y, qid=held_out.qid)
    assert measures[measure] == pytest.approx(wanted, rel=1e-12)
    shown = "average precision" if measure == "average_precision" else measure
    shown = "F1" if measure == "f1" else shown
    assert f"{shown[0].upper()}{shown[1:]} {wanted:.3f}" in page.read_text()
    lines = succeed("predict", path, more, "--scores").stdout.splitlines()
    labels, scores = np.array([line.split("\t") for line in lines], dtype=float).T
    np.testing.assert_array_equal(labels, twin.predict(held_out.X))
    np.testing.assert_array_equal(scores, twin.decision_function(held_out.X))
    proved = strict_json(succeed("certify", path, data, "--json"))
    assert proved["agrees_with_model"]
    assert measure in succeed("show", path).stdout
    twin_file = tmp_path / "m.json"
    succeed("export", path, "--format", "json", "--out", twin_file)
    assert json.loads(twin_file.read_text())["intercepts"] == twin.intercept_.tolist()


def test_what_it_says(tmp_path):
    data, path = write(tmp_path / "a.svm"), tmp_path / "m.wm"
    text = succeed("train", data, "--task", "f0.5", "--out", path).stdout
    assert "bound on the loss in f0.5, C = 1, solver ocas" in text
    assert "f0.5" in succeed("evaluate", path, data).stdout


@pytest.mark.parametrize("grouped", [False, True])
def test_tune(tmp_path, grouped):
    data, path = write(tmp_path / "a.svm", grouped=grouped), tmp_path / "m.wm"
    options = ["--task", "f1", "--Cs", "0.01,1", "--folds", "3", "--out", path, "--json"]
    found = strict_json(succeed("tune", data, *options))
    assert found["scoring"] == "f1"
    assert np.shape(found["scores"]) == (2, 3)
    assert "--task f1" in found["train_command"]
    model = load_model(path)
    assert found["best_C"] == model.C
    text = succeed("tune", data, *options[:-3]).stdout
    assert "bound on the loss in f1, " in text


def test_tables_with_words_for_labels(tmp_path):
    X, y = rows_and_labels()
    data, path = tmp_path / "ads.csv", tmp_path / "m.wm"
    columns = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        shop=np.arange(len(y)) % 6,
        copies=1 + np.arange(len(y)) % 2,
        clicked=np.take(["no", "yes"], y),
    )
    columns.to_csv(data, index=False)
    options = ["--target", "clicked", "--weight", "copies", "--group", "shop"]
    succeed("train", data, *options, "--task", "precision@3", "--out", path)
    measures = strict_json(succeed("evaluate", path, data, "--json"))
    assert measures["precision@3"] > 0.5
    assert "proved" in succeed("certify", path, data).stdout
    succeed("train", data, *options[:4], "--drop", "shop", "--task", "f1", "--out", path)
    found = succeed("predict", path, data).stdout.split()
    value = f1_score(y, np.array(found) == "yes")
    measures = strict_json(succeed("evaluate", path, data, "--json"))
    assert measures["f1"] == pytest.approx(value)


def test_rows_on_disk(tmp_path):
    data, folder, path = write(tmp_path / "a.svm"), tmp_path / "rows", tmp_path / "m.wm"
    succeed("convert", data, folder)
    succeed("train", folder, "--task", "prbep", "--out", path)
    memory = MeasureSVC("prbep").fit(read_svmlight(data).X, rows_and_labels()[1])
    assert load_model(path).certificate_.primal == pytest.approx(
        memory.certificate_.primal, rel=1e-3
    )
    assert "proved" in succeed("certify", path, folder).stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "f"], ["'f' is none of classify", "precision@k"]),
        (["--task", "f1", "--loss", "hinge"], ["--loss goes with --task classify"]),
        (["--task", "f1", "--solver", "dcd"], ["--solver dcd goes with"]),
        (["--task", "f1", "--liblinear", "x"], ["--liblinear goes with"]),
        (["--task", "f1", "--device", "cuda"], ["--device cuda"]),
        (["--task", "f1", "--class-weight", "balanced"], ["class_weight is for measure='error'"]),
        (["--task", "precision@200"], ["accepts all rows, of which there are 120"]),
        (["--task", "rank", "--no-intercept"], ["f1|prbep|... only, not with --task rank"]),
    ],
    ids=lambda words: " ".join(words),
)
def test_what_is_wrong(tmp_path, options, words):
    refuse("train", write(tmp_path / "a.svm"), *options, "--out", tmp_path / "m", naming=words)


def test_data_that_are_wrong(tmp_path):
    three = tmp_path / "three.svm"
    three.write_text("1 1:1\n2 1:2\n3 1:3\n")
    for command in ("train", "tune"):
        words = ["--task f1 needs exactly two labels, not 3"]
        refuse(command, three, "--task", "f1", "--out", tmp_path / "m", naming=words)
    grouped = write(tmp_path / "a.svm", grouped=True)
    refuse(
        *("train", grouped, "--task", "error", "--out", tmp_path / "m"),
        naming=["knows no groups"],
    )
    refuse(
        *("tune", write(tmp_path / "b.svm"), "--task", "f1", "--scoring", "accuracy"),
        naming=["--scoring accuracy: --task f1 has f1"],
    )
