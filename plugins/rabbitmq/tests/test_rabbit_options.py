"""The options of ``rabbitmq``: text becomes values, and what cannot work is refused before anything connects."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
from plugins.rabbitmq.tests.conftest import read

from penstock import ConfigurationError
from penstock.spi import structure_options
from penstock_rabbitmq import RabbitOptions
from penstock_rabbitmq.rabbit_session import RabbitSession


def test_text_becomes_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITMQ_PASSWORD", "secret-word")
    options = read(5671, "orders", columns="value,headers", password="env:RABBITMQ_PASSWORD", user="me", tls="true")
    assert (options.columns, options.broker) == (("value", "headers"), "RabbitMQ 127.0.0.1:5671")
    parameters = options.parameters()
    assert (parameters.credentials.password, parameters.virtual_host) == ("secret-word", "/")
    assert parameters.ssl_options is not None
    assert "secret-word" not in repr(options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": "q" * 256}, "queue"),
        ({"password": "literal"}, "file:PATH or env:NAME"),
        ({"prefetch": "1"}, "prefetch"),
        ({"heartbeat": "0"}, "heartbeat"),
        ({"columns": "value,key"}, "columns"),
        ({"reject": "true", "dead_letter": "d"}, "two destinations of dead letters"),
        ({"max_deliveries": "0"}, "max_deliveries"),
    ],
)
def test_invalid_option_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        structure_options("receiver 'rabbitmq'", RabbitOptions, {"queue": "a", **values})
    assert "literal'" not in str(caught.value)


def test_messages_are_given_up_only_with_a_destination() -> None:
    assert not read(1, "a", max_deliveries=1).is_exhausted(5)
    assert read(1, "a", max_deliveries=1, reject=True).is_exhausted(2)
    assert read(1, "a", max_deliveries=2, dead_letter="b").is_exhausted(3)
    assert not read(1, "a", max_deliveries=2, dead_letter="b").is_exhausted(2)


def test_session_that_was_never_opened_leaves_no_socket() -> None:
    before = psutil.Process().num_fds()
    with RabbitSession(read(5672, "orders"), prefetch=10):
        assert psutil.Process().num_fds() > before
    assert psutil.Process().num_fds() == before
