"""Passes of dual coordinate descent over rows with the multi-class hinge.

Row i of class y has a cost c and nonnegative shares B (k,) with sum c: B_j = alpha_j for the
other classes, and for its own class what is left of the cost. At scores s, the dual's slope in B
is, up to a constant,

    g_j = s_j + [j != y]

and its curvature is q = |x_i|^2. So the row's loss is  max_j g_j - g_y,  and its contribution to
the gap is  c max_j g_j - sum_j B_j g_j.  The maximum over B is the point of the simplex  B >= 0,
sum_j B_j = c  nearest to  B + g / q.  All classes are treated alike, except at the start, B_y = c.
The weights are  W = sum_i x_i (c e_y - B)^T.

W is (d, width) for CSR rows, and the width is a whole number of cache lines. For an entry of a
row, the weights of 16 classes are in one line, and one or two instructions use all of them. For
dense rows it is (k, d).

The intercept is the array `offset` (2, k), [b, z], and the number K. The score of row i for class
j is  w_j.x_i + b_j + z_j K,  with z = sum_i (c_i e_y - B_i) kept up to date. This is a constant
feature of every row, the root of K, plus a fixed b.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import overload, register_jitable

from widemargin.kernels.jit import REORDERING_MATH, kernel
from widemargin.kernels.rows import row_add, row_dot, row_prefetch
from widemargin.kernels.typing import Array, Rows

LINE = 64  # bytes
# mypy takes the typing context for an argument of the call.
intrinsic: Any = numba_intrinsic
# How many visits ahead rows are prefetched, and the arrays that tell where they are.
_LOOK_AHEAD, _LOOK_FARTHER = 2, 6
_OPTIONS: Any = {"fastmath": set(REORDERING_MATH), "error_model": "numpy"}


class _Lines:
    """Generates loops over a CSR row's entries that work on whole lines of W."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = b = builder
        types_of = signature.args
        self.values, self.indices, self.weights, self.vector = (
            context.make_array(types_of[k])(context, b, arguments[k]) for k in range(4)
        )
        self.begin, self.end, self.first = arguments[4:7]
        self.word = context.get_value_type(types.intp)
        self.scalar = context.get_data_type(types_of[2].dtype)
        self.itemsize = types_of[2].dtype.bitwidth // 8
        self.lanes = LINE // self.itemsize
        self.line = ir.VectorType(self.scalar, self.lanes)
        self.width = cgutils.unpack_tuple(b, self.weights.shape)[1]

    def constant(self, number: Any) -> Any:
        return ir.Constant(self.word, number)

    def address(self, data: Any, position: Any, shift: int = 0) -> Any:
        """Return the address of a line: data[position + shift lines]."""
        position = self.builder.add(position, self.constant(shift * self.lanes))
        return self.builder.bitcast(self.builder.gep(data, [position]), self.line.as_pointer())

    def load(self, address: Any) -> Any:
        return self.builder.load(address, align=self.itemsize)

    def store(self, line: Any, address: Any) -> None:
        self.builder.store(line, address, align=self.itemsize)

    def entry(self, t: int) -> Any:
        """Return entry t of the row in every lane of a line, and the address of its weights."""
        b = self.builder
        value = b.load(b.gep(self.values.data, [t]))
        if value.type != self.scalar:
            value = b.fpext(value, self.scalar)
        feature = b.load(b.gep(self.indices.data, [t]))
        if feature.type != self.word:
            feature = b.zext(feature, self.word)
        one = b.insert_element(ir.Constant(self.line, ir.Undefined), value, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        every = b.shuffle_vector(one, one, zeros)
        return every, b.add(b.mul(feature, self.width), self.first)

    def multiply_add(self, a: Any, x: Any, total: Any) -> Any:
        fast = ("contract", "reassoc", "nsz")
        return self.builder.fadd(total, self.builder.fmul(a, x, flags=fast), flags=fast)


def _lines_dot(n_lines: int) -> Any:
    """Return an intrinsic that computes n_lines lines of the scores of one CSR row."""
    # So many entries at a time that no addition waits for the one before.
    side_by_side = max(1, 4 // n_lines)

    @intrinsic
    def dot(
        typing_context: Any, values: Any, indices: Any, W: Any, out: Any, begin: Any, end: Any,
        first: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            lines = _Lines(context, builder, signature, arguments)
            sums = [
                [cgutils.alloca_once(builder, lines.line) for _ in range(n_lines)]
                for _ in range(side_by_side)
            ]
            for entry in sums:
                for place in entry:
                    builder.store(ir.Constant(lines.line, [0.0] * lines.lanes), place)

            def add_entry(t: int, places: Any) -> None:
                value, position = lines.entry(t)
                for shift, place in enumerate(places):
                    weights = lines.load(lines.address(lines.weights.data, position, shift))
                    builder.store(lines.multiply_add(value, weights, builder.load(place)), place)

            step = lines.constant(side_by_side)
            count = builder.sub(lines.end, lines.begin)
            rest = builder.sub(lines.end, builder.urem(count, step))
            with cgutils.for_range_slice(builder, lines.begin, rest, step, lines.word) as (t, _):
                for k, places in enumerate(sums):
                    add_entry(builder.add(t, lines.constant(k)), places)
            one = lines.constant(1)
            with cgutils.for_range_slice(builder, rest, lines.end, one, lines.word) as (t, _):
                add_entry(t, sums[0])
            for shift in range(n_lines):
                total = builder.load(sums[0][shift])
                for entry in sums[1:]:
                    total = builder.fadd(total, builder.load(entry[shift]))
                address = lines.address(lines.vector.data, lines.first, shift)
                lines.store(total, address)
            return context.get_dummy_value()

        word = types.intp
        return types.void(values, indices, W, out, word, word, word), generate

    return dot


_one_line_dot, _two_lines_dot, _four_lines_dot = _lines_dot(1), _lines_dot(2), _lines_dot(4)


@intrinsic
def _line_add(
    typing_context: Any, values: Any, indices: Any, W: Any, change: Any, begin: Any, end: Any,
    first: Any,
) -> Any:  # fmt: skip
    """Add x_i change^T to one line of every row of W that a CSR row has an entry for."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lines = _Lines(context, builder, signature, arguments)
        step = lines.load(lines.address(lines.vector.data, lines.first))
        one = lines.constant(1)
        with cgutils.for_range_slice(builder, lines.begin, lines.end, one, lines.word) as (t, _):
            value, position = lines.entry(t)
            address = lines.address(lines.weights.data, position)
            lines.store(lines.multiply_add(value, step, lines.load(address)), address)
        return context.get_dummy_value()

    word = types.intp
    return types.void(values, indices, W, change, word, word, word), generate


def class_scores(rows: Rows, i: int, W: Array, out: Array) -> None:
    """out[j] = x_i . w_j for every class j."""
    raise NotImplementedError("only inside compiled kernels")


def class_add(rows: Rows, i: int, change: Array, W: Array) -> None:
    """Add change[j] x_i to w_j for every class j."""
    raise NotImplementedError("only inside compiled kernels")


@overload(class_scores, jit_options=_OPTIONS)
def _class_scores(rows: Any, i: Any, W: Any, out: Any) -> Any:
    if len(rows) == 1:

        def dense(rows: Any, i: Any, W: Any, out: Any) -> None:
            for j in range(W.shape[0]):
                out[j] = row_dot(rows, i, W[j])

        return dense
    lanes = LINE // (W.dtype.bitwidth // 8)

    def csr(rows: Any, i: Any, W: Any, out: Any) -> None:
        values, indices, indptr = rows
        begin, end = np.intp(indptr[i]), np.intp(indptr[i + 1])
        j, width = 0, W.shape[1]
        while j + 4 * lanes <= width:
            _four_lines_dot(values, indices, W, out, begin, end, j)
            j += 4 * lanes
        if j + 2 * lanes <= width:
            _two_lines_dot(values, indices, W, out, begin, end, j)
            j += 2 * lanes
        if j < width:
            _one_line_dot(values, indices, W, out, begin, end, j)

    return csr


@overload(class_add, jit_options=_OPTIONS)
def _class_add(rows: Any, i: Any, change: Any, W: Any) -> Any:
    if len(rows) == 1:

        def dense(rows: Any, i: Any, change: Any, W: Any) -> None:
            for j in range(W.shape[0]):
                if change[j] != 0.0:
                    row_add(rows, i, change[j], W[j])

        return dense
    lanes = LINE // (W.dtype.bitwidth // 8)

    def csr(rows: Any, i: Any, change: Any, W: Any) -> None:
        values, indices, indptr = rows
        begin, end = np.intp(indptr[i]), np.intp(indptr[i + 1])
        for first in range(0, W.shape[1], lanes):
            changed = False
            for j in range(first, first + lanes):
                changed |= change[j] != 0.0
            if changed:
                _line_add(values, indices, W, change, begin, end, first)

    return csr


@register_jitable
def threshold(goal: Array, cost: float, top: float) -> tuple[float, int]:
    """Return t for which sum_j max(0, goal_j - t) = cost, and how many goals exceed t.

    The method is Newton's, from below. Each step but the last leaves fewer goals above t, and two
    or three steps are enough. `top` is the largest goal, and not much larger than cost.
    """
    t, count = top - cost, goal.shape[0] + 1
    while True:
        above, total = 0, 0.0
        for j in range(goal.shape[0]):
            above += 1 if goal[j] > t else 0
            total += goal[j] if goal[j] > t else 0.0
        if above >= count or above == 0:  # zero only by rounding
            return t, count
        count = above
        t = (total - cost) / count


@kernel(fastmath=REORDERING_MATH | {"nnan"})  # so that maxima vectorise
def visit_rows(
    rows: Rows, norms: Array, y: Array, cost: Array, shares: Array, W: Array, offset: Array,
    K: float, seen_gap: Array, order: Array, begin: int, end: int, overstep: float, gains: Array,
    rooms: Array, scores: Array, change: Array, slope: Array, goal: Array,
) -> None:  # fmt: skip
    """Visit order[begin:end] once each; gains and rooms receive the results of the visits.

    Steps are `overstep` < 2 times as long as to the maximum over one row's shares, and are
    projected onto the simplex.

    gains[t] is the gain of the dual. If all of the row's shares are with one class, rooms[t] is
    positive: by how much the slope of this class is above all others. Else it is minus the
    violation: how far the slope of a class with a share is below the highest slope.
    """
    k = shares.shape[1]
    has_offset = offset.shape[1] > 0
    # As rows of one number each, so that they can be prefetched.
    n = y.shape[0]
    norm_of, cost_of, class_of = norms.reshape((n, 1)), cost.reshape((n, 1)), y.reshape((n, 1))
    gap_of, start_of = seen_gap.reshape((n, 1)), rows[-1].reshape((rows[-1].size, 1))
    for t in range(begin, end):
        if t + _LOOK_FARTHER < end:
            ahead = order[t + _LOOK_FARTHER]
            row_prefetch((norm_of,), ahead)
            row_prefetch((cost_of,), ahead)
            row_prefetch((class_of,), ahead)
            row_prefetch((gap_of,), ahead)
            if len(rows) == 3:
                row_prefetch((start_of,), ahead)
        if t + _LOOK_AHEAD < end:
            row_prefetch(rows, order[t + _LOOK_AHEAD])
            row_prefetch((shares,), order[t + _LOOK_AHEAD])
        i = order[t]
        own, c, B = np.intp(y[i]), cost[i], shares[i]
        class_scores(rows, i, W, scores)
        for j in range(k):
            slope[j] = scores[j]
        if has_offset:
            for j in range(k):
                slope[j] += offset[0, j] + K * offset[1, j]
        slope[own] -= 1.0  # all of them are now less than g by one
        top = slope[0]
        for j in range(1, k):
            top = max(top, slope[j])
        lowest, second, gap, holders = top, -np.inf, 0.0, 0
        for j in range(k):
            gap += B[j] * (top - slope[j])
            holders += 1 if B[j] > 0.0 else 0
            lowest = min(lowest, slope[j] if B[j] > 0.0 else top)
            second = max(second, slope[j] if B[j] == 0.0 else -np.inf)
        seen_gap[i] = gap
        gains[t] = 0.0
        rooms[t] = lowest - top
        if lowest >= top:
            rooms[t] = top - second if holders == 1 else 0.0
            continue
        q = norms[i] + K
        reach = overstep / q if q > 0.0 else 1e300
        farthest = 0.0
        for j in range(k):
            goal[j] = B[j] + reach * (slope[j] - top)
            farthest = max(farthest, goal[j])
        level, count = threshold(goal, c, farthest)
        linear, square = 0.0, 0.0
        for j in range(k):
            after = max(goal[j] - level, 0.0)
            if count == 1:  # all of it, to the last digit
                after = c if after > 0.0 else 0.0
            step = after - B[j]
            B[j] = after
            change[j] = -step
            linear += step * (slope[j] - top)
            square += step * step
        if has_offset:
            for j in range(k):
                offset[1, j] += change[j]
        gains[t] = linear - 0.5 * q * square
        class_add(rows, i, change, W)


@kernel
def prefer(
    order: Array, gains: Array, preference: Array, lowest: float, highest: float, rate: float,
    fading: float, mean: float,
) -> float:  # fmt: skip
    """Raise the preference of rows that gained above the fading mean; return that mean."""
    for t in range(order.shape[0]):
        i = order[t]
        wish = preference[i] * np.exp(rate * (gains[t] / mean - 1.0))
        preference[i] = min(max(wish, lowest), highest)
        mean = (1.0 - fading) * mean + fading * gains[t]
    return mean


@kernel(fastmath=REORDERING_MATH | {"nnan"})
def row_gaps(y: Array, shares: Array, scores: Array, offset: Array, out: Array) -> None:
    """out[i] = row i's contribution to the gap, at scores + offset; zero if it has none."""
    slope = np.empty(offset.shape[0])
    for i in range(shares.shape[0]):
        top = -np.inf
        for j in range(offset.shape[0]):
            slope[j] = scores[i, j] + offset[j]
        slope[y[i]] -= 1.0
        for j in range(offset.shape[0]):
            top = max(top, slope[j])
        gap = 0.0
        for j in range(offset.shape[0]):
            gap += shares[i, j] * (top - slope[j])
        out[i] = gap


@kernel
def all_scores(rows: Rows, W: Array, begin: int, end: int, scores: Array, out: Array) -> None:
    """out[i, j] = x_i . w_j for begin <= i < end; W as above."""
    for i in range(begin, end):
        class_scores(rows, i, W, scores)
        for j in range(out.shape[1]):
            out[i, j] = scores[j]


@kernel
def count_entries(X: Array, begin: int, end: int, indptr: Array) -> None:
    """indptr[i + 1] = entries of row i that are not zero, for begin <= i < end."""
    for i in range(begin, end):
        count = 0
        for k in range(X.shape[1]):
            count += 1 if X[i, k] != 0.0 else 0
        indptr[i + 1] = count


@kernel
def compress(X: Array, indptr: Array, begin: int, end: int, values: Array, indices: Array) -> None:
    """Copy the entries of dense rows begin to end that are not zero to their CSR places."""
    for i in range(begin, end):
        t, stop = np.intp(indptr[i]), np.intp(indptr[i + 1])
        for k in range(X.shape[1]):
            # Always written, and kept only if it is an entry: no branch to mispredict.
            if t < stop:
                values[t] = X[i, k]
                indices[t] = k
                t += 1 if X[i, k] != 0.0 else 0
