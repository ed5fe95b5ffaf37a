"""A process that runs the receiver, and appends what it stores to a file: ``storing_process.py URL STREAM FILE``."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import ReceiverHost
from penstock_nats import NatsOptions
from penstock_nats.nats_receiver import NatsReceiver

if TYPE_CHECKING:
    from penstock import Block

CONF = {"spark.streaming.blockInterval": "20ms", "spark.streaming.receiverRestartDelay": "100ms"}


def main(url: str, stream: str, path: str) -> None:
    """Receive until the process is killed."""
    with Path(path).open("a") as file:

        def store(block: Block) -> None:
            file.write("".join(f"{record}\n" for record in block.records()))
            file.flush()

        options = NatsOptions(servers=(url,), stream=stream, consumer="c", batch=20, ack_wait=1.0)
        with ReceiverHost(NatsReceiver(options), store, CONF):
            threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
