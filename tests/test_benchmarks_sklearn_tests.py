"""benchmarks.sklearn_tests finds the tests that name LinearSVC, and knows why some fail."""

import pytest

from benchmarks.sklearn_tests import functions, reason

FILE = """
import pytest
from sklearn.svm import LinearSVC

MODELS = [LinearSVC()]


@pytest.fixture
def model():
    return LinearSVC(C=2)


def check(kind=LinearSVC):
    kind()


def helper_that_checks():
    check()


def test_direct():
    LinearSVC()


@pytest.mark.parametrize("kind", [LinearSVC])
def test_by_its_decorator(kind):
    kind()


def test_by_a_constant():
    MODELS[0]


def test_by_a_fixture(model):
    model.fit


def test_by_two_helpers():
    helper_that_checks()


def test_of_others(LinearSVCs=None):
    NotLinearSVC = 1
"""


def test_functions_that_name_the_class_directly_or_by_what_they_use(tmp_path):
    path = tmp_path / "test_something.py"
    path.write_text(FILE)
    assert functions(path) == {
        "test_direct",
        "test_by_its_decorator",
        "test_by_a_constant",
        "test_by_a_fixture",
        "test_by_two_helpers",
    }


@pytest.mark.parametrize(
    ("case", "fails"),
    [
        ("test_svm.py::test_linearsvc[42]", False),
        ("test_sparse.py::test_linearsvc[lil_matrix-dok_matrix]", False),
        ("test_bounds.py::test_l1_min_c[no-intercept-log-array]", True),
        ("test_logistic.py::test_logistic_cv[42-True]", True),
        ("test_logistic.py::test_logistic_cv_multinomial_score[accuracy]", False),
        ("test_logistic.py::test_predict_iris", False),
        ("test_bounds.py::test_l1_min_c[fit-intercept-squared_hinge-array]", True),
    ],
)
def test_known_failures(case, fails):
    assert bool(reason(case)) == fails


def test_known_failures_are_those_of_the_classes_in_place():
    case = "test_bounds.py::test_l1_min_c[fit-intercept-squared_hinge-array]"
    assert reason(case, ["LinearSVC"])
    assert not reason(case, ["LogisticRegression"])


def test_known_messages():
    assert "without a penalty" in reason("test_any", message="ValueError: C=inf is not offered: a")
    assert not reason("test_any", message="AssertionError: C=inf")
