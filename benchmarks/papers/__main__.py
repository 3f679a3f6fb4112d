"""Run the scripts of all papers, or of those named, each in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.analyse import ROOT
from benchmarks.papers import __doc__ as description
from benchmarks.papers.report import PAPERS
from benchmarks.sections import named


def main() -> None:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    failed = []
    for name in named(parser, "paper", PAPERS):
        print(f"\n=== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.papers.{name}"]
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"did not end well: {', '.join(failed)}")


if __name__ == "__main__":
    main()
