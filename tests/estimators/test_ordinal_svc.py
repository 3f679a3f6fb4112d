"""OrdinalSVC: an order, and the best thresholds in it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes
from sklearn.metrics import accuracy_score, mean_absolute_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import LinearRanker, OrdinalSVC, certify, load_model, save_model
from widemargin.estimators.thresholds import best_thresholds
from widemargin.report.measures import judge, measure


def stages(n_stages=5):
    X, y = load_diabetes(return_X_y=True)
    edges = np.quantile(y, np.linspace(0, 1, n_stages + 1)[1:-1])
    return X, np.digitize(y, edges) + 3


@pytest.mark.parametrize("error", ["absolute", "zero_one"])
def test_the_order_is_the_rankers_and_the_thresholds_are_the_best(error):
    X, y = stages()
    model = OrdinalSVC(C=10, error=error).fit(X, y)
    ranker = LinearRanker(C=10).fit(X, y)
    np.testing.assert_array_equal(model.coef_, ranker.coef_)
    assert model.certificate_ == ranker.certificate_
    scores = model.score_samples(X)
    np.testing.assert_array_equal(model.thresholds_, best_thresholds(scores, y - 3, 5, loss=error))
    assert model.thresholds_.shape == (4,)
    assert np.all(np.diff(model.thresholds_) >= 0)
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted, 3 + np.searchsorted(model.thresholds_, scores))
    assert set(predicted) <= set(model.classes_)


def test_each_error_is_least_where_it_was_asked_for():
    X, y = stages()
    by_distance = OrdinalSVC(C=10, error="absolute").fit(X, y).predict(X)
    by_count = OrdinalSVC(C=10, error="zero_one").fit(X, y).predict(X)
    assert mean_absolute_error(y, by_distance) <= mean_absolute_error(y, by_count)
    assert accuracy_score(y, by_count) >= accuracy_score(y, by_distance)


def test_categories_and_weights():
    X, y = stages(3)
    names = ["well", "so-so", "ill"]
    words = pd.Categorical.from_codes(y - 3, names, ordered=True)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    again = np.repeat(np.arange(len(y)), weight)
    model = OrdinalSVC(C=10, tol=1e-6).fit(X, words, sample_weight=weight)
    repeated = OrdinalSVC(C=10, tol=1e-6).fit(X[again], words[again])
    assert model.classes_.tolist() == names
    assert np.mean(model.predict(X) == repeated.predict(X)) > 0.99
    certificate = certify(model, X, words, sample_weight=weight)
    assert certificate.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


def test_half_stars():
    X, y = stages()
    model = OrdinalSVC(C=10).fit(X, y / 2)
    np.testing.assert_array_equal(model.classes_, np.arange(3, 8) / 2)
    np.testing.assert_array_equal(model.predict(X), OrdinalSVC(C=10).fit(X, y).predict(X) / 2)


def test_sparse_rows_and_single_precision():
    X, y = stages()
    expected = OrdinalSVC(C=10, tol=1e-5).fit(X, y)
    for form in (sp.csr_matrix(X), X.astype(np.float32)):
        model = OrdinalSVC(C=10, tol=1e-5).fit(form, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0.02, atol=0.02)
        error = mean_absolute_error(y, model.predict(form))
        assert error == pytest.approx(mean_absolute_error(y, expected.predict(X)), abs=0.01)


def test_it_searches_in_a_pipeline():
    X, y = stages()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), OrdinalSVC()),
        {"ordinalsvc__C": [0.001, 0.1, 10]},
        scoring="neg_mean_absolute_error",
    ).fit(X, y)
    assert -search.best_score_ < 1.0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones(442), "only one class: .*1"),
        (np.r_[np.ones(441), np.nan], r"no label in row 441 \(NaN\)"),
        (np.array([None] + [1.0] * 441), "no label in row 0"),
    ],
)
def test_bad_labels_are_named(y, message):
    X, _ = stages()
    with pytest.raises(ValueError, match=message):
        OrdinalSVC().fit(X, y)


def test_bad_parameters_and_unknown_labels_are_named():
    X, y = stages()
    with pytest.raises(ValueError, match="error must be one of 'absolute', 'zero_one'"):
        OrdinalSVC(error="squared").fit(X, y)
    model = OrdinalSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"row 0 has label .*99"):
        certify(model, X, np.full(442, 99))


def test_groups_are_for_rankings():
    X, y = load_diabetes(return_X_y=True)
    model = OrdinalSVC().fit(X, np.digitize(y, [100.0, 200.0]))
    with pytest.raises(ValueError, match="qid is for LinearRanker; OrdinalSVC knows no groups"):
        certify(model, X, np.digitize(y, [100.0, 200.0]), qid=np.arange(y.size))


GRADES = ["low", "medium", "high"]


def in_order(codes, kind, grades=GRADES):
    """Return labels in an order that is not the alphabet's."""
    categories = pd.Categorical.from_codes(codes, grades, ordered=True)
    return {
        "categorical": lambda: categories,
        "series": lambda: pd.Series(categories, index=np.arange(len(codes))[::-1]),
        "column": lambda: pd.DataFrame({"grade": categories})["grade"],
        "index": lambda: pd.CategoricalIndex(categories),
        "enum": lambda: pl.Series("grade", list(categories), dtype=pl.Enum(grades)),
    }[kind]()


KINDS = ["categorical", "series", "column", "index", "enum"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_given_is_the_order_used(kind, tmp_path):
    X, y = stages(3)
    labels = in_order(y - 3, kind)
    model = OrdinalSVC(C=10).fit(X, labels)
    twin = OrdinalSVC(C=10).fit(X, y)
    assert model.classes_.tolist() == GRADES
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    np.testing.assert_array_equal(model.thresholds_, twin.thresholds_)
    np.testing.assert_array_equal(model.predict(X), np.array(GRADES)[twin.predict(X) - 3])
    assert model.score(X, labels) == twin.score(X, y)
    assert certify(model, X, labels) == certify(model, X, np.array(GRADES)[y - 3])
    assert certify(model, X, labels) == certify(twin, X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert certify(loaded, X, labels) == certify(twin, X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_cuts_ordered_labels_into_folds(kind):
    X, y = stages(3)
    grid = {"C": [0.1, 10]}
    search = GridSearchCV(OrdinalSVC(), grid).fit(X, in_order(y - 3, kind))
    assert search.best_estimator_.classes_.tolist() == GRADES
    assert search.best_score_ == GridSearchCV(OrdinalSVC(), grid).fit(X, y).best_score_


@pytest.mark.parametrize("kind", ["categorical", "series", "enum"])
def test_categories_without_rows_are_no_classes(kind):
    X, y = stages(3)
    grades = ["none", "low", "lower middle", "medium", "high"]
    model = OrdinalSVC().fit(X, in_order(np.array([1, 3, 4])[y - 3], kind, grades))
    assert model.classes_.tolist() == GRADES
    assert model.thresholds_.shape == (2,)


def test_numbers_as_categories_have_the_order_given(tmp_path):
    X, y = stages(3)
    labels = pd.Categorical.from_codes(y - 3, [10, 9, 2], ordered=True)
    model = OrdinalSVC(C=10).fit(X, labels)
    assert model.classes_.tolist() == [10, 9, 2]
    assert model.classes_.dtype.kind == "i"
    np.testing.assert_array_equal(model.coef_, OrdinalSVC(C=10).fit(X, y).coef_)
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").classes_.tolist() == [10, 9, 2]


def test_intervals_of_pandas():
    X, progression = load_diabetes(return_X_y=True)
    labels = pd.cut(progression, [0, 80, 140, 400])
    model = OrdinalSVC(C=10).fit(X, labels)
    assert model.classes_.tolist() == labels.categories.tolist()
    assert np.mean(model.predict(X) == np.asarray(labels)) > 0.5


@pytest.mark.parametrize("model", [OrdinalSVC(), LinearRanker()])
@pytest.mark.parametrize(
    "make",
    [
        np.array,
        list,
        lambda words: np.array(words, dtype=object),
        lambda words: np.array(words, dtype=bytes),
        pd.Series,
        pl.Series,
        pd.Categorical,
        lambda words: pd.Series(words, dtype="category"),
        lambda words: pl.Series(words, dtype=pl.Categorical),
        lambda words: [1.0, *words[1:]],
        lambda words: pd.Categorical(np.arange(len(words)) % 3),
    ],
)
def test_labels_without_an_order_are_refused(model, make):
    X, y = stages(3)
    labels = make([GRADES[j - 3] for j in y])
    with pytest.raises(ValueError, match=r"order.*pandas\.Categorical.*ordered=True.*polars"):
        model.fit(X, labels)


@pytest.mark.parametrize("model", [OrdinalSVC(), LinearRanker()])
def test_digits_in_words_are_words(model):
    X, y = stages()
    with pytest.raises(ValueError, match="no numbers"):
        model.fit(X, (y * 5).astype(str))


@pytest.mark.parametrize("model", [OrdinalSVC(), LinearRanker()])
@pytest.mark.parametrize("kind", ["categorical", "series", "enum"])
def test_a_missing_category_is_named_by_its_row(model, kind):
    X, y = stages(3)
    labels = in_order(np.r_[(y - 3)[:7], -1, (y - 3)[8:]], "categorical")
    if kind == "series":
        labels = pd.Series(labels)
    if kind == "enum":
        words = [word if isinstance(word, str) else None for word in labels]
        labels = pl.Series(words, dtype=pl.Enum(GRADES))
    with pytest.raises(ValueError, match="y has no label in row 7"):
        model.fit(X, labels)


def test_numbers_that_are_missing_in_a_column_are_named_by_their_row():
    X, y = stages(3)
    labels = pd.Series(y, dtype="Int64")
    labels[5] = pd.NA
    with pytest.raises(ValueError, match="y has no label in row 5"):
        OrdinalSVC().fit(X, labels)


@pytest.mark.parametrize("kind", KINDS)
def test_a_ranker_grades_categories_by_their_order(kind, tmp_path):
    X, y = stages(3)
    labels, qid = in_order(y - 3, kind), np.arange(len(y)) % 10
    model = LinearRanker(C=10).fit(X, labels, qid=qid)
    twin = LinearRanker(C=10).fit(X, y, qid=qid)
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    assert model.score(X, labels, qid=qid) == twin.score(X, y, qid=qid)
    assert certify(model, X, labels, qid=qid) == certify(twin, X, y, qid=qid)
    with pytest.raises(ValueError, match="ordered=True"):
        model.score(X, np.array(GRADES)[y - 3])
    assert GridSearchCV(LinearRanker(), {"C": [1, 10]}, cv=3).fit(X, labels).best_score_ > 0.5
    model.report(tmp_path / "page.html", X, labels, qid=qid)
    assert "NDCG" in (tmp_path / "page.html").read_text()


def test_a_report_has_the_order_of_the_model(tmp_path):
    X, y = stages(3)
    labels = in_order(y - 3, "series")
    model = OrdinalSVC(C=10).fit(X, labels)
    judged = judge(model, X, labels)
    twin = OrdinalSVC(C=10).fit(X, y)
    assert judged.names == GRADES
    assert measure(model, judged) == measure(twin, judge(twin, X, y))
    model.report(tmp_path / "page.html", X, labels)
    with pytest.raises(ValueError, match="row 1 has label 'other', which the model does not know"):
        judge(model, X[:2], np.array(["low", "other"]))


def test_words_and_numbers_side_by_side(tmp_path):
    X, y = stages(3)
    labels = pd.Categorical.from_codes(y - 3, ["none", 1, 2.5], ordered=True)
    model = OrdinalSVC(C=10).fit(X, labels)
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").classes_.tolist() == ["none", 1, 2.5]
    assert certify(load_model(tmp_path / "model"), X, labels) == model.certificate_
