"""Tables on the command line: from files to models and back, and what cannot be read."""

import gzip
import io
import json

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import refuse, strict_json, succeed
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from widemargin import LinearRanker, LinearSVC, OrdinalSVC, TableFeatures, load_model
from widemargin.cli import tables


def frame(n=300, seed=0):
    """A table with numbers, categories, flags, dates, text and gaps, and labels from them."""
    rng = np.random.default_rng(seed)
    size, hue = rng.normal(size=n), rng.choice(["red", "blue", "green"], n)
    score = size + (hue == "red") - (hue == "blue") + 0.5 * rng.normal(size=n)
    words = np.where(score > 0, "good", "bad")
    note = [f"{word if rng.random() < 0.7 else 'so so'} day" for word in words]
    return pd.DataFrame(
        {
            "id": [f"row {i}" for i in range(n)],
            "size": np.where(rng.random(n) < 0.1, np.nan, size),
            "hue": np.where(rng.random(n) < 0.1, None, hue),
            "ok": rng.random(n) < 0.5,
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n), "D"),
            "note": note,
            "stage": np.digitize(score, [-1, 0, 1]),
            "amount": rng.random(n) * 100,
            "part": rng.integers(0, 20, n),
            "label": np.where(score > 0, "yes", "no"),
        }
    )


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.csv"
    frame().to_csv(path, index=False)
    return path


@pytest.fixture
def test(tmp_path):
    path = tmp_path / "test.csv"
    frame(seed=1).to_csv(path, index=False)
    return path


@pytest.fixture
def model(train, tmp_path):
    path = tmp_path / "model.wm"
    succeed(
        "train", train, "--target", "label", "--drop", "stage", "--text", "note", "--out", path
    )
    return path


class TestTrain:
    def test_features_and_labels(self, train, model):
        pipeline = load_model(model)
        table = frame()
        features = pipeline[0]
        assert features.get_params()["target"] == "label"
        names = features.get_feature_names_out().tolist()
        assert {"size", "size is missing", "hue=red", "hue is missing", "ok", "note: good"} <= {
            *names
        }
        assert "when month=5" in names
        assert "id" in features.skipped_
        assert not {"stage", "label"} & {name.split("=")[0] for name in names}
        expected = TableFeatures(
            target="label", drop=["stage"], text=["note"], dtype="float32"
        ).fit(table)
        assert names == expected.get_feature_names_out().tolist()
        X = expected.transform(table)
        classifier = LinearSVC(random_state=0).fit(X, table["label"].to_numpy(dtype=str))
        np.testing.assert_allclose(pipeline[1].coef_, classifier.coef_, rtol=1e-6, atol=1e-9)
        assert pipeline[1].classes_.tolist() == ["no", "yes"]

    def test_as_good_as_the_usual_pipeline(self, train, test, model):
        rows, held_out = pd.read_csv(train), pd.read_csv(test)
        numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
        words = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2)
        features = ColumnTransformer(
            [
                ("n", numbers, ["size", "amount", "part", "ok"]),
                ("c", words, ["hue"]),
                ("t", TfidfVectorizer(), "note"),
            ]
        )
        theirs = make_pipeline(features, LinearSVC(random_state=0)).fit(rows, rows["label"])
        report = strict_json(succeed("evaluate", model, test, "--json"))
        assert report["accuracy"] > theirs.score(held_out, held_out["label"]) - 0.05
        assert report["accuracy"] > 0.8

    @pytest.mark.parametrize("ending", ["csv.gz", "parquet", "arrow", "feather", "jsonl", "json"])
    def test_formats_give_the_same_model(self, train, model, tmp_path, ending):
        path, out = tmp_path / f"t.{ending}", tmp_path / "m.wm"
        table = pa.Table.from_pandas(frame(), preserve_index=False)
        if ending == "csv.gz":
            path.write_bytes(gzip.compress(train.read_bytes()))
        elif ending == "parquet":
            pq.write_table(table, path)
        elif ending in ("arrow", "feather"):
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        else:
            lines = frame().to_json(orient="records", date_format="iso", lines=True)
            text = f"[{','.join(lines.splitlines())}]" if ending == "json" else lines
            path.write_text(text)
        options = ("--target", "label", "--text", "note", "--drop", "stage", "--drop", "when")
        succeed("train", path, *options, "--out", out)
        succeed("train", train, *options, "--out", model)
        found, expected = load_model(out), load_model(model)
        assert (found[0].get_feature_names_out() == expected[0].get_feature_names_out()).all()
        np.testing.assert_allclose(found[1].coef_, expected[1].coef_, rtol=1e-4, atol=1e-6)

    def test_several_files(self, train, model, tmp_path):
        lines = train.read_text().splitlines(keepends=True)
        for number, part in enumerate((lines[1:100], lines[100:], [])):
            if part:
                (tmp_path / f"part{number}.csv").write_text(lines[0] + "".join(part))
        options = ("--target", "label", "--text", "note", "--drop", "stage")
        expected = load_model(model)
        for paths in ([tmp_path / "part0.csv", tmp_path / "part1.csv"], [tmp_path / "part*.csv"]):
            succeed("train", *paths, *options, "--out", tmp_path / "m.wm")
            found = load_model(tmp_path / "m.wm")
            np.testing.assert_allclose(found[1].coef_, expected[1].coef_, rtol=1e-4, atol=1e-7)

    def test_files_of_several_formats(self, tmp_path):
        """Text, dictionaries and whole numbers have other types in each of them."""
        table = pd.DataFrame({"size": range(20), "hue": ["red", "blue"] * 10})
        table["label"] = ["yes", "no", "no", "yes"] * 5
        table.to_csv(tmp_path / "a.csv", index=False)
        table.to_parquet(tmp_path / "b.parquet")
        table.astype({"label": "category", "size": "int32"}).to_feather(tmp_path / "c.feather")
        paths = sorted(tmp_path.iterdir())
        for target in ("label", "size"):
            task = ("--task", "regress") if target == "size" else ()
            for files in (paths, paths[::-1]):
                succeed("train", *files, "--target", target, *task, "--out", tmp_path / "m")
        report = strict_json(succeed("evaluate", tmp_path / "m", *paths, "--json"))
        assert report["rows"] == 60

    def test_standard_input(self, train, model, tmp_path):
        options = ("--target", "label", "--text", "note", "--drop", "stage")
        succeed("train", "-", *options, "--out", tmp_path / "m.wm", stdin=train.read_bytes())
        assert (tmp_path / "m.wm").read_bytes() == model.read_bytes()
        printed = succeed("predict", model, "-", stdin=train.read_bytes()).stdout
        assert printed == succeed("predict", model, train).stdout

    def test_weights_are_repetitions(self, tmp_path):
        table = frame(80)[["size", "hue", "label"]].fillna({"size": 0.0, "hue": "red"})
        table["w"] = np.arange(80) % 3
        table.to_csv(tmp_path / "weighted.csv", index=False)
        repeated = table.loc[table.index.repeat(table["w"])].drop(columns="w")
        repeated.to_csv(tmp_path / "repeated.csv", index=False)
        options = ("--target", "label", "--no-scale", "--tol", "1e-9")
        succeed(
            *("train", tmp_path / "weighted.csv", *options, "--weight", "w"),
            *("--out", tmp_path / "a.wm"),
        )
        succeed("train", tmp_path / "repeated.csv", *options, "--out", tmp_path / "b.wm")
        a, b = load_model(tmp_path / "a.wm")[1], load_model(tmp_path / "b.wm")[1]
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-3)

    def test_no_header(self, tmp_path):
        path = tmp_path / "t.csv"
        table = frame()[["size", "amount", "stage"]]
        table.to_csv(path, index=False, header=False)
        succeed("train", path, "--target", "3", "--no-header", "--out", tmp_path / "m.wm")
        report = strict_json(succeed("evaluate", tmp_path / "m.wm", path, "--no-header", "--json"))
        assert report["rows"] == 300
        names = load_model(tmp_path / "m.wm")[0].get_feature_names_out()
        assert names.tolist() == ["1", "1 is missing", "2"]

    def test_larger_than_memory(self, train, model, tmp_path, monkeypatch):
        """Batches are read again, and features are written to disk."""
        options = ("--target", "label", "--text", "note", "--drop", "stage", "--tol", "1e-6")
        succeed("train", train, *options, "--out", model)
        monkeypatch.setattr(tables, "free_bytes", lambda: 2000)
        report = strict_json(
            succeed(
                *("train", train, *options, "--out", tmp_path / "m.wm", "--json"),
                *("--solver", "stream"),
            )
        )
        assert report["solver"] == "stream"
        small, large = load_model(model)[1], load_model(tmp_path / "m.wm")[1]
        assert small.classes_.tolist() == large.classes_.tolist()
        np.testing.assert_allclose(large.coef_, small.coef_, atol=0.01)

    def test_tasks(self, train, test, tmp_path):
        out = tmp_path / "m.wm"
        common = ("--drop", "label", "--drop", "note", "--target", "stage", "--out", out)
        for task, kind in (("ordinal", OrdinalSVC), ("rank", LinearRanker)):
            group = ("--group", "part") if task == "rank" else ("--drop", "part")
            report = strict_json(
                succeed("train", train, "--task", task, *common, *group, "--json")
            )
            assert report.get("groups", 20) == 20
            assert type(load_model(out)[1]) is kind
            assert strict_json(succeed("certify", out, train, "--json"))["agrees_with_model"]
            report = strict_json(succeed("evaluate", out, test, "--json"))
            assert report["pairwise_accuracy"] > 0.8
            assert report.get("groups", 20) == 20

    def test_class_weights_by_label(self, train, tmp_path):
        out = tmp_path / "m.wm"
        options = ("--target", "label", "--drop", "stage", "--out", out)
        succeed("train", train, *options, "--class-weight", "yes=3,no=0.5")
        assert load_model(out)[1].class_weight == {"yes": 3.0, "no": 0.5}
        refuse(
            *("train", train, *options, "--class-weight", "maybe=3"),
            naming=["--class-weight: no row has the label 'maybe'; there are no, yes"],
        )

    def test_labels_that_are_true_and_false(self, tmp_path):
        frame().to_csv(tmp_path / "t.csv", index=False)
        out = tmp_path / "m.wm"
        succeed("train", tmp_path / "t.csv", "--target", "ok", "--drop", "note", "--out", out)
        assert load_model(out)[1].classes_.tolist() == ["false", "true"]
        assert set(succeed("predict", out, tmp_path / "t.csv").stdout.split()) == {"false", "true"}

    def test_words_among_numbers_are_told(self, tmp_path):
        table = frame()[["size", "amount", "label"]].astype({"amount": object})
        table.loc[7, "amount"] = "lots"
        table["amount"] = table["amount"].map(lambda v: v if v == "lots" else round(v))
        table.to_csv(tmp_path / "t.csv", index=False)
        result = succeed("train", tmp_path / "t.csv", "--target", "label", "--out", tmp_path / "m")
        assert "column 'amount' is read as categories, though most of its values are numbers: "
        assert "'lots' is none" in result.stderr

    def test_columns_without_features_are_named(self, tmp_path):
        table = frame()[["size", "label"]].assign(same=1, id=[f"row {i}" for i in range(300)])
        options = ("--target", "label", "--out", tmp_path / "m")
        table.to_csv(tmp_path / "t.csv", index=False)
        lines = succeed("train", tmp_path / "t.csv", *options).stdout.splitlines()
        assert "left out  2 columns: 'same', 'id'; show says why" in lines
        table.drop(columns="id").to_csv(tmp_path / "t.csv", index=False)
        lines = succeed("train", tmp_path / "t.csv", *options).stdout.splitlines()
        assert "left out  column 'same': every value is the same" in lines

    def test_decimal_commas(self, tmp_path):
        """Of files whose columns are separated by semicolons, as in much of Europe."""
        table = frame()[["size", "amount", "label"]]
        table.to_csv(tmp_path / "points.csv", index=False)
        table.to_csv(tmp_path / "commas.csv", index=False, sep=";", decimal=",")
        out = tmp_path / "m"
        summaries = [
            strict_json(
                succeed("train", tmp_path / name, "--target", "label", "--out", out, "--json")
            )
            for name in ("points.csv", "commas.csv")
        ]
        assert summaries[0]["certificate"] == summaries[1]["certificate"]
        expected = succeed("predict", out, tmp_path / "points.csv", "--scores").stdout
        assert succeed("predict", out, tmp_path / "commas.csv", "--scores").stdout == expected
        table[:1].to_csv(tmp_path / "row.csv", index=False, sep=";", decimal=",")
        row = succeed("predict", out, tmp_path / "row.csv", "--scores").stdout
        assert row == expected.splitlines(keepends=True)[0]

    def test_decimal_commas_and_points_are_no_numbers(self, tmp_path):
        text = "size;label\n" + "".join(f"{i},5;{'xy'[i % 2]}\n" for i in range(40)) + "1.5;x\n"
        (tmp_path / "t.csv").write_text(text)
        options = ("--target", "label", "--out", tmp_path / "m")
        refuse("train", tmp_path / "t.csv", *options, naming=["'size'", "is it a name, or text?"])

    def test_tune(self, train, tmp_path):
        out = tmp_path / "m.wm"
        report = strict_json(
            succeed(
                *("tune", train, "--target", "label", "--text", "note", "--Cs", "0.01,1"),
                *("--folds", "3", "--drop", "id", "--drop", "stage", "--out", out, "--json"),
            )
        )
        words = "--target label --drop id --drop stage --text note"
        assert words in report["train_command"]
        assert type(load_model(out)[0]) is TableFeatures

    def test_report_names_features(self, train, tmp_path):
        html = tmp_path / "page.html"
        succeed(
            *("train", train, "--target", "label", "--drop", "stage", "--text", "note"),
            *("--out", tmp_path / "m.wm", "--report", html),
        )
        assert "hue=red" in html.read_text()


class TestUse:
    def test_certify(self, train, test, model):
        report = strict_json(succeed("certify", model, train, "--json"))
        assert report["agrees_with_model"] is True
        result = succeed("certify", model, test, "--json")
        assert strict_json(result)["agrees_with_model"] is False

    def test_predict_needs_no_labels(self, train, model, tmp_path):
        frame().drop(columns=["label", "id"]).to_csv(tmp_path / "rows.csv", index=False)
        expected = succeed("predict", model, train, "--scores").stdout
        assert succeed("predict", model, tmp_path / "rows.csv", "--scores").stdout == expected

    def test_unseen_levels_and_gaps(self, model, tmp_path):
        table = frame(5)
        table["hue"] = ["purple", None, "red", "", "blue"]
        table["size"] = np.nan
        table["when"] = pd.Timestamp("2031-07-01")
        table.to_csv(tmp_path / "rows.csv", index=False)
        assert len(succeed("predict", model, tmp_path / "rows.csv").stdout.split()) == 5

    def test_labels_that_look_like_numbers(self, tmp_path):
        table = frame()[["size", "hue"]].assign(label=np.where(frame()["stage"] > 1, "01", "x"))
        table.to_csv(tmp_path / "train.csv", index=False)
        table[table["label"] == "01"].to_csv(tmp_path / "test.csv", index=False)
        succeed("train", tmp_path / "train.csv", "--target", "label", "--out", tmp_path / "m")
        report = strict_json(succeed("evaluate", tmp_path / "m", tmp_path / "test.csv", "--json"))
        assert {one["label"]: one["support"] for one in report["by_class"]} == {
            "01": (table["label"] == "01").sum(),
            "x": 0,
        }

    def test_categories_that_look_like_numbers(self, tmp_path):
        table = frame()[["size", "label"]].assign(post=["00100", "00200", "00300"] * 100)
        table.to_csv(tmp_path / "t.csv", index=False)
        options = ("--target", "label", "--categorical", "post", "--out", tmp_path / "m")
        succeed("train", tmp_path / "t.csv", *options)
        names = load_model(tmp_path / "m")[0].get_feature_names_out().tolist()
        assert names[-3:] == ["post=00100", "post=00200", "post=00300"]
        assert strict_json(succeed("certify", tmp_path / "m", tmp_path / "t.csv", "--json"))[
            "agrees_with_model"
        ]

    def test_measures_of_each_class(self, model, test):
        report = strict_json(succeed("evaluate", model, test, "--json"))
        assert [one["label"] for one in report["by_class"]] == ["no", "yes"]
        for name in ("precision", "recall", "f1"):
            assert all(0.5 < one[name] <= 1 for one in report["by_class"])
        text = succeed("evaluate", model, test).stdout
        assert text.splitlines()[-3].split() == ["class", "precision", "recall", "f1", "support"]

    def test_larger_than_memory(self, model, train, monkeypatch):
        expected = succeed("predict", model, train, "--scores").stdout
        monkeypatch.setattr(tables, "free_bytes", lambda: 2000)
        found = succeed("predict", model, train, "--scores").stdout
        for line, other in zip(found.splitlines(), expected.splitlines()):
            assert line.split("\t")[0] == other.split("\t")[0]
            assert float(line.split("\t")[1]) == pytest.approx(
                float(other.split("\t")[1]), abs=1e-5
            )


def small(**columns):
    """A table of ten rows as CSV; `columns` replace or add some."""
    table = {
        "size": range(10),
        "hue": ["red", "blue"] * 5,
        "label": ["yes", "no", "yes", "yes", "no"] * 2,
        **columns,
    }
    return pd.DataFrame({k: v for k, v in table.items() if v is not None}).to_csv(index=False)


# The file's name, its content, the options, and what the one line must say.
BAD_TRAINING = {
    "no target": ("t.csv", small(), [], ["--target", "size, hue, label"]),
    "no target in parquet": ("t.parquet", small(), [], ["--target", "size, hue, label"]),
    "unknown target": ("t.csv", small(), ["--target", "y"], ["no column 'y'", "'hue'"]),
    "continuous target": ("t.csv", small(label=np.arange(10) + 0.5), [], ["continuous", "0.5"]),
    "whole but continuous": (
        "t.csv",
        "size,label\n" + "".join(f"{i % 7},{i * i}\n" for i in range(100)),
        [],
        ["100 different numbers in 100 rows", "looks continuous", "--task ordinal"],
    ),
    "target is a date": ("t.csv", small(label=["2024-01-01", "2024-01-02"] * 5), [], ["date"]),
    "missing target": ("t.csv", small(label=["yes", "no", None, "no", ""] * 2), [], ["row 2"]),
    "one class": ("t.csv", small(label="yes"), [], ["class"]),
    "text for ranks": ("t.csv", small(), ["--task", "rank"], ["holds text", "--task rank"]),
    "unknown drop": ("t.csv", small(), ["--drop", "x"], ["no column 'x'"]),
    "unknown text": ("t.csv", small(), ["--text", "x"], ["no column 'x'"]),
    "text of numbers": ("t.parquet", small(), ["--text", "size"], ["'size'", "not text"]),
    "unknown weight": ("t.csv", small(), ["--weight", "w"], ["no column 'w'"]),
    "weight of words": (
        "t.csv",
        small(w="x"),
        ["--weight", "w"],
        ["'w' holds the weights of the rows", "'x' is no number"],
    ),
    "negative weight": ("t.csv", small(w=-1.0), ["--weight", "w"], ["row 0", "-1", "'w'"]),
    "missing group": (
        "t.csv",
        small(g=["a", None] * 5, label=range(10)),
        ["--task", "rank", "--group", "g"],
        ["row 1", "'g'"],
    ),
    "two purposes": ("t.csv", small(), ["--text", "hue", "--drop", "hue"], ["two purposes"]),
    "no features": ("t.csv", small(), ["--drop", "size", "--drop", "hue"], ["no column is left"]),
    "constant features": ("t.csv", small(size=1, hue="red"), [], ["every value is the same"]),
    "infinite": ("t.csv", small(size=["1e999"] + ["1"] * 9), [], ["'size'", "infinite"]),
    "lists": ("t.jsonl", '{"a":[1],"label":"x"}\n{"a":[2],"label":"y"}\n', [], ["'a'", "list"]),
    "empty": ("t.csv", "", [], ["empty"]),
    "no rows": ("t.csv", "size,label\n", [], ["no rows"]),
    "ragged": ("t.csv", "size,label\n1,x\n2\n", [], ["line 3 has 1 fields"]),
    "open quote": ("t.csv", 'note,label\n"1,x\n2,y\n', [], ["line 2 has 1 fields", "a quote"]),
    "labels beyond 2^53": ("t.csv", small(label=[2**60, 2**60 + 1] * 5), [], ["2^53", "as text"]),
    "JSON without names": ("t.jsonl", "1\n2\n", [], ["line 1", "not an object"]),
    "no header": ("t.csv", "1,2\n3,4\n", ["--target", "2"], ["holds numbers", "--no-header"]),
    "no header, and repeated": ("t.csv", "0,0\n1,1\n", ["--target", "0"], ["holds numbers"]),
    "one line": ("t.html", "<p>no table</p>", [], ["no rows"]),
    "svmlight": ("t.svm", "1 1:0.5 3:1\n-1 2:1\n", [], ["svmlight text"]),
    "a word among numbers": (
        "t.csv",
        small(size=[*range(1, 10), "lots"], hue=None, label=["x", "y"] * 5),
        [],
        ["'size'", "most of its values are numbers, but 'lots' is none"],
    ),
    "names as labels": (
        "t.csv",
        "size,label\n" + "".join(f"{i % 7},name {i}\n" for i in range(100)),
        [],
        ["100 different texts", "no classes"],
    ),
    "two of a name": ("t.csv", "a,a,label\n1,2,x\n3,4,y\n", [], ["'a' twice"]),
    "latin-1": ("t.csv", small(hue=["rot", "grün"] * 5).encode("latin-1"), [], ["--encoding"]),
    "unknown encoding": ("t.csv", small(), ["--encoding", "klingon"], ["klingon"]),
    "utf-16": ("t.csv", small().encode("utf-16"), [], ["UTF-16", "--encoding"]),
    "Excel": ("t.xlsx", b"PK\x03\x04 and more", [], ["Excel"]),
    "cut short": ("t.csv.gz", gzip.compress(small().encode())[:-9], [], ["truncated"]),
    "broken JSON": ("t.jsonl", '{"size": 1, "label": "x"}\n{"size":', [], ["line 2"]),
    "types that change": ("t.jsonl", '{"a": 1}\n{"a": "x"}\n', [], ["line 2", "column 'a'"]),
    "no parquet": ("t.parquet", b"a,b\n1,2\n", [], ["Parquet"]),
    "a budget of words": ("t.csv", small(), ["--memory-budget", "much"], ["--memory-budget"]),
    "text as LIBLINEAR": ("t.csv", small(), ["--liblinear", "m.txt"], ["LIBLINEAR"]),
}


class TestBadTables:
    @pytest.mark.parametrize("case", BAD_TRAINING)
    def test_train(self, case, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        name, content, options, words = BAD_TRAINING[case]
        path = tmp_path / name
        if name.endswith(".parquet") and isinstance(content, str):
            pd.read_csv(io.StringIO(content)).to_parquet(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        target = [] if "--target" in options or case.startswith("no target") else ["--target"]
        target += ["label"] * len(target)
        line = refuse("train", name, *target, *options, "--out", "m.wm", naming=words)
        assert not (tmp_path / "m.wm").exists()
        assert "Traceback" not in line
        assert "pydantic" not in line
        if "--memory-budget" not in options and case not in ("text as LIBLINEAR",):
            assert name in line

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda t: t.drop(columns="hue"), ["rows.csv", "no column 'hue'"]),
            (lambda t: t.drop(columns="label"), ["rows.csv", "no column 'label'"]),
            (lambda t: t.assign(size="big"), ["row 0", "'size'", "'big' is no number"]),
            (lambda t: t.assign(ok="perhaps"), ["'ok'", "'perhaps' is neither true nor false"]),
            (lambda t: t.assign(when="soon"), ["'when'", "no date"]),
            (lambda t: t.assign(size=np.inf), ["'size'", "infinite"]),
            (lambda t: t.assign(label="perhaps"), ["perhaps", "only no, yes"]),
            (lambda t: t.iloc[:0], ["no rows"]),
            (lambda t: t.assign(label=None), ["row 0", "'label'"]),
        ],
    )
    def test_evaluate(self, model, tmp_path, change, words):
        path = tmp_path / "rows.csv"
        change(frame(10)).to_csv(path, index=False)
        refuse("evaluate", model, path, naming=words)

    def test_the_wrong_kind_of_rows(self, model, train, tmp_path):
        rows = tmp_path / "rows.svm"
        rows.write_text("1 1:1\n-1 2:1\n")
        refuse("predict", model, rows, naming=[rows, "svmlight text", "no named columns"])
        succeed("train", rows, "--out", tmp_path / "text.wm")
        refuse("predict", tmp_path / "text.wm", train, naming=["trained on numbered features"])
        refuse("train", rows, rows, "--out", model, naming=["only tables may be several files"])
        for options in (["--drop", "a"], ["--text", "a"], ["--no-header"]):
            refuse("train", rows, *options, "--out", model, naming=[options[0], "--target"])

    def test_options_that_do_not_apply(self, model, train, tmp_path):
        refuse("certify", model, train, "--weight", "size", naming=["--weight"])
        refuse("convert", train, tmp_path / "rows", naming=[train, "a table"])
        (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
        succeed("convert", tmp_path / "rows.svm", tmp_path / "rows")
        refuse(
            *("train", tmp_path / "rows", "--scale", "--out", tmp_path / "m"),
            naming=["--scale is for tables and svmlight text"],
        )

    def test_nothing_matches(self, tmp_path):
        pattern = tmp_path / "*.csv"
        refuse(
            *("train", pattern, "--target", "y", "--out", tmp_path / "m"),
            naming=["no file matches"],
        )
        refuse(
            *("train", tmp_path / "none.csv", "--target", "y", "--out", tmp_path / "m"),
            naming=["none.csv: No such file"],
        )


class TestText:
    """What svmlight text got from tables."""

    @pytest.fixture
    def rows(self, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 3)) * [1.0, 1e4, 1e-4]
        y = np.where(X @ [1.0, 1e-4, 1e4] > 0, 1, -1)
        path = tmp_path / "rows.svm"
        lines = (
            f"{label} " + " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row, 1)) + "\n"
            for row, label in zip(X, y)
        )
        path.write_text("".join(lines))
        return path

    def test_scale(self, rows, tmp_path):
        out = tmp_path / "m.wm"
        succeed("train", rows, "--scale", "--out", out)
        pipeline = load_model(out)
        np.testing.assert_allclose(pipeline[0].scale_, [1.0, 1e4, 1e-4], rtol=0.2)
        assert strict_json(succeed("certify", out, rows, "--json"))["agrees_with_model"]
        assert strict_json(succeed("evaluate", out, rows, "--json"))["accuracy"] > 0.95
        succeed("export", out, "--format", "liblinear", "--out", tmp_path / "m.txt")
        expected = succeed("predict", out, rows).stdout
        assert succeed("predict", tmp_path / "m.txt", rows).stdout == expected

    def test_different_scales_are_told(self, rows, tmp_path):
        out, slow = tmp_path / "m.wm", ("--solver", "dcd", "--max-iter", "5", "--tol", "1e-9")
        words = "differ by a factor of 1e+08, which makes it slow: --scale evens them out"
        assert words in succeed("train", rows, *slow, "--out", out).stderr
        assert "--scale" not in succeed("train", rows, "--scale", *slow, "--out", out).stderr
        assert "--scale" not in succeed("train", rows, "--out", out).stderr

    def test_weights_in_a_file(self, rows, tmp_path):
        weights = np.arange(100) % 3
        (tmp_path / "w.txt").write_text("\n".join(map(str, weights)) + "\n")
        out = tmp_path / "m.wm"
        options = ("--scale", "--weight", tmp_path / "w.txt")
        succeed("train", rows, *options, "--out", out)
        lines = rows.read_text().splitlines(keepends=True)
        repeated = tmp_path / "repeated.svm"
        repeated.write_text("".join(line * w for line, w in zip(lines, weights.tolist())))
        refuse("certify", out, repeated, naming=["training data"])
        report = strict_json(
            succeed("certify", out, rows, "--weight", tmp_path / "w.txt", "--json")
        )
        assert report["agrees_with_model"]
        for text, words in (("1\n2\n", "2 weights for 100 rows"), ("x\n" * 100, "line 1: 'x'")):
            (tmp_path / "w.txt").write_text(text)
            refuse("train", rows, *options, "--out", out, naming=["w.txt", words])

    def test_class_weights(self, rows, tmp_path):
        out = tmp_path / "m.wm"
        succeed("train", rows, "--scale", "--class-weight", "1=2,-1=0.5", "--out", out)
        assert load_model(out)[1].class_weight == {1: 2.0, -1: 0.5}


class TestTune:
    @pytest.mark.parametrize(
        ("task", "scoring"),
        [
            ("rank", None),
            ("rank", "ndcg"),
            ("ordinal", None),
            ("roc", None),
            ("ordinal", "accuracy"),
        ],
    )
    def test_order(self, train, tmp_path, task, scoring):
        out = tmp_path / "m.wm"
        table = frame().assign(stage=lambda t: (t["stage"] > 1) if task == "roc" else t["stage"])
        table.astype({"stage": int}).to_csv(train, index=False)
        options = ["--drop", "label", "--drop", "note", "--target", "stage", "--Cs", "0.001,1"]
        options += ["--group", "part"] if task == "rank" else ["--drop", "part"]
        options += ["--scoring", scoring] if scoring else []
        report = strict_json(
            succeed(
                "tune", train, "--task", task, *options, "--folds", "3", "--out", out, "--json"
            )
        )
        assert np.shape(report["scores"]) == (2, 3)
        assert max(np.ravel(report["relative_gaps"])) <= 1e-3
        best = np.argmax(report["mean_scores"])
        assert report["best_C"] == report["Cs"][best] == load_model(out)[1].C
        if task == "ordinal" and scoring is None:
            assert report["best_score"] < 0
        assert strict_json(succeed("certify", out, train, "--json"))["agrees_with_model"]
        text = succeed("tune", train, "--task", task, *options, "--folds", "3").stdout
        assert f"--task {task}" in text

    def test_folds_by_hand(self, train, tmp_path):
        """The scores are those of models trained on the other folds."""
        from sklearn.model_selection import StratifiedKFold

        report = strict_json(
            succeed(
                *("tune", train, "--task", "ordinal", "--target", "stage", "--Cs", "0.1,"),
                *("--drop", "label", "--drop", "note", "--folds", "3", "--json", "--tol", "1e-8"),
            )
        )
        table = frame()
        features = TableFeatures(target="stage", drop=["label", "note"], dtype="float32")
        X, y = features.fit_transform(table), table["stage"].to_numpy()
        for (rest, held_out), [score] in zip(
            StratifiedKFold(3).split(X, y), np.transpose(report["scores"]).reshape(3, 1)
        ):
            model = OrdinalSVC(C=0.1, tol=1e-8).fit(X[rest], y[rest])
            assert score == pytest.approx(-np.abs(model.predict(X[held_out]) - y[held_out]).mean())

    def test_the_smallest_of_the_best(self, tmp_path):
        lines = [f"{i % 5},{(i % 5) * 10}\n" for i in range(50)]  # every C ranks them perfectly
        (tmp_path / "t.csv").write_text("size,stage\n" + "".join(lines))
        report = strict_json(
            succeed(
                *("tune", tmp_path / "t.csv", "--target", "stage", "--task", "rank"),
                *("--Cs", "3,1,2", "--folds", "3", "--json"),
            )
        )
        assert report["mean_scores"] == [1.0, 1.0, 1.0]
        assert report["best_C"] == 1.0

    def test_bad_scoring(self, train):
        options = ("--target", "stage", "--task", "ordinal")
        refuse("tune", train, *options, "--scoring", "f1", naming=["neg_mean_absolute_error"])


def test_a_model_of_an_exported_pipeline(model, train, tmp_path):
    succeed("export", model, "--format", "sklearn", "--out", tmp_path / "m.joblib")
    twin = joblib.load(tmp_path / "m.joblib")
    assert type(twin[-1]).__module__.startswith("sklearn")
    found = twin.predict(frame())
    assert found.tolist() == succeed("predict", model, train).stdout.split()


def test_export_as_json(model, tmp_path):
    found = json.loads(succeed("export", model, "--format", "json").stdout)
    pipeline = load_model(model)
    np.testing.assert_array_equal(found["weights"], pipeline[1].coef_)
    assert found["features"] == pipeline[0].get_feature_names_out().tolist()
