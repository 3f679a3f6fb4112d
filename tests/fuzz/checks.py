"""What must be true of every fit, whatever the problem.

* An error is a ValueError that says what is wrong with the input.
* Coefficients and certificates are finite numbers.
* The primal value is no less than the exact objective of the coefficients, and near it.
* The dual value is no more than the exact objective of any point, whoever found it.
* A status of "converged" goes with a gap of no more than `tol`, any other with a warning.
* `certify` finds the same.
"""

import traceback
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
from exact import optimum_of
from exact_points import exact_optimum
from fuzz.cases import Case
from fuzz.choices import choice_failures
from fuzz.fits import fits
from fuzz.measures import at_cost, size_of
from fuzz.objective import ExactProblem
from fuzz.one_class import one_class_failures
from fuzz.polish import polished
from fuzz.proofs import exact_failures, proof_failures
from fuzz.refine import refined
from scipy.linalg import LinAlgWarning
from scipy.sparse import SparseEfficiencyWarning
from sklearn.exceptions import ConvergenceWarning

import widemargin
from widemargin.data import as_rows
from widemargin.estimators.proof import can_be_proved
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import (
    CrammerSinger,
    LogisticRisk,
    MarginRisk,
    PairwiseHinge,
    RowRisk,
    SmoothRisk,
)
from widemargin.risk.sides import TwoSidedRisk
from widemargin.solvers import auto

# How far above its objective a primal value may be, in parts of the largest sums it is made of.
_LOOSE = 1e-6
# As much of an objective as a solver of another kind leaves.
_CLARABEL = 1e-6
_NOTHING = Fraction(1, 10**300)
# The exact optimum is asked for where a dual value is so near it, and takes longer than all else.
_NEAR = 1e-6
# So many rows are left out, each by itself.
_LEFT_OUT = 2
# What can be audited, and has proofs.
_AUDITED = ("LinearSVC", "LinearSVR", "LinearSVR targets")


def failures(case: Case, slack: float = 0.0) -> list[str] | None:
    """Fit, and return what is wrong with it, in a few words each; None if X, y were refused.

    Claims that are false by less than `slack` of their value are let pass.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = fits(case)
        except ValueError as error:
            return None if _is_about_the_input(error) else [_in_words(error)]
        except Exception as error:
            return [_in_words(error)]
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    wrong = [
        f"a warning of {warning.category.__name__}: {warning.message}"
        for warning in caught
        if issubclass(warning.category, _STRAY)
    ][:1]
    for fit in found:
        try:
            wrong += _Check(case, *fit).failures(warned, Fraction(slack))
        except Exception as error:
            wrong.append("in the check: " + _in_words(error))
    return wrong


# Warnings of libraries, that say nothing about what was given.
_STRAY = (RuntimeWarning, LinAlgWarning, SparseEfficiencyWarning, DeprecationWarning)


# Where documented errors come from: checks of what was given.
_CHECKS = (
    "validation.py",
    "problems.py",
    "ranking.py",
    "measure_svc.py",
    "folds.py",
    "_split.py",
    "auto.py",
    "kernel_maps.py",
    "path_certificate.py",
)


def _is_about_the_input(error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.endswith(_CHECKS)


def _in_words(error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = last.filename.rsplit("/", 1)[-1]
    return f"{type(error).__name__} from {last.name} of {place}: {str(error)[:200]}"


class _Check:
    """One model, and the problems that it claims to have solved; see `fits.Fit`."""

    def __init__(self, case, problems, points, certificate, status, model=None):
        self.case, self.problems, self.points = case, problems, points
        self.certificate, self.status, self.model = certificate, status, model

    def failures(self, warned, slack):
        if self.case.estimator == "LinearOneClassSVM":
            found = one_class_failures(self.case, self.model, slack)
        else:
            found = self._part_failures(slack)
        if self.status != "converged" and not warned:
            found.append(f"no warning, with status {self.status}")
        if self.model is None or found:
            return found
        found = self._certified_again()
        if self.case.estimator.endswith("CV"):
            found = found or choice_failures(self.case, self.model)
        # Neither audit nor prove takes sparse penalties.
        if self.case.kind in _AUDITED and self.case.layout != "disk":
            found = found or self._audited(slack) + self._proved()
        return found

    def _part_failures(self, slack):
        tol = self.case.training["tol"]
        parts = self.certificate.parts or (self.certificate,)
        found = []
        for problem, point, part in zip(self.problems, self.points, parts, strict=True):
            found += check_part(problem, point, part, self.case, slack)
            if self.status == "converged" and not part.relative_gap <= tol:
                found.append(f"converged, with a gap of {part.relative_gap:g} above tol={tol:g}")
        return found

    def _audited(self, slack):
        audit = widemargin.audit(self.model, **self.case.data, tol=1e-2, max_time=0.2)
        parts = audit.certificate.parts or (audit.certificate,)
        found = []
        for problem, point, part in zip(self.problems, self.points, parts, strict=True):
            found += check_part(problem, point, part, self.case, slack)
        return [f"audit: {each}" for each in found]

    def _proved(self):
        if not can_be_proved(self.model):
            return []
        parts = self.certificate.parts or (self.certificate,)
        known = []
        for problem, part in zip(self.problems, parts, strict=True):
            state = solve_well_scaled(problem, self.case, _another_solver(problem, self.case))
            if state is None:
                return []
            exact = _exact(problem, self.case)
            objective = exact.objective(state.coef, state.offset)
            known.append((state.coef, objective - Fraction(part.dual)))
        return proof_failures(self.model, self.case.data, known) or self._proved_exactly()

    def _proved_exactly(self):
        """Check what is proved by the optimum itself, where that can be found in fractions."""
        proof = widemargin.prove(self.model, **self.case.data)
        random = np.random.default_rng(self.case.matrix.shape)
        without = random.permutation(len(self.case.matrix))[:_LEFT_OUT].tolist()

        def best(problem):
            for name in ("newton", "acf"):
                state = solve_well_scaled(problem, self.case, name)
                found = None if state is None else exact_optimum(problem, state)
                if found is not None:
                    return found
            return None

        return exact_failures(proof, self.problems, self.case.matrix, without, best)

    def _certified_again(self):
        again = widemargin.certify(self.model, **self.case.data)
        found = []
        for name in ("primal", "dual"):
            claimed, proved = getattr(self.certificate, name), getattr(again, name)
            size = max(abs(claimed), abs(self.certificate.primal))
            rounding = self.certificate.rounding + again.rounding
            if not abs(claimed - proved) <= _LOOSE * size + rounding:
                found.append(f"{name} value is {claimed!r}, certify's {proved!r}")
        pairs = zip(self.certificate.parts, again.parts, strict=True)
        for mine, fresh in pairs if again.parts else [(self.certificate, again)]:
            # Both gaps include what rounding may have done to them, which another order of sums
            # changes.
            rounding = mine.rounding + fresh.rounding
            if fresh.gap > mine.gap + rounding + _LOOSE * abs(mine.primal):
                found.append(f"a gap of {mine.gap:g}, and certify's is {fresh.gap:g}")
        return found


def check_part(problem, point, part, case, slack=Fraction(0)) -> list[str]:
    """Return what is wrong with the certificate of one problem's solution."""
    coef, offset = point
    if not (np.isfinite(coef).all() and np.isfinite(offset).all()):
        return [f"coefficients are not finite: {coef}, {offset}"]
    if not (np.isfinite(part.primal) and np.isfinite(part.dual)):
        return [f"not finite: primal {part.primal}, dual {part.dual}"]
    found = []
    if part.gap < -slack * part.primal:
        found.append(f"the gap is {part.gap:g}, below zero")
    exact = _exact(problem, case)
    own = exact.objective(coef, offset)
    # The logistic losses below the smallest float64 count as zero.
    if Fraction(part.primal) < own * (1 - slack) - _NOTHING:
        found.append(f"primal {_below(part.primal, own)} the model's exact objective")
    # It may be above the objective by what it says that rounding may have done.
    loose = _LOOSE * _largest_sum(case.matrix, problem, coef, offset) + 3.0 * part.rounding
    if part.primal > float(own) + loose:
        found.append(f"primal value {part.primal!r}, exact objective {float(own)!r}: too loose")
    best, whose = _least(exact, problem, case, own, part)
    if Fraction(part.dual) > best * (1 + slack):
        found.append(f"dual value is {_above(part.dual, best)} an objective (found by {whose})")
    if case.gentle and isinstance(problem.risk, MarginRisk):
        found += _beside_clarabel(problem, part)
    return found


def _exact(problem, case):
    return ExactProblem(case.matrix, problem.risk, problem.intercept, problem.penalty)


def _below(value, exact):
    return f"value {value!r} is {float((exact - Fraction(value)) / exact):.2g} of it below"


def _above(value, exact):
    excess = Fraction(value) - exact
    by = f"{float(excess / exact):.2g} of it" if exact else f"{float(excess):.2g}"
    return f"{value!r}, {by} above"


def _largest_sum(X, problem, coef, offset):
    """Return the objective with all terms of all sums taken as they are, without their signs."""
    X, risk = np.abs(np.asarray(X, dtype=np.float64)), problem.risk
    with np.errstate(over="ignore"):
        largest = np.abs(risk.target) if isinstance(risk, MarginRisk) else 1.0
        sizes = largest + X @ np.abs(coef) + np.abs(offset)
        if isinstance(risk, TwoSidedRisk):
            losses = size_of(risk, sizes)
        elif isinstance(risk, PairwiseHinge):
            sizes = sizes[risk.rows]
            losses = risk.weight.sum() * float(risk.weight @ sizes) * 2.0
        else:
            sizes = sizes.reshape(len(X), -1).sum(axis=1)
            squared = isinstance(risk, MarginRisk) and risk.loss.high == np.inf
            losses = float(risk.cost @ (sizes**2 if squared else sizes))
        weights = float(np.abs(coef).sum()) + float(np.abs(offset).sum())
        squares = float(np.vdot(coef, coef)) + float(np.vdot(offset, offset))
        return losses + squares + weights * problem.penalty.l1


def _least(exact, problem, case, own, part):
    """Return the least exact objective that anybody has found, and who has."""
    outputs = problem.risk.outputs
    zero = np.zeros((case.matrix.shape[1], *outputs))
    known = [(own, "itself"), (exact.objective(zero, np.zeros(outputs)), "zero")]
    name = _another_solver(problem, case)
    state = solve_well_scaled(problem, case, name)
    if state is not None:
        known.append((exact.objective(state.coef, state.offset), name))
        best, _ = min(known, key=lambda point: point[0])
        if isinstance(problem.risk, MarginRisk) and part.dual >= float(best) * (1.0 - _NEAR):
            optimal = polished(case.matrix, problem, state)
            known += [] if optimal is None else [(optimal, f"{name}, polished")]
        elif isinstance(problem.risk, LogisticRisk):
            nearer = refined(case.matrix, problem, state)
            known += [] if nearer is None else [(nearer, f"{name}, refined")]
    return min(known, key=lambda point: point[0])


def _another_solver(problem, case):
    """Return a solver, another than the case's where there is one."""
    risk = problem.risk
    if not isinstance(risk, RowRisk):
        return "cpa" if case.training["solver"] in ("auto", "ocas") else "ocas"
    if problem.penalty.is_sparse:
        return "proximal"
    if isinstance(risk, SmoothRisk):
        return "newton" if case.training["solver"] != "newton" else "ocas"
    first, second = ("acf", "ocas") if isinstance(risk, CrammerSinger) else ("newton", "acf")
    return first if case.training["solver"] != first else second


def solve_well_scaled(problem, case, name):
    """Return the state that a solver finds for the same problem in other units; None if it fails.

    With X times s and w / s, costs become c / s^2 and the objective s^-2 of itself. Powers of two
    keep all digits.
    """
    largest = np.abs(case.matrix).max(initial=0.0)
    power = -int(np.frexp(largest)[1]) if largest > 0.0 else 0
    if problem.intercept is Intercept.PENALIZED:
        power = 0  # b would have another penalty
    X = np.ldexp(case.matrix.astype(np.float64), power)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        risk = _at_cost(problem.risk, power)
        # |w|_1 becomes s |w|_1, which is s^-2 of itself with a factor of 1 / s.
        penalty = replace(problem.penalty, l1=float(np.ldexp(problem.penalty.l1, -power)))
        scaled = Problem(as_rows(X), risk, problem.intercept, penalty)
        monitor = Monitor(tol=1e-13, max_iter=300, max_time=0.2)
        try:
            state = auto.make(name, risk, 0).solve(scaled, State.zero(scaled), monitor)
        except Exception:  # it is not this solver that is being tested
            return None
        state.coef = np.ldexp(state.coef, power)
        if isinstance(risk, MarginRisk):
            state.dual = np.ldexp(state.dual, 2 * power)
    is_finite = np.isfinite(state.coef).all() and np.isfinite(state.offset).all()
    return state if is_finite else None


def _at_cost(risk, power):
    """Return a risk with all costs divided by 4^power."""
    if isinstance(risk, TwoSidedRisk):
        return at_cost(risk, power)
    if isinstance(risk, PairwiseHinge):
        factor = np.ldexp(1.0, -2 * power)
        return risk.scaled(np.full(risk.n_levels.size, factor))
    cost = np.ldexp(risk.cost, -2 * power)
    if risk.outputs:
        return type(risk)(risk.y, cost, *risk.outputs)
    return risk.over(risk.y, cost)


def _beside_clarabel(problem, part):
    risk = problem.risk
    try:
        least = optimum_of(problem)
    except AssertionError:  # it was not solved
        return []
    slack = _CLARABEL * (abs(least) + 1e-2 * float(risk.cost.sum()) + 1e-3)
    if part.dual > least + slack or part.primal < least - slack:
        return [f"Clarabel's optimum is {least!r}, not within [{part.dual!r}, {part.primal!r}]"]
    return []
