"""Options of the receiver ``nats``, and consumers that exist already."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from penstock import ConfigurationError
from penstock.spi import Plugins, structure_options
from penstock_nats import NatsOptions
from penstock_nats.nats_errors import NatsSourceError
from penstock_nats.nats_session import check_consumer, new_consumer


def read(**values: Any) -> NatsOptions:
    return structure_options("receiver 'nats'", NatsOptions, {"stream": "s", "consumer": "c"} | values)


def test_options_come_from_text_as_in_configuration() -> None:
    options = read(
        servers="nats://a:1, nats://b:2",
        subjects="s.*, t.>",
        columns="subject,value",
        ack_wait="60",
        password="env:P",
        user="u",
    )
    assert options.servers == ("nats://a:1", "nats://b:2")
    assert options.address == "nats://a:1, nats://b:2"
    assert (options.subjects, options.columns, options.ack_wait) == (("s.*", "t.>"), ("subject", "value"), 60)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stream": "s.t"}, "stream must be a name without blanks, dots"),
        ({"consumer": ""}, "consumer must be a name"),
        ({"subjects": "s..t"}, r"subjects contains 's\.\.t', which is no subject or pattern"),
        ({"start": "yesterday"}, "start must be earliest, latest, or a time with a zone"),
        ({"start": "2026-11-24T12:00:00"}, "start must be earliest, latest, or a time with a zone"),
        ({"value_as": "avro"}, "is not one of bytes, text, json"),
        ({"columns": "key"}, "'key' is not one of value, subject"),
        ({"batch": 0}, "batch"),
        ({"ack_wait": 0.5}, "ack_wait"),
        ({"password": "env:P"}, "password has no effect without user"),
        ({"token": "literal"}, r"token=\(hidden\): must be file:PATH or env:NAME"),
        ({"dead_letter": "d.*"}, "dead_letter must be a subject without wildcards"),
        ({"dead_letter": "s.dead", "subjects": "s.*"}, r"dead_letter is one of the subjects 's\.\*'"),
        ({"servers": ()}, "servers"),
    ],
)
def test_wrong_option_is_refused_before_anything_starts(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(**values)


@pytest.mark.parametrize(
    ("start", "policy", "time"),
    [
        ("earliest", DeliverPolicy.ALL, None),
        ("latest", DeliverPolicy.NEW, None),
        ("2026-11-24T12:00:00+00:00", DeliverPolicy.BY_START_TIME, datetime(2026, 11, 24, 12, tzinfo=UTC)),
    ],
)
def test_new_consumer_starts_where_the_options_say(start: str, policy: DeliverPolicy, time: datetime | None) -> None:
    config = new_consumer(read(start=start, subjects="s.*"))
    assert (config.deliver_policy, config.opt_start_time) == (policy, time)
    assert (config.ack_policy, config.filter_subjects, config.max_deliver) == (AckPolicy.EXPLICIT, ["s.*"], -1)
    check_consumer(config, read(start=start, subjects="s.*"))


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ({"deliver_subject": "d"}, {}, "it is a push consumer"),
        ({"ack_policy": AckPolicy.NONE}, {}, "not explicit: messages could be lost"),
        ({"ack_policy": AckPolicy.ALL}, {}, "not explicit: messages could be lost"),
        ({"max_deliver": 3}, {}, "drops messages after 3 deliveries"),
        ({"filter_subject": "s.a"}, {"subjects": "s.b"}, r"its subjects are s\.a, not s\.b"),
        ({}, {"subjects": "s.b"}, r"its subjects are all, not s\.b"),
        ({"filter_subjects": ["s.a", "d.>"]}, {"dead_letter": "d.x"}, r"its subjects contain d\.x"),
    ],
)
def test_unsuitable_consumer_is_refused(config: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(NatsSourceError, match=rf"the consumer 'c' of stream 's' exists, and .*{message}"):
        check_consumer(ConsumerConfig(**config), read(**options))


def test_plugin_offers_the_receiver() -> None:
    assert Plugins().spec("receivers", "nats").options is NatsOptions
