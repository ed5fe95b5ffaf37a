"""The ``penstock`` command line."""

from penstock_cli.command import main

__all__ = ["main"]
