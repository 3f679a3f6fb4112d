"""`python -m widemargin` is the command line."""

from widemargin.cli.app import main

main()
