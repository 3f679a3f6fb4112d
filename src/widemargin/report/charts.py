"""Charts as inline SVG. Colours are CSS variables of the page, for light, dark and paper.

Text is escaped by the XML library that writes the elements; nothing is pasted together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import numpy as np

from widemargin.report.scales import Scale, plain, thinned

# In units of the drawing: on a phone one is a little less than a pixel, elsewhere a little more.
_WIDTH, _HEIGHT = 420.0, 270.0
_TOP, _RIGHT, _BOTTOM = 26.0, 14.0, 44.0
_LETTER = 7.0
_MOST_POINTS = 200
_MOST_MARKS = 60
_COLOURS = 6
_LONGEST_NAME = 12

#: CSS class of a line to compare with
REFERENCE = "reference"


def series_class(number: int) -> str:
    """Return the CSS classes of a curve: six colours, and then these dashed."""
    dashed = " dashed" if number // _COLOURS % 2 else ""
    return f"s{number % _COLOURS + 1}{dashed}"


@dataclass(frozen=True)
class Curve:
    """A line on a chart.

    Attributes
    ----------
    x, y : ndarray of shape (m,)
    name : str
        For the legend; "" leaves it out.
    style : str
        CSS classes.
    marks : callable(x, y) -> str or None
        What to say of single points, which are marked then.
    band : (low, high), ndarrays of shape (m,), or None
        Shaded.
    """

    x: np.ndarray
    y: np.ndarray
    name: str = ""
    style: str = "s1"
    marks: Callable[[float, float], str] | None = None
    band: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Chart:
    """A drawing, and what stands around it."""

    title: str
    svg: str
    note: str = ""
    legend: list[tuple[str, str]] = field(default_factory=list)  # CSS classes and names


def line_chart(
    title: str,
    curves: Sequence[Curve],
    x: Scale,
    y: Scale,
    *,
    x_label: str,
    y_label: str,
    summary: str,
    note: str = "",
    x_text: Callable[[float], str] = plain,
    y_text: Callable[[float], str] = plain,
) -> Chart:
    """Return curves over two axes.

    Parameters
    ----------
    summary : str
        What the chart shows, for those who do not see it.
    x_text, y_text : callable(value) -> str
        How ticks are written.
    """
    y_ticks = y.ticks()
    left = 10.0 + _LETTER * max([3, *(len(y_text(tick)) for tick in y_ticks)])
    plot_width, plot_height = _WIDTH - left - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(values):
        return left + plot_width * x.place(values)

    def down(values):
        return _TOP + plot_height * (1.0 - y.place(values))

    svg = _drawing(_WIDTH, _HEIGHT, f"{title}. {summary}")
    for tick in y_ticks:
        at = float(down(tick))
        _add(svg, "line", cls="grid", x1=left, x2=_WIDTH - _RIGHT, y1=at, y2=at)
        _add(svg, "text", y_text(tick), cls="tick end", x=left - 6, y=at + 4)
    base = _HEIGHT - _BOTTOM
    _add(svg, "line", cls="axis", x1=left, x2=_WIDTH - _RIGHT, y1=base, y2=base)
    for tick in x.ticks():
        at = float(across(tick))
        _add(svg, "line", cls="axis", x1=at, x2=at, y1=base, y2=base + 4)
        anchor = "end" if at > _WIDTH - 24 else "middle"
        _add(svg, "text", x_text(tick), cls=f"tick {anchor}", x=at, y=base + 17)
    _add(svg, "text", y_label, cls="label", x=0, y=12)
    _add(svg, "text", x_label, cls="label end", x=_WIDTH - _RIGHT, y=_HEIGHT - 6)

    for curve in curves:
        _draw_curve(svg, curve, across(curve.x), down(curve.y), down)
    legend = [(curve.style, curve.name) for curve in curves if curve.name]
    legend.sort(key=lambda entry: entry[0] == REFERENCE)  # drawn first, named last
    return Chart(title, _markup(svg), note, legend)


def _draw_curve(svg, curve: Curve, across, down, place) -> None:
    kept = thinned(across / _WIDTH, down / _HEIGHT, _MOST_POINTS)
    if curve.band is not None:
        low, high = (place(values[kept]) for values in curve.band)
        outline = [*zip(across[kept], high), *reversed([*zip(across[kept], low)])]
        _add(svg, "path", cls=f"band {curve.style}", d=_path(outline) + "Z")
    line = _add(svg, "path", cls=f"line {curve.style}", d=_path(zip(across[kept], down[kept])))
    if curve.name:
        _add(line, "title", curve.name)
    if curve.marks is None:
        return
    for point in thinned(across / _WIDTH, down / _HEIGHT, _MOST_MARKS):
        mark = _add(
            svg, "circle", cls=f"mark {curve.style}", cx=across[point], cy=down[point], r=2.6
        )
        _add(mark, "title", curve.marks(float(curve.x[point]), float(curve.y[point])))


def heat_map(
    title: str, counts: np.ndarray, names: Sequence[str], *, summary: str, note: str = ""
) -> Chart:
    """Return how often rows of one class (down) were taken for another (across).

    Parameters
    ----------
    counts : ndarray of int, shape (k, k)
    names : sequence of str, of length k
        Of rows and of columns.
    """
    k = len(names)
    short = [_shortened(name) for name in names]
    room = 12.0 + _LETTER * max(map(len, short))
    size = min(72.0, (_WIDTH - room) / k)
    slanted = any(size < 6.0 + _LETTER * len(name) for name in short)
    head = 20.0 if not slanted else 12.0 + 0.72 * _LETTER * max(map(len, short))
    height = head + k * size + 4.0
    svg = _drawing(_WIDTH, height, f"{title}. {summary}")
    totals = np.maximum(counts.sum(axis=1), 1)
    digits = len(f"{counts.max():,}")
    every = max(1, round(15.0 / size))  # names of narrow rows would overlap
    for i in range(k):
        top = head + i * size
        if i % every == 0:
            _add(svg, "text", short[i], cls="tick end", x=room - 6, y=top + 0.5 * size + 4)
            across, down = room + (i + 0.5) * size, head - 6.0
            turn = {"transform": f"rotate(-45 {across:.1f} {down:.1f})"} if slanted else {}
            style = "tick" if slanted else "tick middle"
            _add(svg, "text", short[i], cls=style, x=across, y=down, **turn)
        for j in range(k):
            share = counts[i, j] / totals[i]
            left = room + j * size
            cell = _add(svg, "g")
            _add(
                cell,
                "title",
                f"{names[i]} taken for {names[j]}: {counts[i, j]:,} of {totals[i]:,}",
            )
            inner: dict[str, Any] = {
                "x": left + 0.75,
                "y": top + 0.75,
                "width": size - 1.5,
                "height": size - 1.5,
            }
            _add(cell, "rect", cls="cell empty", **inner)
            if counts[i, j] == 0:
                continue
            style = "cell right" if i == j else "cell wrong"
            # Square roots, so that a few rows out of many are still seen.
            _add(cell, "rect", cls=style, fill_opacity=f"{0.08 + 0.92 * share**0.5:.2f}", **inner)
            if size >= 4.0 + 0.9 * _LETTER * digits:
                tone = "on-dark" if share > 0.3 else "on-light"
                at: dict[str, Any] = {"x": left + 0.5 * size, "y": top + 0.5 * size + 4}
                _add(cell, "text", f"{counts[i, j]:,}", cls=f"count middle {tone}", **at)
    return Chart(title, _markup(svg), note)


def bar(fraction: float, *, signed: bool = False) -> str:
    """Return a bar for a cell of a table, from the left or, signed, from the middle.

    Parameters
    ----------
    fraction : float
        Of the longest bar there is: 0 to 1, or -1 to 1.
    """
    svg = ElementTree.Element("svg", {"class": "bar", "viewBox": "0 0 100 10"})
    svg.set("preserveAspectRatio", "none")
    svg.set("aria-hidden", "true")
    half = 50.0 if signed else 100.0
    length = half * min(abs(fraction), 1.0)
    begin = 50.0 - (length if fraction < 0 else 0.0) if signed else 0.0
    style = "minus" if fraction < 0 else "plus"
    _add(svg, "rect", cls="track", x=0, y=4.6, width=100, height=0.8)
    _add(svg, "rect", cls=style, x=begin, y=0, width=max(length, 0.6), height=10)
    return _markup(svg)


def _drawing(width, height, label):
    svg = ElementTree.Element("svg", {"class": "chart", "role": "img", "aria-label": label})
    svg.set("viewBox", f"0 0 {width:.0f} {height:.0f}")
    return svg


def _add(parent, tag, text: str | None = None, cls: str | None = None, **attributes: Any):
    """Add an element; numbers lose what is smaller than a tenth of a unit."""
    child = ElementTree.SubElement(parent, tag)
    if cls is not None:
        child.set("class", cls)
    for name, value in attributes.items():
        child.set(name.replace("_", "-"), value if isinstance(value, str) else _short(value))
    child.text = text
    return child


def _path(points) -> str:
    return "M" + "L".join(f"{_short(px)} {_short(py)}" for px, py in points)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _markup(svg) -> str:
    return ElementTree.tostring(svg, encoding="unicode")
