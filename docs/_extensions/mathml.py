"""Formulas as MathML, which browsers draw themselves: no script, and nothing to fetch."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula in a line of its own, which scrolls if it is wider than the page."""
    translator.body.append(translator.starttag(node, "div", CLASS="math-block"))
    if node["number"]:
        translator.body.append(f"<span>({get_node_equation_number(translator, node)})</span>")
    translator.body.append(tex2mathml(node.astext(), as_block=True) + "</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
