"""The directive `command-help`: what `widemargin` and its commands print for `--help`."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from widemargin.cli.app import app

# Columns, so that lines fit into the page.
_WIDTH = {"terminal_width": 84, "max_content_width": 84}


class CommandHelp(SphinxDirective):
    """A section for the program, and one for each of its commands."""

    def run(self) -> list[nodes.Node]:
        program = get_command(app)
        settings = program.context_settings | _WIDTH
        context = program.context_class(program, info_name="widemargin", **settings)
        sections = [self._section(context)]
        for name in program.list_commands(context):
            command = program.get_command(context, name)
            below = command.context_class(command, context, name, **_WIDTH)
            sections.append(self._section(below))
        return sections

    def _section(self, context) -> nodes.section:
        title = context.command_path
        section = nodes.section(ids=[nodes.make_id(title)], names=[title])
        section += nodes.title(text=title)
        text = context.command.get_help(context)
        section += nodes.literal_block(text, text, language="none")
        self.state.document.note_implicit_target(section, section)
        return section


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
