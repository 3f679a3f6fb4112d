"""What is said about the project in several files is the same in all of them."""

import re
import tomllib
from pathlib import Path

import pytest

import widemargin

ROOT = Path(__file__).parents[1]
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version():
    citation = read("CITATION.cff")
    assert citation["version"] == widemargin.__version__
    assert citation["license"] == "BSD-3-Clause"


def test_the_recipe_has_the_version_and_the_dependencies():
    recipe = read("recipe/recipe.yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert recipe["context"]["version"] == widemargin.__version__
    assert recipe["about"]["summary"] == project["description"]

    def names(requirements):
        return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}

    run = recipe["requirements"]["run"]
    assert names(run) == names(project["dependencies"]) | {"python"}


def test_workflows_run_what_there_is_and_name_their_actions_by_commit():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        yaml.safe_load(text)
        assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets
        for action in re.findall(r"uses: (\S+)", text):
            assert action.startswith("./") or re.search(r"@[0-9a-f]{40}$", action), action
