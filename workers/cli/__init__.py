"""The command line: one module a command."""

from promptmill.workers.cli.app import main

__all__ = ["main"]
