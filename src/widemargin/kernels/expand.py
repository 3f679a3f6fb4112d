"""Expand strings into CSR rows: substrings by position, and hashed n-grams.

Strings have Arrow's layout. `text` has the bytes of all strings, one after the other, and kernels
are given where each string begins and ends in it. A kernel writes the rows low <= i < high to
`indices`, `values` and `row_ends`. The entries of row i are those from ``row_ends[i]`` to
``row_ends[i + 1] - 1``. Before the call, ``row_ends[low]`` is the number of entries already
written. Indices increase along a row.
"""

import numpy as np

from widemargin.kernels.jit import kernel

_BYTES_OF_WORDS = np.zeros(256, dtype=np.bool_)
_BYTES_OF_WORDS[np.frombuffer(b"_0123456789", dtype=np.uint8)] = True
_BYTES_OF_WORDS[ord("A") : ord("Z") + 1] = True
_BYTES_OF_WORDS[ord("a") : ord("z") + 1] = True
_BYTES_OF_WORDS[128:] = True

# Multipliers of the hash: odd numbers whose bits have no pattern.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FINISH = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)

_DIGIT_BITS = 8
_DIGITS = np.uint32(1 << _DIGIT_BITS)
_FEW_KEYS = 32  # up to so many keys are sorted by insertion alone
_MANY_KEYS = 1024  # up to so many keys are sorted by two digits, and then by insertion

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@kernel
def substrings(
    text, begins, low, high, codes, n_letters, features, roots, squares, indices, values, row_ends
):
    """Write features for the substrings of 1, 2, ... letters at each position.

    Rows are scaled to unit length. The substrings at one position are the nodes of a tree,
    numbered level by level from 0, the root. The children of node v are
    n_letters * v + 1 .. n_letters * (v + 1).

    Each string has one letter for each position. `codes` (256,) are 1 .. n_letters for the bytes
    that are letters, 0 for all others. `features` (n_positions,) are the first feature of each
    position. `roots` (max_degree,) are the values of substrings of 1, 2, ... letters, before the
    row is scaled, and `squares` (max_degree + 1,) sums of squares of the first 0, 1, ... of them.
    """
    n_positions, max_degree = features.size, roots.size
    letters = np.empty(n_positions, dtype=np.int64)
    # The number of consecutive letters from each position on, at most max_degree.
    reach = np.empty(n_positions + 1, dtype=np.int64)
    reach[n_positions] = 0
    scaled = np.empty(max_degree, dtype=np.float32)
    at = np.uint64(row_ends[low])
    for i in range(low, high):
        square = 0.0
        for p in range(n_positions - 1, -1, -1):
            letters[p] = codes[text[begins[i] + p]]
            reach[p] = min(reach[p + 1] + 1, max_degree) if letters[p] else 0
            square += squares[reach[p]]
        for j in range(max_degree):
            scaled[j] = roots[j] / np.sqrt(square)  # not used if square is zero
        for p in range(n_positions):
            node = np.int64(0)
            for j in range(reach[p]):
                node = n_letters * node + letters[p + j]
                indices[at] = features[p] + node - 1
                values[at] = scaled[j]
                at += _ONE
        row_ends[i + 1] = at


@kernel
def _stirred(state):
    """Return `state` with its high half mixed into its low half, and that into the high bits."""
    return (state ^ (state >> _HALF)) * _FINISH


@kernel
def _split(text, begin, end, in_words, start, tokens):
    """Write the tokens of one string, bytes or hashes of words, to `tokens`; return how many."""
    n_tokens = _ZERO
    if not in_words:
        for k in range(begin, end):
            tokens[n_tokens] = text[k]
            n_tokens += _ONE
        return n_tokens
    k = begin
    while k < end:
        if _BYTES_OF_WORDS[text[k]]:
            state = start
            while k < end and _BYTES_OF_WORDS[text[k]]:
                state = (state ^ np.uint64(text[k])) * _STEP
                k += _ONE
            tokens[n_tokens] = _stirred(state)
            n_tokens += _ONE
        else:
            k += _ONE
    return n_tokens


@kernel
def _hash_ngrams(tokens, n_tokens, shortest, longest, start, shift, keys):
    """Write the high bits of the hash of each n-gram to `keys`; return the number of keys."""
    n_keys = _ZERO
    for first in range(n_tokens):
        state = start
        for k in range(first, min(first + longest, n_tokens)):
            state = (state ^ tokens[k]) * _STEP
            if k + _ONE >= first + shortest:
                keys[n_keys] = np.uint32(_stirred(state) >> shift)
                n_keys += _ONE
    return n_keys


@kernel
def _deal(keys, n_keys, shift, places, dealt):
    """Sort `keys` into `dealt` by the digit at `shift`, stably: one pass of radix sort."""
    digit_of = _DIGITS - np.uint32(1)
    places[:] = np.uint32(0)
    for k in range(n_keys):
        places[(keys[k] >> shift) & digit_of] += np.uint32(1)
    place = np.uint32(0)
    for digit in range(_DIGITS):
        count = places[digit]
        places[digit] = place
        place += count
    for k in range(n_keys):
        digit = (keys[k] >> shift) & digit_of
        dealt[places[digit]] = keys[k]
        places[digit] += np.uint32(1)


@kernel
def _sort(keys, n_keys, key_bits, places, spare):
    """Sort n_keys keys of `key_bits` bits; return the array with the result: `keys` or `spare`.

    Keys are hashes. After a radix sort by the two highest digits, a short row is almost sorted,
    and insertion sort finishes it. In a long row, insertion could take long, so the radix sort
    uses all digits.
    """
    n_digits = 2
    if n_keys <= _FEW_KEYS:
        n_digits = 0
    elif n_keys > _MANY_KEYS:
        n_digits = (key_bits + _DIGIT_BITS - 1) // _DIGIT_BITS
    for digit in range(n_digits, 0, -1):
        _deal(keys, n_keys, np.uint32(max(0, key_bits - digit * _DIGIT_BITS)), places, spare)
        keys, spare = spare, keys
    for k in range(_ONE, n_keys):
        key = keys[k]
        hole = k
        while hole > _ZERO and keys[hole - _ONE] > key:
            keys[hole] = keys[hole - _ONE]
            hole -= _ONE
        keys[hole] = key
    return keys


@kernel
def _count(keys, n_keys, unit_length, at, indices, values):
    """Write each distinct key with its count, from entry `at` on; return the end."""
    begin = at
    square = 0.0
    k = _ZERO
    while k < n_keys:
        key = keys[k]
        count = 1.0
        k += _ONE
        while k < n_keys and keys[k] == key:
            count += 1.0
            k += _ONE
        indices[at] = key
        values[at] = count
        square += count * count
        at += _ONE
    if unit_length and square > 0.0:
        scale = np.float32(1.0 / np.sqrt(square))
        for k in range(begin, at):
            values[k] *= scale
    return at


@kernel
def hashed_ngrams(
    text,
    begins,
    ends,
    low,
    high,
    in_words,
    shortest,
    longest,
    seed,
    key_bits,
    unit_length,
    indices,
    values,
    row_ends,
):
    """Count the n-grams of each string by the first `key_bits` bits of their hashes.

    As in FNV, the hash is updated by one token after the other: ``state = (state ^ token) * odd``.
    Its bits are mixed before the high ones are used. A token is a byte, or the hash of the bytes
    of a word.

    If `in_words`, tokens are the longest sequences of ASCII letters, digits, underscores and bytes
    from 128 on; else bytes. N-grams have `shortest` to `longest` tokens. The features are
    0 .. 2^key_bits - 1; key_bits is at most 31. If `unit_length`, rows are scaled to unit length.
    """
    most_tokens = np.int64(0)
    for i in range(low, high):
        most_tokens = max(most_tokens, ends[i] - begins[i])
    tokens = np.empty(most_tokens, dtype=np.uint64)
    most_keys = most_tokens * np.int64(longest - shortest + _ONE)
    keys = np.empty(most_keys, dtype=np.uint32)
    spare = np.empty(most_keys, dtype=np.uint32)
    places = np.empty(_DIGITS, dtype=np.uint32)
    start = _stirred(seed + _STEP)
    shift = np.uint64(64 - key_bits)
    at = np.uint64(row_ends[low])
    for i in range(low, high):
        begin, end = np.uint64(begins[i]), np.uint64(ends[i])
        n_tokens = _split(text, begin, end, in_words, start, tokens)
        n_keys = _hash_ngrams(tokens, n_tokens, shortest, longest, start, shift, keys)
        ordered = _sort(keys, n_keys, key_bits, places, spare)
        at = _count(ordered, n_keys, unit_length, at, indices, values)
        row_ends[i + 1] = at
