"""How the site is built: `make docs`. Nothing is fetched, and warnings are errors."""

import sys
from pathlib import Path

import widemargin

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "widemargin"
author = "the widemargin developers"
release = version = widemargin.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "command_help",
]

# Pages are read on code hosts as well, where headings have anchors of this form.
myst_heading_anchors = 3
# Code that is indented and names no language: shell commands, formulas, trees of files.
highlight_language = "none"

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

html_theme = "furo"
html_title = f"widemargin {release}"
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
