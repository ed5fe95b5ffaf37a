"""The example of a webhook in Structured Streaming."""

from __future__ import annotations

import json
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock_brokers import free_port

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "webhook_structured.py"


def post(port: int, body: bytes, path: str = "/orders") -> int:
    """Send a request, as soon as somebody listens; return the status of the answer."""
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        except ConnectionRefusedError:
            threading.Event().wait(0.05)
        finally:
            connection.close()


@pytest.mark.usefixtures("frugal_plans")
def test_requests_become_rows_of_parquet_files(
    sc: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(port), str(tmp_path)])
    program = EXAMPLE.read_text().replace("query.awaitTermination()\n", "").replace("1 second", "100 milliseconds")
    names: dict[str, Any] = {}
    exec(compile(program, str(EXAMPLE), "exec"), names)
    query, spark = names["query"], names["spark"]
    try:
        orders = [{"id": number, "item": "lamp", "quantity": 2} for number in range(3)]
        assert post(port, json.dumps(orders[:2]).encode()) == 200
        assert post(port, json.dumps(orders[2]).encode()) == 200
        assert post(port, b"no json") == 400

        # What was answered with 200 is stored, and so available to the query.
        query.processAllAvailable()
        rows = sorted(tuple(row)[1:] for row in spark.read.parquet(str(tmp_path / "orders")).collect())
        assert rows == [(number, "lamp", 2) for number in range(3)]
    finally:
        query.stop()
