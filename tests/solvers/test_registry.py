"""What is declared of solvers is true, and all lists of them are the registry's."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from sklearn.datasets import dump_svmlight_file
from toy_solver import TOY

import widemargin
from tests.four_methods import FourMethods
from widemargin import LinearRanker, LinearSVC
from widemargin.certificate import certify_state
from widemargin.curves import iteration_unit
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import (
    CrammerSinger,
    Hinge,
    LogisticRisk,
    LowestMean,
    MultinomialRisk,
    PairwiseHinge,
)
from widemargin.solvers import auto
from widemargin.solvers.base import AsksOracle, SharesPasses, Solver, kind_of, place_of
from widemargin.solvers.registry import SOLVERS, Place, RiskKind, names

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
ENTRIES = [(solver, kind) for solver in SOLVERS.values() for kind in solver.classes]


X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
ROWS = {
    Place.MEMORY: as_rows(X),
    Place.PRODUCTS: FourMethods(as_rows(X)),
    Place.DISK: Blocks(sp.csr_matrix(X), 20),
}
RISKS = {
    RiskKind.MARGIN: Hinge(np.where(X[:, 0] > 0, 1, -1), np.ones(60)),
    RiskKind.CRAMMER_SINGER: CrammerSinger(np.argmax(X[:, :3], axis=1), np.ones(60), 3),
    RiskKind.LOGISTIC: LogisticRisk(np.where(X[:, 0] > 0, 1, -1), np.ones(60)),
    RiskKind.MULTINOMIAL: MultinomialRisk(np.argmax(X[:, :3], axis=1), np.ones(60), 3),
    RiskKind.ONE_CLASS: LowestMean(np.full(60, 1.0 / 6.0)),
    RiskKind.ANY: PairwiseHinge(np.digitize(X[:, 0], [-0.5, 0.5]), np.ones(60), None),
}


def ids(entry):
    return getattr(entry, "name", entry)


class TestDeclarations:
    @pytest.mark.parametrize("place", ROWS, ids=lambda place: place.name)
    @pytest.mark.parametrize("kind", RISKS, ids=lambda kind: kind.name)
    @pytest.mark.parametrize("name", SOLVERS)
    def test_a_solver_solves_what_it_takes_and_is_refused_the_rest(self, name, kind, place):
        problem = Problem(ROWS[place], RISKS[kind], Intercept.NONE)
        assert (place_of(problem.rows), kind_of(problem.risk)) == (place, kind)
        if name not in names(place, kind, published=True):
            with pytest.raises(ValueError, match=f"solver='{name}' .*use one of|needs one of"):
                auto.check(name, problem.rows, problem.risk)
            return
        auto.check(name, problem.rows, problem.risk)
        published = bool(SOLVERS[name].published)
        monitor = Monitor(1e-4 if published else 1e-2, 10_000)
        state = auto.make(name, problem.risk, 0).solve(problem, State.zero(problem), monitor)
        assert monitor.status == ("published" if published else "converged")
        assert certify_state(problem, state).relative_gap <= 1e-2

    @pytest.mark.parametrize(("solver", "kind"), ENTRIES, ids=ids)
    def test_classes_are_what_is_said_of_them(self, solver, kind):
        made = resolve_name(solver.classes[kind])
        assert issubclass(made, Solver)
        assert issubclass(made, SharesPasses) == solver.shares_passes
        assert solver.shares_passes <= solver.splits_rows  # one problem has all threads
        if Place.CLUSTER in solver.rows and kind is not RiskKind.ONE_CLASS:
            assert issubclass(made, AsksOracle)
            assert RiskKind.ANY in solver.classes
        arguments = set(signature(made).parameters)
        assert arguments >= {*solver.arguments, *solver.told}
        assert arguments & {"seed", "memory_budget"} == set(solver.told)

    def test_a_class_that_is_no_solver_is_refused_by_name(self, monkeypatch):
        classes = {RiskKind.MARGIN: "widemargin.problem:Problem"}
        monkeypatch.setitem(SOLVERS, "odd", replace(TOY, name="odd", classes=classes))
        with pytest.raises(TypeError, match=r"'odd' is declared as widemargin.problem:Problem"):
            auto.make("odd", RISKS[RiskKind.MARGIN], 0)

    def test_a_solver_without_solve_cannot_be_made(self):
        class Nothing(Solver):
            pass

        with pytest.raises(TypeError, match=r"abstract method '?solve"):
            Nothing()

    def test_the_registry_imports_nothing_heavy(self):
        code = (
            "import sys, widemargin.solvers.registry\n"
            "print({'numpy', 'scipy', 'numba', 'sklearn'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.strip() == "set()", done.stderr


def told_of(estimator):
    """Return the names in what an estimator's docstring says of `solver`."""
    paragraph = re.search(r"\n    solver : .*\n((?:        .*\n)+)", estimator.__doc__)[0]
    return set(re.findall(r'"(\w+)"', paragraph)) - {"auto"}


class TestDocuments:
    def test_the_table_of_solvers_has_all_of_them(self):
        text = (DOCS / "solvers.md").read_text(encoding="utf-8")
        table = text.split("| --- | --- | --- |")[1].split("\n\n")[0]
        first = [line.split("|")[1] for line in table.strip().splitlines()]
        assert sorted(re.findall(r"`(\w+)`", " ".join(first))) == sorted(names(penalty=None))

    def test_the_papers_have_all_that_follow_them(self):
        text = (DOCS / "papers" / "index.md").read_text(encoding="utf-8")
        published = {name: solver for name, solver in SOLVERS.items() if solver.published}
        assert set(re.findall(r"`(\w+-paper)`", text)) == set(published)
        assert set(names(published=True)) - set(names()) == set(published)
        assert {name.removesuffix("-paper") for name in published} < set(names())

    def test_docstrings_tell_of_none_that_is_not_there(self):
        assert set() < told_of(LinearSVC) <= set(SOLVERS)
        assert set() < told_of(LinearRanker) <= set(names(risk=RiskKind.ANY))
        dask = pytest.importorskip("widemargin.dask", reason="needs dask")
        for kind in dask.LinearSVC, dask.LinearRanker:
            assert set() < told_of(kind) <= set(names(Place.CLUSTER))


HINGE = {"loss": "hinge", "fit_intercept": False}


class TestToy:
    """A solver of one file, and one entry, is found everywhere; and gone afterwards."""

    @pytest.fixture
    def toy(self, monkeypatch):
        monkeypatch.setitem(SOLVERS, "toy", TOY)

    def test_it_is_there_and_gone(self):
        y = RISKS[RiskKind.MARGIN].y
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(SOLVERS, "toy", TOY)
            model = LinearSVC(solver="toy", **HINGE).fit(X, y)
            assert (model.solver_, model.status_) == ("toy", "converged")
            assert widemargin.certify(model, X, y).relative_gap <= 1e-3
            assert iteration_unit(model) == "pass"
        with pytest.raises(ValueError, match=r"solver must be one of .* not 'toy'"):
            LinearSVC(solver="toy").fit(X, y)

    def test_messages_list_it(self, toy):
        y = RISKS[RiskKind.MARGIN].y
        with pytest.raises(ValueError, match=r"one of 'auto', 'dcd', .*, 'toy', not 'magic'"):
            LinearSVC(solver="magic").fit(X, y)
        with pytest.raises(ValueError, match=r"'stream' needs rows on disk .* 'dcd'.*, 'toy', or"):
            LinearSVC(solver="stream").fit(X, y)

    def test_it_is_refused_what_it_does_not_take(self, toy):
        risk = RISKS[RiskKind.MARGIN]
        with pytest.raises(ValueError, match="'toy' needs rows in memory, and these are on disk"):
            auto.check("toy", ROWS[Place.DISK], risk)
        with pytest.raises(ValueError, match=r"'toy' is for two classes at a time: multi_class="):
            LinearSVC(solver="toy", multi_class="crammer_singer").fit(X, np.arange(60) % 3)
        with pytest.raises(ValueError, match=r"solver must be one of .* not 'toy'"):
            LinearRanker(solver="toy").fit(X, risk.y)

    def test_a_path_and_a_saved_model_know_it(self, toy, tmp_path):
        y = RISKS[RiskKind.MARGIN].y
        path = widemargin.svm_path(X, y, Cs=[0.1, 1.0], solver="toy", **HINGE)
        assert all(certificate.relative_gap <= 1e-3 for certificate in path.certificates)
        model = LinearSVC(solver="toy", **HINGE).fit(X, y)
        widemargin.save_model(model, tmp_path / "m")
        assert widemargin.load_model(tmp_path / "m").solver_ == "toy"

    def test_the_command_line_has_it(self, tmp_path):
        data = tmp_path / "data.svm"
        dump_svmlight_file(X, RISKS[RiskKind.MARGIN].y, str(data), zero_based=False)

        def widemargin_with_toy(*arguments):
            code = (
                "import sys\n"
                "from widemargin.solvers.registry import SOLVERS\n"
                "from toy_solver import TOY\n"
                "SOLVERS['toy'] = TOY\n"
                "from widemargin.cli.app import app\n"
                "app(sys.argv[1:])"
            )
            environment = {**os.environ, "PYTHONPATH": str(TESTS), "COLUMNS": "200"}
            command = [sys.executable, "-c", code, *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, env=environment)

        shown = " ".join(widemargin_with_toy("train", "--help").stdout.split())
        assert re.search(r"\|toy[>\]]", shown)
        assert "toy: exact coordinate steps in plain Python" in shown
        train = ("train", data, "--out", tmp_path / "m", "--loss", "hinge", "--no-intercept")
        done = widemargin_with_toy(*train, "--solver", "toy", "--json")
        assert json.loads(done.stdout)["solver"] == "toy", done.stderr
        refused = widemargin_with_toy(*train, "--solver", "magic")
        assert refused.returncode != 0
        assert "toy" in refused.stderr
        ranked = widemargin_with_toy(
            "train", data, "--task", "rank", "--solver", "toy", "--out", "m"
        )
        words = " ".join(ranked.stderr.split())
        assert "--solver toy goes with --task classify or regress only" in words
