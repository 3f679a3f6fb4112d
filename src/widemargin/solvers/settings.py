"""The tuned numbers of all solvers.

A solver is given its settings and has no tuned numbers of its own. So a test, an ablation or a
variant of an algorithm changes settings, and nothing else. Numbers that follow from the precision
of float64 are not settings; they stay where they are used.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal


@dataclass(frozen=True)
class VisitSettings:
    """In what order coordinate descent visits rows, and how far its steps go: see schedule.py.

    Measured by ``python -m benchmarks.ablation run --solver acf``, and ``--solver dcd``.

    Attributes
    ----------
    overstep : float
        Steps are longer by this factor than to the maximum over one variable. Any factor below 2
        raises the dual; 1.3 saves up to a third of the visits if there are many.
    lowest, highest, rate : float
        Bounds of preferences, and how fast they change: Glasmachers & Dogan's numbers.
    forgotten : float
        What is left of a row's preference after a visit that changes nothing. In the paper it is
        exp(-rate), 0.8: most rows are no support vectors, and it would take fifteen visits to
        drop them.
    smallest_pass : float
        A pass of the adaptive schedule visits each row at most once, if that leaves at least this
        fraction of all rows. Below it, composing the order would cost more than the visits.
    inside, at_bound, at_zero : float
        Preferences at a warm start: of dual variables between bounds, at a bound, and zero.
    pushed : float
        A row at a bound becomes inactive if the squared change of w by its step beyond the bound
        is more than this many times the largest of any row in the last pass.
    rest : int
        How many passes a row rests if a uniform pass finds it at a bound with nothing to gain.
    """

    overstep: float = 1.3
    lowest: float = 1.0 / 20.0
    highest: float = 20.0
    rate: float = 1.0 / 5.0
    forgotten: float = 0.5
    smallest_pass: float = 0.2
    inside: float = 2.0
    at_bound: float = 0.5
    at_zero: float = 0.2
    pushed: float = 1.0
    rest: int = 2

    @property
    def preferences(self) -> tuple[float, float, float, float]:
        """How preferences change, as the kernels take it."""
        return self.lowest, self.highest, self.rate, self.forgotten


@dataclass(frozen=True)
class CheckSettings:
    """When coordinate descent certifies its point, which costs about two passes: see descent.py.

    A check is made when the sum of the gap contributions predicts success. It is made in any case
    if the passes since the last check are `fraction` of all passes and at least `passes`; or
    `passes_if_costs_are_large`, if the mean of cost |x|^2 is larger than `large_costs`. With large
    costs, the best multiple of a point is much better than the point itself, and only a check
    finds it.

    Attributes
    ----------
    fraction, passes, passes_if_costs_are_large, large_costs : float
        See above.
    entries_between_checks, passes_if_small : float
        If costs are not large, the passes before such a check visit at least this many entries,
        since a check of a small problem takes as long; but for that they are no more than the
        second number.
    entries_between_looks, growth_between_looks : float
        At least this many entries are visited between two estimates of the gap, which take as
        long. But passes grow by at most this fraction between them.
    tries_multiples : bool
        Whether a check looks for the best multiple of its point: see multiple.py.
    single_precision_tol : float
        Below this tolerance w is kept in double precision from the start.
    blur_allowed : float
        w changes to double precision when single precision blurs the dual value by this fraction
        of the gap allowed.
    """

    fraction: float = 0.3
    passes: float = 20.0
    passes_if_costs_are_large: float = 10.0
    large_costs: float = 50.0
    entries_between_checks: float = 1 << 20
    passes_if_small: float = 100.0
    entries_between_looks: float = 1 << 16
    growth_between_looks: float = 0.1
    tries_multiples: bool = True
    single_precision_tol: float = 1e-5
    blur_allowed: float = 0.05


@dataclass(frozen=True)
class JointSettings:
    """When free dual variables are optimised jointly: see face.py.

    Attributes
    ----------
    largest : float
        At most this fraction of all rows takes part, and no more rows than there are features: few
        features cannot have many rows on the margin, and most of their dual variables would not
        stay free. With 0 there are no joint steps.
    work, fewest_iterations : float
        All joint steps take at most this fraction of the work of all passes. A step is made if
        this is enough for so many iterations.
    left, rows_per_feature, many_features, foreseen_below : float
        A joint step leaves about this fraction of the hinge losses of the free rows, if there are
        at most this many free rows per feature, and at least this many features. Below this
        tolerance, a check is made once that is enough.
    wanted, slowest : float
        It ends if the gap contributions of these rows are this fraction of the gap allowed; or if
        they fall no faster than this from one estimate to the next: passes are as fast.
    """

    largest: float = 0.2
    work: float = 1.0
    fewest_iterations: int = 4
    left: float = 0.1
    rows_per_feature: float = 0.25
    many_features: int = 256
    foreseen_below: float = 1e-4
    wanted: float = 0.8
    slowest: float = 0.9


@dataclass(frozen=True)
class CoordinateSettings:
    """The settings of coordinate descent.

    Attributes
    ----------
    constant_feature : float
        The constant feature's square over (mean |x|^2 plus one over the mean cost): see
        absorbed.py. A larger one couples the rows, which slows down every step; a smaller one
        makes the intercept move slowly. From 0.003 to 0.1 the number of passes is about that
        without an intercept; at 1 it is twice that.
    common_part : float
        Rows are centred if the square of their mean is more than this fraction of their mean
        square.
    absorbed : float
        How far the fixed offsets of several classes move to their goal after each pass. If they
        moved all the way, with overrelaxed steps, they could oscillate for ever if there are few
        rows.
    worth_csr : float
        For several classes, dense rows with a smaller fraction of nonzero entries are visited as
        CSR.
    """

    visits: VisitSettings = VisitSettings()
    checks: CheckSettings = CheckSettings()
    joint: JointSettings = JointSettings()
    constant_feature: float = 0.03
    common_part: float = 0.1
    absorbed: float = 0.5
    worth_csr: float = 0.25


@dataclass(frozen=True)
class WorkingRowsSettings:
    """When and how problems of few positive rows are solved: see working_rows.py.

    Attributes
    ----------
    fewest_rows : int
        Over fewer rows, whole passes cost too little.
    most_positives : float
        The largest fraction of positive rows.
    sample : int
        How many rows the first working sets have in common.
    first_tol : float
        The relative gap over the first working set, which only has to find the next one.
    of_tol : float
        The relative gap over the others, as a fraction of the tolerance for all rows.
    listed : int
        How many rows of the largest scores a pass lists, about.
    added : int
        How many of them a working set takes; more if more have a loss.
    more : int
        How many times as many the next pass lists if more may have a loss.
    largest : float
        The largest working set, as a fraction of all rows.
    rounds : int
        How many working sets are tried before another solver takes over.
    closer : float
        How much smaller tolerances become if no row is missing from the working set.
    at_once, bytes_at_once : int
        How many problems share a pass, and how much memory they may need for it.
    room : int
        How many rows can be listed, at least.
    squares : float
        Coefficients are left out up to so much of the gap that is left. Without coefficients of
        total square q the objective rises by q / 2 and by what losses add: 0.7 q to 1.1 q on text.
    blurred : float
        Another solver takes over if rounding is more than this fraction of the tolerance.
    """

    fewest_rows: int = 5000
    most_positives: float = 0.005
    sample: int = 1000
    first_tol: float = 0.05
    of_tol: float = 0.3
    listed: int = 2000
    added: int = 2000
    more: int = 4
    largest: float = 0.3
    rounds: int = 12
    closer: float = 0.25
    at_once: int = 16
    bytes_at_once: int = 1 << 26
    room: int = 1 << 12
    squares: float = 0.7
    blurred: float = 0.01


@dataclass(frozen=True)
class StepSettings:
    """How "gca", "gca2" and "tca" search for a step: see line_search.py. Steps may be negative.

    Arnosti 2010 gives `spacing` and `window`, and that the first uncertainty is 1 and halves of it
    count; the other numbers are open in the paper.

    Attributes
    ----------
    spacing : float
        The first grid's; each grid is finer than the last one by this factor: beta.
    window : float
        TCA ends when its window is this narrow: gamma.
    first : float
        The step from which the first search begins. From 0, the minimum of many first searches,
        TCA would find 0 again.
    coarse_grid, middle_grid : float
        GCA2's first grid is needed from the first uncertainty on, the second one from the second:
        t2 and t1. The first grid begins 1 before the last step, the second one beta / 2 before.
    change : float
        The uncertainty falls by this factor if the step is within half of it of the last step,
        and else grows by it.
    least_uncertain, most_uncertain : float
        Its bounds. With less than half of `window`, TCA would not move at all.
    same_strides : float
        After this many steps in one direction, a search takes longer ones: the paper has the same
        stride for any distance.
    """

    spacing: float = 0.2
    window: float = 0.02
    first: float = 0.1
    coarse_grid: float = 0.5
    middle_grid: float = 0.1
    change: float = 2.0
    least_uncertain: float = 0.02
    most_uncertain: float = 1.0
    same_strides: float = 8


@dataclass(frozen=True)
class CuttingPlaneSettings:
    """The settings of cutting planes: see cutting_plane.py, oracle.py and bundle.py.

    Attributes
    ----------
    smallest_step, patience : float, int
        After so many steps of 0 in a row, a step of this length is taken: Arnosti 2010, section V.
        With 0, steps stay 0.
    plane_at : float
        The plane is taken at this fraction of the way from the best point to the reduced
        solution: Franc & Sonnenburg's mu.
    reduced_tolerance, search_tolerance : float
        The reduced problem is solved to this fraction of the gap; and so is a line search that
        cannot be exact.
    idle_iterations : int
        Planes that were not used for this many iterations are dropped.
    bundle_bytes, fewest_planes, most_planes : int
        All planes take at most this many bytes, but so few planes are always possible.
    steps : StepSettings
        How "gca", "gca2" and "tca" search for a step.
    rule : {"certified", "objective", "risk"}
        When a run ends: at a certified gap of `tol`. Or, as papers have it, when the objective is
        at most the fraction `tol` of itself above the reduced problem's value at the current
        point; or when the risk there is above the planes by at most `tol` times its value at 0:
        the mean hinge loss by `tol`.
    """

    smallest_step: float = 0.02
    patience: int = 10
    plane_at: float = 0.1
    reduced_tolerance: float = 0.01
    search_tolerance: float = 0.01
    idle_iterations: float = 20
    bundle_bytes: int = 1 << 30
    fewest_planes: int = 16
    most_planes: int = 1000
    steps: StepSettings = StepSettings()
    rule: Literal["certified", "objective", "risk"] = "certified"


@dataclass(frozen=True)
class PublishedDescentSettings:
    """The settings of "dcd-paper" and "acf-paper": see published_descent.py.

    Attributes
    ----------
    lowest, highest, rate : float
        Bounds of preferences, and how fast they change: Glasmachers & Dogan's numbers.
    """

    lowest: float = 1.0 / 20.0
    highest: float = 20.0
    rate: float = 1.0 / 5.0


@dataclass(frozen=True)
class OutOfCoreSettings:
    """The settings of solvers over rows on disk: see out_of_core.py.

    Attributes
    ----------
    overstep, constant_feature : float
        As for rows in memory.
    usable : float
        The fraction of the memory left for rows that pieces may take: they leave holes as they
        come and go.
    passes_between_checks, fraction_between_checks : float
        A check costs a pass. It is made when the gap contributions predict success; and after this
        many passes, if these are at least this fraction of all passes.
    single_precision_tol : float
        Below this tolerance w is kept in double precision.
    nearly_full, shrink : float
        StreamSVM: if more than this fraction of memory is used, it is nearly full, and the
        threshold eps for dropping rows is multiplied by the second number.
    visits_to_kept_rows : float
        StreamSVM: at least this many visits to kept rows for each row that is read.
    small_piece : int
        StreamSVM: pieces below this number of bytes are joined, so that a kernel takes longer than
        calling it.
    sweeps : int
        Block minimisation: sweeps over each part, as in Yu et al.'s experiments.
    kept_fraction : float
        "sbm": the fraction of memory that keeps rows near the margin.
    """

    overstep: float = 1.3
    constant_feature: float = 0.03
    usable: float = 0.7
    passes_between_checks: float = 5
    fraction_between_checks: float = 0.25
    single_precision_tol: float = 1e-4
    nearly_full: float = 0.9
    shrink: float = 0.9
    visits_to_kept_rows: float = 4.0
    small_piece: int = 1 << 20
    sweeps: int = 10
    kept_fraction: float = 0.5


@dataclass(frozen=True)
class PublishedStreamSettings:
    """The settings of "stream-paper": see published_disk.py.

    Attributes
    ----------
    nearly_full, shrink : float
        If more than this fraction of memory is used, eps is multiplied by the second number.
    usable : float
        The fraction of the memory for rows that entries of rows may take: evicted rows leave
        holes, which are closed when there is no room behind the last row.
    """

    nearly_full: float = 0.9
    shrink: float = 0.9
    usable: float = 0.8


@dataclass(frozen=True)
class OneClassSettings:
    """Settings of solvers/one_class.py.

    Attributes
    ----------
    plane_at : float
        The next corner is that of the direction this far from the best one to the target.
    search_steps : int
        Steps of the golden section, after the first four evaluations.
    most_corners : int
        When there are so many, half of them are merged.
    """

    plane_at: float = 0.1
    search_steps: int = 6
    most_corners: int = 200


#: the settings of "bm-paper" and "sbm-paper". A part is copied into one block, so that half of the
#: memory is for the copy.
PUBLISHED_OUT_OF_CORE = OutOfCoreSettings(overstep=1.0, usable=0.35)


#: the settings of cutting planes as published, by method. No plane is dropped or merged, no small
#: step takes the place of zero, and the reduced problem is solved as well as float64 can.
PUBLISHED_PLANES = {
    method: CuttingPlaneSettings(
        smallest_step=0.0,
        reduced_tolerance=1e-12,
        idle_iterations=inf,
        bundle_bytes=1 << 50,
        most_planes=1 << 20,
        steps=StepSettings(same_strides=1000),
        rule="risk" if method == "cpa" else "objective",
    )
    for method in ("cpa", "ocas", "gca", "gca2", "tca")
}
