"""The receiver ``kafka`` in Structured Streaming: a query whose source is killed resumes, and loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plugins.brokers.tests.killed_query import rows_of_killed_query
from plugins.kafka.tests.conftest import Topic

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.spark
def test_query_whose_source_is_killed_resumes_and_gets_every_record(
    sc: SparkContext, topic: Topic, tmp_path: Path
) -> None:
    options = {
        "receiver": "kafka",
        "bootstrap_servers": topic.cluster.bootstrap_servers,
        "topics": topic.name,
        "group_id": topic.group,
        "columns": "value,offset",
        # The group waits this long for a member that was killed.
        "settings": "session.timeout.ms=6000,heartbeat.interval.ms=500,reconnect.backoff.max.ms=100",
    }
    rows = rows_of_killed_query(
        options,
        "value STRING, offset LONG",
        tmp_path,
        send=lambda values: topic.put(*values),
        is_settled=lambda: topic.committed() == 300,
    )
    assert all(int(row.value) == row.offset for row in rows)
