"""What is built is what is meant to be shipped, and works where nothing else of us is."""

import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import widemargin

ROOT = Path(__file__).parents[1]
TOOLS = ("build", "hatchling")

needs_tools = pytest.mark.skipif(
    not all(map(find_spec, TOOLS)), reason=f"needs {' and '.join(TOOLS)}"
)
# What an sdist has at its top: all it takes to build, test and document.
SOURCES = {
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "PKG-INFO",
    "README.md",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "src",
    "tests",
}
# Kinds of files in the package.
SUFFIXES = {".py", ".typed", ".html", ".css", ".js", ".cu", ".cuh"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder with an sdist and a wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


def shipped(folder):
    """Names of the files of the package, as they are in the source tree."""
    return {
        str(path.relative_to(folder.parent))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@needs_tools
def test_the_wheel_has_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    package = {name for name in names if ".dist-info/" not in name}
    assert package == shipped(ROOT / "src" / "widemargin")
    assert {"widemargin/py.typed", "widemargin/kernels/cuda/vectors.cu"} <= package
    assert {Path(name).suffix for name in package} <= SUFFIXES
    information = {name.split(".dist-info/")[1] for name in names - package}
    assert information == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


@needs_tools
def test_the_sdist_has_sources_and_no_data(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.split("/", 2)[1] for name in archive.getnames()]
    assert set(names) == SOURCES


@needs_tools
def test_it_trains_from_the_wheel_alone(wheel, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    target = tmp_path / "site"
    subprocess.run([*install, "--target", target, wheel], check=True, capture_output=True)
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "import widemargin\n"
        f"assert widemargin.__file__.startswith({str(target)!r}), widemargin.__file__\n"
        "from sklearn.datasets import load_iris\n"
        "model = widemargin.LinearSVC(random_state=0).fit(*load_iris(return_X_y=True))\n"
        "print(model.status_)\n"
        "from widemargin.cli.app import main\n"
        "sys.argv = ['widemargin', '--version']\n"
        "main()\n"
    )
    # Isolated: neither PYTHONPATH nor the current folder leads back to the source tree.
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["converged", "widemargin", widemargin.__version__]


def test_the_changelog_knows_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", text, re.MULTILINE)
    assert releases[0] == widemargin.__version__.partition(".dev")[0]
