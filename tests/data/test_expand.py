"""Feature maps against slow ones in plain Python."""

import itertools
import pickle
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from widemargin.data import expand
from widemargin.data.expand import FromCallable, HashedNgrams, WeightedDegree

LAYOUTS = [
    pa.utf8(),
    pa.large_utf8(),
    pa.binary(),
    pa.large_binary(),
    pa.dictionary(pa.int8(), pa.utf8()),
    pa.dictionary(pa.int32(), pa.large_binary()),
]


def batch_of(strings, kind=None):
    kind = kind or pa.utf8()
    if pa.types.is_dictionary(kind):
        array = pa.array(strings, kind.value_type).dictionary_encode().cast(kind)
    else:
        array = pa.array(strings, kind)
    return pa.record_batch({"s": array})


def assert_canonical(X, shape):
    assert isinstance(X, sparse.csr_matrix)
    assert X.shape == shape
    assert (X.data.dtype, X.indices.dtype) == (np.float32, np.int32)
    assert X.indptr.dtype == np.int32
    assert np.all(X.data != 0)
    X.check_format(full_check=True)
    for row in range(X.shape[0]):
        assert np.all(np.diff(X.indices[X.indptr[row] : X.indptr[row + 1]]) > 0)


def unit_length(X):
    lengths = np.sqrt(np.square(X, dtype=np.float64).sum(axis=1, keepdims=True))
    return np.divide(X, lengths, out=np.zeros(X.shape), where=lengths > 0)


# --- substrings by position -------------------------------------------------------------------


def substrings_one_by_one(strings, length, max_degree, alphabet, weights):
    """A column per position, number of letters and substring, in this order."""
    columns = [
        (i, "".join(letters))
        for i in range(length)
        for degree in range(1, min(max_degree, length - i) + 1)
        for letters in itertools.product(alphabet, repeat=degree)
    ]
    X = np.zeros((len(strings), len(columns)))
    for row, string in enumerate(strings):
        for column, (i, letters) in enumerate(columns):
            if string.upper()[i : i + len(letters)] == letters:
                X[row, column] = np.sqrt(weights[len(letters) - 1])
    return X


@st.composite
def alike_strings(draw):
    alphabet = draw(st.sampled_from(["ACGT", "AB", "X"]))
    length = draw(st.integers(1, 7))
    letters = st.sampled_from(alphabet + alphabet.lower() + "Nn-")
    strings = draw(st.lists(st.text(letters, min_size=length, max_size=length), max_size=5))
    return alphabet, length, strings


@given(alike_strings(), st.integers(1, 4), st.booleans(), st.sampled_from(LAYOUTS))
def test_substrings_by_position(example, max_degree, weighted, kind):
    alphabet, length, strings = example
    max_degree = min(max_degree, length)
    expands = WeightedDegree("s", length, max_degree, alphabet, weighted)
    K = max_degree
    weights = [2 * (K - j + 1) / (K * (K + 1)) if weighted else 1 for j in range(1, K + 1)]
    expected = substrings_one_by_one(strings, length, max_degree, alphabet, weights)
    X = expands(batch_of(strings, kind))
    assert_canonical(X, (len(strings), expands.n_features))
    np.testing.assert_allclose(X.toarray(), unit_length(expected), rtol=1e-6)


def test_number_of_substrings_at_the_size_of_the_paper():
    """The paper's 17,476,000, less the substrings that run over the end."""
    too_long = sum((degree - 1) * 4**degree for degree in range(1, 9))
    assert WeightedDegree("s", 200).n_features == 17_476_000 - too_long


def test_inner_products_are_the_weighted_degree_kernel():
    strings = ["ACGTTGCA", "ACGATGCA", "TTTTTTTT"]
    X = WeightedDegree("s", 8, max_degree=3)(batch_of(strings)).toarray()

    def alike(a, b):
        weights = {1: 3 / 6, 2: 2 / 6, 3: 1 / 6}
        return sum(
            weight * (strings[a][i : i + j] == strings[b][i : i + j])
            for j, weight in weights.items()
            for i in range(8 - j + 1)
        )

    expected = [[alike(a, b) / alike(0, 0) for b in range(3)] for a in range(3)]
    np.testing.assert_allclose(X @ X.T, expected, rtol=1e-6)


def test_last_feature_of_the_last_position():
    expands = WeightedDegree("s", 398)
    row = expands(batch_of(["T" * 398]))
    assert row.nnz == 8 * 398 - 28
    assert row.indices[-1] == expands.n_features - 1 == 34_194_695


@pytest.mark.parametrize("other", ["ACG", "ACGTA", "", None, "ACGé"])
def test_strings_of_another_length_are_named(other):
    strings = ["ACGT", "acgt", other, "ACG"]
    with pytest.raises(ValueError, match=r"column 's', row 2 of the batch: \d letters, not 4"):
        WeightedDegree("s", 4, 2)(batch_of(strings))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 4, "max_degree": 5}, "max_degree must lie in 1..length = 4, not 5"),
        ({"length": 4, "max_degree": 0}, "max_degree"),
        ({"length": 9, "alphabet": "ACGa"}, "alphabet must be ASCII characters, all different"),
        ({"length": 9, "alphabet": "ACGÜ"}, "alphabet"),
        ({"length": 9, "alphabet": ""}, "alphabet"),
        ({"length": 398, "alphabet": "ACDEFGHIKLMNPQRSTVWY"}, "n_features must lie in"),
    ],
)
def test_bad_parameters_of_substrings(options, message):
    with pytest.raises(ValueError, match=message):
        WeightedDegree("s", **options)


# --- hashed n-grams ---------------------------------------------------------------------------


def ngrams(string, lengths, unit):
    text = string if isinstance(string, bytes) else (string or "").encode()
    tokens = [text[i : i + 1] for i in range(len(text))]
    if unit == "word":
        tokens = re.findall(rb"[A-Za-z0-9_\x80-\xff]+", text)
    shortest, longest = lengths
    return [
        (b"" if unit == "char" else b" ").join(tokens[i : i + n])
        for n in range(shortest, longest + 1)
        for i in range(len(tokens) - n + 1)
    ]


def counts_one_by_one(strings, expands):
    """Counts where each n-gram's feature is asked of the map, in a row of its own."""
    X = np.zeros((len(strings), expands.n_features))
    for row, string in enumerate(strings):
        for gram, count in Counter(ngrams(string, expands.lengths, expands.unit)).items():
            n = len(gram) if expands.unit == "char" else gram.count(b" ") + 1
            alone = HashedNgrams("s", expands.n_features, (n, n), expands.unit, seed=expands.seed)
            (feature,) = alone(batch_of([gram], pa.binary())).indices
            X[row, feature] += count
    return X


few_letters = st.text(st.sampled_from("aab/ ._é漢\0"), max_size=30)
strings_or_none = st.lists(st.one_of(st.none(), few_letters, st.text(max_size=8)), max_size=5)


@settings(max_examples=60)
@given(
    strings_or_none,
    st.sampled_from([2, 2**5, 2**8, 2**12, 2**20]),
    st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair))),
    st.sampled_from(["char", "word"]),
    st.sampled_from([0, 1, 2**64 - 1]),
    st.sampled_from(LAYOUTS),
)
def test_hashed_ngrams(strings, n_features, lengths, unit, seed, kind):
    counting = HashedNgrams("s", n_features, lengths, unit, normalize=False, seed=seed)
    expected = counts_one_by_one(strings, counting)
    X = counting(batch_of(strings, kind))
    assert_canonical(X, (len(strings), n_features))
    np.testing.assert_array_equal(X.toarray(), expected)
    scaled = HashedNgrams("s", n_features, lengths, unit, seed=seed)(batch_of(strings, kind))
    assert_canonical(scaled, (len(strings), n_features))
    np.testing.assert_allclose(scaled.toarray(), unit_length(expected), rtol=1e-6)


@pytest.mark.parametrize("n_features", [2**3, 2**10, 2**20, 2**27, 2**30])
@pytest.mark.parametrize("n_letters", [20, 33, 300, 1024, 1025, 5000])
def test_rows_of_every_length_are_sorted_and_counted(n_features, n_letters):
    """Rows as long as those that each way of sorting gets, with many n-grams that repeat."""
    rng = np.random.default_rng(n_letters)
    strings = ["".join(rng.choice(list("abcdefgh"), n_letters)), "ab" * (n_letters // 2)]
    expands = HashedNgrams("s", n_features, (3, 3), normalize=False)
    X = expands(batch_of(strings))
    assert_canonical(X, (2, n_features))
    for row, string in enumerate(strings):
        grams = Counter(ngrams(string, (3, 3), "char"))
        features = expands(batch_of(list(grams), pa.binary())).indices
        expected = Counter()
        for feature, count in zip(features.tolist(), grams.values()):
            expected[feature] += count
        assert dict(zip(X[row].indices.tolist(), X[row].data.tolist())) == expected


def test_ngrams_are_spread_evenly():
    """As many of 2^18 features are met as 2^18 n-grams would meet at random, 1 - 1/e of them."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    grams = ["".join(gram) for gram in itertools.product(letters, repeat=3)]
    for seed in (0, 1):
        X = HashedNgrams("s", 2**18, (3, 3), seed=seed)(batch_of(grams))
        counts = np.bincount(X.indices, minlength=2**18)
        assert np.mean(counts > 0) == pytest.approx(1 - 1 / np.e, abs=0.005)
        assert np.var(counts) == pytest.approx(1, abs=0.02)


def test_another_seed_makes_others_collide():
    grams = batch_of([f"{k:04d}" for k in range(2000)])
    first, second = (
        HashedNgrams("s", 2**10, (4, 4), seed=seed)(grams).indices for seed in (0, 2**63)
    )
    together = [indices[:, None] == indices for indices in (first, second)]
    both = np.sum(together[0] & together[1]) - 2000
    assert both < 30  # about four by chance; 3,900 if the seed only renamed the features
    assert np.sum(together[0]) - 2000 > 3000


def test_features_stay_what_they_were():
    """Models outlive versions of the library: a change here makes theirs useless."""
    chars = HashedNgrams("s", lengths=(3, 4))(batch_of(["usr/b"]))
    assert chars.indices.tolist() == [39370, 104543, 283016, 292548, 544877]
    words = HashedNgrams("s", lengths=(1, 2), unit="word")(batch_of(["usr/share/doc"]))
    assert words.indices.tolist() == [80360, 354565, 540161, 984103, 1040763]


def test_lengths_may_exceed_every_string():
    strings = batch_of(["abc", "", "ab"])
    X = HashedNgrams("s", lengths=(2, 10**12), normalize=False)(strings)
    assert np.diff(X.indptr).tolist() == [3, 0, 1]
    assert HashedNgrams("s", lengths=(4, 10**12))(strings).nnz == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 1000}, "power of two, not 1000"),
        ({"n_features": 1}, "power of two"),
        ({"n_features": 2**31}, "n_features must lie in"),
        ({"lengths": (0, 2)}, "lengths"),
        ({"lengths": (3, 2)}, "lengths"),
        ({"unit": "line"}, "unit must be 'char' or 'word', not 'line'"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_parameters_of_ngrams(options, message):
    with pytest.raises(ValueError, match=message):
        HashedNgrams("s", **options)


# --- what maps have in common -----------------------------------------------------------------

MAPS = [HashedNgrams("s", lengths=(1, 3)), WeightedDegree("s", 4, 2)]


@pytest.mark.parametrize("expands", MAPS, ids=repr)
@pytest.mark.parametrize("kind", LAYOUTS, ids=str)
def test_slices_are_rows_of_the_whole(expands, kind):
    strings = ["ACGT", "TTGA", "NNNN", "CCCC", "acgt", "GATC", "TTGA"]
    whole = expands(batch_of(strings, kind))
    for begin, size in itertools.product(range(7), range(4)):
        part = expands(batch_of(strings, kind).slice(begin, size))
        size = min(size, 7 - begin)
        assert_canonical(part, (size, expands.n_features))
        assert (part != whole[begin : begin + size]).nnz == 0
    of_slice = pa.record_batch({"s": batch_of(strings, kind)["s"].slice(3)})
    assert (expands(of_slice) != whole[3:]).nnz == 0


def test_bytes_behind_a_missing_string_are_not_read():
    offsets = pa.py_buffer(np.array([0, 3, 6, 9], dtype=np.int32))
    valid = pa.py_buffer(np.array([0b101], dtype=np.uint8))
    array = pa.Array.from_buffers(pa.utf8(), 3, [valid, offsets, pa.py_buffer(b"abcdefghi")])
    X = HashedNgrams("s")(pa.record_batch({"s": array}))
    assert np.diff(X.indptr).tolist() == [1, 0, 1]
    words = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 2], pa.int8()), array)
    X = HashedNgrams("s")(pa.record_batch({"s": words}))
    assert np.diff(X.indptr).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", LAYOUTS, ids=str)
def test_batches_with_nothing_in_them(kind):
    expands = HashedNgrams("s")
    for strings in ([], [None, None], ["", ""]):
        X = expands(batch_of(strings, kind))
        assert_canonical(X, (len(strings), expands.n_features))
        assert X.nnz == 0


@pytest.mark.parametrize("expands", MAPS, ids=repr)
def test_rows_are_the_same_however_many_calls_write_them(expands, monkeypatch):
    strings = batch_of(["ACGT", "TTGA", "NNNN", "CCCC"])
    whole = expands(strings)
    for entries in (1, 9, 20):
        monkeypatch.setattr(expand, "_ENTRIES_PER_CALL", entries)
        X = expands(strings)
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(X, name), getattr(whole, name))


@pytest.mark.parametrize("expands", MAPS, ids=repr)
def test_maps_travel_to_other_processes(expands):
    """Another process, with another seed for Python's own hashes, makes the same rows."""
    strings = batch_of(["ACGT", "TTGA", "NNNN", "CCCC"])
    code = (
        "import pickle, sys; expands, batch = pickle.load(sys.stdin.buffer); "
        "sys.stdout.buffer.write(pickle.dumps(expands(batch)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((expands, strings)),
        capture_output=True,
        check=True,
    )
    theirs, ours = pickle.loads(done.stdout), expands(strings)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name))


@pytest.mark.parametrize("expands", MAPS, ids=repr)
def test_only_strings_are_taken(expands):
    assert expands.columns == ["s"]
    with pytest.raises(TypeError, match="column 's' must hold strings, not int64"):
        expands(pa.record_batch({"s": pa.array([1, 2])}))
    with pytest.raises(TypeError, match="not dictionary<values=int64"):
        expands(pa.record_batch({"s": pa.array([1, 2]).dictionary_encode()}))
    with pytest.raises(KeyError, match="s"):
        expands(pa.record_batch({"t": pa.array(["ACGT"])}))


# --- functions of users -----------------------------------------------------------------------


def lengths_of_strings(batch):
    lengths = [[len(string)] for string in batch["s"].to_pylist()]
    return sparse.csr_matrix(np.array(lengths, dtype=np.float32).reshape(-1, 1))


def test_a_callable_becomes_a_map():
    expands = FromCallable(lengths_of_strings, ["s"], 1)
    X = expands(batch_of(["a", "", "abc"]))
    assert_canonical(X, (3, 1))
    np.testing.assert_array_equal(X.toarray(), [[1], [0], [3]])
    assert_canonical(expands(batch_of([])), (0, 1))
    copy = pickle.loads(pickle.dumps(expands))
    np.testing.assert_array_equal(copy(batch_of(["ab"])).toarray(), [[2]])


def test_a_callable_sees_its_columns_in_their_order():
    seen = []

    def note(batch):
        seen.append(batch.schema.names)
        return sparse.csr_matrix((batch.num_rows, 2))

    batch = pa.record_batch({"a": [1], "b": [2], "c": [3]})
    FromCallable(note, ("c", "a"), 2)(batch)
    assert seen == [["c", "a"]]
    with pytest.raises(KeyError, match="d"):
        FromCallable(note, ["d"], 2)(batch)


@pytest.mark.parametrize(
    "returned",
    [
        sparse.csr_array(([1.0, 2, 4, 0], [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3)),
        sparse.csr_matrix((np.float32([2, 5, 0]), [0, 2, 1], [0, 2, 3]), shape=(2, 3)),
    ],
    ids=["unsorted, with duplicates and a zero", "canonical but for a zero"],
)
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_what_a_callable_returns_is_made_canonical_in_a_copy(returned, index_type):
    returned = returned.copy()
    returned.indices = returned.indices.astype(index_type)
    returned.indptr = returned.indptr.astype(index_type)
    before = returned.copy()
    X = FromCallable(lambda batch: returned, ["s"], 3)(batch_of(["x", "y"]))
    assert_canonical(X, (2, 3))
    np.testing.assert_array_equal(X.toarray(), [[2, 0, 5], [0, 0, 0]])
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(returned, name), getattr(before, name))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float64])
def test_numbers_of_any_real_type_will_do(dtype):
    returned = sparse.coo_matrix(np.array([[0, 1], [1, 0]], dtype=dtype))
    X = FromCallable(lambda batch: returned, ["s"], 2)(batch_of(["x", "y"]))
    assert_canonical(X, (2, 2))
    np.testing.assert_array_equal(X.toarray(), returned.toarray())


def with_index(index):
    X = sparse.csr_matrix(np.eye(2, dtype=np.float32))
    X.indices[1] = index
    return X


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (np.eye(2), TypeError, "returned ndarray, not a SciPy sparse matrix"),
        (None, TypeError, "returned NoneType"),
        (sparse.eye(3, 2), ValueError, r"returned shape \(3, 2\), not \(2, 2\)"),
        (sparse.eye(2, 3), ValueError, r"returned shape \(2, 3\), not \(2, 2\)"),
        (sparse.eye(2) * 1j, ValueError, "returned complex128, which is not a real number"),
        (sparse.diags([1.0, np.nan]), ValueError, "row 1 of the batch has a value that is no"),
        (sparse.diags([np.inf, 1.0]), ValueError, "row 0 of the batch"),
        (sparse.diags([1.0, 1e40]), ValueError, "row 1 of the batch"),
        (with_index(2), ValueError, r"row 1 has column index 2, outside of 0\.\.1"),
        (with_index(-1), ValueError, "row 1 has column index -1"),
    ],
)
def test_a_callable_that_misbehaves_is_named(returned, error, message):
    def misbehaves(batch):
        return returned

    with pytest.raises(error, match=message) as caught:
        FromCallable(misbehaves, ["s"], 2)(batch_of(["usr/bin", "usr/lib"]))
    assert "misbehaves, given rows from {'s': 'usr/bin'} on," in str(caught.value)


def test_a_callable_that_raises_is_named():
    def raises(batch):
        raise ZeroDivisionError("by nothing")

    with pytest.raises(ZeroDivisionError, match="by nothing") as caught:
        FromCallable(raises, ["s"], 2)(batch_of(["usr/bin"]))
    (note,) = caught.value.__notes__
    assert "raises, given rows from {'s': 'usr/bin'} on" in note
    with pytest.raises(ZeroDivisionError) as caught:
        FromCallable(raises, ["s"], 2)(batch_of([]))
    assert "given no rows" in caught.value.__notes__[0]


def test_bad_parameters_of_callables():
    with pytest.raises(TypeError, match="columns must be a list of names, not 'path'"):
        FromCallable(lengths_of_strings, "path", 1)
    with pytest.raises(ValueError, match="n_features must lie in"):
        FromCallable(lengths_of_strings, ["path"], 0)
