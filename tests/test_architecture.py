"""Imports point one way: cli -> estimators -> solvers -> {risk, data} -> kernels."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "widemargin"

# What each room may import of the package, besides itself.
ALLOWED = {
    "kernels": set(),
    "arrays": set(),
    "threads": set(),
    "meeting": {"threads"},
    "rounding": set(),
    "atomic": set(),
    "labels": set(),
    "strict": set(),
    "tensors": {"strict"},
    "data": {"arrays", "kernels", "labels", "threads", "atomic", "strict"},
    "passes": {"arrays", "kernels", "meeting", "rounding", "threads"},
    "losses": set(),
    "risk": {"arrays", "kernels", "losses", "passes", "rounding", "threads"},
    "penalty": {"rounding"},
    "problem": {"data", "penalty", "risk"},
    "row_sums": {"arrays", "data", "passes", "penalty", "risk", "problem", "rounding"},
    "hull_bounds": {"data", "risk", "problem", "rounding", "row_sums"},
    "certificate": {
        "hull_bounds",
        "arrays",
        "data",
        "markup",
        "risk",
        "problem",
        "rounding",
        "row_sums",
        "words",
    },
    "monitor": {"certificate", "kernels"},
    "progress": {"monitor"},
    "words": set(),
    "solver registry": set(),
    "fitted": {"certificate", "monitor"},
    "sigmoids": set(),
    "markup": set(),
    "curves": {"fitted", "monitor", "solver registry", "words"},
    "report": {
        "arrays",
        "atomic",
        "certificate",
        "curves",
        "fitted",
        "labels",
        "markup",
        "metrics",
        "sigmoids",
        "words",
    },
    "plot": {"curves", "estimators", "fitted"},
    "onnx": {"arrays", "estimators", "labels"},
    "solvers": {
        "hull_bounds",
        "penalty",
        "losses",
        "arrays",
        "passes",
        "data",
        "risk",
        "problem",
        "certificate",
        "monitor",
        "kernels",
        "meeting",
        "threads",
        "solver registry",
    },
    "datasets": {"data"},
    "metrics": {"kernels"},
    "proofs": {"arrays", "certificate", "data", "problem", "risk", "rounding", "row_sums"},
    "estimators": {
        "penalty",
        "proofs",
        "losses",
        "arrays",
        "labels",
        "metrics",
        "solvers",
        "solver registry",
        "data",
        "risk",
        "problem",
        "certificate",
        "monitor",
        "progress",
        "report",
        "fitted",
        "sigmoids",
        "threads",
        "rounding",
        "atomic",
        "tensors",
        "words",
    },
    "model_io": {
        "arrays",
        "data",
        "estimators",
        "fitted",
        "penalty",
        "solver registry",
        "problem",
        "certificate",
        "monitor",
        "atomic",
        "tensors",
    },
    "dask": {
        "losses",
        "meeting",
        "kernels",
        "rounding",
        "estimators",
        "solvers",
        "solver registry",
        "data",
        "risk",
        "problem",
        "certificate",
        "monitor",
        "progress",
        "threads",
    },
    "cli": {
        "losses",
        "estimators",
        "solver registry",
        "model_io",
        "data",
        "datasets",
        "certificate",
        "labels",
        "metrics",
        "curves",
        "fitted",
        "progress",
        "report",
        "plot",
        "words",
    },
    "__main__": {"cli"},
}


def imported_rooms(path):
    """Yield the rooms of the package that a file imports, however deep inside it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[:3] == ["widemargin", "solvers", "registry"]:
                yield "solver registry"  # a list of names, which who knows no solver may read
            elif parts[0] == "widemargin" and len(parts) > 1:
                yield parts[1]


def files():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if path == PACKAGE / "solvers" / "registry.py":
        room = "solver registry"
    # Public names (widemargin.LinearSVC) stand for the estimators.
    rooms = {name if name in ALLOWED else "estimators" for name in imported_rooms(path)}
    assert rooms - {room} <= ALLOWED[room]


def test_the_package_itself_imports_nothing_heavy():
    code = "import sys, widemargin; print([m for m in ('numpy', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("collecting", [True, False])
def test_importing_keeps_nobodys_garbage(collecting):
    """What was garbage before is collected after, and collection is on or off as it was."""
    code = f"""
import gc, weakref

class Node:
    pass

gc.disable()
nodes = [Node() for _ in range(100)]
for node in nodes:
    node.itself = node
alive = weakref.WeakSet(nodes)
del node, nodes
if {collecting}:
    gc.enable()
import widemargin
widemargin.LinearSVC
assert gc.isenabled() is {collecting}
assert gc.get_freeze_count() == 0
gc.collect()
print(len(alive))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_public_names_are_all_there():
    import widemargin

    for name in widemargin.__all__:
        assert getattr(widemargin, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'LinearSVM'"):
        _ = widemargin.LinearSVM
