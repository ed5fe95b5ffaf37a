"""Decoding of Avro and Protobuf with a schema registry, by confluent-kafka's deserializers."""

from __future__ import annotations

import importlib
from typing import Any

from penstock import ConfigurationError
from penstock.spi import text_of
from penstock_kafka.options import KafkaOptions
from penstock_kafka.records import Deserializer


def deserializer_of(options: KafkaOptions) -> Deserializer | None:
    """The function that decodes values as the options say; ``None`` if they need no schema.

    It raises ``ValueError`` for a value that cannot be decoded, ``ConnectionError`` without an answer of the registry.

    Raises:
        ConfigurationError: a package or the Protobuf class is missing.
        SecretError: the credentials cannot be read.
    """
    if options.value_as not in {"avro", "protobuf"}:
        return None
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.serialization import MessageField, SerializationContext

        registry: dict[str, Any] = {"url": options.schema_registry}
        if options.schema_registry_credentials is not None:
            registry["basic.auth.user.info"] = options.schema_registry_credentials.read()
        if options.tls_ca and options.schema_registry.startswith("https"):
            registry["ssl.ca.location"] = options.tls_ca
        client = SchemaRegistryClient(registry)
        decode = _avro(client) if options.value_as == "avro" else _protobuf(client, options.protobuf_class)
    except ImportError as error:
        raise ConfigurationError(
            f"value_as={options.value_as} needs penstock-kafka[{options.value_as}] where the receiver runs: {error}"
        ) from None

    def deserialize(topic: str, value: bytes) -> Any:
        try:
            return decode(value, SerializationContext(topic, MessageField.VALUE))
        except Exception as error:
            if _is_connection_error(error):
                raise ConnectionError(f"the schema registry {options.schema_registry}: {text_of(error)}") from error
            # The errors of deserializers depend on their libraries.
            raise ValueError(text_of(error)) from error

    return deserialize


def _is_connection_error(error: BaseException) -> bool:
    """Whether the registry did not answer, or not now: the value itself may be right."""
    status = getattr(error, "http_status_code", None)
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or module.startswith("httpx") or (status is not None and status >= 500)


def _avro(client: Any) -> Any:
    from confluent_kafka.schema_registry.avro import AvroDeserializer

    return AvroDeserializer(client)


def _protobuf(client: Any, name: str) -> Any:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer

    # It has no types.
    json_format = importlib.import_module("google.protobuf.json_format")
    module, _, attribute = name.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"protobuf_class={name} is no class that can be imported where the receiver runs: {text_of(error)}"
        ) from None
    deserializer = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)

    def decode(value: bytes, context: Any) -> Any:
        message = deserializer(value, context)
        return None if message is None else json_format.MessageToDict(message, preserving_proto_field_name=True)

    return decode
