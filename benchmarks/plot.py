"""Pictures of results files, for the documentation.

    python -m benchmarks.plot benchmarks/results/text.jsonl

writes docs/images/text.svg and puts it into docs/benchmarks.md: a row for each cell, and in it a
mark for each peer at the time that it took, or on the right if it did not get there. The same
results give the same file, byte by byte.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator

from benchmarks import analyse
from benchmarks.analyse import OURS, ROOT, Results
from benchmarks.problems import Cell

FOLDER = ROOT / "docs" / "images"
# Okabe and Ito's colours, told apart by all eyes; shapes tell them apart without any.
LOOKS = {
    OURS: ("#000000", "o"),
    "sklearn LinearSVC": ("#e69f00", "s"),
    "liblinear-official": ("#0072b2", "D"),
    "snapml": ("#009e73", "^"),
    "skglm": ("#cc79a7", "v"),
    "lightning": ("#777777", "<"),
    "ReHLine": ("#8a6d00", ">"),
    "sklearn SGD": ("#56b4e9", "P"),
    "sklearn SVC": ("#d55e00", "X"),
}
# Inches; narrow, so that the words are not too small where a phone shrinks it to its width.
WIDTH, ROW_HEIGHT, SECOND_LINE_HEIGHT, MARGIN_HEIGHT = 5.6, 0.27, 0.1, 1.4
KEY_COLUMNS = 3
INK, FAINT = "#222222", "#dddddd"
STYLE = {
    "svg.hashsalt": "widemargin",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.spines.bottom": False,
}


def picture(results: Results):
    """A figure of one results file: times on the left; on the right, who did not get there."""
    cells = results.cells
    row_height = ROW_HEIGHT + SECOND_LINE_HEIGHT * (problem_of_all(cells) is None)
    with plt.rc_context(STYLE):
        figure, (times, missed) = plt.subplots(
            ncols=2,
            sharey=True,
            figsize=(WIDTH, MARGIN_HEIGHT + row_height * len(cells)),
            width_ratios=(10, len(results.peers)),
            layout="constrained",
        )
        for row, cell in enumerate(cells):
            for axes in (times, missed):
                axes.axhline(row, color=FAINT, linewidth=0.8, zorder=1)
            summaries = results.summaries(cell)
            for place, peer in reversed(list(enumerate(results.peers))):  # ours is on top
                summary = summaries.get(peer)
                if summary is not None and summary.reached:
                    _dot(times, summary.seconds, row, peer, filled=True)
                elif summary is not None:
                    _dot(missed, place, row, peer, filled=False)
        _set_axes(times, missed, results)
        _set_words(figure, missed, results)
    return figure


def _dot(axes, x: float, row: int, peer: str, filled: bool) -> None:
    color, marker = LOOKS[peer]
    axes.plot(
        x,
        row,
        marker=marker,
        markersize=8 if peer == OURS else 7,
        markeredgecolor=color,
        markerfacecolor=color if filled else "white",
        markeredgewidth=1.4,
        linestyle="none",
        zorder=3,
        clip_on=False,
    )


def _set_axes(times, missed, results: Results) -> None:
    cells = results.cells
    times.set_xscale("log")
    times.set_xlim(right=10 ** np.ceil(np.log10(times.dataLim.x1)))
    times.set_yticks(range(len(cells)), _labels(cells), fontsize=9, linespacing=1.1)
    times.set_ylim(len(cells) - 0.4, -0.6)
    times.xaxis.set_major_locator(LogLocator(base=10))
    times.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g} s"))
    times.xaxis.set_minor_locator(plt.NullLocator())
    times.grid(axis="x", color=FAINT, linewidth=0.8)
    missed.set_xlim(-0.7, len(results.peers) - 0.3)
    missed.set_xticks([])
    for axes in (times, missed):
        axes.tick_params(length=0)


def problem_of_all(cells: list[Cell]) -> str | None:
    """The problem that all cells have in common, in words, if they do."""
    problems = {cell.in_words for cell in cells}
    return problems.pop() if len(problems) == 1 else None


def _labels(cells: list[Cell]) -> list[str]:
    """Data and C of each row; and its problem, where rows differ in it."""
    shared = problem_of_all(cells) is not None
    return [
        f"{cell.data}, C = {cell.C:g}" + ("" if shared else f"\n{cell.in_words}") for cell in cells
    ]


def _set_words(figure, missed, results: Results) -> None:
    missed.set_xlabel("not\nreached", fontsize=9)
    figure.legend(
        handles=[_key(peer) for peer in results.peers],
        title=title(results),
        title_fontproperties={"size": 11, "weight": "bold"},
        alignment="left",
        loc="outside upper left",
        ncols=KEY_COLUMNS,
        frameon=False,
        handletextpad=0.2,
        columnspacing=1.2,
    )


def _key(peer: str) -> Line2D:
    color, marker = LOOKS[peer]
    return Line2D([], [], color=color, marker=marker, markersize=7, linestyle="none", label=peer)


def title(results: Results) -> str:
    """What the picture shows, in words."""
    problem = problem_of_all(results.cells)
    percent = 100 * results.machine["target"]
    return f"Seconds to within {percent:g} % of the optimum{f', {problem}' if problem else ''}"


def save(figure, path: Path) -> None:
    """Write a figure without a date in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    with plt.rc_context(STYLE):
        figure.savefig(path, facecolor="white", metadata=metadata)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="JSON lines that benchmarks.run wrote")
    options = parser.parse_args()
    results = analyse.read(options.results)
    if not results.fits:
        print(f"{options.results.name} holds no measurement; there is nothing to draw")
        return
    grid = results.machine["grid"]
    save(picture(results), FOLDER / f"{grid}.svg")
    shown = f"![{title(results)}: a mark for each peer in each row](images/{grid}.svg)"
    analyse.rewrite_all(analyse.DOCUMENTS, f"{grid}-picture", shown)
    print(f"wrote {grid}.svg")


if __name__ == "__main__":
    main()
