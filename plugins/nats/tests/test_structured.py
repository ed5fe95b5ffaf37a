"""The receiver ``nats`` in Structured Streaming: a query whose source is killed resumes, and loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plugins.brokers.tests.killed_query import rows_of_killed_query
from plugins.nats.tests.js_stream import JsStream

from penstock_nats.nats_server import NatsServer

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.spark
def test_query_whose_source_is_killed_resumes_and_gets_every_message(
    sc: SparkContext, server: NatsServer, tmp_path: Path
) -> None:
    stream = JsStream(server, "s")
    options = {"receiver": "nats", "servers": server.url, "stream": "s", "consumer": "c", "ack_wait": "1"}
    rows = rows_of_killed_query(
        {**options, "columns": "value,sequence"},
        "value STRING, sequence LONG",
        tmp_path,
        send=lambda values: stream.publish(*values),
        is_settled=lambda: stream.is_acknowledged(300),
    )
    assert all(int(row.value) == row.sequence - 1 for row in rows)
