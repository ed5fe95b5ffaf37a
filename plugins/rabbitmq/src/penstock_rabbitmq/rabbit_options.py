"""``RabbitOptions``: the options of the receiver ``rabbitmq``."""

from __future__ import annotations

from typing import Any

import pika
from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, le, max_len, min_len

from penstock_brokers import DeadLetterOptions, SecretText, TlsOptions, ValueAs, columns_option, secret_option
from penstock_rabbitmq.message_columns import MEANINGS, Column


def _has_one_destination(options: Any, _attribute: object, value: bool) -> None:
    if value and options.dead_letter:
        raise ValueError("reject=true and dead_letter are two destinations of dead letters: give one of them")


@frozen(kw_only=True)
class RabbitOptions(TlsOptions, DeadLetterOptions):
    """Options of the receiver ``rabbitmq``; the ``help`` of each field describes it."""

    queue: str = field(
        validator=and_(min_len(1), max_len(255)),
        metadata={"help": "name of the queue, which must exist; several receivers of one queue share its messages"},
    )
    host: str = field(default="localhost", validator=min_len(1), metadata={"help": "host name or address of RabbitMQ"})
    port: int = field(
        default=5672,
        validator=and_(ge(1), le(65535)),
        metadata={"help": "TCP port of RabbitMQ; with TLS usually 5671"},
    )
    virtual_host: str = field(default="/", validator=min_len(1), metadata={"help": "virtual host of the queue"})
    user: str = field(default="guest", validator=min_len(1), metadata={"help": "user name"})
    password: SecretText | None = secret_option("password of `user`; without it `guest`, which works on one host only")
    prefetch: int = field(
        default=2000,
        validator=and_(ge(2), le(65_535)),
        metadata={"help": "most unacknowledged messages; fewer under a rate limit, and of large messages"},
    )
    heartbeat: int = field(
        default=60,
        validator=and_(ge(1), le(65_535)),
        metadata={"help": "seconds after which a silent connection counts as dead"},
    )
    connect_timeout: float = field(
        default=10.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "timeout in seconds for connecting, and for the answers of RabbitMQ"},
    )
    value_as: ValueAs = field(
        default="bytes",
        validator=in_(("bytes", "text", "json")),
        metadata={"help": "body as bytes, text, or JSON (checked text)"},
    )
    columns: tuple[Column, ...] = columns_option(("value", "routing_key", "headers", "timestamp"), MEANINGS)
    reject: bool = field(
        default=False,
        validator=_has_one_destination,
        metadata={
            "help": "reject dead letters: RabbitMQ moves them to the queue's dead-letter exchange, or drops them if it "
            "has none"
        },
    )

    @property
    def broker(self) -> str:
        """The broker, for messages."""
        return f"RabbitMQ {self.host}:{self.port}"

    @property
    def gives_up(self) -> bool:
        """Whether dead letters have a destination."""
        return self.reject or bool(self.dead_letter)

    def is_exhausted(self, deliveries: int) -> bool:
        """Whether a message that was delivered this many times is to be given up."""
        return self.gives_up and deliveries > self.max_deliveries

    def parameters(self) -> pika.ConnectionParameters:
        """The parameters of a connection. Reads the secrets.

        Raises:
            ConfigurationError: a file of TLS cannot be read; names the option.
            SecretError: the password cannot be read.
        """
        context = self.ssl_context()
        return pika.ConnectionParameters(
            self.host,
            self.port,
            self.virtual_host,
            pika.PlainCredentials(self.user, self.password.read() if self.password else "guest"),
            heartbeat=self.heartbeat,
            ssl_options=None if context is None else pika.SSLOptions(context, self.host),
            connection_attempts=1,
            socket_timeout=self.connect_timeout,
            stack_timeout=self.connect_timeout,
            client_properties={"connection_name": f"penstock {self.queue}"},
        )
