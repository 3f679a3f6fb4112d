"""Run the scripts of all papers, or of those named, each in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from benchmarks.analyse import ROOT
from benchmarks.papers import __doc__ as description
from benchmarks.papers.report import PAPERS
from benchmarks.sections import named


def main() -> None:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    failed, started = [], time.perf_counter()
    for name in named(parser, "paper", PAPERS):
        print(f"\n=== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.papers.{name}"]
        began = time.perf_counter()
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(name)
        print(f"=== {name}: {time.perf_counter() - began:.0f} s", flush=True)
    print(f"\nall: {(time.perf_counter() - started) / 60:.0f} minutes", flush=True)
    if failed:
        sys.exit(f"did not end well: {', '.join(failed)}")


if __name__ == "__main__":
    main()
