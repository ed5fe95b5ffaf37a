"""A configuration that lives in Python alone: one in the JVM takes a call for each entry that is set or read."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark import SparkConf


def own_conf(entries: Iterable[tuple[str, str]]) -> SparkConf:
    """A configuration with these entries; a later one overrides an earlier one."""
    made = SparkConf.__new__(SparkConf)
    made._jconf, made._conf = None, dict(entries)
    return made
