"""A process that runs the receiver, and appends its blocks to a file: ``storing_process.py PORT STREAM FOLDER``."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import ReceiverHost
from penstock_redis import RedisOptions
from penstock_redis.redis_receiver import RedisReceiver

if TYPE_CHECKING:
    from penstock import Block


def main(port: str, stream: str, folder: str) -> None:
    """Receive until the process is killed. Continues after the blocks that the file has."""
    path = Path(folder, "blocks")
    position: dict[str, Any] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            position |= json.loads(line)["metadata"]

    with path.open("a") as file:

        def store(block: Block) -> None:
            # Records and position in one write: a kill leaves both or none.
            file.write(json.dumps({"records": list(block.records()), "metadata": block.metadata}) + "\n")
            file.flush()

        options = RedisOptions(
            host="127.0.0.1",
            port=int(port),
            streams=stream,
            consumer="one",
            columns=("value",),
            value_as="text",
            fetch_size=20,
        )
        with ReceiverHost(RedisReceiver(options), store, position=position):
            threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
