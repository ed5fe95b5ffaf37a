"""The fixture ``make``: readers that are stopped at the end of a test."""

from plugins.structured.tests.readers import make

__all__ = ["make"]
