"""``publish_dead_letters``: publishes messages to the queue of dead letters, and waits for RabbitMQ's confirmation."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pika
from pika.exceptions import AMQPError, NackError, UnroutableError

from penstock_brokers import DeadLetter
from penstock_rabbitmq.broker_errors import explained
from penstock_rabbitmq.message_columns import RabbitMessage
from penstock_rabbitmq.rabbit_options import RabbitOptions


def publish_dead_letters(options: RabbitOptions, letters: Iterable[tuple[RabbitMessage, DeadLetter]]) -> None:
    """Publish messages, unchanged but for further headers, on a connection of their own: they are rare.

    Raises:
        OSError: the queue does not exist or does not take them, or the connection failed. Some may be published.
    """
    try:
        connection = pika.BlockingConnection(options.parameters())
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            for message, letter in letters:
                properties = message.properties
                properties.headers = {**(properties.headers or {}), **letter.headers()}
                channel.basic_publish("", options.dead_letter, message.body, properties, mandatory=True)
        finally:
            # Confirmed messages stay confirmed, whatever happens to the connection now.
            with suppress(AMQPError):
                connection.close()
    except UnroutableError:
        raise FileNotFoundError(
            f"the queue of dead letters {options.dead_letter!r} does not exist in virtual host "
            f"{options.virtual_host!r} of {options.broker}: declare it, or correct the option dead_letter"
        ) from None
    except NackError:
        raise OSError(
            f"{options.broker} did not take a dead letter: is the queue {options.dead_letter!r} full? The message "
            f"stays in {options.queue!r}"
        ) from None
    except AMQPError as error:
        raise explained(error, options) from error
