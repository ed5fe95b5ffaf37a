"""The options of the receiver ``kafka``."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import attrs
from attrs import field, frozen
from attrs.validators import in_, min_len

from penstock.spi import TextForm
from penstock_brokers import DeadLetterOptions, SecretText, TlsOptions, columns_option, secret_option

#: The offsets of ``start`` by topic and partition.
Offsets = Mapping[str, Mapping[str, int]]

COLUMNS = {
    "key": "the key, bytes or text as `key_as` says",
    "value": "the value as `value_as` says",
    "headers": "array of name and value (bytes)",
    "topic": "text",
    "partition": "int",
    "offset": "long",
    "timestamp": "when the record was created or appended, as the topic is configured",
    "deliveries": "how often the broker has delivered the record; share groups only",
}
Column = Literal["key", "value", "headers", "topic", "partition", "offset", "timestamp", "deliveries"]

# Settings of the client that the receiver sets itself, and the option to use instead.
_OWNED = {
    "bootstrap.servers": "bootstrap_servers",
    "metadata.broker.list": "bootstrap_servers",
    "group.id": "group_id",
    "auto.offset.reset": "start",
    "enable.auto.commit": "",
    "enable.auto.offset.store": "",
    "enable.partition.eof": "",
    "share.acknowledgement.mode": "",
    "security.protocol": "tls and sasl_mechanism",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_user",
    "sasl.password": "sasl_password",
    "ssl.ca.location": "tls_ca",
    "ssl.certificate.location": "tls_certificate",
    "ssl.key.location": "tls_key",
    "ssl.key.password": "tls_key_password",
    "enable.ssl.certificate.verification": "",
}
_SECRET = re.compile(r"password|secret|token|assertion|\.pem$|credential", re.IGNORECASE)


def _parsed_settings(text: str) -> dict[str, str]:
    """``name=value`` separated by commas, or a mapping as JSON or Python writes it."""
    if text.lstrip().startswith("{"):
        try:
            settings = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise ValueError("is not a mapping of librdkafka's settings") from None
        return {str(name).strip(): str(value) for name, value in settings.items()}
    items = [item.partition("=") for item in text.split(",") if item.strip()]
    if any(not separator or not name.strip() for name, separator, _ in items):
        raise ValueError("must be name=value, separated by commas, or a mapping")
    return {name.strip(): value.strip() for name, _, value in items}


#: A mapping of librdkafka's settings.
Settings = Annotated[Mapping[str, str], TextForm("name=value, …", _parsed_settings)]


def _are_allowed(_options: object, _attribute: attrs.Attribute[Any], settings: Mapping[str, str]) -> None:
    for name in settings:
        if name in _OWNED:
            advice = f": use the option {_OWNED[name]}" if _OWNED[name] else ""
            raise ValueError(f"settings: {name} is set by the receiver{advice}")
        if _SECRET.search(name):
            raise ValueError(
                f"settings: {name} is a secret, and would get into logs, pages and checkpoints: secrets are options "
                "that name a file or an environment variable"
            )


def parse_start(text: str) -> Literal["earliest", "latest"] | datetime | Offsets:
    """Parse the option ``start``.

    Raises:
        ValueError: it has none of its forms.
    """
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.startswith("{"):
        try:
            offsets: Offsets = json.loads(text)
            if all(isinstance(offset, int) for of_topic in offsets.values() for offset in of_topic.values()):
                return offsets
        except (ValueError, AttributeError):
            pass
        raise ValueError('start must give offsets by topic and partition, such as {"orders": {"0": 17, "1": 42}}')
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"start={text!r} must be earliest, latest, a time such as 2026-11-24T12:00:00+00:00, or offsets as JSON"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _is_start(_options: object, _attribute: attrs.Attribute[Any], value: str) -> None:
    parse_start(value)


def _is_pattern(options: Any, _attribute: attrs.Attribute[Any], value: str) -> None:
    if bool(value) == bool(options.topics):
        raise ValueError("give either topics or topic_pattern")
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"topic_pattern={value!r} is no regular expression: {error}") from None


def _needs_registry(options: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if bool(value) != (options.value_as in {"avro", "protobuf"}):
        raise ValueError(f"{attribute.name} and value_as=avro or protobuf need each other")


def _needs_class(options: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if bool(value) != (options.value_as == "protobuf"):
        raise ValueError(f"{attribute.name} and value_as=protobuf need each other")


def _with_sasl(options: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if bool(value) != bool(options.sasl_mechanism):
        raise ValueError(f"{attribute.name} and sasl_mechanism need each other")


@frozen(kw_only=True)
class KafkaOptions(DeadLetterOptions, TlsOptions):
    """Options of the receiver ``kafka``; the ``help`` of each field describes it."""

    bootstrap_servers: str = field(
        validator=min_len(1), metadata={"help": "brokers to connect to first, host:port separated by commas"}
    )
    group_id: str = field(
        validator=min_len(1),
        metadata={"help": "group whose members share the partitions; a name of its own for each program"},
    )
    group_type: Literal["consumer", "share"] = field(
        default="consumer",
        validator=in_(("consumer", "share")),
        metadata={
            "help": "consumer: each partition has one reader, which keeps its order; share: the broker hands out and "
            "counts single records (share groups)"
        },
    )
    topics: tuple[str, ...] = field(default=(), metadata={"help": "topics to read"})
    topic_pattern: str = field(
        default="",
        validator=_is_pattern,
        metadata={"help": "regular expression that matches the names of the topics to read, also of later ones"},
    )
    start: str = field(
        default="earliest",
        validator=_is_start,
        metadata={
            "help": "where a partition begins that the group has not read: earliest, latest, a time (ISO 8601, UTC "
            "unless it says otherwise), or offsets as JSON; not for share groups"
        },
    )
    value_as: Literal["bytes", "text", "json", "avro", "protobuf"] = field(
        default="text",
        validator=in_(("bytes", "text", "json", "avro", "protobuf")),
        metadata={
            "help": "bytes; text: UTF-8; json: text that was checked to be JSON; avro, protobuf: decoded with the "
            "schema registry, as JSON text"
        },
    )
    key_as: Literal["bytes", "text"] = field(
        default="bytes", validator=in_(("bytes", "text")), metadata={"help": "the type of the column `key`"}
    )
    schema_registry: str = field(
        default="",
        validator=_needs_registry,
        metadata={"help": "URL of the schema registry, for avro and protobuf"},
    )
    schema_registry_credentials: SecretText | None = secret_option("user:password for the schema registry")
    protobuf_class: str = field(
        default="",
        validator=_needs_class,
        metadata={"help": "the generated class of the messages, module:Class, for protobuf"},
    )
    columns: tuple[Column, ...] = columns_option(("value",), COLUMNS)
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = field(
        default="",
        validator=in_(("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        metadata={"help": "how to log in: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: no login"},
    )
    sasl_user: str = field(default="", validator=_with_sasl, metadata={"help": "user name of the login"})
    sasl_password: SecretText | None = secret_option("password of the login", _with_sasl)
    on_data_loss: Literal["report", "fail"] = field(
        default="report",
        validator=in_(("report", "fail")),
        metadata={
            "help": "records that the broker deleted before they were received: report their number and continue, or "
            "fail until somebody decides"
        },
    )
    settings: Settings = field(
        default={},  # read only
        validator=_are_allowed,
        metadata={"help": "further settings of librdkafka, such as fetch.min.bytes=1000; none that is a secret"},
    )
