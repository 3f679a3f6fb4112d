"""Cutting planes: SVM-perf, OCAS, and OCAS with cheaper line searches.

Problem
    min over w, b   F = 1/2 |w|^2 (+ 1/2 |b|^2 if penalised) + r(X w + b)      any risk, any rows
Each iteration
    1. solves the reduced problem, which has planes in place of r (see bundle.py): a point w_t, and
       a lower bound on F that never falls;
    2. does a line search from the best point so far, w_b:  w_b <- w_b + step (w_t - w_b);
    3. adds a new plane at w_c, between the new w_b and w_t.

"cpa"   step 1, plane at w_t.                       Joachims 2006, Algorithm 1
"ocas"  the step that minimises F, plane at 0.1.    Franc & Sonnenburg 2008, Algorithm 2;
                                                    Arnosti 2010, section II, for several classes
"gca"   the best step of three grids.               Arnosti 2010, Algorithm 1
"gca2"  grids walked downhill from the last step.   Arnosti 2010, Algorithm 2
"tca"   a window of three steps.                    Arnosti 2010, Algorithm 3

"cpa-paper", "ocas-paper" and so on are these algorithms to the letter: see PUBLISHED_PLANES in
settings.py. The others drop and merge planes, and end by the certified gap of the best point.

The scores of all three points are combinations of two vectors. So an iteration costs one product
X w and one X^T g, whatever the line search. A free intercept is an unpenalised variable of the
reduced problem. If many steps in a row are 0, each adds only one plane; then a small step is taken
instead (Arnosti 2010, section V). The best point is kept.

Memory besides the rows: five vectors of scores, and the memory of the bundle (see its docstring).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from widemargin.certificate import Certificate
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import RowLine
from widemargin.solvers.base import AsksOracle, Solver
from widemargin.solvers.bundle import Bundle
from widemargin.solvers.gpu_oracle import GpuOracle
from widemargin.solvers.line_search import (
    Penalty,
    ThreePoint,
    TruncatedGrid,
    bracketed,
    exact,
    grid,
)
from widemargin.solvers.oracle import Answer, Oracle, Place
from widemargin.solvers.settings import PUBLISHED_PLANES, CuttingPlaneSettings


@dataclass(frozen=True)
class CuttingPlanes(AsksOracle):
    """Solver for any risk over any rows."""

    method: str = "ocas"  # or "cpa", "gca", "gca2", "tca"
    settings: CuttingPlaneSettings = CuttingPlaneSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        on_gpu = self.method == "ocas" and GpuOracle.can_answer(problem)
        return self.ask((GpuOracle if on_gpu else Oracle)(problem, monitor), state)

    def ask(self, oracle: Any, state: State, bundle: Bundle | None = None) -> State:
        """As `solve`, with the answers of an oracle, wherever the rows are.

        The planes in `bundle` must be below the oracle's risk. New planes are added to it.
        """
        bundle = no_planes(oracle, state, self.settings) if bundle is None else bundle
        with np.errstate(over="ignore", invalid="ignore"):  # of planes that are too steep
            return _Run(oracle, state, self, bundle).run()


@dataclass(frozen=True)
class PublishedPlanes(Solver):
    """The algorithms to the letter: "cpa-paper", "ocas-paper" and so on."""

    method: str

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """As `CuttingPlanes` does, with the settings of the papers."""
        return CuttingPlanes(self.method, PUBLISHED_PLANES[self.method]).solve(
            problem, state, monitor
        )


def no_planes(
    oracle: Any, state: State, settings: CuttingPlaneSettings = CuttingPlaneSettings()
) -> Bundle:
    """Return a bundle for an oracle's planes."""
    place = oracle.place(state.coef, state.offset)
    return Bundle(place.vector, place.free.size, oracle.proof.merge, settings)


class _Run:
    """One run: the bundle, the current point, and the best one."""

    def __init__(self, oracle: Any, state: State, solver: CuttingPlanes, bundle: Bundle):
        self.oracle, self.monitor = oracle, oracle.monitor
        self.method, self.settings = solver.method, solver.settings
        self.search = {
            "gca": self._grid,
            "gca2": TruncatedGrid(self.settings.steps),
            "tca": ThreePoint(self.settings.steps),
        }.get(solver.method, self._exact)
        self.last_step = 0.1
        self.zero_steps = 0  # in a row
        self.center = oracle.place(state.coef, state.offset)
        self.value = np.inf  # of the objective at the center
        self.best, self.best_primal = self.center, np.inf
        self.dual = state.dual
        self.active = 0
        self.certified = False
        self.bundle = bundle

    def run(self) -> State:
        monitor = self.monitor
        known, answer = self.oracle.begin(self.center, self.dual)
        for plane in known:
            self.bundle.add(*plane)
        self._take(answer)
        with monitor.phase("reduced problem"):
            tolerance = self.settings.reduced_tolerance * monitor.tol * self.best_primal
            self.bundle.solve(tolerance)
        self._check()
        while monitor.status == "running":
            self._iterate()
        if not self.certified:  # a callback asked to stop
            monitor.settle(self._certified())
        return self._state()

    def _iterate(self) -> None:
        monitor, settings = self.monitor, self.settings
        with monitor.phase("reduced problem"):
            gap = self.best_primal - self.bundle.value
            target = Place(*self.bundle.solve(settings.reduced_tolerance * gap))
        if self.method == "cpa":
            answer = self.oracle.jump(target)
        else:
            tired = self.zero_steps + 1 >= settings.patience
            least = settings.smallest_step if tired else 0.0
            answer = self.oracle.step(self.center, target, self.search, least, settings.plane_at)
            self.zero_steps = self.zero_steps + 1 if answer.step in (0.0, least) else 0
        self._take(answer)
        monitor.iteration += 1
        self._check()

    def _take(self, answer: Answer) -> None:
        """Add the plane, move to the new point, and keep it if it is the best one."""
        with self.monitor.phase("planes"):
            self.bundle.add(*answer.plane)
        self.center, self.value, self.active = answer.center, answer.value, answer.active
        if answer.value < self.best_primal:
            self.best_primal = answer.value
            self.best = Place(answer.center.vector, answer.center.free)

    def _exact(self, penalty: Penalty, line: Any) -> tuple[float, float]:
        if isinstance(line, RowLine):
            step, value = exact(penalty, line, guess=self.last_step)
        else:
            gap = self.best_primal - self.bundle.value
            tolerance = self.settings.search_tolerance * gap
            step, value = bracketed(penalty, line, self.last_step, tolerance)
        if step > 0.0:
            self.last_step = step
        return step, value

    def _grid(self, penalty: Penalty, line: Any) -> tuple[float, float]:
        return grid(penalty, line, self.settings.steps)

    # --- the proof ------------------------------------------------------------------------

    def _state(self) -> State:
        coef, offset = self.oracle.split(self.best)
        return State(coef, offset, self.dual)

    def _check(self) -> None:
        monitor = self.monitor
        certificate = Certificate(self.best_primal, min(self.bundle.value, self.best_primal))
        rule = None if self.settings.rule == "certified" else self._rule_holds()
        enough = certificate.relative_gap <= monitor.tol if rule is None else rule
        self.certified = enough or monitor.must_stop()
        if self.certified:
            certificate = self._certified()
            self.best_primal = certificate.primal
        monitor.check(certificate, self._state(), self.active, rule)

    def _rule_holds(self) -> bool:
        """Return whether a paper's own rule says stop: see `rule` in settings.py."""
        gap, tol = self.value - self.bundle.value, self.monitor.tol
        if self.settings.rule == "objective":
            return gap <= tol * self.value
        return gap <= tol * self._risk_at_zero

    @cached_property
    def _risk_at_zero(self) -> float:
        rows, risk = self.oracle.problem.rows, self.oracle.problem.risk
        return risk.value(np.zeros((rows.n_rows, *risk.outputs), like=rows.like))

    def _certified(self) -> Certificate:
        with self.monitor.phase("certificate"):
            slopes = self.bundle.slopes()
            certificate, self.dual = self.oracle.certify(self.best, slopes, self.dual)
        return certificate
