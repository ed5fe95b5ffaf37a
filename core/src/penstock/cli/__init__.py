"""The ``penstock`` command."""

from penstock.cli.command import main

__all__ = ["main"]
