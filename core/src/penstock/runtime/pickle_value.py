"""``pickle_value``: the pickled form of a value of the program. Imports no structlog and no PySpark: workers use it."""

from __future__ import annotations

import pickle
from typing import Any


def pickle_value(value: Any) -> bytes:
    """Pickle a value; one that holds classes or functions of the program's main module by value, as Spark does."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        from pyspark import cloudpickle

        dumped: bytes = cloudpickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        return dumped
