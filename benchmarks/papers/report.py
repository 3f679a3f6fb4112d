"""Pages on the papers: a table, a figure and a verdict for each claim, and a list of all verdicts.

A section of a script returns what `finding` makes of its measurements. It goes between the
markers of the page; a verdict's words are computed from the same measurements, so that a rerun
cannot leave a stale one behind.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks import machine, sections
from benchmarks.analyse import ROOT, in_words, rewrite

DOCUMENTS = ROOT / "docs" / "papers"

#: script and page -> how the list of verdicts calls the paper
PAPERS = {
    "joachims": "Joachims 2006, SVM-perf",
    "ocas": "Franc and Sonnenburg 2008, OCAS",
    "arnosti": "Arnosti 2010, cheaper line searches",
    "acf": "Glasmachers and Dogan 2013, adaptive frequencies",
    "streamsvm": "Matsushima, Vishwanathan and Smola 2012, StreamSVM",
}


#: a method's colour, the same in all figures
COLOURS = {
    "cpa": "tab:blue",
    "ocas": "tab:orange",
    "sgd": "tab:green",
    "SVC": "tab:red",
    "LIBLINEAR": "tab:purple",
    "dcd": "tab:gray",
    "acf": "tab:orange",
    "stream": "tab:orange",
    "bm": "tab:gray",
    "sbm": "tab:blue",
}


class Check(NamedTuple):
    """Part of a claim: whether it holds, and what was measured, in words."""

    holds: bool
    words: str


def at_most(value: float, most: float, what: str) -> Check:
    """Check that a figure is not above a limit."""
    return Check(value <= most, f"{what}: {value:.3g}, at most {most:.3g}")


def at_least(value: float, least: float, what: str) -> Check:
    """Check that a figure is not below a limit."""
    return Check(value >= least, f"{what}: {value:.3g}, at least {least:.3g}")


def between(value: float, limits: tuple[float, float], what: str) -> list[Check]:
    """Check that a figure is within limits; above and below them are two things."""
    return [at_least(value, limits[0], what), at_most(value, limits[1], what)]


def all_of(holds: Iterable[bool], what: str) -> Check:
    """Check that something is so in every case, and that there are cases."""
    cases = [bool(case) for case in holds]
    return Check(bool(cases) and all(cases), f"{what}: in {sum(cases)} of {len(cases)} cases")


def verdict(checks: Iterable[Check]) -> str:
    """Return one of three verdicts, and the checks it rests on, as Markdown.

    A claim agrees if all of its checks hold, and in part if some do.
    """
    checks = list(checks)
    held = sum(check.holds for check in checks)
    word = "Agrees" if held == len(checks) else "Agrees in part" if held else "Does not agree"
    lines = [f"- {'yes' if check.holds else 'no'}: {check.words}" for check in checks]
    return "\n".join([f"**{word}.**", "", *lines])


def finding(table: str, checks: Iterable[Check], image: str = "", shows: str = "") -> str:
    """Return a section's text: table, machine, figure (`shows` says of what) and verdict."""
    parts = [table, in_words(machine.describe())]
    if image:
        parts.append(f"![{shows}](images/{image}.svg)")
    return "\n\n".join([*parts, verdict(checks)])


@contextmanager
def figure(name: str, panels: list[str], columns: int = 3):
    """Give axes with these titles, and save them as images/NAME.svg, the same bytes each time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    style = {
        "svg.hashsalt": "widemargin",
        "svg.fonttype": "none",  # letters, not outlines of them: a tenth of the size
        "axes.grid": True,
        "grid.alpha": 0.3,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "font.size": 9,
    }
    with plt.rc_context(style):
        width, height = 3.8 * columns, 3.0 * rows
        # Margins in inches: layouts that look at every label take longer than all the rest.
        margins = {
            "left": 0.9 / width,
            "right": 1 - 0.1 / width,
            "bottom": 0.5 / height,
            "top": 1 - 0.3 / height,
            "wspace": 0.42,
            "hspace": 0.42,
        }
        drawing, axes = plt.subplots(
            rows, columns, figsize=(width, height), squeeze=False, gridspec_kw=margins
        )
        flat = list(axes.flat)
        for unused in flat[len(panels) :]:
            unused.set_axis_off()
        for ax, title in zip(flat, panels):
            ax.set_title(title)
        yield flat[: len(panels)]
        for ax in flat[: len(panels)]:
            if ax.get_xscale() == "log":  # labels between powers of ten would overlap
                ax.xaxis.set_minor_formatter(NullFormatter())
        folder = DOCUMENTS / "images"
        folder.mkdir(parents=True, exist_ok=True)
        # No day, and no version of the drawing library, so that only measurements change it.
        drawing.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
        plt.close(drawing)


def thinned(curve: list[tuple[float, float]], most: int = 120) -> list[tuple[float, float]]:
    """Return a curve's first and last point and some between, for a figure."""
    kept = {round(i * (len(curve) - 1) / (most - 1)) for i in range(most)}
    return [curve[i] for i in sorted(kept)]


def run(description: str, name: str, claims: dict[str, Callable[[], str]], warm_up) -> None:
    """Run sections of a paper's script, as `sections.run` does; then list all verdicts anew."""
    timed = {section: _timed(measure) for section, measure in claims.items()}
    sections.run(description, DOCUMENTS / f"{name}.md", timed, warm_up)
    list_verdicts()


def _timed(measure: Callable[[], str]) -> Callable[[], str]:
    def timed() -> str:
        started = time.perf_counter()
        text = measure()
        print(f"({time.perf_counter() - started:.0f} s)", flush=True)
        return text

    return timed


def list_verdicts() -> None:
    """Rewrite the list of claims and verdicts on the first page."""
    lines = ["| paper | claim | verdict |", "| --- | --- | --- |"]
    for name, title in PAPERS.items():
        page = DOCUMENTS / f"{name}.md"
        for claim, word in verdicts_of(page.read_text(encoding="utf-8")):
            lines.append(f"| [{title}]({name}.md) | {claim} | {word} |")
    index = DOCUMENTS / "index.md"
    text = rewrite(index.read_text(encoding="utf-8"), "verdicts", "\n".join(lines))
    index.write_text(text, encoding="utf-8")


def verdicts_of(page: str) -> list[tuple[str, str]]:
    """Return (claim, verdict) for each heading of a page that has a verdict under it."""
    found = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        word = re.search(r"^\*\*(Agrees|Agrees in part|Does not agree)\.\*\*$", part, re.MULTILINE)
        if word:
            found.append((part.splitlines()[0], word[1].lower()))
    return found
