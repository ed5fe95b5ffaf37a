"""Avro and Protobuf, with a stand-in for the schema registry."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka import schema_registry
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from plugins.kafka.tests import orders as protobuf_orders
from plugins.kafka.tests.conftest import Topic

from penstock import ConfigurationError
from penstock_brokers import Secret
from penstock_kafka import KafkaOptions
from penstock_kafka.deserializers import deserializer_of
from penstock_testing import ReceiverHarness

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "city", "type": ["null", "string"]}],
}
#: The first bytes of a value: the format, and the schema's id.
HEADER = b"\0\0\0\0\1"


class Registry(BaseHTTPRequestHandler):
    authorizations: list[str | None] = []  # noqa: RUF012  # of all requests

    def do_GET(self) -> None:
        self.authorizations.append(self.headers["Authorization"])
        known = self.path.startswith("/schemas/ids/1")
        answer: dict[str, object] = {"error_code": 40403, "message": "not found"}
        if known and "format=serialized" in self.path:
            schema = base64.b64encode(protobuf_orders.FILE.SerializeToString()).decode()
            answer = {"schemaType": "PROTOBUF", "schema": schema}
        elif known:
            answer = {"schema": json.dumps(SCHEMA)}
        body = json.dumps(answer)
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments: object) -> None:
        """Not to the terminal."""


@pytest.fixture
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def options(registry: str, value_as: str, **further: object) -> KafkaOptions:
    given = {"bootstrap_servers": "h:1", "topics": ("t",), "group_id": "g", "schema_registry": registry}
    return KafkaOptions(**given, value_as=value_as, **further)  # type: ignore[arg-type]


def order(identity: int, city: str | None) -> bytes:
    import fastavro

    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), {"id": identity, "city": city})
    return HEADER + body.getvalue()


def test_avro_is_decoded_with_the_schema_of_the_registry(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY", "user:hunter2")
    secret = Secret("env:REGISTRY")
    deserialize = deserializer_of(options(registry, "avro", schema_registry_credentials=secret))
    assert deserialize is not None
    assert deserialize("t", order(7, "Ulm")) == {"id": 7, "city": "Ulm"}
    assert deserialize("t", order(8, None)) == {"id": 8, "city": None}
    assert Registry.authorizations[-1] == f"Basic {base64.b64encode(b'user:hunter2').decode()}"


@pytest.mark.parametrize("value", [b"no Avro", b"", HEADER, b"\0\0\0\0\2x"])
def test_value_that_is_no_avro_cannot_be_decoded(registry: str, value: bytes) -> None:
    deserialize = deserializer_of(options(registry, "avro"))
    assert deserialize is not None
    with pytest.raises(ValueError, match=r"\w"):
        deserialize("t", value)


def test_receiver_decodes_every_version_of_a_schema_of_the_clients_own_registry(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's registry in memory, and its serializer, which registers each version of the schema."""
    in_memory = SchemaRegistryClient.new_client({"url": "mock://"})
    monkeypatch.setattr(schema_registry, "SchemaRegistryClient", lambda _conf: in_memory)
    context = SerializationContext(topic.name, MessageField.VALUE)
    later = SCHEMA | {"fields": [*SCHEMA["fields"], {"name": "express", "type": "boolean", "default": False}]}
    orders: list[tuple[Any, dict[str, Any]]] = [
        (SCHEMA, {"id": 1, "city": "Ulm"}),
        (later, {"id": 2, "city": None, "express": True}),
    ]
    for schema, fields in orders:
        serialize: Any = AvroSerializer(in_memory, json.dumps(schema))
        topic.put(serialize(fields, context), key=str(fields["id"]), headers=[("source", b"shop")])
    further = {
        "value_as": "avro",
        "schema_registry": "mock://",
        "key_as": "text",
        "columns": ("key", "headers", "value"),
    }
    with ReceiverHarness(topic.receiver(**further)) as harness:
        harness.until_count(2)
    rows = [
        (row.key, [(each["key"], each["value"]) for each in row.headers], json.loads(row.value))
        for row in harness.records
    ]
    assert rows == [(str(fields["id"]), [("source", b"shop")], fields) for _, fields in orders]


def test_registry_that_is_away_is_no_fault_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_arguments: object, **_options: object) -> None:
        raise ConnectionRefusedError("connection refused")

    monkeypatch.setattr(SchemaRegistryClient, "get_schema", away)
    deserialize = deserializer_of(options("http://127.0.0.1:9", "avro"))
    assert deserialize is not None
    with pytest.raises(ConnectionError, match=r"the schema registry http://127\.0\.0\.1:9: .*refused"):
        deserialize("t", order(1, None))


def test_protobuf_class_that_cannot_be_imported_is_named(registry: str) -> None:
    with pytest.raises(ConfigurationError, match="protobuf_class=no_such:Order is no class"):
        deserializer_of(options(registry, "protobuf", protobuf_class="no_such:Order"))


def test_protobuf_is_decoded_by_its_class(registry: str) -> None:
    deserialize = deserializer_of(options(registry, "protobuf", protobuf_class="plugins.kafka.tests.orders:Order"))
    assert deserialize is not None
    # The first message of the file; then field 1, of three bytes.
    assert deserialize("t", HEADER + b"\0" + b"\x0a\x03Ulm") == {"city": "Ulm"}
