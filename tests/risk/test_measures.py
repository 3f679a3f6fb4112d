"""Risks of measures against all labellings and all rankings, written out."""

from itertools import permutations, product

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.certificate import certify_state, lower_bound, upper_bound
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State, Tangents
from widemargin.risk import AveragePrecision, LabellingRisk, PartialArea, measure_called
from widemargin.solvers.cutting_plane import CuttingPlanes

COUNTED = ["f1", "f2", "f0.5", "prbep", "precision@1", "precision@3", "precision@9", "recall@2"]
COUNTED += ["recall@5", "recall@precision=0.5", "recall@precision=0.75", "recall@precision=1.0"]
RANKED = ["average_precision", "roc_auc@0.3", "roc_auc@1.0"]


def risk_of(name, y, C=1.0, counts=None, group=None):
    measure = measure_called(name)
    if measure.kind == "average_precision":
        return AveragePrecision(y, C, counts, group)
    if measure.kind == "roc_auc":
        return PartialArea(y, C, measure.number, counts, group)
    return LabellingRisk(y, C, measure, counts, group)


def planes_of(name, y):
    """All planes of one group: slopes (m, n), and constants (m,), by the definitions."""
    n, positive = y.size, y > 0
    P, N = positive.sum(), (~positive).sum()
    if name == "average_precision":
        return _rankings(y, P, N)
    if name.startswith("roc_auc"):
        return _pairs(y, P, N, max(1, int(float(name[8:]) * N + 1e-9)))
    slopes, heights = [np.zeros(n)], [0.0]
    for labels in product([False, True], repeat=n):
        found = np.array(labels)
        missed, false = positive & ~found, found & ~positive
        t, f = (found & positive).sum(), false.sum()
        slope = false.astype(float) - missed
        if name[0] == "f":
            beta2 = float(name[1:]) ** 2
            loss = 1.0 - (1.0 + beta2) * t / ((1.0 + beta2) * t + beta2 * missed.sum() + f)
        elif name.startswith("recall@precision"):
            loss = 1.0 - t / P if t and t / (t + f) >= float(name[17:]) - 1e-12 else 1.0
        else:
            k = P if name == "prbep" else min(n, int(name.split("@")[1]))
            if t + f != k:
                continue
            loss = (min(k, P) - t) / (k if name.startswith("precision") else P)
            swaps = min(missed.sum(), f)
            slope = swaps * (false / max(1, f) - missed / max(1, missed.sum()))
        slopes.append(slope)
        heights.append(n * loss)
    return np.array(slopes), np.array(heights)


def _rankings(y, P, N):
    slopes, heights = [], []
    for order in permutations(range(y.size)):
        place = np.argsort(order)
        hits = np.sort(place[y > 0]) + 1
        swapped = (place[:, None] > place) & (y[:, None] > 0) & (y < 0)  # i after j
        heights.append(y.size * (1.0 - np.mean(np.arange(1, P + 1) / hits)))
        slopes.append(y.size / (P * N) * (swapped.sum(axis=0) - swapped.sum(axis=1)))
    return np.array(slopes), np.array(heights)


def _pairs(y, P, N, most):
    """Any set of pairs of all positive rows with at most so many negative ones."""
    high, low = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    slopes, heights = [], []
    for chosen in product(*[[(i, j), None] for i in high for j in low]):
        pairs = [pair for pair in chosen if pair is not None]
        if len({j for _, j in pairs}) <= most:
            slope = np.zeros(y.size)
            for i, j in pairs:
                slope[i] -= 1.0
                slope[j] += 1.0
            slopes.append(y.size / (P * most) * slope)
            heights.append(y.size / (P * most) * len(pairs))
    return np.array(slopes), np.array(heights)


@st.composite
def labelled(draw, most=8):
    """Labels of both signs, and scores, of which many may be equal."""
    n = draw(st.integers(2, most))
    rest = draw(st.lists(st.sampled_from([-1, 1]), min_size=n - 2, max_size=n - 2))
    y = np.array([1, -1, *rest])
    near = st.one_of(st.integers(-2, 2).map(float), st.floats(-3.0, 3.0))
    return y, np.array(draw(st.lists(near, min_size=n, max_size=n)))


@pytest.mark.parametrize("name", COUNTED)
@settings(max_examples=40)
@given(case=labelled(8))
def test_the_most_violated_labelling(name, case):
    y, S = case
    slopes, heights = planes_of(name, y)
    risk, best = risk_of(name, y, 0.7), 0.7 * (slopes @ S + heights).max()
    assert risk.value(S) == pytest.approx(best, abs=1e-9)
    check_plane(risk, S, slopes, heights)


@pytest.mark.parametrize("name", RANKED)
@settings(max_examples=40)
@given(case=labelled(6))
def test_the_most_violated_ranking(name, case):
    y, S = case
    slopes, heights = planes_of(name, y)
    risk = risk_of(name, y, 0.7)
    assert risk.value(S) == pytest.approx(0.7 * (slopes @ S + heights).max(), abs=1e-9)
    check_plane(risk, S, slopes, heights)


def check_plane(risk, S, slopes, heights):
    """The plane touches the risk here, and is below it elsewhere."""
    cut = risk.cut(S)
    assert cut.value == pytest.approx(cut.slope @ S + cut.constant, abs=1e-9)
    rng = np.random.default_rng(0)
    for other in rng.normal(0.0, 2.0, (5, S.size)):
        assert cut.slope @ other + cut.constant <= 0.7 * (slopes @ other + heights).max() + 1e-9
        error = 0.1 * rng.random(S.size)
        bound = risk.bound(S, error)
        near = S + error * rng.uniform(-1.0, 1.0, S.size)
        assert 0.7 * (slopes @ near + heights).max() <= bound.value + 1e-12
        assert bound.value - bound.rounding <= cut.value + 1e-12
    line = risk.line(S, np.ones(S.size)).evaluate([0.0, 0.5])
    assert line.values[0] == cut.value


@pytest.mark.parametrize("name", [*COUNTED, "average_precision", "roc_auc@0.5"])
def test_counts_repeat_rows_and_groups_add_up(name):
    rng = np.random.default_rng(1)
    y, S, group = rng.choice([-1, 1], 40), rng.normal(size=40), rng.integers(0, 5, 40)
    counts = rng.integers(0, 3, 40)
    twice = risk_of(name, np.repeat(y, counts), 1.0, None, np.repeat(group, counts))
    risk = risk_of(name, y, 1.0, counts, group)
    assert risk.value(S) == pytest.approx(twice.value(np.repeat(S, counts)), rel=1e-12)
    alone, n = [], 0
    for g in range(5):
        part = np.repeat(np.flatnonzero(group == g), counts[group == g])
        if np.unique(y[part]).size == 2:
            alone.append(risk_of(name, y[part]).value(S[part]) / part.size)
            n += part.size
    assert risk.value(S) == pytest.approx(n * np.mean(alone), rel=1e-12)


def quadratic_optimum(X, slopes, heights, C, intercept):
    """min 1/2 |w|^2 (+ 1/2 b^2) + C xi with all planes below xi, by an interior-point solver."""
    d = X.shape[1]
    P = sp.diags([*np.ones(d), float(intercept is Intercept.PENALIZED), 0.0]).tocsc()
    free = slopes.sum(axis=1) if intercept is not Intercept.NONE else np.zeros(len(slopes))
    A = np.column_stack([slopes @ X, free, -np.ones(len(slopes))])
    b_is_zero = np.eye(d + 2)[[d]] if intercept is Intercept.NONE else np.empty((0, d + 2))
    quiet = clarabel.DefaultSettings()
    quiet.verbose = False
    cones = [clarabel.NonnegativeConeT(len(A))]
    cones += [clarabel.ZeroConeT(1)] if len(b_is_zero) else []
    sides = np.concatenate([-heights, np.zeros(len(b_is_zero))])
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(P),
        np.array([*np.zeros(d + 1), C]),
        sp.csc_matrix(np.vstack([A, b_is_zero])),
        sides,
        cones,
        quiet,
    )
    return solver.solve().obj_val


@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("name", [*COUNTED, "average_precision", "roc_auc@0.5"])
def test_certificates_hold_the_optimum_of_the_written_out_problem(name, intercept):
    n = 6 if name in ("average_precision", "roc_auc@0.5") else 9
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n, 3)), rng.permutation([1, 1, 1] + [-1] * (n - 3))
        X[:, 0] += y
        C = 10.0 ** rng.uniform(-2, 1)
        risk = risk_of(name, y, C)
        if intercept is not Intercept.NONE and not risk.takes_intercept:
            with pytest.raises(ValueError, match="takes no intercept"):
                Problem(as_rows(X), risk, intercept)
            return
        problem, monitor = Problem(as_rows(X), risk, intercept), Monitor(1e-7, 1000)
        state = CuttingPlanes().solve(problem, State.zero(problem), monitor)
        slopes, heights = planes_of(name, y)
        expected = quadratic_optimum(X, slopes, heights, C, intercept)
        found = certify_state(problem, state)
        assert monitor.status == "converged"
        assert found.dual <= expected * (1.0 + 1e-7) + 1e-9
        assert found.primal >= expected * (1.0 - 1e-7) - 1e-9
        assert found.relative_gap <= 1.001e-7


@pytest.mark.parametrize("intercept", list(Intercept))
def test_bounds_of_any_points_and_labellings(intercept):
    """Whatever is stored, the lower bound is below the optimum, and the upper one above it."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(8, 2)), np.array([1, 1, 1, -1, -1, -1, -1, -1])
    for name in ("f1", "recall@precision=0.5"):
        problem = Problem(as_rows(X), risk_of(name, y, 0.5), intercept)
        expected = quadratic_optimum(X, *planes_of(name, y), 0.5, intercept)
        for _ in range(50):
            codes = rng.integers(0, 256, (rng.integers(1, 6), 1), dtype=np.uint8)
            weights = rng.uniform(-0.2, 1.0, len(codes))
            assert lower_bound(problem, Tangents(weights, codes))[0].value <= expected + 1e-12
            offset = 0.0 if intercept is Intercept.NONE else rng.normal()
            assert upper_bound(problem, rng.normal(size=2), offset).value >= expected - 1e-9


def test_labellings_that_are_none_of_the_measure_prove_nothing():
    y = np.array([1, 1, -1, -1])
    risk = risk_of("prbep", y)
    cut = risk.decoded(np.packbits([True, False, False, False]))  # it accepts one row, not two
    assert not cut.slope.any()
    assert cut.constant == 0.0


@pytest.mark.parametrize(
    "name", ["", "f", "f0", "precision", "precision@0", "recall@precision=1.5", "roc_auc@0", 3]
)
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match="measure must be one of f1"):
        measure_called(name)


@pytest.mark.parametrize("name", ["f0.1", "f0.25", "f1", "f3", "recall@precision=0.4", "prbep"])
def test_the_best_of_all_counts(name):
    """More rows than all labellings allow: over all pairs of counts, written out."""
    measure = measure_called(name)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y, scale = rng.permutation([1] * 25 + [-1] * 35), rng.choice([0.03, 0.3, 3.0])
        S = scale * (rng.normal(size=60) + rng.choice([-1.0, 0.0, 1.0]) * y)
        high, low = np.sort(S[y > 0]), np.sort(S[y < 0])[::-1]
        missed, accepted = np.meshgrid(np.arange(26), np.arange(36), indexing="ij")
        losses = measure.losses(missed, accepted, np.array(25), np.array(35))
        lost = np.append(0.0, np.cumsum(high))[missed]
        gained = np.append(0.0, np.cumsum(low))[accepted]
        best = np.nanmax(60 * losses - lost + gained)
        assert risk_of(name, y).value(S) == pytest.approx(max(0.0, best), abs=1e-9)
