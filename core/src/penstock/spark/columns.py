"""Saves Spark's column expressions, which functions and operators of a program refer to, in a checkpoint."""

from __future__ import annotations

import sys
from typing import Any

from pyspark import SparkContext


def is_column(value: Any) -> bool:
    """Whether a value is a column expression."""
    # pyspark.sql is slow to import, and no column can exist before somebody imported it.
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and isinstance(value, sql.Column)


def dump_column(column: Any) -> bytes:
    """Serialize a column expression; TypeError if it calls a Python function, which is bound to this run."""
    jvm: Any = SparkContext._jvm
    buffer = jvm.java.io.ByteArrayOutputStream()
    stream = jvm.java.io.ObjectOutputStream(buffer)
    stream.writeObject(column._jc.node())
    stream.close()
    data = bytes(buffer.toByteArray())
    if b"SimplePythonFunction" in data:
        raise TypeError("a column that calls a Python function cannot be saved: use transform(lambda df: ...) for it")
    return data


def load_column(data: bytes) -> Any:
    """Restore a column expression."""
    from pyspark.sql import Column

    jvm: Any = SparkContext._jvm
    stream = jvm.java.io.ObjectInputStream(jvm.java.io.ByteArrayInputStream(data))
    return Column(jvm.org.apache.spark.sql.Column(stream.readObject()))
