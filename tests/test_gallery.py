"""The stories of the gallery and the notebook run, as they stand."""

import json
import runpy
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
STORIES = sorted((DOCS / "gallery").glob("plot_*.py"))
GPU = [path for path in STORIES if path.stem.endswith("_gpu")]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.fixture
def quiet(monkeypatch, tmp_path):
    """Run in a folder of its own, draw nothing on screens, and close what was drawn."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("agg")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
        yield pyplot
    pyplot.close("all")


def test_there_are_ten_stories():
    assert len(STORIES) == 10
    for path in STORIES:
        title = path.read_text(encoding="utf-8").splitlines()
        assert title[0] == '"""'
        assert set(title[2]) == {"="}
        assert len(title[2]) == len(title[1])


@pytest.mark.parametrize(
    "path", [path for path in STORIES if path not in GPU], ids=lambda path: path.stem
)
def test_stories_run_and_draw(path, quiet, capsys):
    if path.stem.endswith("cluster"):
        pytest.importorskip("distributed")
    runpy.run_path(str(path), run_name="__main__")
    assert quiet.get_fignums()
    assert capsys.readouterr().out


def test_what_needs_a_gpu_is_at_least_python():
    (path,) = GPU
    compile(path.read_text(encoding="utf-8"), str(path), "exec")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, quiet):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code
    names: dict = {}
    for number, source in enumerate(code):
        exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
