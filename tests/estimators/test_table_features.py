"""TableFeatures beside scikit-learn's own encoders, on every kind of table and of column."""

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from widemargin import LinearSVC, TableFeatures

WORDS = ("red", "green", "blue", "deep blue", "ümlaut", "rare one", "rare two")


def frame(n=200, seed=0):
    """A pandas data frame with a column of each kind, and gaps."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(n) < 0.1
    hue = rng.choice(WORDS[:5], n).astype(object)
    hue[:2] = WORDS[5:]
    note = [" ".join(rng.choice(["good", "bad", "day", "night", "cow"], 4)) for _ in range(n)]
    return pd.DataFrame(
        {
            "size": np.where(gaps, np.nan, rng.normal(50, 10, n)),
            "count": rng.integers(0, 9, n),
            "hue": pd.Series(hue).where(~np.roll(gaps, 3), None),
            "kind": pd.Categorical(rng.choice(["a", "b"], n)),
            "ok": rng.random(n) < 0.5,
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
            "note": pd.Series(note).where(~np.roll(gaps, 5), None),
        },
        index=np.arange(n) + 7,
    )


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def columns_of(features, X, prefix):
    """The columns whose names begin so."""
    names = features.get_feature_names_out()
    return dense(X)[:, [name.startswith(prefix) for name in names]]


class TestAgainstScikitLearn:
    def test_numbers_are_standardised_and_imputed(self):
        table = frame()[["size", "count"]]
        expected = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
        numbers = StandardScaler().fit_transform(SimpleImputer().fit_transform(table))
        features = TableFeatures().fit(table)
        X = features.transform(table)
        names = features.get_feature_names_out().tolist()
        assert names == ["size", "size is missing", "count"]
        # scikit-learn's scale counts the imputed rows, too: that is one factor.
        known = table["size"].notna()
        ours, theirs = X[:, 0], numbers[:, 0]
        np.testing.assert_allclose(ours[~known], 0.0)
        np.testing.assert_allclose(ours, theirs * np.sqrt(known.mean()), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(X[:, 2], numbers[:, 1], rtol=1e-12)
        np.testing.assert_array_equal(X[:, 1], ~known)
        assert expected.fit(table).transform(table).shape == X.shape

    def test_without_scale(self):
        table = frame()[["size", "count"]]
        X = TableFeatures(scale=False).fit_transform(table)
        expected = SimpleImputer(add_indicator=True).fit_transform(table)
        np.testing.assert_allclose(X, expected[:, [0, 2, 1]], rtol=1e-12)

    def test_categories_are_one_hot(self):
        table = frame()[["hue", "kind"]].fillna({"hue": "missing"})
        encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2)
        expected = encoder.fit_transform(table).toarray()
        features = TableFeatures().fit(table)
        np.testing.assert_array_equal(dense(features.transform(table)), expected)
        unseen = pd.DataFrame({"hue": ["never seen", "red"], "kind": ["z", "a"]})
        np.testing.assert_array_equal(
            dense(features.transform(unseen)), encoder.transform(unseen).toarray()
        )

    def test_the_most_frequent_levels(self):
        table = pd.DataFrame({"hue": ["a"] * 4 + ["b"] * 3 + ["c"] * 3 + ["d"] * 2})
        features = TableFeatures(max_levels=2).fit(table)
        assert features.get_feature_names_out().tolist() == ["hue=a", "hue=b", "hue is rare"]

    @pytest.mark.parametrize("ngrams", [1, 2])
    def test_text_is_tfidf(self, ngrams):
        table = frame()[["note"]]
        texts = table["note"].fillna("").tolist()
        vectorizer = TfidfVectorizer(ngram_range=(1, ngrams), min_df=2)
        expected = vectorizer.fit_transform(texts).toarray()
        features = TableFeatures(text=["note"], ngrams=ngrams).fit(table)
        names = [f"note: {term}" for term in vectorizer.get_feature_names_out()]
        assert features.get_feature_names_out().tolist() == [*names, "note is missing"]
        X = dense(features.transform(table))
        np.testing.assert_allclose(X[:, :-1], expected, rtol=1e-12)
        np.testing.assert_array_equal(X[:, -1], table["note"].isna())

    def test_text_is_hashed(self):
        table = frame()[["note"]]
        expected = HashingVectorizer(n_features=64).transform(table["note"].fillna(""))
        features = TableFeatures(text=["note"], text_encoding="hash", max_terms=64).fit(table)
        X = features.transform(table)
        np.testing.assert_allclose(dense(X)[:, :-1], expected.toarray(), rtol=1e-12)


class TestColumns:
    def test_dates(self):
        moments = ["2024-02-29 13:30", None, "2024-03-01 07:00", "2025-03-02 07:59"]
        table = pa.table({"when": pa.array(moments).cast(pa.timestamp("s"))})
        features = TableFeatures(scale=False).fit(table)
        X = dense(features.transform(table))
        days = [(dt.datetime.fromisoformat(m) - dt.datetime(1970, 1, 1)) for m in moments if m]
        known = [0, 2, 3]
        names = features.get_feature_names_out().tolist()
        assert names == [
            "when (days)",
            "when is missing",
            "when month=2",
            "when month=3",
            "when weekday=Thursday",
            "when weekday=Friday",
            "when weekday=Sunday",
            "when hour=7",
            "when hour=13",
        ]
        np.testing.assert_allclose(X[known, 0], [d.total_seconds() / 86400 for d in days])
        np.testing.assert_allclose(X[1, 0], X[known, 0].mean())
        flags = np.array(
            [
                [0, 1, 0, 1, 0, 0, 0, 1],
                [1, 0, 0, 0, 0, 0, 0, 0],
                [0, 0, 1, 0, 1, 0, 1, 0],
                [0, 0, 1, 0, 0, 1, 1, 0],
            ]
        )
        np.testing.assert_array_equal(X[:, 1:], flags)

    def test_a_month_that_was_not_seen_has_no_feature(self):
        dates = pd.DataFrame({"when": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-02-02"])})
        features = TableFeatures().fit(dates)
        X = features.transform(pd.DataFrame({"when": pd.to_datetime(["2024-12-24"])}))
        assert columns_of(features, X, "when month").tolist() == [[0.0, 0.0]]

    def test_dates_as_text_and_time_zones(self):
        dates = pd.DataFrame({"when": pd.to_datetime(["2024-01-01", "2024-02-05"], utc=True)})
        features = TableFeatures().fit(dates)
        texts = pd.DataFrame({"when": ["2024-01-01", "2024-02-05"]})
        np.testing.assert_array_equal(
            dense(features.transform(texts)), dense(features.transform(dates))
        )

    def test_other_types_of_numbers(self):
        table = pa.table(
            {
                "decimal": pa.array([Decimal("1.5"), Decimal("2.5"), None]),
                "length": pa.array([dt.timedelta(seconds=1), dt.timedelta(seconds=3), None]),
                "clock": pa.array([dt.time(0, 0, 1), dt.time(0, 0, 5), None]),
                "flag": pa.array([True, False, None]),
                "big": pa.array([2**63, 2**63 + 2**32, 0], type=pa.uint64()),
            }
        )
        X = TableFeatures(scale=False).fit_transform(table)
        expected = [[1.5, 2.5, 2], [1, 3, 2], [1, 5, 3], [1, 0, 0.5], [2**63, 2**63 + 2**32, 0]]
        np.testing.assert_allclose(dense(X)[:, [0, 2, 4, 6, 8]].T, expected)

    def test_numbers_may_be_categories(self):
        table = pd.DataFrame({"post": [8001, 8001, 8002, 8002], "size": [1.0, 2.0, 3.0, 4.0]})
        features = TableFeatures(categorical=["post"]).fit(table)
        assert features.get_feature_names_out().tolist() == ["post=8001", "post=8002", "size"]
        floats = table.astype({"post": float})
        np.testing.assert_array_equal(features.transform(floats), features.transform(table))

    def test_what_is_left_out(self):
        table = pd.DataFrame(
            {
                "constant": [1, 1, 1],
                "empty": [None, None, None],
                "id": ["x1", "x2", "x3"],
                "one": ["a", "a", "a"],
                "size": [1.0, 2.0, 3.0],
            }
        )
        features = TableFeatures().fit(table)
        assert features.get_feature_names_out().tolist() == ["size"]
        assert features.skipped_ == {
            "constant": "every value is the same",
            "empty": "every value is missing",
            "id": "no value occurs 2 times: is it a name, or text?",
            "one": "every value is the same",
        }

    def test_words_among_numbers_are_doubted(self):
        table = pd.DataFrame({"size": [*map(str, range(20)), "n.a."], "b": range(21)})
        features = TableFeatures(min_count=1).fit(table)
        assert len(features.doubts_) == 1
        assert "'size'" in features.doubts_[0]
        assert "'n.a.'" in features.doubts_[0]
        assert not TableFeatures(min_count=1, categorical=["size"]).fit(table).doubts_

    def test_nearly_constant_large_numbers(self):
        table = pd.DataFrame({"t": [1e15, 1e15 + 1, 1e15]})
        assert np.abs(TableFeatures().fit_transform(table)).max() < 10


class TestTables:
    @pytest.mark.parametrize("sparse", [False, True])
    def test_every_library_gives_the_same(self, sparse):
        table = frame()
        text = {"text": ["note"], "ngrams": 2} if sparse else {"drop": ["note", "when", "hue"]}
        features = TableFeatures(**text).fit(table)
        assert features.sparse_ is sparse
        expected = features.transform(table)
        assert sp.issparse(expected) is sparse
        for other in (
            pl.from_pandas(table),
            pa.Table.from_pandas(table),
            pa.Table.from_pandas(table, preserve_index=False).combine_chunks().to_batches()[0],
        ):
            ours = TableFeatures(**text, **({"dtype": "float64"})).fit(other)
            found = ours.transform(other)
            names = ours.get_feature_names_out().tolist()
            keep = [not name.startswith("__index") for name in names]
            np.testing.assert_array_equal(dense(found)[:, keep], dense(expected))
            np.testing.assert_array_equal(
                dense(features.transform(other)), dense(expected), strict=True
            )

    def test_csr_is_canonical(self):
        X = TableFeatures(text=["note"], ngrams=2).fit_transform(frame())
        X.check_format(full_check=True)
        assert X.has_canonical_format
        assert np.all(X.data != 0.0)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("text", [{"text": ["note"]}, {"drop": ["note"]}])
    def test_dtype(self, dtype, text):
        X = TableFeatures(**text, dtype=dtype).fit_transform(frame())
        assert X.dtype == dtype

    def test_arrays(self):
        X = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, 6.0]])
        features = TableFeatures().fit(X)
        names = ["x0", "x1", "x1 is missing"]
        assert features.get_feature_names_out().tolist() == names
        with pytest.raises(ValueError, match="X has 1 features, but TableFeatures is expecting 2"):
            features.transform(X[:, :1])
        words = np.array([["a", 1.0], ["b", 2.0], ["a", 3.0]], dtype=object)
        with pytest.raises(ValueError, match=r"no value occurs|different types"):
            TableFeatures().fit(words[:, :1][[0, 1]])

    def test_order_and_other_columns_do_not_matter(self):
        table = frame()
        features = TableFeatures(drop=["note"]).fit(table)
        shuffled = table[table.columns[::-1]].assign(more=1)
        np.testing.assert_array_equal(
            dense(features.transform(shuffled)), dense(features.transform(table))
        )

    @settings(max_examples=20, deadline=None)
    @given(cuts=st.lists(st.integers(0, 200), max_size=5))
    def test_batches_do_not_matter(self, cuts):
        table = pa.Table.from_pandas(frame(), preserve_index=False)
        whole = TableFeatures(text=["note"]).fit(table)
        bounds = [0, *sorted(cuts), 200]
        parts = [table.slice(a, b - a).combine_chunks() for a, b in pairwise(bounds)]
        batches = [batch for part in parts for batch in part.to_batches()]
        pieces = TableFeatures(text=["note"]).fit_batches(batches)
        assert pieces.get_feature_names_out().tolist() == whole.get_feature_names_out().tolist()
        np.testing.assert_allclose(
            dense(pieces.joined(batches, 200)), dense(whole.transform(table)), atol=1e-12
        )


class TestConventions:
    def test_scikit_learns_checks(self):
        failed = [
            (check["check_name"], check["exception"])
            for check in check_estimator(TableFeatures(), on_skip=None, on_fail=None)
            if check["status"] == "failed"
        ]
        assert not failed

    def test_clone_and_pipeline(self):
        table = frame()
        features = TableFeatures(target="kind", text=["note"], dtype="float32")
        assert clone(features).get_params() == features.get_params()
        model = make_pipeline(features, LinearSVC(random_state=0))
        model.fit(table, table["kind"])
        without = table.drop(columns="kind")
        assert (model.predict(without) == model.predict(table)).all()
        names = model[:-1].get_feature_names_out()
        assert not any(name.startswith("kind") for name in names)
        assert model[-1].coef_.shape[1] == len(names)

    def test_pandas_output(self):
        table = frame()[["size", "count"]]
        found = TableFeatures().set_output(transform="pandas").fit_transform(table)
        assert found.columns.tolist() == ["size", "size is missing", "count"]
        assert found.index.equals(table.index)


class TestBadTables:
    @pytest.mark.parametrize(
        ("table", "words"),
        [
            ({"a": [1.0, np.inf, 2.0]}, "row 1, column 'a': an infinite number"),
            ({"a": [1e200, -1e200]}, "column 'a': its numbers are too large"),
            ({"a": [[1], [2]], "b": [1, 2]}, "column 'a': holds list"),
            ({"a": [1, "x"], "b": [1, 2]}, "column 'a': its values are of different types"),
            ({"a": [], "b": []}, "no rows"),
            ({"a": [2, 2], "b": ["x", "x"]}, "no column of 2 sample.* 'a': every value is the"),
        ],
    )
    def test_fit(self, table, words):
        with pytest.raises(ValueError, match=words):
            TableFeatures().fit(pd.DataFrame(table))

    @pytest.mark.parametrize(
        ("table", "words"),
        [
            ({"n": [1, 2]}, "there is no column 'c', only 'n'"),
            ({"n": ["1", "two"], "c": ["x", "y"]}, "row 1, column 'n': 'two' is no number"),
            ({"n": pd.to_datetime(["2024-01-01"] * 2), "c": ["x", "y"]}, "'n': holds timestamp"),
            ({"n": [np.inf, 1.0], "c": ["x", "y"]}, "row 0, column 'n': an infinite"),
            ({"n": [], "c": []}, "no rows"),
        ],
    )
    def test_transform(self, table, words):
        features = TableFeatures().fit(pd.DataFrame({"n": [1, 2, 3], "c": ["x", "y", "x"]}))
        with pytest.raises(ValueError, match=words):
            features.transform(pd.DataFrame(table))

    @pytest.mark.parametrize(
        ("parameters", "words"),
        [
            ({"target": "z"}, "there is no column 'z', only 'n', 'c'"),
            ({"drop": "n"}, "drop must be a sequence of column names, not one string"),
            ({"text": ["c"], "categorical": ["c"]}, "column 'c' is named for two purposes"),
            ({"text": ["n"]}, "column 'n': holds int64, not text"),
            ({"drop": ["n", "c"]}, "no column is left for features"),
            ({"ngrams": 0}, "ngrams must be a whole number of at least 1, not 0"),
            ({"text_encoding": "bert"}, "text_encoding"),
            ({"dtype": "int8"}, "dtype"),
            ({"scale": "yes"}, "scale must be True or False"),
        ],
    )
    def test_parameters(self, parameters, words):
        with pytest.raises(ValueError, match=words):
            TableFeatures(**parameters).fit(pd.DataFrame({"n": [1, 2], "c": ["x", "y"]}))

    def test_a_sparse_matrix(self):
        with pytest.raises(TypeError, match="sparse"):
            TableFeatures().fit(sp.csr_array(np.eye(3)))

    def test_two_columns_of_one_name(self):
        table = pa.table([[1, 2], [3, 4]], names=["a", "a"])
        with pytest.raises(ValueError, match="two columns 'a'"):
            TableFeatures().fit(table)
