"""Turn results files into tables, and put the tables into the documentation.

    python -m benchmarks.analyse benchmarks/results/text.jsonl

rewrites what lies between ``<!-- table:NAME -->`` and ``<!-- end -->`` in docs/benchmarks.md and
README.md, where NAME is the grid of the results (times) or GRID-costs (memory, compilation).
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import peers
from benchmarks.problems import Cell, best_bound, relative_suboptimality

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "docs" / "benchmarks.md", ROOT / "README.md"]
OURS = "widemargin"


@dataclass(frozen=True)
class Summary:
    """How one peer fared on one cell.

    `seconds` is the time of the fastest setting that met the target; where none did, it is the
    longest fit that was tried. `excess` is the best objective of all fits, as a fraction above
    the lower bound. Where no fit ended well, both are None.
    """

    reached: bool
    seconds: float | None
    excess: float | None


@dataclass
class Results:
    """A results file, sorted out: `records` are all but the machine's, which comes first."""

    machine: dict
    records: list[dict]
    references: dict[str, dict]
    fits: dict[tuple[str, str], list[dict]]

    def of_cell(self, cell: str) -> list[dict]:
        """The reference and every fit of one cell."""
        fits = [fit for (at, _), fits in self.fits.items() if at == cell for fit in fits]
        return [self.references[cell], *fits]

    def of_kind(self, kind: str) -> list[dict]:
        return [record for record in self.records if record["kind"] == kind]

    @property
    def cells(self) -> list[Cell]:
        """The grid's cells that have an optimum to be measured against."""
        cells = [Cell(**fields) for fields in self.machine["cells"]]
        return [cell for cell in cells if cell.name in self.references]

    @property
    def peers(self) -> list[str]:
        """Names of the peers measured, in the order of `benchmarks.peers`."""
        place = {r["peer"]: peers.MODULES.index(r["peer_module"]) for r in self.of_kind("fit")}
        return sorted(place, key=place.__getitem__)

    def summaries(self, cell: Cell) -> dict[str, Summary]:
        """How each peer fared that was measured on the cell, by name."""
        bound = best_bound(self.of_cell(cell.name))
        failed = [r["peer"] for r in self.of_kind("failed") if r["cell"] == cell.name]
        summaries = dict.fromkeys(failed, Summary(False, None, None))
        for (at, peer), fits in self.fits.items():
            if at == cell.name:
                summaries[peer] = summarise(fits, bound, self.machine["target"])
        return summaries


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
        records=records[1:],
        references={r["cell"]: r for r in records if r["kind"] == "reference"},
        fits=dict(fits),
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


def skipped(results: Results) -> dict[str, list[str]]:
    """Data sets and peers that were skipped in some cell, by the reason why."""
    subjects = defaultdict(list)
    for record in results.of_kind("skipped"):
        subject = record.get("peer_module", record["cell"].split("/")[0])
        if subject not in subjects[record["why"]]:
            subjects[record["why"]].append(subject)
    return dict(subjects)


def skipped_in_words(results: Results) -> list[str]:
    return [f"Skipped {', '.join(who)}: {why}" for why, who in skipped(results).items()]


# --- tables ---------------------------------------------------------------------------------


def table(results: Results) -> str:
    """Markdown: one row per cell, time to the target per peer and its ratio to the fastest."""
    names = results.peers
    lines = [
        "| data | problem | C | optimum | " + " | ".join(names) + " |",
        "| --- | --- | ---: | ---: |" + " ---: |" * len(names),
    ]
    for cell in results.cells:
        summaries = results.summaries(cell)
        fastest = min((s.seconds for s in summaries.values() if s.reached), default=None)
        columns = [cell.data, cell.in_words, f"{cell.C:g}", _optimum(results.of_cell(cell.name))]
        columns += [_entry(summaries.get(name), fastest) for name in names]
        lines.append("| " + " | ".join(columns) + " |")
    return "\n".join([*lines, "", caption(results)])


def _optimum(records: list[dict]) -> str:
    """The smallest objective anyone reached, and how far below it the bound lies."""
    best = min(record.get("objective", record.get("primal")) for record in records)
    gap = relative_suboptimality(best, best_bound(records))
    return f"{best:.6g} (gap {max(gap, 0.0):.0e})"


def _entry(summary: Summary | None, fastest: float | None) -> str:
    if summary is None:
        return "—"
    if summary.seconds is None:
        return "✗"
    if not summary.reached:
        percent = 100 * summary.excess
        above = f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"
        above = above if percent < 1000 else "over 1000"
        return f"✗ {above} % above after {_seconds(summary.seconds)}"
    if summary.seconds == fastest:
        return f"**{_seconds(summary.seconds)}**"
    return f"{_seconds(summary.seconds)} ({summary.seconds / fastest:.1f}×)"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 0.01 else f"{seconds:.3g} s"


def caption(results: Results) -> str:
    """What the figures are and what they ran on."""
    text = (
        f"Time to relative primal suboptimality {results.machine['target']:g}, one thread; the "
        "fastest of each row is bold, and the others have their ratio to it. ✗: not reached, with "
        "the best objective of all fits and the time of the longest; —: not asked (it does not "
        f"have the problem, or the rows are too many for it). {in_words(results.machine)}"
    )
    if OURS in results.peers:
        text += f" {_record_of_ours(results)}"
    left_out = [subject for subjects in skipped(results).values() for subject in subjects]
    if left_out:
        text += f" Skipped, for want of data or of the library: {', '.join(left_out)}."
    return text


def _record_of_ours(results: Results) -> str:
    """In how many rows we are the fastest, and the rows in which we are not."""
    lost, n_rows = [], 0
    for cell in results.cells:
        summaries = results.summaries(cell)
        ours = summaries.get(OURS)
        if ours is None:
            continue
        n_rows += 1
        times = {peer: s.seconds for peer, s in summaries.items() if s.reached}
        if not ours.reached:
            lost.append(f"{cell.title} (not reached)")
        elif (fastest := min(times, key=times.__getitem__)) != OURS:
            ratio = ours.seconds / times[fastest]
            lost.append(f"{cell.title} ({fastest}; ours takes {ratio:.1f} times as long)")
    text = f"{OURS} is the fastest in {n_rows - len(lost)} of {n_rows} rows"
    return text + (f"; not in: {'; '.join(lost)}." if lost else ".")


def in_words(machine: dict) -> str:
    """A machine record as a sentence."""
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    cores = f"{machine['cores']} core{'s' * (machine['cores'] != 1)}"
    return (
        f"{machine['cpu']}, {cores}, {machine['system']}, Python {machine['python']}; "
        f"{versions}; {machine['day']}."
    )


def costs_table(results: Results) -> str:
    """Markdown: per peer, what its first fit takes longer than a later one, and its memory."""
    told = [record for record in results.of_kind("peer") if "bytes_with_data" in record]
    data = list(dict.fromkeys(cell.data for cell in results.cells))
    lines = [
        "| peer | first fit longer by | " + " | ".join(data) + " |",
        "| --- | ---: |" + " ---: |" * len(data),
    ]
    for peer in results.peers:
        of_peer = [record for record in told if record["peer"] == peer]
        if not of_peer:
            continue
        longer = median(record["first_fit_s"] - record["warm_fit_s"] for record in of_peer)
        memory = []
        for name in data:
            taken = [
                record["bytes_at_peak"] - record["bytes_with_data"]
                for record in of_peer
                if record["cell"].startswith(f"{name}/") and record["bytes_at_peak"]
            ]
            memory.append(f"{max(taken) / 2**20:,.0f} MiB" if taken else "—")
        lines.append(f"| {peer} | {max(longer, 0.0):.2f} s | " + " | ".join(memory) + " |")
    return "\n".join(lines)


def rewrite(document: str, name: str, new_table: str) -> str:
    """`document` with the table between the markers of `name` replaced."""
    pattern = re.compile(rf"(<!-- table:{re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"the document has no markers <!-- table:{name} --> and <!-- end -->")
    return pattern.sub(lambda match: f"{match[1]}{new_table}\n{match[2]}", document, count=1)


def rewrite_all(documents: list[Path], name: str, new_table: str) -> None:
    """Replace the table in those of `documents` that have its markers; one of them must."""
    texts = {path: path.read_text(encoding="utf-8") for path in documents}
    marked = [path for path, text in texts.items() if f"<!-- table:{name} -->" in text]
    for path in marked or documents[:1]:
        path.write_text(rewrite(texts[path], name, new_table), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="JSON lines that benchmarks.run wrote")
    parser.add_argument(
        "--documents", type=Path, nargs="+", default=DOCUMENTS, help="where to put the tables"
    )
    options = parser.parse_args(arguments)
    results = read(options.results)
    if not results.fits:
        print(f"{options.results.name} holds no measurement; the documents stay")
        return
    grid = results.machine["grid"]
    rewrite_all(options.documents, grid, table(results))
    rewrite_all(options.documents, f"{grid}-costs", costs_table(results))
    print(table(results))


if __name__ == "__main__":
    main()
