"""All estimators train with scikit-learn before 1.9, which has no callbacks."""

import subprocess
import sys

PROGRAM = """
import sys, warnings
import sklearn.calibration, sklearn.feature_selection, sklearn.model_selection, sklearn.svm
from sklearn.datasets import load_iris
sys.modules["sklearn.callback"] = None  # from here on: scikit-learn 1.9 needs it for itself
from widemargin import LinearRanker, LinearSVC, LinearSVCCV, MeasureSVC, OrdinalSVC

X, y = load_iris(return_X_y=True)
for model in (LinearSVC(probability=True), LinearSVCCV(Cs=2), LinearRanker(), OrdinalSVC()):
    assert model.fit(X, y).status_ == "converged", model
assert MeasureSVC("f1").fit(X, y > 1).status_ == "converged"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    LinearSVC(max_iter=1, solver="dcd", tol=1e-9).fit(X, y)  # this line
    LinearSVCCV(Cs=2, max_iter=1, solver="dcd", tol=1e-9).fit(X, y)  # this line
    LinearRanker(max_iter=1, tol=1e-9).fit(X, y)  # this line
lines = open(sys.argv[1]).read().splitlines()
assert len(caught) == 3
for each in caught:
    assert each.filename == sys.argv[1] and "# this line" in lines[each.lineno - 1], str(each)
"""


def test_all_estimators_train_and_warn_where_fit_was_called(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, str(program), str(program)], check=True)
