"""Fixtures for a graph without Spark."""

from tests.helpers.fake_streams import context, make_input, run, tables  # noqa: F401  # fixtures
