"""The example ``rabbitmq_orders.py`` with a RabbitMQ server, which takes seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.helpers import wait_for

from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer

if TYPE_CHECKING:
    from tests.examples.conftest import RunExample, Running

pytestmark = pytest.mark.spark


def test_orders_of_a_queue_are_summed_and_others_are_dead_letters(run_example: RunExample) -> None:
    with RabbitServer() as server, QueuePublisher(server.port) as publisher:
        for queue in ("orders", "orders-dead"):
            publisher.declare(queue)
        orders = [b'{"product": "tea", "amount": 2}', b"not JSON", b'{"product": "tea", "amount": 3}']
        publisher.publish("orders", orders)

        def act(example: Running) -> None:
            def is_summed() -> bool:
                # One batch has both, or each of two has one.
                lines = set(example.lines)
                return "('tea', 5)" in lines or {"('tea', 2)", "('tea', 3)"} <= lines

            wait_for(is_summed, "the sums")
            wait_for(lambda: publisher.depth("orders-dead") == 1, "the dead letter")

        run_example("rabbitmq_orders", "127.0.0.1", act=act, replace={"port=5672": f"port={server.port}"})
