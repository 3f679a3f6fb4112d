"""Turn a results file into a table, and put the table into the documentation.

    python -m benchmarks.analyse benchmarks/results/text.jsonl

rewrites what lies between ``<!-- table:NAME -->`` and ``<!-- end -->`` in docs/benchmarks.md and
README.md, where NAME is the grid of the results.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.problems import Cell, best_bound, relative_suboptimality

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "docs" / "benchmarks.md", ROOT / "README.md"]
OURS = "widemargin"


@dataclass(frozen=True)
class Summary:
    """How one peer fared on one cell.

    `seconds` is the time of the fastest setting that met the target; where none did, it is the
    longest fit that was tried. `excess` is the best objective of all fits, as a fraction above
    the lower bound.
    """

    reached: bool
    seconds: float
    excess: float


@dataclass
class Results:
    """A results file, sorted out."""

    machine: dict
    references: dict[str, dict]
    fits: dict[tuple[str, str], list[dict]]
    skipped: list[dict]

    def of_cell(self, cell: str) -> list[dict]:
        """The reference and every fit of one cell."""
        fits = [fit for (at, _), fits in self.fits.items() if at == cell for fit in fits]
        return [self.references[cell], *fits]

    @property
    def cells(self) -> list[Cell]:
        return [Cell(**fields) for fields in self.machine["cells"]]

    @property
    def peers(self) -> list[str]:
        """Names of the peers measured, ours first, then as they came."""
        seen = dict.fromkeys(peer for _, peer in self.fits)
        return sorted(seen, key=lambda peer: peer != OURS)


def read(path: Path) -> Results:
    """Read a JSON lines file that `benchmarks.run` wrote."""
    records = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if not records or records[0].get("kind") != "machine":
        raise ValueError(f"{path.name} does not begin with a machine record")
    return sort_out(records)


def sort_out(records: list[dict]) -> Results:
    """Group the records of one run by what they tell of."""
    fits = defaultdict(list)
    for record in records:
        if record["kind"] == "fit":
            fits[record["cell"], record["peer"]].append(record)
    return Results(
        machine=records[0],
        references={r["cell"]: r for r in records if r["kind"] == "reference"},
        fits=dict(fits),
        skipped=[record for record in records if record["kind"] == "skipped"],
    )


def summarise(fits: list[dict], bound: float, target: float) -> Summary:
    """Time to the target of one peer on one cell, from all its fits there."""
    by_setting = defaultdict(list)
    for fit in fits:
        by_setting[json.dumps(fit["setting"], sort_keys=True)].append(fit)
    # Medians, since a peer whose random numbers run on from fit to fit differs between repeats.
    good = [
        median(fit["seconds"] for fit in repeats)
        for repeats in by_setting.values()
        if relative_suboptimality(median(fit["objective"] for fit in repeats), bound) <= target
    ]
    best = min(fit["objective"] for fit in fits)
    seconds = min(good) if good else max(fit["seconds"] for fit in fits)
    return Summary(bool(good), seconds, best / bound - 1)


def contradictions(results: Results) -> list[str]:
    """Fits that lie below a certified bound: were there one, the certificate would be wrong."""
    found = []
    for (cell, peer), fits in results.fits.items():
        bound = best_bound(results.of_cell(cell))
        best = min(fit["objective"] for fit in fits)
        if best < bound - 1e-9 * abs(bound):
            found.append(f"{cell}: {peer} found {best!r}, below the bound {bound!r}")
    return found


def skipped_by_reason(results: Results) -> dict[str, list[str]]:
    """What was not measured, gathered under the reason why."""
    subjects = defaultdict(list)
    for record in results.skipped:
        peer = f" by {record['peer_module']}" if "peer_module" in record else ""
        subjects[record["why"]].append(record["cell"] + peer)
    return dict(subjects)


def table(results: Results) -> str:
    """Markdown: one row per cell, time to the target per peer and its ratio to ours."""
    peers = results.peers
    target = results.machine["target"]
    lines = [
        "| data | loss | C | optimum | " + " | ".join(peers) + " |",
        "| --- | --- | ---: | ---: |" + " ---: |" * len(peers),
    ]
    for cell in results.cells:
        if cell.name not in results.references:
            continue
        records = results.of_cell(cell.name)
        bound = best_bound(records)
        summaries = {
            peer: summarise(results.fits[cell.name, peer], bound, target)
            for peer in peers
            if (cell.name, peer) in results.fits
        }
        ours = summaries.get(OURS)
        columns = [cell.data, cell.loss, f"{cell.C:g}", _optimum(records, bound)]
        columns += [_entry(summaries.get(peer), ours, peer == OURS) for peer in peers]
        lines.append("| " + " | ".join(columns) + " |")
    return "\n".join([*lines, "", caption(results.machine)])


def _optimum(records: list[dict], bound: float) -> str:
    """The smallest objective anyone reached, and how far below it the bound lies."""
    best = min(record.get("objective", record.get("primal")) for record in records)
    return f"{best:.6g} (gap {relative_suboptimality(best, bound):.0e})"


def _entry(summary: Summary | None, ours: Summary | None, is_ours: bool) -> str:
    if summary is None:
        return "—"
    comparable = ours is not None and ours.reached and not is_ours
    ratio = summary.seconds / ours.seconds if comparable else None
    if summary.reached:
        return _seconds(summary.seconds) + (f" ({ratio:.1f}×)" if comparable else "")
    percent = 100 * summary.excess
    above = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    text = f"not reached ({above} % above after {_seconds(summary.seconds)}"
    # A peer that gave up before our time was over tells nothing about how long it would take.
    return text + (f"; over {ratio:.1f}×)" if comparable and ratio > 1 else ")")


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.2f} s"


def caption(machine: dict) -> str:
    """One line on what the figures are and what they ran on."""
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    return (
        f"Time to relative primal suboptimality {machine['target']:g}, one thread; in brackets "
        f"the ratio to {OURS}'s time. {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['system']}, Python {machine['python']}; {versions}; {machine['day']}."
    )


def rewrite(document: str, name: str, new_table: str) -> str:
    """`document` with the table between the markers of `name` replaced."""
    pattern = re.compile(rf"(<!-- table:{re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"the document has no markers <!-- table:{name} --> and <!-- end -->")
    return pattern.sub(lambda match: f"{match[1]}{new_table}\n{match[2]}", document, count=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="JSON lines that benchmarks.run wrote")
    parser.add_argument(
        "--documents", type=Path, nargs="+", default=DOCUMENTS, help="where to put the table"
    )
    options = parser.parse_args()
    results = read(options.results)
    if not results.fits:
        parser.error(f"{options.results.name} holds no measurement; the documents stay")
    new_table = table(results)
    for document in options.documents:
        text = document.read_text(encoding="utf-8")
        document.write_text(rewrite(text, results.machine["grid"], new_table), encoding="utf-8")
    print(new_table)


if __name__ == "__main__":
    main()
