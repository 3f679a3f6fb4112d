"""scikit-learn's own tests of LinearSVC and LinearSVR, with widemargin's classes in their place.

    python -m benchmarks.sklearn_tests [LinearSVC | LinearSVR]

runs every test function of the installed scikit-learn that names one of them, and lists the cases
that fail. Those of `EXPECTED` are known, each with its reason. The exit status is 1 if others
fail, or if one of these passes.
"""

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import sklearn
import sklearn.svm

import widemargin

#: why cases fail whose id the pattern is found in
EXPECTED = {
    r"test_l1_min_c.*-squared_hinge-": (
        "asks for weights at 1.01 times the least C, where zeros are within tol of the optimum"
    ),
    r"test_(dense|sparse)_liblinear_intercept_handling": (
        "asks for a penalised intercept; ours is free by default"
    ),
    r"test_rfe_wrapped_estimator\[RFECV": (
        "counts the features that are best for a penalised intercept; ours is free by default"
    ),
    r"test_linear_svm_convergence_warnings": (
        "asks for LIBLINEAR's own warning after two passes, in which ours has converged"
    ),
}

PACKAGE = Path(sklearn.__file__).parent


#: the classes that take the places of scikit-learn's
OURS = {"LinearSVC": widemargin.LinearSVC, "LinearSVR": widemargin.LinearSVR}


def functions(path: Path, classes: Iterable[str] = tuple(OURS)) -> set[str]:
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
        files = sorted(PACKAGE.rglob("tests/test_*.py"))
        chosen = ((path, functions(path, classes)) for path in files)
        self.functions = {path: names for path, names in chosen if names}
        self.passed: list[str] = []
        self.skipped: list[str] = []
        self.failed: dict[str, str] = {}

    def put(self) -> None:
        """Replace scikit-learn's classes in all modules that have them."""
        for name, ours in OURS.items():
            theirs = vars(sklearn.svm)[name]
            for module in list(sys.modules.values()):
                if vars(module).get(name) is theirs:
                    setattr(module, name, ours)

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


def main(classes: Iterable[str]) -> int:
    place = Place(classes)
    place.put()
    options = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-c", "/dev/null"]
    # As in scikit-learn's own runs; its warnings are not the subject here.
    options += ["--rootdir", str(PACKAGE), "--import-mode=importlib", "-W", "ignore", "-r", "N"]
    pytest.main([*options, *map(str, place.functions)], plugins=[place])
    surprises = 0
    known = {case: reason(case) for case in place.failed}
    print(f"\nscikit-learn {sklearn.__version__}, {len(place.functions)} files")
    for case, message in place.failed.items():
        print(f"FAILS  {case}\n       {known[case] or 'UNKNOWN: ' + message}")
        surprises += known[case] == ""
    for case in place.passed:
        if reason(case):
            surprises += 1
            print(f"PASSES {case}, which was expected to fail")
    total = len(place.passed) + len(place.failed)
    print(f"{len(place.passed)} of {total} pass, {len(place.skipped)} are skipped")
    return int(surprises > 0)


def reason(case: str) -> str:
    """Return why a case is expected to fail, or nothing."""
    return next((why for pattern, why in EXPECTED.items() if re.search(pattern, case)), "")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or tuple(OURS)))
