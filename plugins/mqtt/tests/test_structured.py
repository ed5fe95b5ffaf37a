"""The receiver ``mqtt`` in Structured Streaming: a query whose source is killed resumes, and loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plugins.brokers.tests.killed_query import rows_of_killed_query
from plugins.mqtt.tests.conftest import read

from penstock_mqtt.demo import begin_session
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.publisher import Publisher

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.spark
def test_query_whose_source_is_killed_resumes_and_gets_every_message(
    sc: SparkContext, broker: MosquittoServer, publisher: Publisher, topic: str, tmp_path: Path
) -> None:
    begin_session(read(broker.port, topic))
    options = {"receiver": "mqtt", "host": "127.0.0.1", "port": str(broker.port), "topics": topic, "client_id": topic}
    rows = rows_of_killed_query(
        {**options, "columns": "topic,value", "value_as": "text"},
        "topic STRING, value STRING",
        tmp_path,
        send=lambda values: publisher.publish(topic, [value.encode() for value in values]),
    )
    assert {row.topic for row in rows} == {topic}
