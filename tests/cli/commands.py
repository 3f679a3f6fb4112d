"""Commands as tests run them: invoke, and insist on how they end."""

import json

from typer.testing import CliRunner

from widemargin.cli.app import app


def run(*arguments, stdin=None):
    """Invoke the command line in this process."""
    return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)


def succeed(*arguments, stdin=None):
    """Invoke, insist on exit code 0, and return what was printed."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refuse(*arguments, naming=(), stdin=None):
    """Invoke, insist on exit code 2 and one line on stderr that names what is at fault."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("widemargin: ")
    for word in naming:
        assert str(word) in lines[0]
    return lines[0]


def strict_json(result):
    """Parse the one JSON object on stdout; NaN and infinity are not JSON."""

    def fail(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout, parse_constant=fail)
