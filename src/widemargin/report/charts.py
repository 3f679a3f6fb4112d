"""Charts as inline SVG. Colours are CSS variables, so the page can switch to dark mode or print.

The XML library escapes all text; no markup is built by string concatenation.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import ArrayLike

from widemargin.report.scales import Scale, plain, thinned

# In SVG user units. One unit is slightly less than a pixel on a phone, slightly more elsewhere.
_WIDTH, _HEIGHT = 420.0, 270.0
_TOP, _RIGHT, _BOTTOM = 26.0, 14.0, 44.0
_CHARACTER_WIDTH = 7.0
_MAX_POINTS = 200
_MAX_MARKS = 60
_N_COLOURS = 6
_MAX_NAME_LENGTH = 12
_MOST_CLASSES_WITH_NUMBERS = 30
_N_SHADES = 12
_MAX_CELLS_WITH_TOOLTIPS = 300

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
class Axis:
    """A scale with its label; `text` formats tick labels."""

    scale: Scale
    label: str
    text: Callable[[float], str] = plain


@dataclass(frozen=True)
class Chart:
    """An SVG drawing with its title, note and legend."""

    title: str
    svg: str
    note: str = ""
    legend: list[tuple[str, str]] = field(default_factory=list)  # CSS classes and names


def line_chart(
    title: str, curves: Sequence[Curve], x: Axis, y: Axis, *, summary: str, note: str = ""
) -> Chart:
    """Return a chart of curves.

    Parameters
    ----------
    summary : str
        Text alternative for screen readers.
    """
    svg = _drawing(_WIDTH, _HEIGHT, f"{title}. {summary}")
    frame = _Frame(x, y)
    frame.draw(svg)
    for curve in curves:
        frame.draw_curve(svg, curve)
    legend = [(curve.style, curve.name) for curve in curves if curve.name]
    legend.sort(key=lambda entry: entry[0] == REFERENCE)  # drawn first, listed last
    return Chart(title, _markup(svg), note, legend)


class _Frame:
    """The area between two axes."""

    def __init__(self, x: Axis, y: Axis):
        self.x, self.y = x, y
        longest = max([3, *(len(y.text(tick)) for tick in y.scale.ticks())])
        self.left, self.right = 10.0 + _CHARACTER_WIDTH * longest, _WIDTH - _RIGHT
        self.base = _HEIGHT - _BOTTOM

    def across(self, values: ArrayLike) -> np.ndarray:
        """Return horizontal positions."""
        return self.left + (self.right - self.left) * self.x.scale.place(values)

    def down(self, values: ArrayLike) -> np.ndarray:
        """Return vertical positions."""
        return self.base - (self.base - _TOP) * self.y.scale.place(values)

    def draw(self, svg: Element) -> None:
        """Draw axes, ticks and labels."""
        ends: dict[str, Any] = {"x1": self.left, "x2": self.right}
        for tick in self.y.scale.ticks():
            at = float(self.down(tick))
            _add(svg, "line", cls="grid", **ends, y1=at, y2=at)
            _add(svg, "text", self.y.text(tick), cls="tick end", x=self.left - 6, y=at + 4)
        _add(svg, "line", cls="axis", **ends, y1=self.base, y2=self.base)
        for tick in self.x.scale.ticks():
            at = float(self.across(tick))
            _add(svg, "line", cls="axis", x1=at, x2=at, y1=self.base, y2=self.base + 4)
            anchor = "end" if at > _WIDTH - 24 else "middle"
            _add(svg, "text", self.x.text(tick), cls=f"tick {anchor}", x=at, y=self.base + 17)
        _add(svg, "text", self.y.label, cls="label", x=0, y=12)
        _add(svg, "text", self.x.label, cls="label end", x=self.right, y=_HEIGHT - 6)

    def draw_curve(self, svg: Element, curve: Curve) -> None:
        """Draw a curve, its band and its markers."""
        x, y = self.across(curve.x), self.down(curve.y)
        kept = thinned(x / _WIDTH, y / _HEIGHT, _MAX_POINTS)
        if curve.band is not None:
            low, high = (self.down(values[kept]) for values in curve.band)
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


def place_on_chart(x: Axis, y: Axis, values: ArrayLike) -> np.ndarray:
    """Return the horizontal positions of values on a chart with these axes."""
    return _Frame(x, y).across(values)


def heat_map(
    title: str, counts: np.ndarray, names: Sequence[str], *, summary: str, note: str = ""
) -> Chart:
    """Return a confusion matrix: true classes down, predicted classes across.

    Cells of many classes have no numbers, and a tooltip only where they have most rows.

    Parameters
    ----------
    counts : ndarray of int, shape (k, k)
    names : sequence of str, of length k
        Class names.
    """
    grid = _Grid(names)
    svg = _drawing(_WIDTH, grid.head + len(names) * grid.size + 4.0, f"{title}. {summary}")
    grid.draw_names(svg)
    if len(names) > _MOST_CLASSES_WITH_NUMBERS:
        _draw_shades(svg, counts, names, grid)
    else:
        _draw_cells(svg, counts, names, grid)
    return Chart(title, _markup(svg), note)


def _cell_in_words(counts: np.ndarray, names: Sequence[str], i: int, j: int) -> str:
    return f"true {names[i]}, predicted {names[j]}: {counts[i, j]:,} of {counts[i].sum():,}"


def _opacity(fraction: float) -> float:
    return 0.08 + 0.92 * fraction**0.5  # the square root keeps small counts visible


def _draw_shades(svg: Element, counts: np.ndarray, names: Sequence[str], grid: "_Grid") -> None:
    """Draw cells of the same shade as one path: thousands of elements would be slow."""
    side = len(names) * grid.size
    _add(svg, "rect", cls="cell empty", x=grid.left, y=grid.head, width=side, height=side)
    rows, columns = np.nonzero(counts)
    fractions = counts[rows, columns] / counts.sum(axis=1)[rows]
    shades = np.ceil(np.sqrt(fractions) * _N_SHADES).astype(int)
    one = f"h{grid.size:.2f}v{grid.size:.2f}h-{grid.size:.2f}z"
    for right in (True, False):
        for shade in range(1, _N_SHADES + 1):
            cells = np.flatnonzero((shades == shade) & ((rows == columns) == right))
            corners = (grid.corner(rows[cell], columns[cell]) for cell in cells)
            drawn = "".join(f"M{x:.2f} {y:.2f}{one}" for x, y in corners)
            if drawn:
                opacity = f"{_opacity((shade / _N_SHADES) ** 2):.2f}"
                style = "cell right" if right else "cell wrong"
                _add(svg, "path", cls=style, fill_opacity=opacity, d=drawn)
    for cell in np.argsort(-counts[rows, columns], kind="stable")[:_MAX_CELLS_WITH_TOOLTIPS]:
        i, j = int(rows[cell]), int(columns[cell])
        place = _add(svg, "rect", cls="unseen", **grid.inside(i, j))
        _add(place, "title", _cell_in_words(counts, names, i, j))


def _draw_cells(svg: Element, counts: np.ndarray, names: Sequence[str], grid: "_Grid") -> None:
    """Draw every cell with its number, if that fits, and its tooltip."""
    support = np.maximum(counts.sum(axis=1), 1)
    digits = len(f"{counts.max():,}")
    for i, j in np.ndindex(*counts.shape):
        cell = _add(svg, "g")
        _add(cell, "title", _cell_in_words(counts, names, i, j))
        _add(cell, "rect", cls="cell empty", **grid.inside(i, j))
        if counts[i, j] == 0:
            continue
        style = "cell right" if i == j else "cell wrong"
        fraction = counts[i, j] / support[i]
        _add(
            cell, "rect", cls=style, fill_opacity=f"{_opacity(fraction):.2f}", **grid.inside(i, j)
        )
        if grid.size >= 4.0 + 0.9 * _CHARACTER_WIDTH * digits:
            tone = "on-dark" if fraction > 0.3 else "on-light"
            x, y = grid.corner(i, j)
            at: dict[str, Any] = {"x": x + 0.5 * grid.size, "y": y + 0.5 * grid.size + 4}
            _add(cell, "text", f"{counts[i, j]:,}", cls=f"count middle {tone}", **at)


class _Grid:
    """The cells of a confusion matrix with the names of its classes."""

    def __init__(self, names: Sequence[str]):
        self.names = [_shortened(name) for name in names]
        longest = _CHARACTER_WIDTH * max(map(len, self.names))
        self.left = 12.0 + longest
        self.size = min(72.0, (_WIDTH - self.left) / len(names))
        self.slanted = self.size < 6.0 + longest
        self.head = 12.0 + 0.72 * longest if self.slanted else 20.0

    def corner(self, i: int, j: int) -> tuple[float, float]:
        """Return the upper left corner of a cell."""
        return self.left + j * self.size, self.head + i * self.size

    def inside(self, i: int, j: int) -> dict[str, Any]:
        """Return the rectangle of a cell without its border."""
        x, y = self.corner(i, j)
        border = min(0.75, 0.1 * self.size)
        side = self.size - 2.0 * border
        return {"x": x + border, "y": y + border, "width": side, "height": side}

    def draw_names(self, svg: Element) -> None:
        """Draw the names of rows and columns, without those that would overlap."""
        for i in range(0, len(self.names), max(1, round(15.0 / self.size))):
            middle = (i + 0.5) * self.size
            row: dict[str, Any] = {"x": self.left - 6, "y": self.head + middle + 4}
            _add(svg, "text", self.names[i], cls="tick end", **row)
            x, y = self.left + middle, self.head - 6.0
            turn = {"transform": f"rotate(-45 {x:.1f} {y:.1f})"} if self.slanted else {}
            style = "tick" if self.slanted else "tick middle"
            _add(svg, "text", self.names[i], cls=style, x=x, y=y, **turn)


def bar(fraction: float, *, signed: bool = False) -> str:
    """Return a bar for a table cell; signed bars start in the middle.

    Parameters
    ----------
    fraction : float
        Length relative to the longest bar: 0 to 1, or -1 to 1 if signed.
    """
    svg = Element("svg", {"class": "bar", "viewBox": "0 0 100 10"})
    svg.set("preserveAspectRatio", "none")
    svg.set("aria-hidden", "true")
    half = 50.0 if signed else 100.0
    length = half * min(abs(fraction), 1.0)
    begin = 50.0 - (length if fraction < 0 else 0.0) if signed else 0.0
    style = "minus" if fraction < 0 else "plus"
    _add(svg, "rect", cls="track", x=0, y=4.6, width=100, height=0.8)
    _add(svg, "rect", cls=style, x=begin, y=0, width=max(length, 0.6), height=10)
    return _markup(svg)


def _drawing(width: float, height: float, label: str) -> Element:
    svg = Element("svg", {"class": "chart", "role": "img", "aria-label": label})
    svg.set("viewBox", f"0 0 {width:.0f} {height:.0f}")
    return svg


def _add(
    parent: Element, tag: str, text: str | None = None, cls: str | None = None, **attributes: Any
) -> Element:
    """Add an element; numbers are rounded to one decimal."""
    child = ElementTree.SubElement(parent, tag)
    if cls is not None:
        child.set("class", cls)
    for name, value in attributes.items():
        child.set(name.replace("_", "-"), value if isinstance(value, str) else _short(value))
    child.text = text
    return child


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_short(px)} {_short(py)}" for px, py in points)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1] + "…"


def _markup(svg: Element) -> str:
    return ElementTree.tostring(svg, encoding="unicode")
