"""Whatever comes in: a clear error that names the culprit, or the right answer, proved."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearSVC, certify

N, D = 60, 5
_random = np.random.default_rng(0)
X = _random.normal(size=(N, D))
Y = (X[:, 0] + 0.3 * _random.normal(size=N) > 0).astype(int)
Y3 = np.arange(N) % 3
# A sparse X whose rows have gaps, so that indices can be out of order or wrong.
SPARSE = np.where(_random.random((N, D)) < 0.5, X, 0.0)

LOSSES = ["hinge", "squared_hinge", "smooth_hinge"]
SOLVERS = ["dcd", "acf"]
INTERCEPTS = {
    "free": {},
    "penalized": {"penalized_intercept": True},
    "none": {"fit_intercept": False},
}


def fit(X, y, sample_weight=None, digits=9, **parameters):
    """Fit (not forever; kernels may compile first), and check that the certificate is honest."""
    parameters = {"random_state": 0, "max_time": 30.0, **parameters}
    model = LinearSVC(**parameters).fit(X, y, sample_weight)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    claimed, found = model.certificate_, certify(model, X, y, sample_weight)
    off = 10.0**-digits
    assert found.primal == pytest.approx(claimed.primal, rel=off)
    assert found.dual == pytest.approx(claimed.dual, rel=off, abs=off * abs(claimed.primal))
    # Weak duality, up to rounding: no honest lower bound lies above an objective value.
    assert found.dual <= found.primal * (1 + 1e-12)
    assert np.isfinite(found.relative_gap)
    return model


def fit_to_proof(X, y, sample_weight=None, **parameters):
    """Fit, and insist that the answer is proved right."""
    model = fit(X, y, sample_weight, **parameters)
    assert model.status_ == "converged"
    assert certify(model, X, y, sample_weight).relative_gap <= model.tol
    return model


def same_model(first, second):
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.intercept_, second.intercept_)


# --- values -------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
def test_missing_or_infinite_value_is_named_by_row_and_column(container, dtype, value, word):
    bad = SPARSE.astype(dtype)
    bad[7, 2] = value
    with pytest.raises(ValueError, match=f"contains {word} .*row 7, column 2"):
        LinearSVC().fit(container(bad), Y)
    model = LinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="row 7, column 2"):
        model.predict(container(bad))
    with pytest.raises(ValueError, match="row 7, column 2"):
        certify(model, container(bad), Y)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [1e160, 1e308])
@pytest.mark.parametrize("solver", ["dcd", "acf", "newton"])
def test_finite_values_whose_squares_overflow_are_not_called_infinite(solver, size):
    with pytest.raises(FloatingPointError, match="Scale the features"):
        fit(np.full((4, 2), size), [0, 1, 0, 1], max_iter=10, solver=solver)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_empty_rows_and_columns(loss, solver, intercept, container):
    holes = SPARSE.copy()
    holes[::3] = 0.0
    holes[:, 1] = 0.0
    model = fit_to_proof(container(holes), Y, loss=loss, solver=solver, **INTERCEPTS[intercept])
    assert model.coef_[0, 1] == 0.0


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_but_zero_rows(loss, solver, intercept, container):
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1, 1])
    model = fit_to_proof(
        container(np.zeros((10, 3))), labels, loss=loss, solver=solver, **INTERCEPTS[intercept]
    )
    assert not model.coef_.any()
    if intercept != "none":
        assert model.score(np.zeros((10, 3)), labels) == 0.7


@pytest.mark.parametrize("scale", [1e-150, 1e-75, 1e-20, 1e20, 1e75, 1e150])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_huge_and_tiny_features_give_the_answer_or_say_that_they_do_not(
    loss, solver, intercept, scale
):
    parameters = {"loss": loss, "solver": solver, "max_iter": 200, **INTERCEPTS[intercept]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(scale * X, Y, **parameters)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned == (model.status_ != "converged")
    if scale < 1:  # no w of any use can pay for itself
        assert model.status_ == "converged"
        assert np.abs(scale * X @ model.coef_[0]).max() < 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", LOSSES)
def test_features_of_all_scales_at_once(loss, dtype):
    largest = 18 if dtype is np.float32 else 150
    scales = 10.0 ** np.linspace(-largest, largest, D)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit((X * scales).astype(dtype), Y, loss=loss, max_iter=200)
        # Of the scores of such rows, sums of 1e18 and the like, not all digits are true.
        rows = (X * np.resize(scales, N)[:, None]).astype(dtype)
        fit(rows, Y, loss=loss, max_iter=200, digits=8)


# --- shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_no_rows_or_no_columns(container):
    with pytest.raises(ValueError, match="0 sample"):
        LinearSVC().fit(container(X[:0]), Y[:0])
    with pytest.raises(ValueError, match="0 feature"):
        LinearSVC().fit(container(X[:, :0]), Y)


def test_one_row():
    with pytest.raises(ValueError, match="only one class: 1"):
        LinearSVC().fit(X[:1], [1])


@pytest.mark.parametrize("loss", LOSSES)
def test_two_rows_and_one_column(loss):
    fit_to_proof(X[:2], [0, 1], loss=loss)
    fit_to_proof(X[:, :1], Y, loss=loss)


@pytest.mark.parametrize("shape", [(N,), (1, N, D), ()])
def test_x_of_other_than_two_dimensions(shape):
    with pytest.raises(ValueError, match=r"2D|dim"):
        LinearSVC().fit(np.ones(shape), Y)


@pytest.mark.skipif(sp.csr_array(np.ones(2)).ndim == 2, reason="SciPy has no such array yet")
def test_sparse_x_of_one_dimension():
    with pytest.raises(ValueError, match=r"2D|dim"):
        LinearSVC().fit(sp.csr_array(np.ones(N)), Y)


def test_y_of_another_length():
    with pytest.raises(ValueError, match="60 and 59"):
        LinearSVC().fit(X, Y[:-1])
    with pytest.raises(ValueError, match=r"inconsistent|rows"):
        certify(LinearSVC().fit(X, Y), X, Y[:-1])


def test_certifying_other_rows_than_the_training_ones():
    with pytest.raises(ValueError, match="trained on 60 rows, and X has 59"):
        certify(LinearSVC().fit(X, Y), X[:-1], Y[:-1])


# --- labels -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([-1.0, 1.0]),
        np.array([1.0, 7.0], dtype=np.float32),
        np.array([3, 200], dtype=np.uint8),
        np.array([-(2**40), 2**40]),
    ],
    ids=["str", "object", "bool", "int", "float", "float32", "uint8", "large"],
)
def test_labels_of_every_kind(labels):
    model = fit_to_proof(X, labels[Y])
    same_model(model, fit_to_proof(X, Y))
    np.testing.assert_array_equal(model.classes_, labels)
    predicted = model.predict(X)
    assert predicted.dtype == labels.dtype
    assert np.mean(predicted == labels[Y]) > 0.85


@pytest.mark.parametrize(
    "labels", [[0, 1, 2], ["c", "a", "b"], np.array(["c", "a", "b"], dtype=object)]
)
def test_three_labels_of_every_kind(labels):
    labels = np.asarray(labels)
    model = fit_to_proof(X, labels[Y3])
    assert model.coef_.shape == (3, D)
    assert len(model.certificate_.parts) == 3
    np.testing.assert_array_equal(model.classes_, np.unique(labels))


def test_labels_of_a_list_and_of_a_column():
    reference = fit_to_proof(X, Y)
    same_model(fit_to_proof(X.tolist(), Y.tolist()), reference)
    with pytest.warns(UserWarning, match="column-vector"):
        model = LinearSVC(random_state=0).fit(X, Y[:, None])
    same_model(model, reference)


def test_certify_takes_the_labels_that_fit_takes():
    model = LinearSVC(random_state=0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column vector of labels is warned about
        assert certify(model, X, Y[:, None]) == certify(model, X, Y)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (X[:, 0], "continuous"),
        (np.where(np.arange(N) == 3, np.nan, Y), "NaN"),
        (np.column_stack([Y, Y]) + 1, "no matrix of zeros and ones"),
        (None, "y"),
        (np.zeros(N), "only one class: 0.0"),
        (np.full(N, "a"), "only one class: 'a'"),
        (np.full(N, "a", dtype=object), "only one class: 'a'"),
        (np.array([None if i == 3 else "ab"[v] for i, v in enumerate(Y)], dtype=object), "y"),
    ],
    ids=[
        "continuous",
        "nan",
        "two columns",
        "none",
        "one class",
        "one string",
        "one object",
        "missing",
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_labels_that_are_none(labels, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC().fit(X, labels)


def test_labels_the_model_does_not_know_are_named_by_row():
    model = LinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="row 5 has label"):
        certify(model, X, np.where(np.arange(N) == 5, 9, Y))


# --- weights ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(np.arange(N) == 4, -1.0, 1.0), "sample_weight .*row 4 has -1"),
        (np.where(np.arange(N) == 4, np.nan, 1.0), "sample_weight contains NaN"),
        (np.where(np.arange(N) == 4, np.inf, 1.0), "sample_weight contains infinity"),
        (np.zeros(N), "sample_weight is zero for every row"),
        (np.ones(N - 1), "sample_weight"),
        (np.ones((N, 2)), "[Ss]ample.weight"),
        ("heavy", "sample_weight"),
        (["heavy"] * N, "sample_weight"),
        ([None] * N, "sample_weight"),
        ((Y == 0).astype(float), "weight zero not counted.* only one class: 0"),
    ],
    ids=["negative", "nan", "inf", "zero", "short", "2d", "str", "strs", "nones", "one class"],
)
def test_weights_that_are_none(weights, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC().fit(X, Y, weights)
    if "class" not in message:
        with pytest.raises(ValueError, match=message):
            certify(LinearSVC().fit(X, Y), X, Y, weights)


@pytest.mark.parametrize("kind", [list, np.float32, int, bool])
def test_weights_of_every_kind(kind):
    weights = (np.arange(N) % 4 > 0).astype(float)
    given = list(weights) if kind is list else weights.astype(kind)
    same_model(fit_to_proof(X, Y, given), fit_to_proof(X, Y, weights))


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_class_without_weight_is_as_good_as_removed(loss, class_weight):
    """Its own problem is trivial; the others are those of the rows that are left."""
    weights = (Y3 != 2).astype(float)
    model = fit_to_proof(X, Y3, weights, loss=loss, class_weight=class_weight, tol=1e-8)
    alone = fit_to_proof(X[Y3 != 2], Y3[Y3 != 2], loss=loss, class_weight=class_weight, tol=1e-8)
    np.testing.assert_allclose(model.coef_[1], alone.coef_[0], atol=1e-3)
    assert set(model.predict(X)) <= {0, 1}


@pytest.mark.parametrize("weight", [1e-300, 1e-100, 1e100, 1e300])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_row_of_extreme_weight(loss, weight):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit(X, Y, np.where(np.arange(N) == 0, weight, 1.0), loss=loss, max_iter=500)


# --- parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("C", value) for value in (0, -1.0, np.nan, np.inf, "1", True, None, [1.0], 1j)],
        *[("loss", value) for value in ("huber", None, 1, ["hinge"])],
        *[("multi_class", value) for value in ("ovo", None)],
        *[("solver", value) for value in ("simplex", None, 1)],
        *[("tol", value) for value in (0, -1e-3, np.nan, np.inf, "small", True, None)],
        *[("max_iter", value) for value in (0, -1, 1.5, "many", True, None)],
        *[("max_time", value) for value in (0, -1.0, np.nan, "long", True)],
        *[("fit_intercept", value) for value in ("no", None, 2)],
        *[("penalized_intercept", value) for value in ("no", None, 2)],
        *[("warm_start", value) for value in ("no", None, 2)],
        *[("n_jobs", value) for value in (0, "all", 1.5)],
        *[("verbose", value) for value in ("loud", [1])],
        *[("random_state", value) for value in ("seed", -1, 1.5)],
        *[("class_weight", value) for value in ("fair", 3, [1, 2])],
        ("class_weight", {0: -1.0, 1: 1.0}),
        ("class_weight", {0: np.nan}),
        ("class_weight", {0: np.inf}),
        ("class_weight", {0: "heavy"}),
        ("class_weight", {0: 1.0, 7: 1.0}),
    ],
)
def test_a_wrong_parameter_is_named(name, value):
    words = {"random_state": "random_state|[Ss]eed"}
    with pytest.raises((ValueError, TypeError), match=words.get(name, name)):
        LinearSVC(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_wrong_class_weight_among_three_is_named_too(value):
    """With two classes such a weight leaves one class only; with three it need not."""
    with pytest.raises(ValueError, match="class_weight"):
        LinearSVC(class_weight={0: value, 1: 1.0, 2: 1.0}, max_iter=20).fit(X, Y3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", np.float32(1.0)),
        ("C", np.int64(1)),
        ("C", 1),
        ("max_iter", np.int64(1000)),
        ("max_time", 100),
        ("fit_intercept", np.True_),
        ("n_jobs", -1),
        ("n_jobs", 2),
        ("random_state", np.int64(0)),
        ("verbose", False),
        ("class_weight", {0: 1.0}),
        ("class_weight", {}),
    ],
)
def test_a_parameter_of_numpy_type_is_as_good_as_any(name, value):
    same_model(fit_to_proof(X, Y, **{name: value}), fit_to_proof(X, Y))


@pytest.mark.parametrize("C", [1e-300, 1e-160, 1e-30, 1e30, 1e160, 1e300])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_extreme_c_gives_the_answer_or_says_that_it_does_not(loss, solver, intercept, C):
    parameters = {"loss": loss, "solver": solver, "max_iter": 200, **INTERCEPTS[intercept]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(X, Y, C=C, **parameters)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned == (model.status_ != "converged")
    if C < 1:
        assert model.status_ == "converged"


def test_separable_rows_make_a_huge_c_harmless():
    apart = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [-2.0, 1.0]])
    model = fit_to_proof(apart, [1, 1, 0, 0], C=1e300, tol=1e-6)
    np.testing.assert_allclose(model.coef_, [[1.0, 0.0]], atol=1e-2)


# --- containers ---------------------------------------------------------------------------


def _memory_mapped(array, directory):
    np.save(directory / "x.npy", array)
    return np.load(directory / "x.npy", mmap_mode="r")


def _read_only(array):
    array = array.copy()
    array.setflags(write=False)
    return array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "layout",
    {
        "F-order": lambda X, _: np.asfortranarray(X),
        "every second column": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
        "every second row": lambda X, _: np.repeat(X, 2, axis=0)[::2],
        "backwards": lambda X, _: X[::-1].copy()[::-1],
        "read-only": lambda X, _: _read_only(X),
        "memory-mapped": _memory_mapped,
        "big-endian": lambda X, _: X.astype(X.dtype.newbyteorder(">")),
        "list": lambda X, _: X.tolist(),
    }.items(),
    ids=lambda item: item[0],
)
def test_dense_layouts_give_the_same_model(layout, dtype, tmp_path):
    _, lay_out = layout
    given = lay_out(X.astype(dtype), tmp_path)
    model = fit_to_proof(given, Y, tol=1e-8)
    reference = fit_to_proof(X.astype(dtype).astype(np.float64), Y, tol=1e-8)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-3)
    np.testing.assert_array_equal(model.predict(given), reference.predict(X.astype(dtype)))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float16, object])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_other_types_of_number_give_the_same_model(container, dtype):
    if container is sp.csr_array and dtype in (np.float16, object):
        pytest.skip("SciPy has no such sparse array")
    numbers = np.abs(np.round(4 * SPARSE)).astype(dtype)
    same_model(
        fit_to_proof(container(numbers), Y), fit_to_proof(container(numbers.astype(float)), Y)
    )


@pytest.mark.parametrize("dtype", [np.complex128, "U8"])
def test_numbers_that_are_none(dtype):
    given = X.astype(dtype) if dtype is np.complex128 else np.full((N, D), "word")
    with pytest.raises(ValueError, match=r"[Cc]omplex|string"):
        LinearSVC().fit(given, Y)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("family", ["array", "matrix"])
def test_sparse_formats_give_the_same_model(kind, family):
    given = getattr(sp, f"{kind}_{family}")(SPARSE)
    model = fit_to_proof(given, Y)
    same_model(model, fit_to_proof(sp.csr_array(SPARSE), Y))
    np.testing.assert_allclose(
        model.decision_function(given), model.decision_function(SPARSE), rtol=1e-12
    )


def _with_index_type(X, index_type, pointer_type):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(pointer_type)
    return X


@pytest.mark.parametrize(
    ("index_type", "pointer_type"),
    [
        (np.int64, np.int64),
        (np.int32, np.int64),
        (np.int64, np.int32),
        (np.int16, np.int16),
        (np.uint32, np.uint32),
    ],
)
def test_indices_of_every_width(index_type, pointer_type):
    given = _with_index_type(SPARSE, index_type, pointer_type)
    same_model(fit_to_proof(given, Y), fit_to_proof(sp.csr_array(SPARSE), Y))


def _unsorted(X, *, duplicates):
    """Return rows (indices, values) written backwards, each value in two halves if asked."""
    X = sp.csr_array(X)
    copies = 2 if duplicates else 1
    indices, data, indptr = [], [], [0]
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        indices += list(X.indices[row][::-1]) * copies
        data += list(X.data[row][::-1] / copies) * copies
        indptr.append(len(indices))
    return sp.csr_array((data, indices, indptr), shape=X.shape)


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_csr_not_in_canonical_form_gives_the_canonical_model(duplicates, read_only):
    given = _unsorted(SPARSE, duplicates=duplicates)
    assert not given.has_sorted_indices
    for array in (given.data, given.indices, given.indptr):
        array.setflags(write=not read_only)
    before = given.indices.copy(), given.data.copy()
    model = fit_to_proof(given, Y)
    same_model(model, fit_to_proof(sp.csr_array(SPARSE), Y))
    np.testing.assert_allclose(model.decision_function(given), model.decision_function(SPARSE))
    np.testing.assert_array_equal(before[0], given.indices)  # the caller's X is left alone
    np.testing.assert_array_equal(before[1], given.data)


def test_stored_zeros_do_not_matter():
    given = sp.csr_array(SPARSE)
    given.data[::4] = 0.0
    model, reference = (fit_to_proof(rows, Y) for rows in (given, sp.csr_array(given.toarray())))
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-9)  # sums regroup


def test_what_lies_behind_the_last_row_does_not_matter():
    given = sp.csr_array(SPARSE)
    given.data = np.append(given.data, np.nan)
    given.indices = np.append(given.indices, np.int32(99)).astype(np.int32)
    same_model(fit_to_proof(given, Y), fit_to_proof(sp.csr_array(SPARSE), Y))


def _break(kind, attribute, place, value):
    """Return sparse X with one number of one array overwritten, or the array cut short."""
    broken = getattr(sp, f"{kind}_array")(SPARSE)
    array = getattr(broken, attribute).copy()
    if place is None:
        array = array[:value]
    else:
        array[place] = value
    setattr(broken, attribute, array)
    return broken


@pytest.mark.parametrize(
    ("kind", "attribute", "place", "value"),
    [
        ("csr", "indices", 7, D),
        ("csr", "indices", 7, 10**8),
        ("csr", "indices", 7, -1),
        ("csr", "indptr", 0, 1),
        ("csr", "indptr", 5, 0),
        ("csr", "indptr", 5, 10**8),
        ("csr", "indptr", -1, 10**8),
        ("csr", "indptr", -1, -1),
        ("csr", "indptr", None, 10),
        ("csr", "indptr", None, 0),
        ("csr", "indices", None, 10),
        ("csr", "data", None, 10),
        ("csc", "indices", 7, N),
        ("csc", "indices", 7, 10**8),
        ("csc", "indices", 7, -1),
        ("csc", "indptr", 2, 0),
        ("csc", "indptr", -1, 10**8),
        ("csc", "indptr", None, 3),
        ("csc", "data", None, 10),
        ("bsr", "indices", 7, 10**8),
        ("bsr", "indptr", None, 3),
        ("coo", "row", 7, 10**8),
        ("coo", "row", 7, -1),
        ("coo", "col", 7, D),
    ],
)
def test_broken_sparse_structure_is_an_error_not_a_crash(kind, attribute, place, value):
    broken = _break(kind, attribute, place, value)
    with pytest.raises(ValueError, match="X is not valid"):
        LinearSVC().fit(broken, Y)
    model = LinearSVC().fit(SPARSE, Y)
    with pytest.raises(ValueError, match="X is not valid"):
        model.predict(broken)


def test_a_wrong_column_index_is_named_by_row():
    broken = sp.csr_array(SPARSE)
    place = broken.indptr[13]
    broken.indices[place] = 42
    with pytest.raises(ValueError, match="row 13 has column index 42"):
        LinearSVC().fit(broken, Y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_their_names(library):
    frames = pytest.importorskip(library)
    names = [f"feature {j}" for j in range(D)]
    frame = frames.DataFrame({name: X[:, j] for j, name in enumerate(names)})
    labels = frames.Series(["no" if label == 0 else "yes" for label in Y])
    weights = frames.Series(np.linspace(0.5, 1.5, N))
    model = fit_to_proof(frame, labels, weights)
    np.testing.assert_array_equal(model.feature_names_in_, names)
    np.testing.assert_array_equal(model.classes_, ["no", "yes"])
    same_model(model, fit_to_proof(X, Y, np.linspace(0.5, 1.5, N)))
    np.testing.assert_array_equal(model.to_sklearn().predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_pandas_with_mixed_columns_and_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0, "c": np.arange(N)})
    same_model(fit_to_proof(frame, Y), fit_to_proof(frame.to_numpy(dtype=float), Y))
    frame.loc[7, "a"] = None
    with pytest.raises(ValueError, match="row 7, column 0"):
        LinearSVC().fit(frame, Y)
    frame["a"] = "word"
    with pytest.raises(ValueError, match="word"):
        LinearSVC().fit(frame, Y)


def test_a_certificate_of_nonsense_proves_nothing():
    """A model whose numbers are NaN must not come out as proved."""
    model = LinearSVC().fit(X, Y)
    model.coef_ = np.full_like(model.coef_, np.nan)
    assert not certify(model, X, Y).relative_gap <= 1.0
