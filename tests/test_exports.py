"""Models in other programs: they compute the same scores and labels."""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from widemargin import LinearRanker, LinearSVC, OrdinalSVC, TableFeatures
from widemargin.arrays import on_host
from widemargin.model_io import ModelFileError, is_liblinear, read_liblinear, write_liblinear
from widemargin.model_io.exports import ExportError, exported

COMPILER = shutil.which("cc") or shutil.which("gcc")
KINDS = ("two", "several", "words", "ordinal", "rank")


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
        }
    )


def unseen():
    table = frame(9)
    table['hue "?"'] = "never"
    table["int"] = ["z", None, "a"] * 3
    return pd.concat([frame(), table], ignore_index=True)


def fitted(kind, X):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2 if kind == "two" else 4, X.shape[0])
    if kind == "rank":
        return LinearRanker().fit(X, y)
    if kind == "ordinal":
        return OrdinalSVC(C=0.1).fit(X, y + 3)
    return LinearSVC(random_state=0).fit(X, np.array(list("wxyz"))[y] if kind == "words" else y)


def scores_and_labels(model, X):
    if isinstance(model, OrdinalSVC):
        return model.score_samples(X)[:, None], model.predict(X)
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


def c_double(value):
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
        body = PRINTING.replace("LABEL", "" if kind == "rank" else label)
        return body.replace("ROW", row)

    def compare(self, lines, expected):
        scores, labels = expected
        found = np.array([line[: scores.shape[1]] for line in lines], dtype=float)
        np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-9)
        if labels is not None:
            assert [line[-1] for line in lines] == [str(label) for label in labels]

    def test_numbers(self, tmp_path, kind):
        X, scaler, model, expected = of_numbers(kind)
        rows = ",\n".join("{" + ", ".join(map(c_double, row)) + "}" for row in X)
        body = f"    static const double rows[][4] = {{{rows}}};\n"
        body += f"    int i, k, n = {len(X)};\n    double scores[WIDEMARGIN_SCORES];"
        code = exported(scaler, model, "c")
        self.compare(run_c(tmp_path, code, body + self.printing(kind, "rows[i]")), expected)

    def test_tables(self, tmp_path, kind):
        features, model, expected = of_table(kind)
        table = unseen()
        rows = ",\n".join(
            "{"
            + ", ".join(
                c_text(value) if column.kind == "category" else c_double(value)
                for column, value in zip(
                    features.columns_, (row[column.name] for column in features.columns_)
                )
            )
            + "}"
            for _, row in table.iterrows()
        )
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
            values = table[column.name]
            if column.kind == "category":
                texts = [value if isinstance(value, str) else "" for value in values]
                inputs[column.name] = np.array(texts, dtype=object)[:, None]
            else:
                inputs[column.name] = values.to_numpy(dtype=np.float32)[:, None]
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
            ("solver_type L2R_L2LOSS_SVR\nw\n", "makes no classes"),
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


class TestRefusals:
    def test_dates_and_text(self):
        table = frame().assign(when=pd.date_range("2024-01-01", periods=90))
        features = TableFeatures().fit(table)
        model = fitted("two", features.transform(table))
        for format in ("c", "onnx"):
            with pytest.raises(ExportError, match="column 'when' is date, which only the format"):
                exported(features, model, format)
        with pytest.raises(ExportError, match="no tables"):
            exported(features, model, "liblinear")

    def test_models_without_classes(self):
        _, scaler, model, _ = of_numbers("rank")
        for format, words in (("liblinear", "only classifiers"), ("sklearn", "LinearRanker")):
            with pytest.raises(ExportError, match=words):
                exported(scaler, model, format)

    def test_labels_of_text_in_liblinear(self):
        _, scaler, model, _ = of_numbers("words")
        with pytest.raises(ExportError, match="32-bit integer labels"):
            exported(scaler, model, "liblinear")
