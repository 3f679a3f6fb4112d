"""Tables of a page of the documentation, each remade by a section of a benchmark."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.analyse import rewrite
from widemargin.datasets import DatasetMissing


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, and print its rows."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    for row in rows:
        lines.append("| " + " | ".join(row) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def apart(task, *arguments):
    """Return task(*arguments), computed in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(task, *arguments).result()


def named(parser: argparse.ArgumentParser, kind: str, names: Iterable[str]) -> list[str]:
    """Return those of `names` that the command line gives, or all if it gives none."""
    names = list(names)
    parser.add_argument("chosen", nargs="*", metavar=kind.upper(), help=", ".join(names))
    chosen = parser.parse_args().chosen or names
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        parser.error(f"no {kind} is called {unknown[0]!r}")
    return chosen


def run(description: str, document: Path, sections: dict[str, Callable[[], str]], warm_up) -> None:
    """Run the sections named on the command line, or all, and rewrite their tables.

    A section whose data is missing is skipped; its table stays.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    chosen = named(parser, "section", sections)
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1: products are compared on one thread")
    warm_up()
    for name in chosen:
        print(f"\n{name}", flush=True)
        try:
            text = sections[name]()
        except DatasetMissing as missing:
            print(f"skipped, its table stays as it is: {missing}", flush=True)
            continue
        page = document.read_text(encoding="utf-8")
        document.write_text(rewrite(page, name, text), encoding="utf-8")
