"""The most violated labelling of a measure that depends on two counts, in linear time.

Rows come group by group, positive ones in increasing order of score and negative ones in
decreasing order. Of all labellings that miss m positive rows and accept f negative ones, the most
violated one misses the first m and accepts the first f. So the most violated labelling of a group
is a pair (m, f), which maximises

    weight * loss(m, f) - sum of the missed rows' scores + sum of the accepted rows' scores
"""

import numpy as np

from widemargin.kernels.jit import IN_ORDER, kernel


@kernel(fastmath=IN_ORDER)
def fixed_size(gains, sizes, starts, high, low_starts, low, cuts):
    """Labellings that accept sizes[g] rows; gains[g] is the loss of each avoidable false one.

    `high` (n,) are the scores of positive rows, of which group g has starts[g] to starts[g + 1].
    `low` are those of negative rows. cuts (g, 2) receive how many rows of each are wrong. Of q
    avoidable errors, q times the mean score of the missed rows counts, and of the accepted ones.
    A group in which no labelling has a positive loss gets (0, 0).
    """
    for g in range(sizes.shape[0]):
        p, n = starts[g], low_starts[g]
        n_high, n_low = starts[g + 1] - p, low_starts[g + 1] - n
        accepted = max(0, sizes[g] - n_high)
        missed = n_high - sizes[g] + accepted
        lost, gained, best = 0.0, 0.0, 0.0
        for i in range(missed):
            lost += high[p + i]
        for i in range(accepted):
            gained += low[n + i]
        cuts[g, 0] = cuts[g, 1] = 0
        q = 0
        while missed < n_high and accepted < n_low:
            lost += high[p + missed]
            gained += low[n + accepted]
            missed, accepted, q = missed + 1, accepted + 1, q + 1
            value = gains[g] * q - q * lost / missed + q * gained / accepted
            if value > best:
                best = value
                cuts[g, 0], cuts[g, 1] = missed, accepted


@kernel(fastmath=IN_ORDER)
def f_measure(weights, beta2, starts, high, low_starts, low, cuts):
    """Labellings with the loss 1 - F, F = (1 + beta2) t / (t + f + beta2 P) for t of P rows found.

    As `fixed_size`. The best f rises with t up to some t, and falls from there on, so that walking
    from one t to the next takes linear time in all.
    """
    for g in range(weights.shape[0]):
        p, n = starts[g], low_starts[g]
        n_high, n_low = starts[g + 1] - p, low_starts[g + 1] - n
        lost = 0.0  # the scores of the missed rows
        for i in range(n_high):
            lost += high[p + i]
        best, gained, f = 0.0, 0.0, 0
        cuts[g, 0] = cuts[g, 1] = 0
        for t in range(n_high + 1):
            if t > 0:
                lost -= high[p + n_high - t]
            top, rest = weights[g] * (1.0 + beta2) * t, t + beta2 * n_high
            while f < n_low and low[n + f] + top / ((rest + f) * (rest + f + 1)) > 0.0:
                gained += low[n + f]
                f += 1
            while f > 0 and low[n + f - 1] + top / ((rest + f) * (rest + f - 1)) < 0.0:
                f -= 1
                gained -= low[n + f]
            value = weights[g] * (f + beta2 * (n_high - t)) / (rest + f) - lost + gained
            if value > best:
                best = value
                cuts[g, 0], cuts[g, 1] = n_high - t, f


@kernel(fastmath=IN_ORDER)
def recall_at_precision(weights, precision, starts, high, low_starts, low, cuts):
    """Labellings with the loss 1 - t / P if t / (t + f) >= precision, else 1; as `fixed_size`."""
    for g in range(weights.shape[0]):
        p, n = starts[g], low_starts[g]
        n_high, n_low = starts[g + 1] - p, low_starts[g + 1] - n
        lost, wanted = 0.0, 0  # how many negative rows would be accepted without a constraint
        for i in range(n_high):
            lost += high[p + i]
        while wanted < n_low and low[n + wanted] > 0.0:
            wanted += 1
        best, inside, outside = 0.0, 0.0, 0.0  # sums of the first `few` and `many` scores
        few, many = 0, 0
        cuts[g, 0] = cuts[g, 1] = 0
        for t in range(n_high + 1):
            if t > 0:
                lost -= high[p + n_high - t]
            most = int(min(n_low, t * (1.0 - precision) / precision + 1e-9))
            while few < min(most, wanted):
                inside += low[n + few]
                few += 1
            while many < min(n_low, max(most + 1 if t > 0 else 0, wanted)):
                outside += low[n + many]
                many += 1
            value = weights[g] * (1.0 - t / n_high) - lost + inside
            if t > 0 and value > best:
                best = value
                cuts[g, 0], cuts[g, 1] = n_high - t, few
            value = weights[g] - lost + outside
            if (many > most or t == 0) and value > best:
                best = value
                cuts[g, 0], cuts[g, 1] = n_high - t, many


@kernel(fastmath=IN_ORDER)
def average_precision(starts, high, low_starts, low, ranks):
    """ranks (n,) receive how many positive rows precede each negative one in the worst ranking.

    Both kinds of rows are in decreasing order of score. The worst ranking maximises 1 - AP minus
    the mean over pairs of (s_i - s_j) if j precedes i. Each negative row can be placed on its own,
    and places rise with its rank (Yue et al. 2007), so the place of the middle one divides the
    places of the others: O((P + N) log N).
    """
    stack = np.empty((128, 4), dtype=np.int64)
    for g in range(starts.shape[0] - 1):
        p, n = starts[g], low_starts[g]
        n_high, n_low = starts[g + 1] - p, low_starts[g + 1] - n
        stack[0] = 0, n_low, 0, n_high
        size = 1
        while size > 0:
            size -= 1
            begin, end, first, last = stack[size]
            if begin >= end:
                continue
            j = (begin + end) // 2
            best, place, total = 0.0, last, 0.0
            for i in range(last, first, -1):
                gain = n_low * i / ((i + j) * (i + j + 1.0)) - (high[p + i - 1] - low[n + j])
                total += gain
                if total > best:
                    best, place = total, i - 1
            ranks[n + j] = place
            stack[size] = begin, j, first, place
            stack[size + 1] = j + 1, end, place, last
            size += 2
