"""Charts as inline SVG. Colours are CSS variables, so the page can switch to dark mode or print.

The XML library escapes all text; no markup is built by string concatenation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import numpy as np

from widemargin.report.scales import Scale, plain, thinned

# In SVG user units. One unit is slightly less than a pixel on a phone, slightly more elsewhere.
_WIDTH, _HEIGHT = 420.0, 270.0
_TOP, _RIGHT, _BOTTOM = 26.0, 14.0, 44.0
_CHARACTER_WIDTH = 7.0
_MAX_POINTS = 200
_MAX_MARKS = 60
_N_COLOURS = 6
_MAX_NAME_LENGTH = 12

#: CSS class of a reference line
REFERENCE = "reference"


def series_class(number: int) -> str:
    """Return the CSS classes of a curve: six colours, then the same six dashed."""
    dashed = " dashed" if number // _N_COLOURS % 2 else ""
    return f"s{number % _N_COLOURS + 1}{dashed}"


@dataclass(frozen=True)
class Curve:
    """A line on a chart.

    Attributes
    ----------
    x, y : ndarray of shape (m,)
    name : str
        Legend entry; "" for none.
    style : str
        CSS classes.
    marks : callable(x, y) -> str or None
        Tooltip of each point. Points are drawn as markers if this is given.
    band : (low, high), ndarrays of shape (m,), or None
        Shaded area.
    """

    x: np.ndarray
    y: np.ndarray
    name: str = ""
    style: str = "s1"
    marks: Callable[[float, float], str] | None = None
    band: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Chart:
    """An SVG drawing with its title, note and legend."""

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
    """Return a chart of curves.

    Parameters
    ----------
    summary : str
        Text alternative for screen readers.
    x_text, y_text : callable(value) -> str
        Format tick labels.
    """
    y_ticks = y.ticks()
    left = 10.0 + _CHARACTER_WIDTH * max([3, *(len(y_text(tick)) for tick in y_ticks)])
    plot_width, plot_height = _WIDTH - left - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def to_x(values):
        return left + plot_width * x.place(values)

    def to_y(values):
        return _TOP + plot_height * (1.0 - y.place(values))

    svg = _drawing(_WIDTH, _HEIGHT, f"{title}. {summary}")
    for tick in y_ticks:
        at = float(to_y(tick))
        _add(svg, "line", cls="grid", x1=left, x2=_WIDTH - _RIGHT, y1=at, y2=at)
        _add(svg, "text", y_text(tick), cls="tick end", x=left - 6, y=at + 4)
    base = _HEIGHT - _BOTTOM
    _add(svg, "line", cls="axis", x1=left, x2=_WIDTH - _RIGHT, y1=base, y2=base)
    for tick in x.ticks():
        at = float(to_x(tick))
        _add(svg, "line", cls="axis", x1=at, x2=at, y1=base, y2=base + 4)
        anchor = "end" if at > _WIDTH - 24 else "middle"
        _add(svg, "text", x_text(tick), cls=f"tick {anchor}", x=at, y=base + 17)
    _add(svg, "text", y_label, cls="label", x=0, y=12)
    _add(svg, "text", x_label, cls="label end", x=_WIDTH - _RIGHT, y=_HEIGHT - 6)

    for curve in curves:
        _draw_curve(svg, curve, to_x(curve.x), to_y(curve.y), to_y)
    legend = [(curve.style, curve.name) for curve in curves if curve.name]
    legend.sort(key=lambda entry: entry[0] == REFERENCE)  # drawn first, listed last
    return Chart(title, _markup(svg), note, legend)


def _draw_curve(svg, curve: Curve, x, y, to_y) -> None:
    kept = thinned(x / _WIDTH, y / _HEIGHT, _MAX_POINTS)
    if curve.band is not None:
        low, high = (to_y(values[kept]) for values in curve.band)
        outline = [*zip(x[kept], high), *reversed([*zip(x[kept], low)])]
        _add(svg, "path", cls=f"band {curve.style}", d=_path(outline) + "Z")
    line = _add(svg, "path", cls=f"line {curve.style}", d=_path(zip(x[kept], y[kept])))
    if curve.name:
        _add(line, "title", curve.name)
    if curve.marks is None:
        return
    for point in thinned(x / _WIDTH, y / _HEIGHT, _MAX_MARKS):
        mark = _add(svg, "circle", cls=f"mark {curve.style}", cx=x[point], cy=y[point], r=2.6)
        _add(mark, "title", curve.marks(float(curve.x[point]), float(curve.y[point])))


def heat_map(
    title: str, counts: np.ndarray, names: Sequence[str], *, summary: str, note: str = ""
) -> Chart:
    """Return a confusion matrix: true classes down, predicted classes across.

    Parameters
    ----------
    counts : ndarray of int, shape (k, k)
    names : sequence of str, of length k
        Class names.
    """
    k = len(names)
    short = [_shortened(name) for name in names]
    label_width = 12.0 + _CHARACTER_WIDTH * max(map(len, short))
    size = min(72.0, (_WIDTH - label_width) / k)
    slanted = any(size < 6.0 + _CHARACTER_WIDTH * len(name) for name in short)
    head = 20.0 if not slanted else 12.0 + 0.72 * _CHARACTER_WIDTH * max(map(len, short))
    height = head + k * size + 4.0
    svg = _drawing(_WIDTH, height, f"{title}. {summary}")
    support = np.maximum(counts.sum(axis=1), 1)
    digits = len(f"{counts.max():,}")
    every = max(1, round(15.0 / size))  # skip names that would overlap
    for i in range(k):
        top = head + i * size
        if i % every == 0:
            _add(svg, "text", short[i], cls="tick end", x=label_width - 6, y=top + 0.5 * size + 4)
            x, y = label_width + (i + 0.5) * size, head - 6.0
            turn = {"transform": f"rotate(-45 {x:.1f} {y:.1f})"} if slanted else {}
            style = "tick" if slanted else "tick middle"
            _add(svg, "text", short[i], cls=style, x=x, y=y, **turn)
        for j in range(k):
            fraction = counts[i, j] / support[i]
            left = label_width + j * size
            cell = _add(svg, "g")
            _add(
                cell,
                "title",
                f"true {names[i]}, predicted {names[j]}: {counts[i, j]:,} of {support[i]:,}",
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
            opacity = 0.08 + 0.92 * fraction**0.5  # the square root keeps small counts visible
            _add(cell, "rect", cls=style, fill_opacity=f"{opacity:.2f}", **inner)
            if size >= 4.0 + 0.9 * _CHARACTER_WIDTH * digits:
                tone = "on-dark" if fraction > 0.3 else "on-light"
                at: dict[str, Any] = {"x": left + 0.5 * size, "y": top + 0.5 * size + 4}
                _add(cell, "text", f"{counts[i, j]:,}", cls=f"count middle {tone}", **at)
    return Chart(title, _markup(svg), note)


def bar(fraction: float, *, signed: bool = False) -> str:
    """Return a bar for a table cell; signed bars start in the middle.

    Parameters
    ----------
    fraction : float
        Length relative to the longest bar: 0 to 1, or -1 to 1 if signed.
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
    """Add an element; numbers are rounded to one decimal."""
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
    return name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1] + "…"


def _markup(svg) -> str:
    return ElementTree.tostring(svg, encoding="unicode")
