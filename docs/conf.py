"""How the site is built: `make docs`. Nothing is fetched, and warnings are errors."""

import os
import sys
from pathlib import Path

import widemargin

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
# The stories of the gallery compile once, into this folder.
os.environ.setdefault("NUMBA_CACHE_DIR", str(HERE.parent / "build" / "numba"))
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")

project = "widemargin"
author = "the widemargin developers"
release = version = widemargin.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "command_help",
    "mathml",
]

# Formulas between dollar signs; code hosts draw them as well.
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
# Pages are read on code hosts as well, where headings have anchors of this form.
myst_heading_anchors = 3
# Code that is indented and names no language: shell commands, trees of files.
highlight_language = "none"
templates_path = ["_templates"]
exclude_patterns = ["gallery"]

# A page for each object of the API.
autosummary_generate = True
# Docstrings say what types are, with shapes; signatures stay short.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Of Python's exceptions, and attributes of classes that are for other classes here.
autodoc_default_options = {
    "exclude-members": "add_note, with_traceback, local_class, normalization",
}
numpydoc_show_class_members = False
# `name` in a docstring is a link where it can be imported, and else a word.
default_role = "autolink"

nitpicky = True
# Links into scikit-learn's site would need the network to be checked.
nitpick_ignore_regex = [(r"py:.*", r"sklearn\..*")]

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["stories"],
    # Pages of the API show the stories that use a name.
    "backreferences_dir": "stories/backreferences",
    "doc_module": ("widemargin",),
    # The one about a GPU is shown and not run.
    "filename_pattern": r"/plot_(?!\d+_gpu)",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
}

html_theme = "furo"
html_title = f"widemargin {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
pygments_dark_style = "github-dark"


def leave_out_scikit_learn(app, what, name, member, skip, options):
    """Skip methods that models have from scikit-learn: its own site documents them."""
    return True if (getattr(member, "__module__", None) or "").startswith("sklearn.") else None


def setup(app):
    """Connect what is defined here."""
    app.connect("autodoc-skip-member", leave_out_scikit_learn)
