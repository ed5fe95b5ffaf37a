"""The ``penstock`` command line."""

from penstock.cli.command import main

__all__ = ["main"]
