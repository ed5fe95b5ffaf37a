"""Registers the source: PySpark imports every module ``pyspark_*`` and registers its ``DefaultSource``."""

from penstock_structured.data_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
