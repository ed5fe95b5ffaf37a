"""Deliveries: the metadata in the reply subject, and columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from penstock_nats.delivered import Delivered, column_reader

OLD = "$JS.ACK.orders.c.3.17.20.1700000000123456789.5"
NEW = "$JS.ACK._.accounthash.orders.c.3.17.20.1700000000123456789.5.random"


def message(reply: str, data: bytes = b"x", headers: dict[str, str] | None = None) -> Msg:
    return Msg(Client(), "orders.new", reply, data, headers)


@pytest.mark.parametrize("reply", [OLD, NEW])
def test_metadata_are_those_that_the_client_finds(reply: str) -> None:
    delivered, expected = Delivered.of(message(reply)), message(reply).metadata
    assert delivered.stream == expected.stream == "orders"
    assert delivered.sequence == expected.sequence.stream == 17
    assert delivered.deliveries == expected.num_delivered == 3
    assert delivered.pending == expected.num_pending == 5
    assert delivered.timestamp_ns == 1700000000123456789
    assert delivered.origin == "orders/17 orders.new"


def test_columns_have_one_schema_with_and_without_headers(stream: Any) -> None:
    every = "value,subject,headers,stream,sequence,timestamp,deliveries"
    reader = column_reader(stream.options(columns=every, value_as="bytes"))
    plain, with_headers = Delivered.of(message(NEW)), Delivered.of(message(NEW, b"y", {"a": "1", "b": "2"}))
    assert reader([plain]).schema == reader([with_headers]).schema
    assert reader([with_headers]).to_pylist() == [
        {
            "value": b"y",
            "subject": "orders.new",
            "headers": [("a", "1"), ("b", "2")],
            "stream": "orders",
            "sequence": 17,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123456, UTC),
            "deliveries": 3,
        }
    ]
