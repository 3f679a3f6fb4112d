"""Parse svmlight text: whole lines of bytes in, the arrays of a CSR matrix out.

The kernel only knows the grammar. `widemargin.data.svmlight` opens files, writes error messages
and chooses types.

Every decimal number is converted to the nearest double. Let m be the integer that its digits form,
and 10^e the power of ten. If m <= 2^53 and |e| <= 22, both are exact doubles. One multiplication
or division rounds once, so its result is the nearest double (Clinger, "How to read floating point
numbers accurately", 1990). With up to 18 digits and -22 <= e <= 0, the quotient is computed in
twice the precision. This determines the rounding of all but about one in a million numbers. All
other numbers are left to the caller: the kernel records their positions in the text.
"""

from typing import NamedTuple

import numpy as np

from widemargin.kernels.jit import kernel

MAX_INDEX = 2**31 - 1
QID_DIGITS = 18  # integers of so many digits fit 64 bits

# Why the parser stopped: the values of `Parsed.error`.
OK = 0
BAD_LABEL = 1
LABEL_MISSING = 2
BAD_QID = 3
QID_MISSING = 4
QID_UNEXPECTED = 5
BAD_INDEX = 6
COLON_MISSING = 7
INDEX_ZERO = 8
INDEX_TOO_LARGE = 9
INDEX_NOT_INCREASING = 10
VALUE_MISSING = 11
BAD_VALUE = 12

# Whether lines have a query id. The first row decides it for all others.
QID_UNKNOWN = -1
QID_ABSENT = 0
QID_PRESENT = 1

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH = 9, 10, 13, 32, 35
_PLUS, _MINUS, _DOT, _ZERO, _COLON = 43, 45, 46, 48, 58
_UPPER_E, _UPPER_L, _UPPER_N, _UPPER_U = 69, 76, 78, 85
_D, _LOWER_E, _I, _Q = 100, 101, 105, 113

_EXACT_INTEGER = 2**53
_LARGEST_MANTISSA = 9 * 10**17  # ten times this, plus a digit, fits 64 bits
_EXACT_EXPONENT = 22
_SPLITTER = 2.0**27 + 1.0  # Veltkamp's constant: splits a double into two halves
_POWERS_OF_TEN = np.array([float(f"1e{e}") for e in range(_EXACT_EXPONENT + 1)])
_EXPONENT_CAP = 100_000  # beyond any double; a long exponent cannot overflow

_MALFORMED, _READ, _LEFT_TO_CALLER = 0, 1, 2


class Parsed(NamedTuple):
    """The result of one call of `parse_lines`.

    Attributes
    ----------
    error : int
        `OK`, or the reason for stopping.
    position : int
        Where the invalid token begins, or the number of bytes parsed.
    lines : int
        Complete lines before `position`, blank ones and comments included.
    rows, entries : int
        Rows and index:value pairs written.
    largest_index : int
        Largest index, counted from 1; 0 if there was none.
    n_left : int
        Numbers left to the caller.
    qid_state : int
        `QID_UNKNOWN`, `QID_ABSENT` or `QID_PRESENT`.
    """

    error: int
    position: int
    lines: int
    rows: int
    entries: int
    largest_index: int
    n_left: int
    qid_state: int


@kernel(fastmath=())
def _ends_token(byte):
    return byte in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@kernel(fastmath=())
def _skip_blanks(text, at):
    while text[at] == _SPACE or text[at] == _TAB or text[at] == _RETURN:
        at += 1
    return at


@kernel(fastmath=())
def _read_digits(text, at, number, cap):
    """Append decimal digits to `number`. When it exceeds `cap`, further digits are skipped."""
    digit = np.int64(text[at]) - _ZERO
    while 0 <= digit <= 9:
        if number <= cap:
            number = 10 * number + digit
        at += 1
        digit = np.int64(text[at]) - _ZERO
    return number, at


@kernel(fastmath=())
def _divide_long(mantissa, power):
    """Divide an integer above 2^53 by an exact double; return (rounding is certain, quotient).

    Let mantissa = high + low. The remainder of high / power is a double, and Dekker's product
    computes it without error. A second quotient corrects the first. Its error is below 2^-50
    units in the last place. The rounding of their sum is certain if the part that the sum
    dropped can grow by a fraction of 2^-20 without changing the result (Ziv's test).
    """
    high = np.float64(mantissa)
    low = np.float64(mantissa - np.int64(high))
    first = high / power
    first_head = first * _SPLITTER
    first_head -= first_head - first
    first_tail = first - first_head
    power_head = power * _SPLITTER
    power_head -= power_head - power
    power_tail = power - power_head
    product = first * power
    dropped = (
        (first_head * power_head - product) + first_head * power_tail + first_tail * power_head
    ) + first_tail * power_tail
    second = ((high - product) - dropped + low) / power
    quotient = first + second
    rest = second - (quotient - first)
    return quotient + rest * (1.0 + 2.0**-20) == quotient, quotient


@kernel(fastmath=())
def _read_number(text, at):
    """Read the decimal number that fills one token; return (outcome, value, end)."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    begin = at
    mantissa, at = _read_digits(text, at, np.int64(0), np.int64(_LARGEST_MANTISSA))
    n_digits = at - begin
    exponent = np.int64(0)
    if text[at] == _DOT:
        begin = at + 1
        mantissa, at = _read_digits(text, begin, mantissa, np.int64(_LARGEST_MANTISSA))
        exponent = begin - at
        n_digits += at - begin
    if n_digits == 0:
        return _MALFORMED, 0.0, at
    if text[at] == _LOWER_E or text[at] == _UPPER_E:
        at += 1
        downward = text[at] == _MINUS
        if downward or text[at] == _PLUS:
            at += 1
        begin = at
        shift, at = _read_digits(text, at, np.int64(0), np.int64(_EXPONENT_CAP))
        if at == begin:
            return _MALFORMED, 0.0, at
        exponent += -shift if downward else shift
    if not _ends_token(text[at]):
        return _MALFORMED, 0.0, at
    value = np.float64(mantissa)
    if mantissa != 0:
        far = exponent < -_EXACT_EXPONENT or exponent > _EXACT_EXPONENT
        if far or mantissa > _LARGEST_MANTISSA:
            return _LEFT_TO_CALLER, 0.0, at
        if mantissa > _EXACT_INTEGER:
            if exponent > 0:
                return _LEFT_TO_CALLER, 0.0, at
            certain, value = _divide_long(mantissa, _POWERS_OF_TEN[-exponent])
            if not certain:
                return _LEFT_TO_CALLER, 0.0, at
        elif exponent < 0:
            value /= _POWERS_OF_TEN[-exponent]
        else:
            value *= _POWERS_OF_TEN[exponent]
    return _READ, -value if negative else value, at


@kernel(fastmath=())
def _is_null(text, at):
    """Return whether the token is ``NULL``, which means a missing value."""
    return (
        text[at] == _UPPER_N
        and text[at + 1] == _UPPER_U
        and text[at + 2] == _UPPER_L
        and text[at + 3] == _UPPER_L
        and _ends_token(text[at + 4])
    )


@kernel(fastmath=())
def _at_qid(text, at):
    return text[at] == _Q and text[at + 1] == _I and text[at + 2] == _D and text[at + 3] == _COLON


@kernel(fastmath=())
def _read_qid(text, at):
    """Read the integer after ``qid:``; return (well formed, number, end)."""
    negative = text[at] == _MINUS
    if negative:
        at += 1
    begin = at
    number, at = _read_digits(text, at, np.int64(0), np.int64(10**QID_DIGITS - 1))
    fits = begin < at <= begin + QID_DIGITS
    return fits and _ends_token(text[at]), -number if negative else number, at


@kernel(fastmath=())
def parse_lines(
    text,
    stop,
    max_index,
    qid_state,
    indices,
    values,
    row_ends,
    labels,
    qids,
    left_slots,
    left_spans,
):
    """Parse the lines ``text[:stop]``; stop at the first error.

    Parameters
    ----------
    text : (>= stop,) uint8 array
        Whole lines. ``text[stop - 1]`` must be a newline, because every loop stops at one.
    stop : int
        Number of bytes to parse.
    max_index : int
        Largest index allowed, counted from 1; at most `MAX_INDEX`.
    qid_state : int
        Whether earlier lines have query ids, as in `Parsed`.
    indices : (>= stop // 4,) int32 array
        Out: column of each entry, counted from 0. (An entry takes at least four bytes.)
    values : (>= stop // 4,) float64 array
        Out: value of each entry.
    row_ends : (>= stop // 2,) int64 array
        Out: number of entries up to the end of each row.
    labels : (>= stop // 2,) float64 array
        Out: label of each row.
    qids : (>= stop // 2,) int64 array
        Out: query id of each row, if there are any.
    left_slots : (>= stop // 2,) int64 array
        Out: what each number left to the caller is: ``k`` for the value of entry ``k``, ``~i``
        for the label of row ``i``.
    left_spans : (>= stop // 2, 2) int64 array
        Out: begin and end of each such number in `text`.

    Returns
    -------
    Parsed
    """
    at = lines = rows = entries = largest_index = n_left = np.int64(0)
    error = OK
    while at < stop:
        at = _skip_blanks(text, at)
        token = at
        if text[at] != _NEWLINE and text[at] != _HASH:
            outcome, value, at = _read_number(text, at)
            if outcome == _MALFORMED:
                no_label = text[at] == _COLON or _at_qid(text, at)
                error = LABEL_MISSING if no_label else BAD_LABEL
                break
            labels[rows] = value
            if outcome == _LEFT_TO_CALLER:
                left_slots[n_left] = ~rows
                left_spans[n_left, 0] = token
                left_spans[n_left, 1] = at
                n_left += 1

            at = _skip_blanks(text, at)
            if _at_qid(text, at):
                token = at
                if qid_state == QID_ABSENT:
                    error = QID_UNEXPECTED
                    break
                qid_state = QID_PRESENT
                well_formed, qid, at = _read_qid(text, at + 4)
                if not well_formed:
                    error = BAD_QID
                    break
                qids[rows] = qid
                at = _skip_blanks(text, at)
            elif qid_state == QID_PRESENT:
                error = QID_MISSING
                break
            else:
                qid_state = QID_ABSENT

            previous = np.int64(0)
            while text[at] != _NEWLINE and text[at] != _HASH:
                token = at
                index, at = _read_digits(text, at, np.int64(0), np.int64(MAX_INDEX))
                if at == token or text[at] != _COLON:
                    only_digits = at > token and _ends_token(text[at])
                    error = COLON_MISSING if only_digits else BAD_INDEX
                    break
                if index == 0:
                    error = INDEX_ZERO
                    break
                if index > max_index:
                    error = INDEX_TOO_LARGE
                    break
                if index <= previous:
                    error = INDEX_NOT_INCREASING
                    break
                previous = index
                at += 1
                begin = at
                outcome, value, at = _read_number(text, at)
                if outcome == _MALFORMED:  # so the test for NULL costs valid numbers no time
                    if _is_null(text, begin):
                        at = _skip_blanks(text, begin + 4)
                        continue
                    error = VALUE_MISSING if _ends_token(text[begin]) else BAD_VALUE
                    break
                if outcome == _LEFT_TO_CALLER:
                    left_slots[n_left] = entries
                    left_spans[n_left, 0] = begin
                    left_spans[n_left, 1] = at
                    n_left += 1
                indices[entries] = index - 1
                values[entries] = value
                entries += 1
                at = _skip_blanks(text, at)
            if error != OK:
                break
            largest_index = max(largest_index, previous)
            row_ends[rows] = entries
            rows += 1
        while text[at] != _NEWLINE:  # a comment
            at += 1
        at += 1
        lines += 1
    position = at if error == OK else token
    return Parsed(error, position, lines, rows, entries, largest_index, n_left, qid_state)
