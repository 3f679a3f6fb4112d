"""Fits random problems in processes of their own, and checks what they claim."""

import multiprocessing
import time
from collections import Counter
from multiprocessing.connection import wait

from fuzz.cases import random_case

# A case takes a second or two. The first of its kind compiles: with ten other processes for each
# core, that took more than two minutes.
_SECONDS_FOR_A_CASE = 600.0


def run(
    seed: int, *, cases=None, until=None, processes=1, kinds=(), slack=0.0, report=print
) -> int:
    """Check cases until there were so many, or until a time; return how many failed.

    They are of all kinds, or of `kinds` in turn. Each failure is reported as code, as soon as it
    is known; at the end, how many cases there were of each kind.
    """
    tally, failed, begun = Counter(), 0, 0
    workers = [_Worker(slack) for _ in range(processes)]
    try:
        while True:
            for worker in workers:
                more = cases is None or begun < cases
                if worker.case is None and more and (until is None or time.time() < until):
                    kind = kinds[begun % len(kinds)] if kinds else None
                    worker.start(random_case(seed, begun, kind))
                    begun += 1
            busy = [worker for worker in workers if worker.case is not None]
            if not busy:
                break
            wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in busy:
                case, found = worker.case, worker.result()
                if worker.case is not None:
                    continue
                tally[case.kind if found is not None else "refused"] += 1
                if found:
                    failed += 1
                    report(in_full(case, found))
    finally:
        for worker in workers:
            worker.end()
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(tally.items()))
    report(f"certificates: seed {seed}, {tally.total()} cases ({kinds}), {failed} failed")
    return failed


def in_full(case, found) -> str:
    """Return what is wrong with a case, and code that has it again."""
    title = f"--- {case.kind}, {case.name}"
    return "\n".join([title, *(f"# {each}" for each in found), case.code()])


class _Worker:
    """A process that checks one case at a time, and is replaced where it hangs or dies."""

    def __init__(self, slack):
        self.slack, self.case = slack, None
        self._begin()

    def _begin(self):
        # Not forked: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_check, args=(theirs, self.slack), daemon=True)
        self.process.start()
        theirs.close()

    def start(self, case):
        self.case, self.started = case, time.monotonic()
        self.pipe.send(case)

    def result(self):
        """Return what was wrong with the case, if that is known, which then is no more."""
        if self.pipe.poll():
            try:
                found = self.pipe.recv()
            except EOFError:
                self.process.join()
                found = [f"the process died with exit code {self.process.exitcode}"]
                self._begin()
        elif time.monotonic() - self.started > _SECONDS_FOR_A_CASE:
            found = [f"no end after {_SECONDS_FOR_A_CASE:g} seconds"]
            self.end()
            self._begin()
        else:
            return None
        self.case = None
        return found

    def end(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _check(pipe, slack):
    """Answer each case with what is wrong with it, until nobody asks any more."""
    from fuzz.checks import failures

    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        pipe.send(failures(case, slack))
