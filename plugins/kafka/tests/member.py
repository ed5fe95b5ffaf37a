"""A receiver in a process that a test kills: ``python -m plugins.kafka.tests.member SERVERS TOPIC FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock import Block, ReceiverHost
from penstock_kafka import KafkaOptions, KafkaReceiver


def main(servers: str, topic: str, path: str) -> None:
    """Append each stored record to a file, until the process is killed."""
    options = KafkaOptions(
        bootstrap_servers=servers,
        topics=(topic,),
        group_id="group",
        settings={"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"},
    )
    with Path(path).open("a", encoding="utf-8") as file:

        def store(block: Block) -> None:
            file.writelines(f"{record}\n" for record in block.records())
            file.flush()

        with ReceiverHost(KafkaReceiver(options), store) as host:
            host.await_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
