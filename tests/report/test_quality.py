"""Intervals, thresholds and confusion matrices beside slow and independent computations."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from widemargin.metrics import ndcg
from widemargin.report.calibration import calibration
from widemargin.report.confusion import Confusion
from widemargin.report.decisions import Thresholds, decisions
from widemargin.report.forecasts import forecast_charts
from widemargin.report.intervals import intervals
from widemargin.report.measures import Forecast, Judged, measure

LABELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40)
SCORES = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([-2.0, -1e-300, 0.0, 5e-324, 0.5, 1.0, 1.0000000000000002, 1e300]),
    ),
    min_size=2,
    max_size=30,
).filter(lambda rows: 0 < sum(positive for positive, _ in rows) < len(rows))


def judged_of(true, predicted, scores=None, qid=None):
    """Rows of a classifier with classes 0, 1, 2, ...; of a ranking without predictions."""
    true = np.asarray(true)
    k = int(max(true.max(), 1 if predicted is None else np.max(predicted))) + 1
    known = np.arange(k if predicted is not None else 0)
    predicted = None if predicted is None else np.asarray(predicted)
    scores = np.zeros(true.size) if scores is None else scores
    names = [str(label) for label in range(k)]
    return Judged(scores, np.arange(k), names, true, known, predicted, qid)


@given(LABELS)
def test_confusion_matrices(rows):
    true, predicted = np.array(rows).T
    confusion = Confusion.of(judged_of(true, predicted))
    k = confusion.n_classes
    np.testing.assert_array_equal(
        confusion.dense(), confusion_matrix(true, predicted, labels=np.arange(k))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        precision, recall, f1, support = precision_recall_fscore_support(
            true, predicted, labels=np.arange(k), zero_division=np.nan
        )
    np.testing.assert_allclose(confusion.precision, precision)
    np.testing.assert_allclose(confusion.recall, recall)
    np.testing.assert_allclose(confusion.f1, f1)
    np.testing.assert_array_equal(confusion.support, support)
    wrong = confusion.errors()
    assert np.all(np.diff(confusion.counts[wrong]) <= 0)
    assert confusion.counts[wrong].sum() == np.sum(true != predicted)


@given(SCORES)
def test_every_threshold_decides_as_counted(rows):
    positive, scores = (np.array(column) for column in zip(*rows))
    thresholds = Thresholds.of(positive, scores)
    assert thresholds.values.size == np.unique(scores).size + 1
    assert np.all(np.diff(thresholds.values) > 0.0)
    for place, threshold in enumerate(thresholds.values):
        above = scores > threshold
        assert thresholds.true_positives[place] == np.sum(above & positive)
        assert thresholds.false_positives[place] == np.sum(above & ~positive)
    above = scores > 0.0
    place = thresholds.of_the_model
    assert thresholds.n_predicted[place] == above.sum()
    assert thresholds.f1[place] == pytest.approx(f1_score(positive, above))


@given(SCORES)
def test_operating_points_keep_what_they_promise(rows):
    positive, scores = (np.array(column) for column in zip(*rows))
    found = decisions(positive, scores, "yes")
    points = {point["name"]: point for point in found["points"]}
    for level in (0.9, 0.95, 0.99):
        assert float(points[f"recall ≥ {level:g}"]["recall"]) >= level - 5e-5
        if f"precision ≥ {level:g}" in points:
            assert float(points[f"precision ≥ {level:g}"]["precision"]) >= level - 5e-5
    best = max(f1_score(positive, scores > cut) for cut in np.append(scores, -np.inf))
    assert float(points["highest F1"]["f1"]) == pytest.approx(best, abs=1e-4)
    data = found["data"]
    assert data["thresholds"][data["chosen"]] == 0.0
    for place, threshold in enumerate(data["thresholds"]):
        assert data["true_positives"][place] == np.sum((scores > threshold) & positive)
        assert data["false_positives"][place] == np.sum((scores > threshold) & ~positive)
    assert len(data["x"]) == len(data["thresholds"]) == found["last"] + 1


def test_rows_of_one_class_have_no_thresholds():
    assert decisions(np.ones(5, dtype=bool), np.arange(5.0), "yes") is None


def resampled(measure, n_rows, n_times=4000):
    """Return the percentile interval of a metric of resampled rows, one by one."""
    rng = np.random.default_rng(1)
    values = [measure(rng.integers(n_rows, size=n_rows)) for _ in range(n_times)]
    return np.nanquantile(values, [0.025, 0.975])


def test_the_bootstrap_is_the_one_over_rows():
    rng = np.random.default_rng(0)
    true = rng.integers(3, size=150)
    predicted = np.where(rng.random(150) < 0.7, true, rng.integers(3, size=150))
    found = intervals(object(), judged_of(true, predicted, np.zeros((150, 3))))
    expected = resampled(lambda rows: accuracy_score(true[rows], predicted[rows]), 150)
    np.testing.assert_allclose(found["accuracy"], expected, atol=0.012)

    def macro(rows):
        return f1_score(true[rows], predicted[rows], average="macro")

    np.testing.assert_allclose(found["macro_f1"], resampled(macro, 150, 1000), atol=0.015)


def test_the_interval_of_the_area_is_about_that_of_the_bootstrap():
    rng = np.random.default_rng(0)
    positive = rng.random(300) < 0.4
    scores = np.round(positive + rng.normal(size=300), 1)  # with ties
    found = intervals(object(), judged_of(positive.astype(int), scores > 0, scores))
    expected = resampled(lambda rows: roc_auc_score(positive[rows], scores[rows]), 300, 1000)
    np.testing.assert_allclose(found["roc_area"], expected, atol=0.015)


@pytest.mark.parametrize("quantile", [None, 0.8])
def test_the_intervals_of_errors_are_about_those_of_the_bootstrap(quantile):
    rng = np.random.default_rng(0)
    true = 5.0 * rng.normal(size=400)
    predicted = true + rng.standard_t(8, size=400)
    found = intervals(object(), Forecast(true, predicted, quantile))
    assert set(found) == set(measure(object(), Forecast(true, predicted, quantile)))
    for name in found:

        def value(rows, name=name):
            return measure(object(), Forecast(true[rows], predicted[rows], quantile))[name]

        expected = resampled(value, 400, 1000)
        width = expected[1] - expected[0]
        np.testing.assert_allclose(found[name], expected, atol=0.15 * width)


def test_targets_that_are_all_the_same():
    forecast = Forecast(np.ones(9), np.ones(9))
    assert measure(object(), forecast) == {
        "r2": None,
        "mean_absolute_error": 0.0,
        "root_mean_squared_error": 0.0,
    }
    assert intervals(object(), forecast) == {}
    assert forecast_charts(forecast) == []


def test_groups_are_resampled_for_rankings():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(40), 6)
    grades, scores = rng.integers(3, size=240), rng.normal(size=240)
    found = intervals(object(), judged_of(grades, None, scores, qid))
    each = np.array([ndcg(grades[qid == q], scores[qid == q]) for q in range(40)])
    expected = resampled(lambda groups: each[groups].mean(), 40)
    np.testing.assert_allclose(found["ndcg_at_10"], expected, atol=0.01)


@given(st.integers(3, 200))
@settings(max_examples=20)
def test_no_error_is_no_proof_of_none(n_rows):
    """Without errors all resamples agree: the exact interval of a proportion has width."""
    true = np.arange(n_rows) % 3
    judged = judged_of(true, true, np.zeros((n_rows, 3)))
    low, high = intervals(object(), judged)["accuracy"]
    assert high == 1.0
    assert low**n_rows == pytest.approx(0.025)
    assert "macro_f1" not in intervals(object(), judged)


def test_few_rows_have_no_calibration_curve():
    true = np.array([0, 1] * 4)
    assert calibration(judged_of(true, true, true - 0.5)) is None
    true = np.array([0, 1] * 20)
    chart = calibration(judged_of(true, true, true - 0.5))
    assert chart.title == "Positive rows by score"
