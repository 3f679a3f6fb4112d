"""Risks of measures against all labellings and all rankings, written out."""

from fractions import Fraction
from itertools import combinations, permutations, product

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.measures import measure_risk
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
    labellings = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    missed, false = positive & ~labellings, labellings & ~positive
    m, f, t = missed.sum(axis=1), false.sum(axis=1), (labellings & positive).sum(axis=1)
    slopes = false.astype(float) - missed
    if name[0] == "f":
        beta2 = float(name[1:]) ** 2
        losses = 1.0 - (1.0 + beta2) * t / ((1.0 + beta2) * t + beta2 * m + f)
    elif name.startswith("recall@precision"):
        precise = t >= (float(name[17:]) - 1e-12) * (t + f)
        losses = np.where((t > 0) & precise, 1.0 - t / P, 1.0)
    else:
        k = P if name == "prbep" else min(n, int(name.split("@")[1]))
        losses = (min(k, P) - t) / (k if name.startswith("precision") else P)
        swaps = np.minimum(m, f)[:, None]
        slopes = swaps * (false / np.maximum(1, f)[:, None] - missed / np.maximum(1, m)[:, None])
        slopes, losses = slopes[t + f == k], losses[t + f == k]
    return np.vstack([np.zeros(n), slopes]), np.append(0.0, n * losses)


def _rankings(y, P, N):
    """All rankings, of which there are n!."""
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


def largest(name, y, S):
    """The risk of one group for C = 1, over all labellings, rankings or sets of pairs."""
    if name not in RANKED:
        slopes, heights = planes_of(name, y)
        return (slopes @ S + heights).max()
    high, low, n = np.sort(S[y > 0])[::-1], np.sort(S[y < 0])[::-1], y.size
    if name != "average_precision":
        most = max(1, int(float(name[8:]) * low.size + 1e-9))
        hinges = np.maximum(0.0, 1.0 - high[:, None] + low).sum(axis=0)
        sets = [hinges[list(some)].sum() for some in combinations(range(low.size), most)]
        return n / (high.size * most) * max(sets)
    # Rows of one class are in the order of their scores in the worst ranking: that swaps least.
    best = -np.inf
    for places in combinations(range(n), high.size):
        places = np.array(places)
        ahead = places - np.arange(high.size)
        swapped = sum((high[i] - low[:a]).sum() for i, a in enumerate(ahead))
        precision = (np.arange(1, high.size + 1) / (places + 1)).mean()
        best = max(best, 1.0 - precision - swapped / (high.size * low.size))
    return n * best


@st.composite
def labelled(draw, most=12):
    """Labels, scores, of which many may be equal, and how often a row counts; most in all."""
    n = draw(st.integers(2, most))
    rest = draw(st.lists(st.sampled_from([-1, 1]), min_size=n - 2, max_size=n - 2))
    y = np.array([1, -1, *rest])
    near = st.one_of(st.integers(-2, 2).map(float), st.floats(-3.0, 3.0))
    S = np.array(draw(st.lists(near, min_size=n, max_size=n)))
    counts = [1, 1, *draw(st.lists(st.integers(0, 3), min_size=n - 2, max_size=n - 2))]
    while sum(counts) > most:
        counts[int(np.argmax(counts))] -= 1
    return y, S, np.array(counts)


@pytest.mark.parametrize("name", [*COUNTED, *RANKED])
@settings(max_examples=30)
@given(case=labelled())
def test_the_most_violated_of_all(name, case):
    """Against all labellings and rankings of up to 12 rows: ties, and rows that count often."""
    y, S, counts = case
    repeated = np.repeat(y, counts), np.repeat(S, counts)
    best = largest(name, *repeated)
    assert risk_of(name, repeated[0], 0.7).value(repeated[1]) == pytest.approx(
        0.7 * best, abs=1e-9
    )
    assert risk_of(name, y, 0.7, counts).value(S) == pytest.approx(0.7 * best, abs=1e-9)


@pytest.mark.parametrize("name", [*COUNTED, *RANKED])
@settings(max_examples=20)
@given(case=labelled(6))
def test_planes_touch_and_are_below(name, case):
    y, S, _ = case
    check_plane(risk_of(name, y, 0.7), S, *planes_of(name, y))


@pytest.mark.parametrize("name", [*COUNTED, "f0.01", "f50", *RANKED])
@settings(max_examples=15)
@given(case=labelled(), seed=st.integers(0, 2**32 - 1))
def test_bounds_hold_in_fractions(name, case, seed):
    """Whatever the scale: values are rounded, bounds on them are true."""
    y, S, counts = case
    rng = np.random.default_rng(seed)
    S *= 10.0 ** rng.choice([-30, -8, 0, 8, 30])
    S += rng.choice([0.0, 1.0, 1e8])
    counts, group = counts * (40 if y.size < 4 else 1), rng.integers(0, 2, y.size)
    group[:2] = 0
    risk = risk_of(name, y, 10.0 ** rng.uniform(-20, 20), counts, group)
    error = np.abs(S) * rng.choice([0.0, 1e-16, 1e-3])
    near = S + error * rng.uniform(-1.0, 1.0, S.size)
    off = np.abs(near - S) > error
    near[off] = S[off]
    bound = risk.bound(S, error)
    assert measure_risk(risk, [Fraction(s) for s in near.tolist()]) <= Fraction(bound.value)
    value = float(measure_risk(risk, [Fraction(s) for s in S.tolist()]))
    assert bound.value - 2.0 * bound.rounding <= value * (1.0 + 1e-9)
    if isinstance(risk, LabellingRisk):
        # A stored labelling is below the risk everywhere, but for its last digits.
        cut = risk.decoded(risk.cut(S).code)
        scores = [Fraction(s) for s in rng.permutation(S).tolist()]
        terms = [Fraction(g) * s for g, s in zip(cut.slope.tolist(), scores)]
        slack = Fraction(1e-14) * (Fraction(cut.constant) + sum(map(abs, terms)))
        assert Fraction(cut.constant) + sum(terms) - slack <= measure_risk(risk, scores)


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


def quadratic_optimum(X, slopes, heights, C, intercept, member=None):
    """min 1/2 |w|^2 (+ 1/2 b^2) + sum_g C_g xi_g, by an interior-point solver.

    All planes of a group, `member`, are below its xi.
    """
    d, C = X.shape[1], np.atleast_1d(C)
    member = np.zeros(len(slopes), dtype=int) if member is None else member
    P = sp.diags([*np.ones(d), float(intercept is Intercept.PENALIZED), *np.zeros(C.size)]).tocsc()
    free = slopes.sum(axis=1) if intercept is not Intercept.NONE else np.zeros(len(slopes))
    A = np.column_stack([slopes @ X, free, -np.eye(C.size)[member]])
    size = A.shape[1]
    b_is_zero = np.eye(size)[[d]] if intercept is Intercept.NONE else np.empty((0, size))
    quiet = clarabel.DefaultSettings()
    quiet.verbose = False
    cones = [clarabel.NonnegativeConeT(len(A))]
    cones += [clarabel.ZeroConeT(1)] if len(b_is_zero) else []
    sides = np.concatenate([-heights, np.zeros(len(b_is_zero))])
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(P),
        np.array([*np.zeros(d + 1), *C]),
        sp.csc_matrix(np.vstack([A, b_is_zero])),
        sides,
        cones,
        quiet,
    )
    return solver.solve().obj_val


@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize("name", [*COUNTED, "average_precision", "roc_auc@0.5"])
def test_certificates_hold_the_optimum_of_the_written_out_problem(name, intercept):
    n = 6 if name in ("average_precision", "roc_auc@0.5") else 10
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
@pytest.mark.parametrize("name", [*COUNTED, "average_precision", "roc_auc@0.5"])
def test_certificates_with_groups_and_weights(name, intercept):
    rng = np.random.default_rng(7)
    of_pairs = name in ("average_precision", "roc_auc@0.5")
    counts = np.array([1, 1, 2, 0, 1, 1] if of_pairs else [2, 1, 3, 0, 1, 1])
    y, group = np.tile([1, 1, -1, -1, -1, 1], 2), np.repeat([0, 1], 6)
    counts = np.append(counts, np.roll(counts, 2))
    X = rng.normal(size=(12, 3)) + 0.5 * y[:, None]
    risk = risk_of(name, y, 0.6, counts, group)
    refused = intercept is not Intercept.NONE and not risk.takes_intercept
    if name == "precision@9" or refused:
        return
    slopes, heights, member = [], [], []
    for g in (0, 1):
        rows = np.repeat(np.flatnonzero(group == g), counts[group == g])
        planes, constants = planes_of(name, y[rows])
        slopes.append(np.zeros((len(planes), y.size)))
        np.add.at(slopes[g].T, rows, planes.T)
        heights.append(constants)
        member += [g] * len(planes)
    sizes = np.array([counts[group == g].sum() for g in (0, 1)])
    C = 0.6 * sizes.sum() / (2 * sizes)
    expected = quadratic_optimum(
        X, np.vstack(slopes), np.concatenate(heights), C, intercept, np.array(member)
    )
    problem, monitor = Problem(as_rows(X), risk, intercept), Monitor(1e-7, 1000)
    state = CuttingPlanes().solve(problem, State.zero(problem), monitor)
    found = certify_state(problem, state)
    assert monitor.status == "converged"
    assert found.dual <= expected * (1.0 + 1e-7) + 1e-9
    assert found.primal >= expected * (1.0 - 1e-7) - 1e-9


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


@pytest.mark.parametrize("name", ["f1", "f0.001", "f1000", "recall@precision=0.9", "prbep"])
def test_losses_keep_their_digits(name):
    """Small ones too: they are heights of planes, and bounds allow for a few roundings only."""
    measure, (P, N) = measure_called(name), (900, 1000)
    for missed, accepted in product([0, 1, 2, 899], [0, 1, 2, 50]):
        if name == "prbep" and missed != accepted:
            continue
        found = float(measure.losses(*map(np.array, (missed, accepted, P, N))))
        t, beta2 = Fraction(P - missed), Fraction(measure.number) ** 2
        exact = Fraction(missed, P)
        if name[0] == "f":
            exact = 1 - (1 + beta2) * t / (t + accepted + beta2 * P)
        elif name != "prbep" and t < Fraction(measure.number) * (t + accepted):
            exact = Fraction(1)
        assert abs(Fraction(found) - exact) <= exact * Fraction(1e-15)


def test_rows_that_count_often_are_not_added_up():
    y, counts = np.array([1, 1, -1]), np.array([1, 100_000, 3])
    risk = risk_of("f1", y, 0.1, counts)
    slope = risk.decoded(risk.first_codes()[0]).slope
    assert slope[1] == pytest.approx(-100_000 * risk.scale[0], rel=1e-15)


def test_labellings_that_are_none_of_the_measure_prove_nothing():
    y = np.array([1, 1, -1, -1])
    risk = risk_of("prbep", y)
    cut = risk.decoded(np.packbits([True, False, False, False]))  # it accepts one row, not two
    assert not cut.slope.any()
    assert cut.constant == 0.0


@pytest.mark.parametrize(
    "name",
    [
        *("", "f", "f0", "f1e3", "F1", "f1 ", 3, "f" + "9" * 400, "f0." + "0" * 400 + "1"),
        *("precision", "precision@0", "precision@" + "9" * 20),
        *("recall@precision=1.5", "roc_auc@0"),
    ],
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
