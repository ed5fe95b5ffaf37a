"""The receiver ``redis`` in Structured Streaming: a query whose source is killed resumes, and loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plugins.brokers.tests.killed_query import rows_of_killed_query

if TYPE_CHECKING:
    from plugins.redis.tests.conftest import Stream
    from pyspark import SparkContext


@pytest.mark.spark
def test_query_whose_source_is_killed_resumes_and_gets_every_entry(
    sc: SparkContext, stream: Stream, tmp_path: Path
) -> None:
    ids = list[bytes]()
    options = {
        "receiver": "redis",
        "host": "127.0.0.1",
        "port": str(stream.server.port),
        "streams": stream.name,
        "columns": "id,value",
        # The consumer of a killed query is another one.
        "min_idle": "0.5",
    }
    rows = rows_of_killed_query(
        options,
        "id STRING, value STRING",
        tmp_path,
        send=lambda values: ids.extend(stream.add(*values)),
        is_settled=lambda: not stream.pending(),
    )
    assert {row.id.encode() for row in rows} == set(ids)
