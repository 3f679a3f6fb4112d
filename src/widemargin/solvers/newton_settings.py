"""The tuned numbers of Newton's method: see settings.py."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleSettings:
    """The sample that Newton's method solves first, from a cold start: see newton.py.

    Attributes
    ----------
    one_in, fewest_rows, rows_per_feature : int
        It has one row in so many, if these are at least this many rows, and this many per feature.
    fewest_rows_on_gpu : int
        A GPU takes about as long for fewer rows as for this many.
    tol : float
        The sample is solved to this relative gap: its optimum differs by more from that of all
        rows.
    """

    one_in: int = 16
    fewest_rows: int = 1000
    rows_per_feature: int = 20
    fewest_rows_on_gpu: int = 100_000
    tol: float = 3e-3


@dataclass(frozen=True)
class WorkingSetSettings:
    """The working set of Newton's method: see newton_run.py.

    Attributes
    ----------
    fewest_entries : int
        With fewer rows times features, a full pass costs no more than a working set.
    size, size_if_bounded, largest : float
        The working set is this fraction of all rows; the second one once there is a useful lower
        bound. With rare rows it may be larger; above the third fraction, it is not used.
    left, left_of_gap : float
        Steps over it stop at this fraction of the gap allowed, or at this fraction of the gap
        before: if delta is far too small for the current point, all steps are short.
    rounds : int
        How often settled rows that changed pieces join it before a short step is taken.
    probed : int
        How many rows are sorted to find its size.
    near : float
        Near the optimum, the last step predicts a decrease by at most this fraction of the
        objective. There working sets and subsamples are used.
    rare : float
        A row is rare if its score may move this many times as far as the root mean square.
    """

    fewest_entries: int = 1 << 22
    size: float = 0.125
    size_if_bounded: float = 0.03
    largest: float = 0.4
    left: float = 0.5
    left_of_gap: float = 1e-3
    rounds: int = 3
    probed: int = 1 << 12
    near: float = 0.1
    rare: float = 3.0


@dataclass(frozen=True)
class SubsampleSettings:
    """The subsample of Newton's method for squared losses: see newton_subsample.py.

    Attributes
    ----------
    one_in, rows_per_feature : tuple of int, float
        A subsample has one row in s, for one of these s. If it has m of n rows, a step by it
        leaves about d / m of the distance to the optimum, as did a step by a sample of that size
        before it; and a proof by it costs n / m times that distance. So it takes s^1.5 times this
        many rows per feature.
    fewest_entries, entries_per_row : int
        With fewer rows times features, or entries per row, a Hessian costs no more than a few
        full passes.
    least_curved, least_class : float
        Nor does it cost more if less than this fraction of rows has a loss. That is often so if
        one class is smaller than the second fraction.
    rare, very_rare, most_rare : float
        A row represents only itself if its part in the Hessian is this many times that of the
        mean row: it has features that few curved rows have. Such rows are looked for if one has
        the second part, and used if they are less than the third number, a fraction of all rows.
    probed : int
        How many rows are probed for rare features.
    left, left_if_good : float
        Steps over the subsample stop at this fraction of the gap before. If the full pass then
        finds more than the second fraction of it, the subsample is given up.
    proof_rounds, proof_progress : int, float
        A proof takes at most so many rounds. Each must leave at most this fraction of the excess
        before it: see newton_proof.py.
    """

    one_in: tuple[int, ...] = (8, 16, 32, 64)
    rows_per_feature: float = 80
    fewest_entries: int = 1 << 20
    entries_per_row: int = 8
    least_curved: float = 0.3
    least_class: float = 0.08
    rare: float = 10.0
    very_rare: float = 30.0
    most_rare: float = 0.1
    probed: int = 1 << 13
    left: float = 1e-3
    left_if_good: float = 0.25
    proof_rounds: int = 4
    proof_progress: float = 0.5


@dataclass(frozen=True)
class NewtonSettings:
    """The settings of Newton's method: see newton.py.

    Measured by ``python -m benchmarks.ablation run --solver newton``.

    Attributes
    ----------
    first_delta : float
        Times the spread of the targets. At w = 0 all rows with labels have z = 1. With this
        delta all of them are curved.
    shrink, fraction_of_gap : float
        delta shrinks by at most this factor, until the smoothing gap is this fraction of the gap
        allowed.
    warm_fraction, warm_smoothing : float
        If the start is not zero, the smoothing gap begins with at most this fraction of the
        start's gap, and at most this fraction of the objective: a larger delta would lead away
        from the start.
    slope_left : float
        The slope left by a line search, as a fraction of the first slope.
    most_steps : int
        At most this many steps over a working set or subsample: then a full pass tells more.
    cholesky_features : int
        Up to this many features the Hessian is computed and factorised. At 784 dense features
        that takes half to nine tenths of the time of conjugate gradients.
    cg_steps : int
        At most this many steps of conjugate gradients: then a new point tells more.
    short_step : float
        A step shorter than this is not taken if more rows can join the working set instead.
    progress, patience : float, int
        An iteration makes progress if the gap falls by this fraction. So many iterations in a row
        without progress end the run.
    progress_by_parts, patience_with_parts : float, int
        The same for the use of working sets.
    side_by_side : int
        How many problems share passes at most.
    bytes_per_row, side_by_side_bytes, side_by_side_bytes_on_gpu : int
        What each of these problems needs per row, and what all of them may take.
    """

    first_delta: float = 1.5
    shrink: float = 0.2
    fraction_of_gap: float = 0.3
    warm_fraction: float = 0.02
    warm_smoothing: float = 0.01
    slope_left: float = 1e-3
    most_steps: int = 20
    cholesky_features: int = 1000
    cg_steps: int = 250
    short_step: float = 0.5
    progress: float = 1e-6
    patience: int = 30
    progress_by_parts: float = 0.01
    patience_with_parts: int = 2
    side_by_side: int = 16
    bytes_per_row: int = 64
    side_by_side_bytes: int = 1 << 27
    side_by_side_bytes_on_gpu: int = 1 << 32
    sample: SampleSettings = SampleSettings()
    working_set: WorkingSetSettings = WorkingSetSettings()
    subsample: SubsampleSettings = SubsampleSettings()
