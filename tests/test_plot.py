"""Plots: what is drawn is what was measured."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearRanker, LinearSVC, LinearSVCCV, load_model, plot, save_model, svm_path

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LinearSVC(solver="dcd", tol=1e-6, max_iter=200, random_state=0).fit(X, Y)


@pytest.fixture
def ax():
    return Figure().subplots()


def curves(ax):
    """Return the curves that were drawn, without lines across."""
    return [line for line in ax.get_lines() if line.get_marker() != "None"]


def test_one_curve_per_class(model, ax):
    assert plot.history(model, ax=ax) is ax
    lines = curves(ax)
    assert len(lines) == 3
    for problem, line in enumerate(lines):
        records = [record for record in model.history_ if record.problem == problem]
        np.testing.assert_array_equal(line.get_xdata(), [record.time for record in records])
        np.testing.assert_allclose(
            line.get_ydata(), [record.relative_gap for record in records], atol=1e-15
        )
    assert ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()][:3] == ["0", "1", "2"]


def test_a_total_of_all_classes(model, ax):
    plot.history(model, y="objective", x="iteration", total=True, ax=ax)
    primal, dual = curves(ax)
    assert primal.get_ydata()[-1] == pytest.approx(model.certificate_.primal)
    assert dual.get_ydata()[-1] == pytest.approx(model.certificate_.dual)
    assert np.all(np.diff(primal.get_ydata()) <= 1e-12)
    assert np.all(np.diff(dual.get_ydata()) >= -1e-12)
    first = [next(r for r in model.history_ if r.problem == j) for j in range(3)]
    assert primal.get_xdata()[0] == max(record.iteration for record in first)
    assert ax.get_xlabel() == "passes over the rows"


def test_a_ranker_counts_iterations(ax):
    ranker = LinearRanker().fit(X, Y)
    plot.history(ranker, x="iteration", ax=ax)
    assert ax.get_xlabel() == "iterations"
    assert len(curves(ax)) == 1


def test_phases(model, ax):
    plot.phases(model, ax=ax)
    drawn = {
        tick.get_text(): bar.get_width() for tick, bar in zip(ax.get_yticklabels(), ax.patches)
    }
    ends = {record.problem: record.phases for record in model.history_}
    assert set(drawn) == {"passes", "checks"}
    for name, seconds in drawn.items():
        assert seconds == pytest.approx(sum(phases[name] for phases in ends.values()))


def test_scores_by_c(ax):
    search = LinearSVCCV(Cs=[1.0, 0.01, 0.1], cv=3, random_state=0).fit(X, Y)
    plot.scores(search, ax=ax)
    mean, best = ax.get_lines()
    np.testing.assert_array_equal(mean.get_xdata(), [0.01, 0.1, 1.0])
    np.testing.assert_allclose(mean.get_ydata(), search.scores_.mean(axis=0)[[1, 2, 0]])
    assert best.get_xdata()[0] == search.C_
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(
        (search.scores_.mean(axis=0) + search.scores_.std(axis=0)).max()
    )


def test_the_path_of_weights(ax):
    path = svm_path(X, Y, Cs=[1.0, 0.01, 0.1], random_state=0)
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    plot.path(path, n_weights=2, label=1, feature_names=names, ax=ax)
    lines = curves(ax)
    largest = np.argsort(-np.abs(path.coefs[:, 1]).max(axis=0))[:2]
    assert [line.get_label() for line in lines] == [names[j] for j in largest]
    np.testing.assert_array_equal(lines[0].get_xdata(), [0.01, 0.1, 1.0])
    np.testing.assert_array_equal(lines[0].get_ydata(), path.coefs[[1, 2, 0], 1, largest[0]])
    with pytest.raises(ValueError, match="label must be one of 0, 1, 2, not 7"):
        plot.path(path, label=7, ax=ax)
    with pytest.raises(ValueError, match="feature_names must be 4 names, not 1"):
        plot.path(path, feature_names=["a"], ax=ax)


def test_what_cannot_be_drawn(model, ax, tmp_path):
    with pytest.raises(ValueError, match="y must be one of 'gap', 'objective', not 'loss'"):
        plot.history(model, y="loss", ax=ax)
    with pytest.raises(ValueError, match="x must be one of"):
        plot.history(model, x="rows", ax=ax)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    for draw in (plot.history, plot.phases):
        with pytest.raises(ValueError, match="the model has no history"):
            draw(loaded, ax=ax)


def test_without_matplotlib(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'widemargin\[plot\]'"):
        plot.history(model)


def test_axes_of_its_own(model, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    axes = plot.phases(model)
    assert axes.figure.axes == [axes]
    pyplot.close(axes.figure)
