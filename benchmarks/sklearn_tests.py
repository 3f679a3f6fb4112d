"""scikit-learn's own tests of linear models, with widemargin's classes in their place.

    python -m benchmarks.sklearn_tests [LinearSVC | LinearSVR | LogisticRegression]

runs every test function of the installed scikit-learn that names one of them, and lists the cases
that fail. Those of `EXPECTED` are known, each with its reason, and those whose message is one of
`REFUSED`. The exit status is 1 if others fail, or if one of `EXPECTED` passes.
"""

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

import widemargin

_TOLERANCE = "asks for more digits of the optimum than its tol, the proved relative gap, says"
_OWN_WORDS = "asks for scikit-learn's own message or warning; ours says the same in other words"
_ITS_SOLVERS = (
    "asks what one of scikit-learn's solvers does; ours has others, and ignores the name"
)
_PENALIZED = "asks for a penalised intercept; ours is free by default"
#: of each class, why cases fail whose id the pattern is found in
EXPECTED = {
    LinearSVC: {
        r"test_l1_min_c.*-squared_hinge-": (
            "asks for weights at 1.01 times the least C, where zeros are within tol of the optimum"
        ),
        r"test_(dense|sparse)_liblinear_intercept_handling": _PENALIZED,
        r"test_linear_svm_convergence_warnings": (
            "asks for LIBLINEAR's own warning after two passes, in which ours has converged"
        ),
    },
    LinearSVR: {
        r"test_rfe_wrapped_estimator\[RFECV": (
            "counts the features that are best for a penalised intercept; ours is free by default"
        ),
    },
    LogisticRegression: {
        r"test_l1_min_c\[no-intercept-log": (
            "asks for weights at 1.01 times the least C, where zeros are within tol of the optimum"
        ),
        r"test_l1_min_c\[fit-intercept-log|test_logistic_cv\[": _PENALIZED,
        r"test_estimators_samples$|double_sample_weights_equivalence|class_weight_invariance"
        r"|zeros_sample_weights_equivalence|search_cv_sample_weight_equivalence.estimator0"
        r"|test_LogisticRegressionCV_on_folds|test_consistency_path|test_logistic_glmnet"
        r"|test_logistic_regression_solvers_multiclass\[True\]|test_scores_attribute_layout"
        r"|test_logistic_regression_cv_refit.42-1": _TOLERANCE,
        r"test_(sag_classifier|sag_multiclass)_computed|test_binary_classifier_class_weight"
        r"|test_check_solver_option.LogisticRegression\]|test_large_sparse_matrix.*(liblinear|sag)"
        r"|test_liblinear_with_large_values"
        r"|test_liblinear_multiclass_raises.LogisticRegression\]|test_newton_cholesky_fallback"
        r"|test_warm_start_newton_solver.1-True"
        r"|test_step_size_alpha_error|test_sag_classifier_raises_error": _ITS_SOLVERS,
        r"test_max_iter|test_inconsistent_input|test_classifier_single_class|test_penalty_none"
        r"|None_deprecated|penalty_deprecated.LogisticRegression\]|l1_ratio_non_elasticnet"
        r"|warns_with_n_jobs|penalty_l1ratio_incompatible"
        r"|callback_support_warning": _OWN_WORDS,
        r"test_dtype_match.*(lbfgs|newton|sag)": (
            "asks for weights of float32; ours are float64, as they are proved"
        ),
        r"test_logistic_regression_callback_support": (
            "counts the tasks of scikit-learn's callbacks, one per iteration; ours are gap checks"
        ),
        r"elastic_net\[3\]": 'penalty="l1" for several classes needs multi_class="ovr"',
        r"html_repr_pipeline": 'asks for the default solver "lbfgs"; ours is "auto"',
        r"dataframe_column_names_consistency": "checks docstrings of classes of scikit-learn only",
        r"test_bagging_small_max_features": "draws rows of one class, which are refused",
        r"roc_curve_display_plotting_from_cv_results.*-False-(d|p).*(None|kwargs1)"
        r"|multioutput_estimator_predict_proba": (
            "knows digits of lbfgs at its default tol, which are not the optimum's"
        ),
    },
}
#: why cases fail whose message the pattern is found in
REFUSED = {
    r"C=inf is not offered": "trains without a penalty, of which nothing can be proved",
    r"max_iter must be a whole number": "trains for no iteration",
    r"(_log_reg_scoring_path|has no attribute '_)": "uses parts of scikit-learn that are private",
}

PACKAGE = Path(sklearn.__file__).parent


#: the classes that take the places of scikit-learn's
OURS = {
    LinearSVC: widemargin.LinearSVC,
    LinearSVR: widemargin.LinearSVR,
    LogisticRegression: widemargin.LogisticRegression,
}
NAMES = tuple(theirs.__name__ for theirs in OURS)


def functions(path: Path, classes: Iterable[str] = NAMES) -> set[str]:
    """Return the names of the test functions in a file that name one of the classes.

    So do those that use a helper, a fixture or a constant of their file that names it.
    """
    text = path.read_text(encoding="utf-8")
    lines, parts = text.splitlines(), {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            parts[node.name] = "\n".join(lines[begin - 1 : node.end_lineno])
        elif isinstance(node, ast.Assign):
            body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            parts |= {name.id: body for name in node.targets if isinstance(name, ast.Name)}
    found, names = set(), set(classes)
    while names:
        wanted = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
        names = {name for name in parts.keys() - found if wanted.search(parts[name])}
        found |= names
    return {name for name in found if name.startswith("test")}


class Place:
    """A pytest plugin that puts our class in place, selects the cases and counts how they end."""

    def __init__(self, classes: Iterable[str]) -> None:
        self.classes = tuple(classes)
        files = sorted(PACKAGE.rglob("tests/test_*.py"))
        chosen = ((path, functions(path, self.classes)) for path in files)
        self.functions = {path: names for path, names in chosen if names}
        self.passed: list[str] = []
        self.skipped: list[str] = []
        self.failed: dict[str, str] = {}

    def put(self) -> None:
        """Replace scikit-learn's classes in all modules that have them."""
        for theirs, ours in OURS.items():
            if theirs.__name__ not in self.classes:
                continue
            for module in list(sys.modules.values()):
                at_home = module.__name__ == theirs.__module__  # scikit-learn's own use of it
                if not at_home and vars(module).get(theirs.__name__) is theirs:
                    setattr(module, theirs.__name__, ours)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item
            for item in items
            if getattr(item, "originalname", item.name) in self.functions.get(item.path, ())
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        case = report.nodeid.rpartition("/")[2]
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed[case] = (crash.message if crash else str(report.longrepr)).splitlines()[0]
        elif report.skipped:
            self.skipped.append(case)
        elif report.when == "call":
            self.passed.append(case)


def main(names: Iterable[str]) -> int:
    place = Place(names)
    place.put()
    options = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-c", "/dev/null"]
    # As in scikit-learn's own runs; its warnings are not the subject here.
    options += ["--rootdir", str(PACKAGE), "--import-mode=importlib", "-W", "ignore", "-r", "N"]
    pytest.main([*options, *map(str, place.functions)], plugins=[place])
    surprises = 0
    print(f"\nscikit-learn {sklearn.__version__}, {len(place.functions)} files")
    for case, message in place.failed.items():
        why = reason(case, place.classes, message)
        print(f"FAILS  {case}\n       {why or 'UNKNOWN: ' + message}")
        surprises += why == ""
    for case in place.passed:
        if reason(case, place.classes):
            surprises += 1
            print(f"PASSES {case}, which was expected to fail")
    total = len(place.passed) + len(place.failed)
    print(f"{len(place.passed)} of {total} pass, {len(place.skipped)} are skipped")
    return int(surprises > 0)


def reason(case: str, names: Iterable[str] = NAMES, message: str = "") -> str:
    """Return why a case is expected to fail with classes in place, or nothing."""
    texts = ((message, REFUSED),)
    texts += tuple((case, why) for kind, why in EXPECTED.items() if kind.__name__ in names)
    found = (
        why for text, known in texts for pattern, why in known.items() if re.search(pattern, text)
    )
    return next(found, "")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or NAMES))
