"""``client_configuration``: the settings of librdkafka that follow from a receiver's options. Read on the executor."""

from __future__ import annotations

from typing import Any

from penstock_kafka.options import KafkaOptions

# During a rebalance only the partitions pause that move.
_COOPERATIVE = "cooperative-sticky"
# Topics and partitions that are new are found within this time; librdkafka's default is five minutes.
_REFRESH_MS = 30_000
# librdkafka's default.
_MAX_POLL_INTERVAL_MS = 300_000


def connection(options: KafkaOptions) -> dict[str, Any]:
    """The settings with which every client connects, secrets included: never log them.

    Raises:
        SecretError: a secret cannot be read.
    """
    # Errors come by callbacks; as lines of its log, each attempt to connect would be one.
    settings: dict[str, Any] = {"bootstrap.servers": options.bootstrap_servers, "log_level": 2}
    settings |= {name: value for name, value in options.settings.items() if name == "log_level"}
    login = bool(options.sasl_mechanism)
    settings["security.protocol"] = ("sasl_" if login else "") + ("ssl" if options.tls else "plaintext")
    if login:
        assert options.sasl_password is not None
        settings["sasl.mechanisms"] = options.sasl_mechanism
        settings["sasl.username"] = options.sasl_user
        settings["sasl.password"] = options.sasl_password.read()
    files = {
        "ssl.ca.location": options.tls_ca,
        "ssl.certificate.location": options.tls_certificate,
        "ssl.key.location": options.tls_key or options.tls_certificate,
    }
    settings |= {name: path for name, path in files.items() if path}
    if options.tls_key_password is not None:
        settings["ssl.key.password"] = options.tls_key_password.read()
    return settings


def consumer(options: KafkaOptions) -> dict[str, Any]:
    """The settings of a member of a consumer group.

    Raises:
        SecretError: a secret cannot be read.
    """
    classic = options.settings.get("group.protocol", "classic") == "classic"
    return {
        **({"partition.assignment.strategy": _COOPERATIVE} if classic else {}),
        "topic.metadata.refresh.interval.ms": _REFRESH_MS,
        **options.settings,
        **connection(options),
        "group.id": options.group_id,
        # The receiver decides where to begin, and reports an offset that the broker no longer has.
        "auto.offset.reset": "error",
        # Only stored records are committed.
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
    }


def max_poll_interval_s(options: KafkaOptions) -> float:
    """The time without a poll after which the group excludes a member, in seconds."""
    return float(options.settings.get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS)) / 1000


def is_incremental(settings: dict[str, Any]) -> bool:
    """Whether a rebalance names the partitions that change, not all partitions."""
    return settings.get("group.protocol") == "consumer" or settings.get("partition.assignment.strategy") == _COOPERATIVE


def share_consumer(options: KafkaOptions) -> dict[str, Any]:
    """The settings of a member of a share group.

    Raises:
        SecretError: a secret cannot be read.
    """
    return {
        **options.settings,
        **connection(options),
        "group.id": options.group_id,
        "share.acknowledgement.mode": "explicit",
    }
