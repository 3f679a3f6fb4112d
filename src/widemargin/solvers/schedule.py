"""Which rows a pass of coordinate descent visits.

A schedule owns the order of visits and what it learns from them; the step itself is the
kernel's, and the same for both.
"""

import numpy as np

from widemargin.kernels import coordinate as kernels

# Glasmachers & Dogan's constants.
_LOWEST, _HIGHEST, _RATE = 1.0 / 20.0, 20.0, 1.0 / 5.0
# A pass of the adaptive schedule visits each row at most once, as long as that leaves at
# least this share of all rows: below it, composing the order would cost more than visits.
_SMALLEST_PASS = 0.2
# Where the offset of the scores stands among the kernels' arguments.
_OFFSET = 8


class _Schedule:
    """Kernel calls of bounded length over an order of visits, and the tally they fill."""

    def __init__(self, rows, seed):
        self.rows = rows  # (m,) uint32: the rows that count
        self.order = rows.copy()
        # xorshift64 must not start at zero.
        self.generator = np.array([2 * seed + 1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self.tally = np.zeros(kernels.TALLY_SIZE)
        self.last_count = rows.size

    def calls(self, count, rows_per_call):
        """Yield (begin, end) of kernel calls over order[:count]."""
        self.last_count = count
        for begin in range(0, count, rows_per_call):
            yield begin, min(begin + rows_per_call, count)


class UniformSchedule(_Schedule):
    """All active rows once a pass; rows pressing against a bound are shrunk away.

    `block` rows that are neighbours in memory are visited together.
    """

    def __init__(self, rows, n_rows, seed, block):
        super().__init__(rows, seed)
        self.block = block
        self._start_with(rows)

    def _start_with(self, active):
        self.active = active
        self.too_large, self.too_small = np.inf, -np.inf
        self.offset = None  # of the scores when rows were first shrunk away

    def activate(self, wanted):
        """Bring back the rows of the mask `wanted`, after a look at all of them."""
        wanted = wanted.copy()
        wanted[self.active] = True
        self._start_with(self.rows[wanted[self.rows]])

    def run_pass(self, arguments, rows_per_call, must_stop):
        """Visit the active rows once; return how many were visited."""
        tally, count = self.tally, self.active.size
        tally[kernels.LARGEST], tally[kernels.SMALLEST] = -np.inf, np.inf
        kernels.shuffle_blocks(self.active, self.block, self.generator, self.order)
        visits = kept = 0
        for begin, end in self.calls(count, rows_per_call):
            kept = kernels.uniform_pass(
                *arguments, self.order, begin, end, kept, self.too_large, self.too_small, tally
            )
            visits = end
            if must_stop():
                return visits
        if kept < count:
            self.active = np.sort(self.order[:kept])
        largest, smallest = tally[kernels.LARGEST], tally[kernels.SMALLEST]
        self.too_large = largest if largest > 0.0 else np.inf
        self.too_small = smallest if smallest < 0.0 else -np.inf
        self._watch_offset(arguments[_OFFSET])
        return visits

    def _watch_offset(self, offset):
        """Bring all rows back once the intercept has moved past what they were shrunk by.

        A shrunk row was that far from having anything to gain. The intercept moves all
        scores alike, and only active rows could hold it back.
        """
        offset = offset[0] + offset[1] * offset[2]
        if self.offset is None:
            self.offset = offset
        elif abs(offset - self.offset) > min(self.too_large, -self.too_small):
            self._start_with(self.rows)


class AdaptiveSchedule(_Schedule):
    """Rows in proportion to preferences, which adapt to what visits have gained.

    Blocks of neighbours are not for it: they cost it several times the visits.
    """

    def __init__(self, rows, n_rows, seed, block):
        super().__init__(rows, seed)
        self.preference = np.zeros(n_rows)
        self.preference[rows] = 1.0
        # Credits start spread out, so that rows of equal preference do not come in step.
        self.credit = np.random.default_rng(seed).random(n_rows)

    def activate(self, wanted):
        """Do nothing: no row is ever left out."""

    def run_pass(self, arguments, rows_per_call, must_stop):
        """Visit a share of the rows; return how many were visited."""
        m, tally = self.rows.size, self.tally
        first = tally[kernels.MEAN_GAIN] == 0.0
        if first:
            self.order[:m] = self.rows
            count = m
        else:
            least = _SMALLEST_PASS * m
            count = kernels.adaptive_order(self.preference, self.credit, least, self.order)
        kernels.shuffle(self.order, 0, count, self.generator)
        tally[kernels.GAIN] = 0.0
        visits = 0
        for begin, end in self.calls(count, rows_per_call):
            kernels.adaptive_pass(
                *arguments, self.order, begin, end, self.preference,
                _LOWEST, _HIGHEST, _RATE, 1.0 / m, tally,
            )  # fmt: skip
            visits = end
            if must_stop():
                break
        if first:
            # A pass without gain teaches nothing: the next one is uniform again.
            tally[kernels.MEAN_GAIN] = tally[kernels.GAIN] / m
        return visits


SCHEDULES = {"dcd": UniformSchedule, "acf": AdaptiveSchedule}
