"""Axes and curves."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.report.charts import Axis, Curve, bar, heat_map, line_chart
from widemargin.report.scales import Scale, linear, logarithmic, plain, thinned

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_linear_axes_show_everything_with_few_round_ticks(values):
    scale = linear(np.array(values))
    assert scale.low <= min(values) <= max(values) <= scale.high
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 8
    assert ticks == sorted(set(ticks))
    slack = 1e-9 * (scale.high - scale.low)
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in ticks)


@given(st.lists(st.floats(1e-14, 1e14), min_size=1, max_size=20), st.booleans())
def test_logarithmic_axes_show_everything_positive(values, with_zero):
    scale = logarithmic(np.array([*values, *([0.0] if with_zero else [])]))
    assert scale.low < min(values) <= max(values) < scale.high
    assert 0 < len(scale.ticks()) <= 10
    places = scale.place([0.0, *sorted(values)])
    assert places[0] == 0.0
    assert np.all(np.diff(places) >= 0.0)
    assert places[-1] <= 1.0


def test_ticks():
    assert Scale(0.0, 1.0).ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert Scale(1e-4, 1.0, log=True).ticks() == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 1])
    assert Scale(0.8, 62.5, log=True).ticks() == pytest.approx([1, 2, 5, 10, 20, 50])
    assert [plain(tick) for tick in (0.0, 0.25, 1500.0, 1e-6, 2e9)] == [
        *("0", "0.25", "1,500", "1e-06", "2e+09")
    ]


def test_thinning_keeps_ends_and_steps():
    x = np.linspace(0.0, 1.0, 100_000)
    y = (x > 0.5).astype(float)
    kept = thinned(x, y, 50)
    assert kept.size <= 50
    assert kept[0] == 0
    assert kept[-1] == x.size - 1
    assert np.all(np.diff(kept) > 0)
    before, after = x[kept][y[kept] == 0.0].max(), x[kept][y[kept] == 1.0].min()
    assert after - before < 0.1  # the step is still one
    assert thinned(x[:3], y[:3], 50).tolist() == [0, 1, 2]


def test_a_curve_goes_where_its_numbers_are():
    x, y = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.25, 1.0])
    curve = Curve(x, y, "name", marks="{} {}".format)
    unit = Scale(0.0, 1.0)
    chart = line_chart("Title", [curve], Axis(unit, "x"), Axis(unit, "y"), summary="Rises.")
    svg = ElementTree.fromstring(chart.svg)
    circles = svg.findall("circle")
    across, down = ([float(circle.get(name)) for circle in circles] for name in ("cx", "cy"))
    assert (across[1] - across[0]) / (across[2] - across[0]) == pytest.approx(0.5, abs=0.01)
    assert (down[1] - down[0]) / (down[2] - down[0]) == pytest.approx(0.25, abs=0.01)
    assert down[0] > down[2]  # up is up
    assert [circle.find("title").text for circle in circles] == ["0.0 0.0", "0.5 0.25", "1.0 1.0"]
    assert svg.get("aria-label") == "Title. Rises."
    assert chart.legend == [("s1", "name")]


def test_cells_are_as_full_as_their_share():
    chart = heat_map("T", np.array([[9, 1], [0, 4]]), ["a", "a long name, quite"], summary="S.")
    svg = ElementTree.fromstring(chart.svg)
    titles = [group.find("title").text for group in svg.findall("g")]
    assert titles[0] == "true a, predicted a: 9 of 10"
    assert titles[2] == "true a long name, quite, predicted a: 0 of 4"
    filled = [group.findall("rect")[1:] for group in svg.findall("g")]
    assert [len(rects) for rects in filled] == [1, 1, 0, 1]
    assert float(filled[0][0].get("fill-opacity")) > float(filled[1][0].get("fill-opacity"))


@pytest.mark.parametrize(("fraction", "begin", "length"), [(0.5, 50, 25), (-1.0, 0, 50)])
def test_bars(fraction, begin, length):
    rect = ElementTree.fromstring(bar(fraction, signed=True)).findall("rect")[1]
    assert (float(rect.get("x")), float(rect.get("width"))) == (begin, length)


def test_many_classes_are_few_elements():
    counts = np.zeros((120, 120), dtype=int)
    counts[np.arange(120), np.arange(120)] = 90
    counts[3, 7], counts[3, 8] = 10, 1
    chart = heat_map("T", counts, [f"name {i}" for i in range(120)], summary="S.")
    svg = ElementTree.fromstring(chart.svg)
    paths = {path.get("class"): path for path in svg.findall("path")}
    drawn = sum(path.get("d").count("M") for path in svg.findall("path"))
    assert drawn == 122
    assert set(paths) == {"cell right", "cell wrong"}
    titles = [rect.find("title").text for rect in svg.findall("rect") if len(rect)]
    assert "true name 3, predicted name 7: 10 of 101" in titles
    assert len(chart.svg) < 60_000
