"""Processes that tests start, and interrupt."""

import signal
import subprocess
import sys
from contextlib import contextmanager

# Long enough for any machine, however busy; a process that hangs does not go on for ever.
PATIENCE = 300

COMMAND_LINE = [sys.executable, "-c", "from widemargin.cli.app import main; main()"]


@contextmanager
def heeding_ctrl_c():
    """Have Ctrl-C interrupt this process, whoever has started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interruptible(command, **options):
    """Start a process that Ctrl-C interrupts, whoever has started the tests.

    A shell starts what it runs in the background with Ctrl-C ignored, and that is inherited.
    """

    def heed_ctrl_c():
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
        **options,
    )
