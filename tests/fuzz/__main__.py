"""Look for failures that nobody has thought of: ``make fuzz``.

Property tests run on new random examples in one process, fits whose certificates are checked in
exact arithmetic (`fuzz.certificates`) in another. Each failure is printed with code that has it
again.
"""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import SystemRandom

from fuzz import certificates

ROOT = Path(__file__).parents[2]
_NO_TESTS_RAN = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long")
    parser.add_argument("--seed", type=int, help="of all examples; a random one by default")
    parser.add_argument("--cases", type=int, help="check so many certificates, and nothing else")
    parser.add_argument("--kinds", help="of these cases alone, such as LinearSVC,svm_path")
    parser.add_argument("--processes", type=int, default=2, help="with --cases")
    parser.add_argument(
        "--slack", type=float, default=0.0, help="let pass claims that are false by less"
    )
    options = parser.parse_args()
    seed = SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"fuzz: seed {seed} (to have the same again: make fuzz SEED={seed})", flush=True)
    report = _Report()
    kinds = tuple(options.kinds.split(",")) if options.kinds else ()
    if options.cases is not None:
        settings = {"cases": options.cases, "processes": options.processes, "kinds": kinds}
        return int(certificates.run(seed, slack=options.slack, report=report, **settings) > 0)
    until = time.time() + 60.0 * options.minutes
    failed = []

    def check_certificates():
        if certificates.run(seed, until=until, slack=options.slack, report=report):
            failed.append("certificates")

    thread = threading.Thread(target=check_certificates, daemon=True)  # Ctrl-C ends it, too
    thread.start()
    rounds = 0
    while time.time() < until:
        if not _try_properties(seed + rounds, until, report):
            failed.append("property tests")
        rounds += 1
    thread.join()
    report(f"fuzz: seed {seed}, {rounds} rounds of property tests; failed: {failed or 'nothing'}")
    return int(bool(failed))


class _Report:
    """Prints what two threads have to say, one at a time."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, text):
        with self.lock:
            print(text, flush=True)


def _try_properties(seed, until, report) -> bool:
    """Run all property tests on the examples of a seed; return whether none failed."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"),
            *("-r", "f", f"--fuzz-until={until}", f"--hypothesis-seed={seed}"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ended_well = done.returncode in (0, _NO_TESTS_RAN)
    text = done.stdout.strip()
    report(
        f"property tests: seed {seed}, {text.splitlines()[-1]}"
        if ended_well
        else f"{text}\nproperty tests: pytest --fuzz-until=inf --hypothesis-seed={seed}"
    )
    return ended_well


if __name__ == "__main__":
    sys.exit(main())
