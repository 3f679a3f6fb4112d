"""What a page says is what the model is."""

import base64
import hashlib
import html
import math
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from data.on_disk import write
from report.pages import (
    Page,
    numbers,
    ordinal,
    ranking,
    report,
    searched,
    ten_classes,
    two_classes,
)
from sklearn.base import clone
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits, load_iris, make_classification, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    mean_absolute_error,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
)

from widemargin import LinearRanker, LinearSVC, LinearSVR, load_model, open_rows, prove, save_model
from widemargin.metrics import mean_average_precision, ndcg, pairwise_accuracy
from widemargin.report.weights import FeatureNames, weights

SCRIPT = "<script>alert('x')</script>"


def test_the_certificate(tmp_path):
    model, X, y = two_classes()
    page = report(model, tmp_path, X, y)
    certificate, tiles = model.certificate_, page.tiles()
    values = {"Objective (primal)": certificate.primal, "Lower bound (dual)": certificate.dual}
    for name, value in values.items():
        assert float(tiles[name].replace(",", "")) == pytest.approx(value, rel=1e-3)
    assert float(tiles["Duality gap"]) == pytest.approx(certificate.gap, rel=0.1)
    assert float(tiles["Relative duality gap"].removesuffix(" %")) == pytest.approx(
        100 * certificate.relative_gap, rel=0.1
    )
    assert tiles["Tolerance (tol)"] == "0.1 %"
    text = page.text.replace("\N{NO-BREAK SPACE}", " ")
    words = certificate.bound_in_words()
    assert f"Certificate: {words}" in text
    assert text.index("Predictions") < text.index("Largest weights") < text.index("Certificate:")
    assert "stopped early" not in page.text.lower()


def test_two_classes_are_measured(tmp_path):
    model, X, y = two_classes()
    page = report(model, tmp_path, X, y)
    scores, tiles = model.decision_function(X), page.tiles()
    assert tiles["accuracy"] == f"{model.score(X, y):.4f}"
    assert tiles["ROC AUC"] == f"{roc_auc_score(y, scores):.4f}"
    assert f"ROC AUC {roc_auc_score(y, scores):.4f}" in page.text
    assert f"Average precision {average_precision_score(y, scores):.4f}" in page.text
    assert "the rows that were passed in (100 rows, positive class 1)" in page.text
    labels = [svg["aria-label"] for svg in page.having("svg") if svg.get("role") == "img"]
    assert [label.split(".")[0] for label in labels] == [
        "Confusion matrix",
        "Positive rows by score",
        "ROC curve",
        "Precision-recall curve",
        "Threshold",
        "Relative duality gap",
        "Objective and lower bound",
    ]


def test_ten_classes(tmp_path):
    model, X, y = ten_classes()
    page = report(model, tmp_path, X, y)
    for label, part in enumerate(model.certificate_.parts):
        parts = page.source.split("One-versus-rest problems")[1]
        row = re.search(rf'<th scope="row">{label}</th>.*?</tr>', parts)[0]
        primal = re.search(r"<td[^>]*>([^<]*)</td>", row)[1]
        assert float(primal) == pytest.approx(part.primal, rel=1e-2)
    assert page.tiles()["accuracy"] == f"{model.score(X, y):.4f}"
    counts = confusion_matrix(y, model.predict(X))
    for i in range(10):
        for j in range(10):
            assert f"true {i}, predicted {j}: {counts[i, j]:,} of {counts[i].sum()}" in page.text
    area = roc_auc_score(y == 8, model.decision_function(X)[:, 8])
    assert f"8, {area:.4f}" in page.text
    assert len(page.source) < 200_000


def test_many_classes_and_labels_never_seen(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([f"word {i}" for i in range(40)], 5)
    X = rng.normal(size=(200, 6))
    model = LinearSVC(random_state=0).fit(X, y)
    other = y.copy()
    other[:3] = "unheard of"
    page = report(model, tmp_path, X, other)
    assert "the 12 of 40 classes with the lowest ROC AUC" in page.text
    scores = model.decision_function(X)
    areas = [roc_auc_score(other == label, scores[:, j]) for j, label in enumerate(model.classes_)]
    shown = {name for name in model.classes_ if f">{name}, " in page.source}
    assert shown == set(model.classes_[np.argsort(areas)[:12]])
    assert "Most frequent errors" in page.text
    assert "3 rows with labels unknown to the model count as errors" in page.text
    assert page.tiles()["accuracy"] == f"{np.mean(model.predict(X) == other):.4f}"
    assert len(page.source) < 500_000


def test_large_scores_make_small_pages(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 3))
    y = (X[:, 0] + rng.normal(size=200_000) > 0).astype(int)
    model = LinearSVC(random_state=0, tol=0.1).fit(X, y)
    page = report(model, tmp_path, X, y)
    assert len(page.source) < 90_000
    assert f"ROC AUC {roc_auc_score(y, model.decision_function(X)):.4f}" in page.text


def test_a_ranker(tmp_path):
    model, X, y, qid = ranking()
    page = report(model, tmp_path, X, y, qid=qid)
    scores, tiles = model.decision_function(X), page.tiles()
    assert tiles["groups"] == "12"
    assert tiles["pairwise accuracy"] == f"{pairwise_accuracy(y, scores, qid):.4f}"
    assert tiles["NDCG@10"] == f"{ndcg(y, scores, qid, 10):.4f}"
    assert tiles["MAP"] == f"{mean_average_precision(y, scores, qid):.4f}"
    assert f"NDCG@3: {ndcg(y, scores, qid, 3):.4f}" in page.text
    assert "model.fit(X, y, qid=qid)" in page.text
    assert "ROC" not in page.text


def test_two_grades_have_a_roc_curve(tmp_path):
    _, X, y, _ = ranking()
    model = LinearRanker().fit(X, y > 0)
    page = report(model, tmp_path, X, y > 0)
    assert page.tiles()["ROC AUC"] == f"{model.score(X, y > 0):.4f}"
    assert "ROC curve" in page.text


def test_ordered_classes(tmp_path):
    model, X, y = ordinal()
    page = report(model, tmp_path, X, y)
    error = np.abs(model.predict(X) - y).mean()
    assert page.tiles()["mean absolute error"] == f"{error:.4f}"
    counts = confusion_matrix(y, model.predict(X))
    assert f"true 0, predicted 1: {counts[0, 1]} of {counts[0].sum()}" in page.text
    assert "the thresholds between classes" in page.text


def test_numbers(tmp_path):
    model, X, y = numbers()
    page = report(model, tmp_path, X, y)
    predicted = model.predict(X)
    assert f"R2 {r2_score(y, predicted):.3f}" in page.text
    assert f"mean absolute error {mean_absolute_error(y, predicted):.4f}" in page.text
    assert "by the normal approximation" in page.text
    assert "Predicting the mean of these rows for every row: 0.000" in page.text
    assert "no linear function has an objective below" in page.text
    half = np.median(np.abs(y - predicted))
    assert f"Half of the rows have an error of at most {half:.4g}" in page.text
    middle = np.median(y[np.argsort(predicted)[-10:]])
    assert f"median of the true targets {middle:.4g}" in page.text


def test_quantiles(tmp_path):
    model, X, y = numbers("pinball")
    text = report(model, tmp_path, X, y).text
    assert f"Rows at or below the prediction {100 * np.mean(y <= model.predict(X)):.1f}" in text
    assert "Asked for: 80.0" in text


def test_several_targets(tmp_path):
    X, y = make_regression(100, 5, n_targets=3, noise=20.0, random_state=0)
    model = LinearSVR(C=10.0, random_state=0).fit(X, y)
    text = report(model, tmp_path).text
    assert "Targets" in text
    assert {"target 0", "target 1", "target 2"} <= set(re.findall(r"target \d", text))
    with pytest.raises(ValueError, match="3 targets; rows are judged by one"):
        report(model, tmp_path, X, y)


def test_a_search_for_c(tmp_path):
    model, X, y = searched()
    page = report(model, tmp_path, X, y)
    mean, worst = model.scores_.mean(axis=0), model.relative_gaps_.max()
    for C, score, deviation in zip(model.Cs_, mean, model.scores_.std(axis=0)):
        row = re.search(rf'<th scope="row" class="number">{C:g}</th>.*?</tr>', page.source)[0]
        assert f">{score:.4f}<" in row
        assert f">{deviation:.4f}<" in row
    assert f"C = {model.C_:g} has the best mean score on the held-out folds" in page.text
    assert f"accuracy {mean.max():.4f}" in page.text
    assert worst <= model.tol
    assert "LinearSVCCV(Cs=[0.01, 0.1, 1], random_state=0)" in page.text
    assert ("a better one may be outside of this range" in page.text) == (model.C_ != 0.1)


def test_an_early_stop_is_said_plainly(tmp_path):
    model, _, _ = ten_classes(C=10.0, max_iter=2)
    assert model.status_ == "max_iter"
    page = report(model, tmp_path)
    assert "Certificate: stopped early, " in page.text
    assert "Training stopped early (max_iter = 2 reached, after 2 passes)" in page.text
    assert "10 of 10 stopped above tol" in page.text


def test_no_bound_yet(tmp_path):
    model, _, _ = two_classes()
    model.certificate_ = type(model.certificate_)(10.0, -5.0)
    model.status_ = "interrupted"
    page = report(model, tmp_path)
    assert "Certificate: stopped early, no useful bound yet" in page.text
    assert "Its distance to the optimum is unknown" in page.text


def test_every_weight_fits_its_column():
    """It has room for eight characters."""
    model = LinearSVC().fit(np.eye(5), [0, 1, 0, 1, 0])
    model.coef_ = np.array([[-3.7123e-5, 0.089612, -1234.5, 6.5e11, 0.5]])
    (table,) = weights(model, FeatureNames(None, 5))["tables"]
    found = [row["value"] for row in table["rows"]]
    assert found == ["+6.5e11", "−1.2e3", "+0.5", "+0.0896", "−3.7e−5"]


def test_the_largest_weights_have_names(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 30)), columns=[f"column {j}" for j in range(30)])
    y = np.where(X["column 3"] - 2 * X["column 7"] > 0, "up", "down")
    model = LinearSVC(random_state=0).fit(X, y)
    page = report(model, tmp_path, X, y)
    shown = re.findall(r'title="(column \d+)"', page.source)
    expected = np.argsort(-np.abs(model.coef_[0]))[:20]
    assert shown == [f"column {j}" for j in expected]
    largest = f"{model.coef_[0, expected[0]]:+.3g}".replace("-", "\N{MINUS SIGN}")
    assert largest in page.text
    assert "towards class up; a negative weight lowers it, towards class down" in page.text


def test_a_vocabulary_and_numbers(tmp_path):
    model, _, _ = two_classes()
    largest = int(np.argmax(np.abs(model.coef_[0])))
    page = report(model, tmp_path, feature_names={"the word": largest})
    assert "the word" in page.text
    assert f"feature {largest}" not in page.text
    assert "Features are numbered" not in page.text
    page = report(model, tmp_path)
    assert f"feature {largest}" in page.text
    assert "Features are numbered from 0" in page.text
    with pytest.raises(ValueError, match="feature_names must be 8 names, not 2"):
        model.report(tmp_path / "page.html", feature_names=["a", "b"])
    with pytest.raises(ValueError, match="'far' in column 99"):
        model.report(tmp_path / "page.html", feature_names={"far": 99})


def test_what_users_write_is_text(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat([f"{SCRIPT}{i}" for i in range(3)], 20)
    model = LinearSVC(random_state=0).fit(X, y)
    model.class_weight = {SCRIPT: 1.0}
    page = report(model, tmp_path, X, y, feature_names=[SCRIPT, "a & b", '" onload="x'])
    assert page.having("script") == [{}]  # our own, which the policy names by its hash
    assert page.source.lower().count("<script") == 1
    assert not [attributes for _, attributes in page.elements if "onload" in attributes]
    assert page.text.count(SCRIPT) > 10
    assert '" onload="x' in page.text


@pytest.mark.parametrize("make", [two_classes, ten_classes, ranking, ordinal, numbers, searched])
def test_nothing_is_loaded(make, tmp_path):
    model, X, y, *qid = make()
    page = report(model, tmp_path, X, y, **dict(zip(["qid"], qid)))
    assert page.loads() == []
    (policy,) = [m["content"] for m in page.having("meta") if "http-equiv" in m]
    assert policy.startswith("default-src 'none'")
    (script,) = re.findall("<script>(.*?)</script>", page.source, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    charts = [svg for svg in page.having("svg") if svg["class"] == "chart"]
    assert charts
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in charts)


def test_rows_on_disk_are_read_through(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    rows = open_rows(write(tmp_path / "rows", sp.csr_matrix(X), y))
    model = LinearSVC(solver="stream", random_state=0).fit(rows, rows.labels)
    page = report(model, tmp_path, rows)
    assert page.tiles()["accuracy"] == f"{model.score(X, y):.4f}"
    assert "passes over the disk" in page.text


def test_groups_of_rows_on_disk(tmp_path):
    model, X, y, qid = ranking()
    rows = open_rows(write(tmp_path / "rows", sp.csr_matrix(X.astype("f4")), y, qid=qid))
    page = report(model, tmp_path, rows)
    assert page.tiles()["groups"] == "12"


@pytest.mark.parametrize("make", [two_classes, ranking, ordinal, numbers])
def test_a_model_from_a_file(make, tmp_path):
    model, X, y, *_ = make()
    save_model(model, tmp_path / "model.wm")
    page = report(load_model(tmp_path / "model.wm"), tmp_path, X, y)
    assert "Model files do not store the training history" in page.text
    assert page.tiles()["Duality gap"] == report(model, tmp_path).tiles()["Duality gap"]


def test_what_the_model_does_comes_first(tmp_path):
    model, X, y = two_classes()
    page = report(model, tmp_path, X, y)
    (title,) = re.findall("<h1>(.*?)</h1>", page.source)
    assert title == f"Accuracy {100 * model.score(X, y):.1f}\N{NO-BREAK SPACE}%"
    most = max(np.mean(y == label) for label in (0, 1))
    assert f"most frequent class for every row: {100 * most:.1f} %" in page.text
    ranker, X, y, qid = ranking()
    page = report(ranker, tmp_path, X, y, qid=qid)
    assert f"NDCG@10 {ndcg(y, ranker.decision_function(X), qid, 10):.3f}" in page.text
    page = report(searched()[0], tmp_path)
    assert re.search(r"Accuracy 0\.\d{3} on held-out folds", page.text)
    page = report(model, tmp_path)
    assert "this page says nothing about predictions" in page.text


def test_one_error_is_not_none(tmp_path):
    X, y = np.vstack([-np.ones((5000, 1)), np.ones((5000, 1))]), np.repeat([0, 1], 5000)
    model = LinearSVC(random_state=0).fit(X, y)
    y[0] = 1
    page = report(model, tmp_path, X, y)
    assert "Accuracy 99.99 %" in page.text


def test_rows_without_an_order_have_no_metric(tmp_path):
    model, X, y, _ = ranking()
    page = report(model, tmp_path, X, np.zeros(len(y)))
    assert "No metric is defined for these rows" in page.text
    assert page.tiles()["pairwise accuracy"] == "undefined"


def test_reports_say_how_many_predictions_are_settled(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(tol=1e-6, random_state=0).fit(X[::2], y[::2])
    proof = prove(model, X[::2], y[::2])
    share = math.floor(1000 * proof.settled_mask(X[1::2]).mean()) / 10
    said = f"{share:g} % of the predicted labels are proved to be the optimum's own."
    assert said in report(model, tmp_path, X[1::2], y[1::2], proof=proof).text
    assert "the optimum's own" in report(model, tmp_path, X[::2], y[::2]).text
    assert "the optimum's own" not in report(model, tmp_path, X[1::2], y[1::2]).text
    another = LinearSVC(C=2.0).fit(X, y)
    with pytest.raises(ValueError, match="another model"):
        report(another, tmp_path, X, y, proof=proof)
    model, X, y = numbers()
    assert "are proved to be within" in report(model, tmp_path, X, y).text


@pytest.mark.parametrize("make", [two_classes, ten_classes, ranking, ordinal, numbers, searched])
def test_training_rows_are_called_so(make, tmp_path):
    if make is two_classes:
        X, y = load_iris(return_X_y=True)
        model, qid = LinearSVC(random_state=0).fit(X[:100], y[:100]), []
        X, y = X[:100], y[:100]
    elif make is ten_classes:
        X, y = load_digits(return_X_y=True)
        model, qid, X, y = ten_classes()[0], [], X[:600], y[:600]
    else:
        model, X, y, *qid = make()
    settings = dict(zip(["qid"], qid))
    assert "These are training rows" in report(model, tmp_path, X, y, **settings).text
    changed = np.array(X) * 1.01
    assert "These are training rows" not in report(model, tmp_path, changed, y, **settings).text
    assert "These are training rows" not in report(model, tmp_path, X[1:], y[1:]).text


def test_classes_are_measured_as_elsewhere(tmp_path):
    model, X, y = ten_classes()
    page = report(model, tmp_path, X, y)
    rows = re.findall(
        r'<tr><th scope="row">(\d)</th>((?:<td class="number">.*?</td>){6})', page.source
    )
    assert [label for label, _ in rows] == list("0123456789")
    expected = precision_recall_fscore_support(y, model.predict(X))
    for place, (_, cells) in enumerate(rows):
        numbers = [float(cell) for cell in re.findall(">([^<]+)</td>", cells)]
        found = [*numbers[:3], numbers[4]]
        assert found == pytest.approx([column[place] for column in expected], abs=5e-5)
        area = roc_auc_score(y == place, model.decision_function(X)[:, place])
        assert numbers[3] == pytest.approx(area, abs=5e-5)
        assert numbers[5] == np.sum(model.predict(X) == place)


def test_probabilities_have_a_calibration_curve(tmp_path):
    X, y = make_classification(600, 8, flip_y=0.1, random_state=0)
    model = LinearSVC(probability=True, random_state=0).fit(X[:300], y[:300])
    page = report(model, tmp_path, X[300:], y[300:])
    chances = model.predict_proba(X[300:])[:, 1]
    assert f"Brier score {brier_score_loss(y[300:], chances):.4f}" in page.text
    observed, predicted = calibration_curve(y[300:], chances, n_bins=10, strategy="quantile")
    for pair in zip(predicted, observed):
        assert "predicted {:.3f}, observed {:.3f}".format(*pair) in page.text


def test_a_notebook_shows_the_page():
    model, X, y = two_classes()
    made = model.report(X=X, y=y)
    assert repr(made).startswith("<Report: LinearSVC, Accuracy ")
    frame = made._repr_html_()
    assert html.unescape(frame.split('srcdoc="')[1].split('"></iframe>')[0]) == made.html
    assert 'sandbox="allow-scripts"' in frame
    assert "model.report(X=X, y=y)" in html.unescape(made.html)


def test_a_report_is_saved_when_asked(tmp_path):
    model, X, y = two_classes()
    made = model.report(X=X, y=y)
    made.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == made.html


@pytest.mark.parametrize("make", [two_classes, ten_classes, ranking, ordinal, numbers, searched])
def test_models_say_what_they_are(make):
    model = make()[0]
    certificate = str(model.certificate_)
    assert str(model).startswith(repr(model) + "\n")
    assert certificate in str(model)
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == str(model)
    assert html.escape(certificate) in bundle["text/html"]
    assert html.escape(certificate) in model._repr_html_()
    assert str(clone(model)) == repr(model)
    assert "certificate" not in clone(model)._repr_html_().split("</style>")[-1]


def test_certificates_show_as_tables():
    model = two_classes()[0]
    shown = model.certificate_._repr_html_()
    assert f"{model.certificate_.primal:.8g}" in shown
    assert model.certificate_.bound_in_words() in shown


def test_the_code_trains_the_same_model(tmp_path):
    model, X, y = two_classes()
    page = report(model, tmp_path, X, y)
    code = re.search(r"from widemargin import LinearSVC.*?model\.report\(.*?\)", page.text)[0]
    assert "LinearSVC(loss='hinge', random_state=0) model.fit(X, y)" in code
    assert f"model.report('{tmp_path}/page.html', X, y)" in code


def test_what_cannot_be_written_is_named(tmp_path):
    model, X, y = two_classes()
    with pytest.raises(FileNotFoundError) as caught:
        model.report(tmp_path / "nowhere" / "page.html")
    assert caught.value.filename == str(tmp_path / "nowhere" / "page.html")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        model.report(tmp_path)
    model.report(tmp_path / "page.html")
    before = (tmp_path / "page.html").read_bytes()
    with pytest.raises(ValueError, match="X has 100 rows, and y has 3"):
        model.report(tmp_path / "page.html", X, y[:3])
    assert (tmp_path / "page.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_bad_rows(tmp_path):
    model, X, y = two_classes()
    path = tmp_path / "page.html"
    with pytest.raises(ValueError, match="y is missing"):
        model.report(path, X)
    with pytest.raises(ValueError, match="y is given without X"):
        model.report(path, None, y)
    with pytest.raises(ValueError, match="LinearSVC knows no groups"):
        model.report(path, X, y, qid=y)
    with pytest.raises(ValueError, match="y holds <U"):
        model.report(path, X, y.astype(str))
    with pytest.raises(NotFittedError):
        LinearSVC().report(path)
    ranker, X, y, qid = ranking()
    with pytest.raises(ValueError, match="qid has 5"):
        ranker.report(path, X, y, qid=qid[:5])
    assert not path.exists()


def test_names_that_no_encoding_knows(tmp_path):
    model, _, _ = two_classes()
    model.report(tmp_path / "page.html", feature_names=[f"\udcff{j}" for j in range(8)])
    assert "\\udcff" in Page(tmp_path / "page.html").text
