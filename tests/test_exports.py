"""Models in other programs: they compute the same scores and labels."""

import io
import json
import shutil
import subprocess

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from widemargin import (
    LinearRanker,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    OrdinalSVC,
    TableFeatures,
)
from widemargin.arrays import on_host
from widemargin.model_io import ModelFileError, is_liblinear, read_liblinear, write_liblinear
from widemargin.model_io.exports import ExportError, exported

COMPILER = shutil.which("cc") or shutil.which("gcc")
KINDS = ("two", "several", "words", "ordinal", "rank", "numbers")


def frame(n=90):
    rng = np.random.default_rng(0)
    words = np.where(rng.random(n) < 0.2, None, rng.choice(["a", "b", "c"], n))
    words[:2] = ["once", "only"]  # rare ones
    return pd.DataFrame(
        {
            "size in cm": np.where(rng.random(n) < 0.2, np.nan, rng.normal(30, 5, n)),
            "2nd": rng.integers(0, 5, n),
            'hue "?"': rng.choice(["red", "grün", 'quo"te', "back\\slash"], n),
            "int": words,
            "ok": rng.random(n) < 0.5,
            "when": dates(rng, n, "2024-02-01"),
            "made (UTC)": dates(rng, n, "2023-11-05").dt.tz_localize("UTC"),
            "day": dates(rng, n, "2021-01-01").dt.floor("D"),
        }
    )


def dates(rng, n, first):
    """Moments within 100 days, some of them missing."""
    moments = pd.Series(pd.Timestamp(first) + pd.to_timedelta(rng.uniform(0, 100, n), unit="D"))
    return moments.dt.floor("s").where(rng.random(n) < 0.8)


def values_of(column, table):
    """What a row has for a column in other programs: values, or several numbers of a date."""
    values = table[column.name]
    if column.kind != "date":
        return [values]
    epoch = pd.Timestamp(0, tz=values.dt.tz)
    parts = {"month": values.dt.month, "weekday": values.dt.day_of_week, "hour": values.dt.hour}
    whole = [parts[part].fillna(-1).astype(np.int64) for part in column.parts]
    return [(values - epoch) / pd.Timedelta(days=1), *whole]


def unseen():
    table = frame(9)
    table['hue "?"'] = "never"
    table["int"] = ["z", None, "a"] * 3
    table["when"] = pd.date_range("1931-03-01 05:00", periods=9, freq="40D")
    return pd.concat([frame(), table], ignore_index=True)


def fitted(kind, X):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2 if kind == "two" else 4, X.shape[0])
    if kind == "rank":
        return LinearRanker().fit(X, y)
    if kind == "numbers":
        return LinearSVR(random_state=0).fit(X, y + 0.5 * rng.normal(size=y.size))
    if kind == "ordinal":
        return OrdinalSVC(C=0.1).fit(X, y + 3)
    return LinearSVC(random_state=0).fit(X, np.array(list("wxyz"))[y] if kind == "words" else y)


def scores_and_labels(model, X):
    if isinstance(model, OrdinalSVC):
        return model.score_samples(X)[:, None], model.predict(X)
    if isinstance(model, LinearSVR):
        return model.predict(X)[:, None], None
    scores = on_host(model.decision_function(X)).reshape(X.shape[0], -1)
    return scores, None if isinstance(model, LinearRanker) else model.predict(X)


def of_table(kind):
    features = TableFeatures(min_count=1 if kind == "two" else 2).fit(frame())
    model = fitted(kind, features.transform(frame()))
    return features, model, scores_and_labels(model, features.transform(unseen()))


def of_numbers(kind):
    X = np.random.default_rng(2).normal(size=(60, 4)) * [1.0, 100.0, 0.01, 1.0]
    scaler = StandardScaler(with_mean=False).fit(X)
    model = fitted(kind, scaler.transform(X))
    return X, scaler, model, scores_and_labels(model, scaler.transform(X))


def run_c(folder, code, body):
    """Compile the code with a main function, with all warnings as errors, and run it."""
    source = folder / "model.c"
    source.write_bytes(
        code + b"#include <stdio.h>\nint main(void)\n{\n" + body.encode() + b"\n}\n"
    )
    flags = ["-Wall", "-Wextra", "-Werror", "-std=c99", "-Wno-unused-function"]
    program = folder / "model"
    subprocess.run([COMPILER, *flags, source, "-o", program, "-lm"], check=True)
    lines = subprocess.run([program], capture_output=True, check=True).stdout.decode()
    return [line.split("\t") for line in lines.splitlines()]


def c_text(value):
    if value is None or value != value:
        return "NULL"
    return '"' + "".join(f"\\{byte:03o}" for byte in value.encode()) + '"'


def c_number(value):
    if isinstance(value, int):
        return repr(int(value))
    return "NAN" if value != value else repr(float(value))


PRINTING = """
    for (i = 0; i < n; i++) {
        widemargin_scores(ROW, scores);
        for (k = 0; k < WIDEMARGIN_SCORES; k++)
            printf("%.17g\\t", scores[k]);
        LABEL
        printf("\\n");
    }
    return 0;"""


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
@pytest.mark.parametrize("kind", KINDS)
class TestC:
    def printing(self, kind, row):
        label = f'printf("%s", widemargin_labels[widemargin_predict({row})]);'
        body = PRINTING.replace("LABEL", "" if kind in ("rank", "numbers") else label)
        return body.replace("ROW", row)

    def compare(self, lines, expected):
        scores, labels = expected
        found = np.array([line[: scores.shape[1]] for line in lines], dtype=float)
        np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-9)
        if labels is not None:
            assert [line[-1] for line in lines] == [str(label) for label in labels]

    def test_numbers(self, tmp_path, kind):
        X, scaler, model, expected = of_numbers(kind)
        rows = ",\n".join("{" + ", ".join(map(c_number, row)) + "}" for row in X)
        body = f"    static const double rows[][4] = {{{rows}}};\n"
        body += f"    int i, k, n = {len(X)};\n    double scores[WIDEMARGIN_SCORES];"
        code = exported(scaler, model, "c")
        self.compare(run_c(tmp_path, code, body + self.printing(kind, "rows[i]")), expected)

    def test_tables(self, tmp_path, kind):
        features, model, expected = of_table(kind)
        table = unseen()
        values = [
            map(c_text if column.kind == "category" else c_number, each)
            for column in features.columns_
            for each in values_of(column, table)
        ]
        rows = ",\n".join("{" + ", ".join(row) + "}" for row in zip(*values))
        body = f"    static const struct widemargin_row rows[] = {{{rows}}};\n"
        body += f"    int i, k, n = {len(table)};\n    double scores[WIDEMARGIN_SCORES];"
        code = exported(features, model, "c")
        self.compare(run_c(tmp_path, code, body + self.printing(kind, "&rows[i]")), expected)


@pytest.mark.parametrize("kind", KINDS)
class TestOnnx:
    def run(self, data, inputs):
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(data)
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, inputs)))

    def compare(self, found, expected):
        scores, labels = expected
        np.testing.assert_allclose(found["scores"], scores, rtol=1e-4, atol=1e-4)
        if labels is None:
            assert set(found) == {"scores"}
            return
        margins = np.sort(np.abs(scores), axis=1)[:, 0]
        agree = np.asarray(found["label"]).tolist() == labels.tolist()
        assert agree or margins.min() < 1e-4

    def test_numbers(self, kind):
        pytest.importorskip("onnx")
        X, scaler, model, expected = of_numbers(kind)
        found = self.run(exported(scaler, model, "onnx"), {"features": X.astype(np.float32)})
        self.compare(found, expected)

    def test_tables(self, kind):
        pytest.importorskip("onnx")
        features, model, expected = of_table(kind)
        table = unseen()
        inputs = {}
        for column in features.columns_:
            for name, values in zip(column.inputs(), values_of(column, table), strict=True):
                if column.kind == "category":
                    texts = [value if isinstance(value, str) else "" for value in values]
                    values = np.array(texts, dtype=object)
                elif column.kind != "date":
                    values = values.to_numpy(dtype=np.float32)
                inputs[name] = np.asarray(values)[:, None]
        self.compare(self.run(exported(features, model, "onnx"), inputs), expected)


class TestJson:
    @pytest.mark.parametrize("kind", KINDS)
    def test_weights(self, kind):
        X, scaler, model, (scores, _) = of_numbers(kind)
        found = json.loads(exported(scaler, model, "json"))
        rows = X / np.array(found["scales"])
        again = rows @ np.transpose(found["weights"]) + found["intercepts"]
        np.testing.assert_allclose(again, scores, rtol=1e-12, atol=1e-12)
        assert found["certificate"]["primal"] >= found["certificate"]["dual"]
        assert ("thresholds" in found) == (kind == "ordinal")

    def test_names(self):
        features, model, _ = of_table("two")
        found = json.loads(exported(features, model, "json"))
        assert found["features"] == features.get_feature_names_out().tolist()
        assert found["preparation"]["kind"] == "table"


class TestLiblinear:
    @pytest.mark.parametrize("labels", [[-1, 1], [5, 2], [3, 1, 2]])
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
    def test_there_and_back(self, tmp_path, labels, intercept, multi_class):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 4)), np.resize(labels, 60)
        path = tmp_path / "m.txt"
        model = LinearSVC(fit_intercept=intercept, multi_class=multi_class, random_state=0)
        write_liblinear(model.fit(X, y), path)
        assert is_liblinear(path)
        again = read_liblinear(path)
        np.testing.assert_array_equal(again.classes_, model.classes_)
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.fit_intercept is intercept

    @pytest.mark.parametrize("labels", [[-1, 1], [5, 2], [3, 1, 2]])
    @pytest.mark.parametrize(
        ("given", "penalty"),
        [({}, "l2"), ({"penalty": "l1"}, "l1"), ({"l1_ratio": 1.0}, "l1")],
        ids=["l2", "l1", "l1_ratio"],
    )
    def test_logistic_regression_there_and_back(self, tmp_path, labels, given, penalty):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 4)), np.resize(labels, 60)
        path = tmp_path / "m.txt"
        model = LogisticRegression(multi_class="ovr", **given).fit(X, y)
        write_liblinear(model, path)
        assert path.read_text().startswith(f"solver_type {penalty.upper()}R_LR\n")
        again = read_liblinear(path)
        assert isinstance(again, LogisticRegression)
        assert (again.penalty, again.multi_class) == (penalty, "ovr")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))

    def test_sparse_weights_there_and_back(self, tmp_path):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 4)), np.resize([-1, 1], 60)
        model = LinearSVC(penalty="l1", random_state=0).fit(X, y)
        write_liblinear(model, tmp_path / "m.txt")
        again = read_liblinear(tmp_path / "m.txt")
        assert (again.penalty, again.loss) == ("l1", "squared_hinge")
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))

    def test_logistic_models_of_all_classes_at_once_are_refused(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(20, 2))
        model = LogisticRegression().fit(X, np.arange(20) % 3)
        with pytest.raises(ValueError, match="one versus rest: train with multi_class='ovr'"):
            write_liblinear(model, tmp_path / "m.txt")

    @pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_regression_there_and_back(self, tmp_path, loss, intercept):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
        path = tmp_path / "m.txt"
        model = LinearSVR(loss=loss, fit_intercept=intercept, random_state=0).fit(X, y)
        write_liblinear(model, path)
        again = read_liblinear(path)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert (again.loss, again.fit_intercept) == (loss, intercept)

    def test_several_targets_are_refused(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(20, 2))
        with pytest.raises(ValueError, match="one target, not 2"):
            write_liblinear(LinearSVR().fit(X, X), tmp_path / "m.txt")

    def test_labels_in_the_order_of_the_data(self, tmp_path):
        """LIBLINEAR lists labels as they come; the first one is the positive class."""
        path = tmp_path / "m.txt"
        header = "solver_type {}\nnr_class 2\nlabel {}\nnr_feature 2\nbias {}\nw\n"
        x = np.array([[1.0, 0.0], [0.0, 1.0]])
        for labels, positive in (("1 -1", 1), ("-1 1", -1)):
            path.write_text(header.format("L2R_L2LOSS_SVC_DUAL", labels, -1) + "0.5 \n-2 \n")
            assert read_liblinear(path).predict(x).tolist() == [positive, -positive]
        path.write_text(header.format("MCSVM_CS", "7 3", -1) + "0.5 0.1 \n-2 1 \n")
        assert read_liblinear(path).predict(x).tolist() == [7, 3]
        path.write_text(header.format("L2R_LR", "7 3", 2) + "0.5 \n-2 \n0.25 \n")
        np.testing.assert_allclose(read_liblinear(path).intercept_, [0.5])

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("solver_type L2R_L2LOSS_SVR\nw\n", "nr_feature is missing"),
            ("solver_type ONECLASS_SVM\nw\n", "makes neither classes nor regression"),
            ("solver_type MCSVM_CS\nnr_class 2\n", "cut short"),
            ("solver_type MCSVM_CS\nw\n", "nr_class is missing"),
            ("solver_type MCSVM_CS\nnr_class x\nw\n", "not a LIBLINEAR model"),
            ("solver_type MCSVM_CS\nnr_class 0\nw\n", "nr_class is 0"),
        ],
    )
    def test_headers_that_are_wrong(self, tmp_path, text, words):
        path = tmp_path / "m.txt"
        path.write_text(text)
        with pytest.raises(ModelFileError, match=words):
            read_liblinear(path)

    @pytest.mark.parametrize(
        ("weights", "labels", "words"),
        [
            ("1 \n", "1 -1", "1 weights, expected 2 times 1"),
            ("1 \nnan \n", "1 -1", "not finite"),
            ("1 \n2 \n", "1 1", "the labels 1 1"),
            ("1 \nx \n", "1 -1", "not a LIBLINEAR model"),
        ],
    )
    def test_weights_that_are_wrong(self, tmp_path, weights, labels, words):
        path = tmp_path / "m.txt"
        header = f"solver_type L2R_LR\nnr_class 2\nlabel {labels}\nnr_feature 2\nbias -1\nw\n"
        path.write_text(header + weights)
        with pytest.raises(ModelFileError, match=words):
            read_liblinear(path)


class TestSklearn:
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_model(self, kind):
        features, model, (scores, labels) = of_table(kind)
        twin = joblib.load(io.BytesIO(exported(features, model, "sklearn")))
        assert type(twin[-1]).__module__.startswith("sklearn.")
        found = twin.predict(unseen())
        if kind in ("rank", "numbers"):
            np.testing.assert_allclose(found, scores[:, 0], rtol=1e-12, atol=1e-12)
        else:
            assert found.tolist() == labels.tolist()

    def test_probabilities(self):
        X, scaler, _, _ = of_numbers("two")
        y = np.arange(60) % 2
        model = LinearSVC(probability=True, random_state=0).fit(scaler.transform(X), y)
        twin = joblib.load(io.BytesIO(exported(scaler, model, "sklearn")))
        np.testing.assert_allclose(
            twin.predict_proba(X), model.predict_proba(scaler.transform(X)), atol=1e-12
        )


class TestRefusals:
    @pytest.mark.parametrize("encoding", ["tfidf", "hash"])
    def test_text(self, encoding):
        table = frame().assign(note=["good and bad", "bad"] * 45)
        features = TableFeatures(text=["note"], text_encoding=encoding, max_terms=64).fit(table)
        model = fitted("two", features.transform(table))
        for format, name in (("c", "C"), ("onnx", "ONNX")):
            with pytest.raises(ExportError, match=f"column 'note' is text, and {name} takes"):
                exported(features, model, format)
        with pytest.raises(ExportError, match="no tables"):
            exported(features, model, "liblinear")

    def test_names_of_columns_that_onnx_would_have_twice(self):
        for name in ("label", "scores", "when month"):
            table = frame().rename(columns={"2nd": name})
            features = TableFeatures().fit(table)
            model = fitted("two", features.transform(table))
            with pytest.raises(ExportError, match=f"two values named '{name}'"):
                exported(features, model, "onnx")
            assert exported(features, model, "c")

    def test_models_without_classes(self):
        _, scaler, model, _ = of_numbers("rank")
        with pytest.raises(ExportError, match="only classes and regression"):
            exported(scaler, model, "liblinear")

    def test_labels_of_text_in_liblinear(self):
        _, scaler, model, _ = of_numbers("words")
        with pytest.raises(ExportError, match="32-bit integer labels"):
            exported(scaler, model, "liblinear")
