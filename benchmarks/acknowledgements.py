"""The cost of acknowledging what is stored: ``python -m benchmarks.acknowledgements redis``.

A receiver reads everything that a server of its own has, six times a round: with acknowledgements and without,
into blocks in a local folder and into the receiver write-ahead log. Without acknowledgements, a broker with a window
of messages in flight would stop sending; Redis and Kafka have none. The table has medians, in messages/s.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks import brokers, kafka
from penstock import ReceiverHost, StoredBlock
from penstock.blocks.received_block_handler import LocalBlockHandler, ReceivedBlockHandler, WriteAheadLogBlockHandler
from penstock.spi import Plugins, Settings

_SIZE = 100
_TIMEOUT_S = 300.0
_STORES: dict[str, Callable[[str], ReceivedBlockHandler]] = {
    "local folder": lambda folder: LocalBlockHandler(Path(folder)),
    "write-ahead log": WriteAheadLogBlockHandler,
    "write-ahead log, fsync": lambda folder: WriteAheadLogBlockHandler(folder, "fsync"),
}


@contextmanager
def redis_options(count: int) -> Iterator[dict[str, Any]]:
    """A stream of Valkey with messages; the options of a receiver of it."""
    with brokers.redis_broker(count, _SIZE) as broker:
        yield broker.options


@contextmanager
def kafka_options(count: int) -> Iterator[dict[str, Any]]:
    """A topic of a mock cluster with messages; the options of a receiver of it."""
    with kafka.MockCluster() as cluster:
        cluster.create_topic("records", 16)
        kafka.fill(cluster.bootstrap_servers, _SIZE, count)
        yield {"bootstrap_servers": cluster.bootstrap_servers, "topics": "records", "columns": "value"}


# Broker → its messages, the option that names the consumer group, and the method that acknowledges.
_BROKERS: dict[str, tuple[Callable[[int], AbstractContextManager[dict[str, Any]]], str, str]] = {
    "kafka": (kafka_options, "group_id", "penstock_kafka.consumer_group.ConsumerGroup.commit"),
    "redis": (redis_options, "group", "penstock_redis.consumer_group.ConsumerGroup.acknowledge"),
}


class _Counted:
    """Counts what a block handler stores. Accepts nothing further: there is no driver."""

    def __init__(self, handler: ReceivedBlockHandler) -> None:
        self._handler = handler
        self.began_s = 0.0

    def store(self, block: Any) -> StoredBlock | None:
        self.began_s = self.began_s or time.perf_counter()
        return self._handler.store(block)

    def delete(self, block_ids: Any) -> object:
        return self._handler.delete(block_ids)

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        """Nothing to do."""


def measured(name: str, options: dict[str, Any], count: int, handler: ReceivedBlockHandler) -> float:
    """Receive all messages; return messages/s from the first block on.

    Raises:
        TimeoutError: they are not stored within five minutes.
    """
    store = _Counted(handler)
    receiver = Plugins().make("receivers", name, Settings.parse({}), options)
    with ReceiverHost(receiver, store) as host:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while host.stored_records < count:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{host.stored_records} of {count} messages within {_TIMEOUT_S:g} s")
            time.sleep(0.002)
        return count / (time.perf_counter() - store.began_s)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=_BROKERS)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    import pandas  # noqa: F401  # the first start of a receiver imports it, which is not to be measured

    source, group, method = _BROKERS[arguments.broker]
    numbers = itertools.count()
    rounds: list[dict[tuple[str, bool], float]] = []
    with source(arguments.messages) as options:
        for _ in range(arguments.rounds):
            speeds: dict[tuple[str, bool], float] = {}
            for (store, make), acknowledges in itertools.product(_STORES.items(), (True, False)):
                given = {**options, group: f"group-{next(numbers)}"}
                silenced = patch(method, lambda *_arguments: None) if not acknowledges else nullcontext()
                with tempfile.TemporaryDirectory(prefix="penstock-blocks-") as folder, silenced:
                    speeds[store, acknowledges] = measured(
                        arguments.broker, given, arguments.messages, make(f"{folder}/0")
                    )
            rounds.append(speeds)
    print(f"{arguments.messages:,} messages of {_SIZE} bytes, median of {arguments.rounds} rounds")
    print("| broker | blocks in | acknowledged | not acknowledged | ratio |\n|---|---|---|---|---|")
    for store in _STORES:
        acknowledged, bare = (statistics.median(speeds[store, each] for speeds in rounds) for each in (True, False))
        rates = f"{acknowledged:,.0f}/s | {bare:,.0f}/s | {acknowledged / bare:.2f}"
        print(f"| {arguments.broker} | {store} | {rates} |", flush=True)


if __name__ == "__main__":
    main()
